"""Asynchronous ops, which are evaluated where they start.

Source: StableHLO spec `async_start`, `async_done`; XLA docs "Async HLO instructions".
"""

from __future__ import annotations

from typing import Any

from hloscope.errors import UnsupportedError
from hloscope.interpreter.ops.transfers import zeros
from hloscope.interpreter.registry import Kernel, Region, Site, evaluates, kernel
from hloscope.interpreter.values import Value
from hloscope.ir import Instruction, TupleType, Type
from hloscope.ops import BARE_STARTS, AsyncDone, AsyncStart, AsyncUpdate, Call, Fusion


@evaluates(AsyncStart)
def _async_start(op: AsyncStart, at: Site) -> Kernel:
    """StableHLO: the tuple of results.  HLO: (operands, result, contexts, which are zeros)."""
    if op.region:
        return lambda regions, *values: regions[0](*values)
    type_, has_regions = at.ins.type, bool(at.ins.calls)
    if op.wrapped is not None and op.wrapped.name in BARE_STARTS:
        return _wrapped_kernel(op, at, type_)
    if not isinstance(type_, TupleType):
        return _wrapped_kernel(op, at, type_)
    given, result, *contexts = type_.elements
    if result == TupleType(()):
        raise UnsupportedError(f"`{op.name}` whose result is there only when it is done")
    if has_regions and len(at.operands) < len(at.ins.calls[0].parameters) and _is_call(op):
        raise UnsupportedError(f"`{op.name}` to which an update brings operands")
    rest = tuple(map(zeros, contexts))
    packs = isinstance(given, TupleType)
    inner = _call_kernel(result) if _is_call(op) else _wrapped_kernel(op, at, result)

    def start(*values: Any) -> Value:
        operands = values[1:] if has_regions else values
        return (operands if packs else operands[0], inner(*values), *rest)

    return start


def _is_call(op: AsyncStart) -> bool:
    """Is the asynchronous work a call of the computation, not an op that uses it?"""
    return op.wrapped is None or isinstance(op.wrapped, Call | Fusion)


def _call_kernel(result: Type) -> Kernel:
    """Kernel that calls the computation; its value is one result or a tuple of several."""
    several = isinstance(result, TupleType)

    def inner(regions: tuple[Region, ...], *values: Value) -> Value:
        results = regions[0](*values)
        return results if several else results[0]

    return inner


def _wrapped_kernel(op: AsyncStart, at: Site, result: Type) -> Kernel:
    """Kernel of the wrapped op, evaluated synchronously."""
    assert op.wrapped is not None
    ins = at.ins
    alone = Instruction(ins.name, result, op.wrapped, ins.operands, ins.calls, span=ins.span)
    return kernel(alone, at.world)


@evaluates(AsyncUpdate)
def _async_update(op: AsyncUpdate, at: Site) -> Kernel:
    first = int(bool(at.ins.calls))
    return lambda *begun: begun[first]


@evaluates(AsyncDone)
def _async_done(op: AsyncDone, at: Site) -> Kernel:
    if op.region:
        several = isinstance(at.ins.type, TupleType)
        return lambda begun: begun if several else begun[0]
    if op.wrapped_name in BARE_STARTS:
        return lambda *begun: begun[-1]  # a region comes first where the op repeats it
    return lambda *begun: begun[-1][1]
