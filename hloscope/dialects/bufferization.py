"""Rows of the dialect `bufferization`."""

from typing import Final

ROWS: Final = """
    to_buffer | read_only? ~cast
    to_tensor | restrict? writable? ~cast
"""
"""Source: MLIR's definition of the dialect."""
