"""Rows of the ops that generate random numbers."""

from typing import Final

ROWS: Final = """
    rng effect | a:0d.BIF b:0d.BIF shape:shape.XI | rng_distribution:rng_distribution | result:BIF
        | infer
        elements=a,b,result
        ~ %a, %b, %shape, distribution = <enum rng_distribution><attrs> : <function>
    rng_bit_generator | initial_state:IF | rng_algorithm:rng_algorithm | output_state:IF
        output:static.IF |
        ~ %initial_state, algorithm = <enum rng_algorithm><attrs> : <function>
"""
"""Source: `StablehloOps.td`."""
