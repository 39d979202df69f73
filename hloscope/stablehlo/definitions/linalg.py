"""Definitions of the ops of linear algebra."""

from typing import Final

ROWS: Final = """
    cholesky | a:FCQ | lower?:bool | result:FCQ | compatible_element infer
    fft | operand:FC | fft_type:fft_type fft_length:dims | result:FC | infer
    triangular_solve | a:FC b:FC | left_side:bool lower:bool unit_diagonal:bool
        transpose_a:transpose | result:FC | compatible_element infer
"""
"""Source: `StablehloOps.td`."""
