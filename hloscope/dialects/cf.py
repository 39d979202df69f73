"""Rows of the dialect `cf`."""

from typing import Final

ROWS: Final = """
    assert | msg
        ~ %arg, <string msg><attrs><implied inputs i1>
    br terminator | ~br
    cond_br terminator | operandSegmentSizes branch_weights? ~cond_br
    switch terminator | case_values? case_operand_segments operandSegmentSizes
"""
"""Source: MLIR's definition of the dialect."""
