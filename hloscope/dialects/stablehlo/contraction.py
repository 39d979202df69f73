"""Rows of the ops that contract two tensors."""

from typing import Final

ROWS: Final = """
    dot | lhs:FBICQ rhs:FBICQA | precision_config?:precision | result:FBICQA |
        ~ %lhs, %rhs<precision><attrs> : <function>
    dot_general | lhs:FBICQ rhs:FBICQA | dot_dimension_numbers:dot precision_config?:precision
        algorithm?:algorithm | result:FBICQA |
        ~ %lhs, %rhs, <dot><precision algorithm><attrs> : <function>
    einsum | lhs:FBICQ rhs:FBICQ | einsum_config:string | result:FBICQ |
        ~ %lhs, %rhs, config = <string einsum_config><attrs> : <function>
    unary_einsum | operand:FBICQ | einsum_config:string | result:FBICQ |
        ~ %operand, config = <string einsum_config><attrs> : <function>
"""
"""Source: `StablehloOps.td`."""
