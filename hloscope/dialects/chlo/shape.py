"""Rows of the CHLO ops that rearrange elements or create tensors."""

from typing import Final

ROWS: Final = """
    constant | | value>literal:elements | output:static.FBICQ | infer ~value
"""
"""Source: `ChloOps.td`."""
