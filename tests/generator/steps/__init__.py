"""The steps of random programs, a family of ops in each file; importing them registers them."""

from tests.generator.steps import (
    calls,
    collectives,
    contraction,
    control,
    custom_calls,
    dynamic,
    dynamic_forms,
    elementwise,
    gather_scatter,
    layouts,
    reduction,
    shape,
    slicing,
    tuples,
    windows,
)

__all__ = [
    "calls",
    "collectives",
    "contraction",
    "control",
    "custom_calls",
    "dynamic",
    "dynamic_forms",
    "elementwise",
    "gather_scatter",
    "layouts",
    "reduction",
    "shape",
    "slicing",
    "tuples",
    "windows",
]
