"""How each op indexes: one file per op family, one rule per op and direction.

Importing the package registers all rules.
"""

from hloscope.indexing.rules import (
    checking,
    collectives,
    contraction,
    control,
    convolution,
    custom_calls,
    dynamic,
    elementwise,
    gather_scatter,
    linalg,
    partition,
    ragged,
    random,
    reduction,
    scan,
    shape,
    slicing,
    windows,
)

__all__ = [
    "checking",
    "collectives",
    "contraction",
    "control",
    "convolution",
    "custom_calls",
    "dynamic",
    "elementwise",
    "gather_scatter",
    "linalg",
    "partition",
    "ragged",
    "random",
    "reduction",
    "scan",
    "shape",
    "slicing",
    "windows",
]
