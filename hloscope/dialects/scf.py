"""Rows of the dialect `scf`."""

from typing import Final

ROWS: Final = """
    yield terminator ~list
    for ~scf.for
    if ~scf.if
    while ~scf.while
    condition ~scf.condition
"""
"""Source: MLIR's definition of the dialect."""
