"""Rows of the ops between real and quantized numbers."""

from typing import Final

ROWS: Final = """
    uniform_dequantize | operand:QA | | result:F | infer elementwise ~unary
    uniform_quantize | operand:FQA | | result:QA | elementwise ~unary
"""
"""Source: `StablehloOps.td`."""
