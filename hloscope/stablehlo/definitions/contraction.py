"""Definitions of the ops that contract two tensors."""

from typing import Final

ROWS: Final = """
    dot | lhs:FBICQ rhs:FBICQA | precision_config?:precision | result:FBICQA |
    dot_general | lhs:FBICQ rhs:FBICQA | dot_dimension_numbers:dot precision_config?:precision
        algorithm?:algorithm | result:FBICQA |
    einsum | lhs:FBICQ rhs:FBICQ | einsum_config:string | result:FBICQ |
    unary_einsum | operand:FBICQ | einsum_config:string | result:FBICQ |
"""
"""Source: `StablehloOps.td`."""
