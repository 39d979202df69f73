"""Definitions of the ops that make random numbers."""

from typing import Final

ROWS: Final = """
    rng | a:0d.BIF b:0d.BIF shape:shape.XI | rng_distribution:rng_distribution | result:BIF | infer
        elements=a,b,result
    rng_bit_generator | initial_state:IF | rng_algorithm:rng_algorithm | output_state:IF
        output:static.IF |
"""
"""Source: `StablehloOps.td`."""
