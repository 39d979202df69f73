"""CHLO ops with implicit broadcasting, and constants shaped like an operand.

Source: StableHLO `ChloOps.td`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hloscope.errors import UnsupportedError
from hloscope.interpreter.ops.elementwise import element_of, function_of
from hloscope.interpreter.ops.shape import spread
from hloscope.interpreter.registry import Kernel, Site, evaluates
from hloscope.interpreter.values import dtype_of
from hloscope.ir import value_of
from hloscope.ops import ELEMENTWISE, IMPLICIT_BROADCAST, ConstantLike, ImplicitBroadcast


@evaluates(*IMPLICIT_BROADCAST.values())
def _broadcasting(op: ImplicitBroadcast, at: Site) -> Kernel:
    """Elementwise op on operands that are broadcast to a common shape first."""
    cls = ELEMENTWISE[op.applies]
    shared = [name for name in cls.__struct_fields__ if name in op.__struct_fields__]
    applied = cls(**{name: getattr(op, name) for name in shared})
    function = function_of(applied, [element_of(t) for t in at.operands], element_of(at.ins.type))
    dims = op.broadcast_dimensions

    def kernel(*operands: Any) -> Any:
        if dims is not None and len(operands) == 2:
            operands = _broadcast_smaller(op, *operands)
        shape = np.broadcast_shapes(*[x.shape for x in operands])
        return function(*[np.broadcast_to(x, shape) if x.shape != shape else x for x in operands])

    return kernel


def _broadcast_smaller(op: ImplicitBroadcast, a: Any, b: Any) -> tuple[Any, Any]:
    """Put the dimensions of the array of lower rank along those of the other."""
    if a.ndim <= b.ndim:
        return spread(np.asarray(a), op.places(a.ndim, b.ndim), b.ndim), b
    return a, spread(np.asarray(b), op.places(b.ndim, a.ndim), a.ndim)


@evaluates(ConstantLike, lifted=True)
def _constant_like(op: ConstantLike, at: Site) -> Kernel:
    number, element = value_of(op.settings, "value"), element_of(at.ins.type)
    if not isinstance(number, int | float | complex):
        raise UnsupportedError(f"`{op.name}` has a value that is not a number")
    value = np.asarray(number).astype(dtype_of(element))[()]
    return lambda x: np.full(x.shape, value) if x.ndim else value
