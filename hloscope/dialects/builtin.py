"""Rows of the dialect `builtin`."""

from typing import Final

ROWS: Final = """
    module | | sym_name?:string sym_visibility?:string | | ^bodyRegion single_block no_terminator
        isolated symbol_table
    unrealized_conversion_cast | inputs*:anything | | outputs*:anything |
"""
"""Source: MLIR's definition of the dialect."""
