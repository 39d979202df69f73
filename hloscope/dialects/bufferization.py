"""Rows of the dialect `bufferization`."""

from typing import Final

ROWS: Final = """
    to_buffer ~cast
    to_tensor ~cast
"""
"""Source: MLIR's definition of the dialect."""
