"""Rows of the dialect `memref`."""

from typing import Final

ROWS: Final = """
    cast names=cast ~cast
    dim names=dim
"""
"""Source: MLIR's definition of the dialect."""
