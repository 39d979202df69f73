"""Rows of the ops of linear algebra."""

from typing import Final

ROWS: Final = """
    cholesky | a:FCQ | lower?:bool=false | result:FCQ | compatible_element infer
        ~ %a(?, lower = <bool lower>?)<attrs> : <same>
    fft | operand:FC | fft_type:fft_type fft_length:dims | result:FC | infer
        ~ %operand, type = <enum fft_type>, length = <dims fft_length><attrs> : <function>
    triangular_solve | a:FC b:FC | left_side:bool lower:bool unit_diagonal:bool
        transpose_a:transpose | result:FC | compatible_element infer
"""
"""Source: `StablehloOps.td`."""
