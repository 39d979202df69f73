"""Ops of StableHLO: a table of rows for each family."""

from typing import Final

from hloscope.dialects.stablehlo import (
    collectives,
    contraction,
    control,
    dynamic,
    elementwise,
    gather_scatter,
    linalg,
    quantization,
    random,
    reduction,
    shape,
    slicing,
    windows,
)

ROWS: Final = tuple(
    family.ROWS
    for family in (
        elementwise,
        quantization,
        shape,
        slicing,
        dynamic,
        windows,
        contraction,
        gather_scatter,
        reduction,
        linalg,
        random,
        control,
        collectives,
    )
)
