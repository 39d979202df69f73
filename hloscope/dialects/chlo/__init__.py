"""Ops of CHLO: a table of rows for each family."""

from typing import Final

from hloscope.dialects.chlo import contraction, elementwise, reduction, shape

ROWS: Final = tuple(
    family.ROWS
    for family in (
        elementwise,
        shape,
        contraction,
        reduction,
    )
)
