"""Rows of the CHLO ops that contract two tensors."""

from typing import Final

ROWS: Final = """
    ragged_dot | lhs:any.FBICQA rhs:any.FBICQA group_sizes:I |
        ragged_dot_dimension_numbers:ragged_dot precision_config?:precision | result:any.FBICQA |
"""
"""Source: `ChloOps.td`."""
