"""What each operation is: one class per op, in files named after the op families."""

from hloscope.ops import (
    collectives,
    contraction,
    control,
    dynamic,
    elementwise,
    gather_scatter,
    linalg,
    random,
    reduction,
    shape,
    slicing,
    windows,
)
from hloscope.ops.base import OPS

__all__ = [
    "OPS",
    "collectives",
    "contraction",
    "control",
    "dynamic",
    "elementwise",
    "gather_scatter",
    "linalg",
    "random",
    "reduction",
    "shape",
    "slicing",
    "windows",
]
