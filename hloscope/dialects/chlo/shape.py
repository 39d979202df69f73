"""Rows of the ops that move elements or make tensors, in CHLO."""

from typing import Final

ROWS: Final = """
    constant | | value>literal:elements | output:static.FBICQ | infer ~value
"""
"""Source: `ChloOps.td`."""
