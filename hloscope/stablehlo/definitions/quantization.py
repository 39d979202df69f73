"""Definitions of the ops between numbers and the integers that stand for them."""

from typing import Final

ROWS: Final = """
    uniform_dequantize | operand:QA | | result:F | infer elementwise
    uniform_quantize | operand:FQA | | result:QA | elementwise
"""
"""Source: `StablehloOps.td`."""
