"""Tuples, branches, loops and barriers.  Calls are evaluated by `plan` itself."""

from __future__ import annotations

from typing import Any

import numpy as np
from hloscope.interpreter.registry import Kernel, Moving, Region, Site, evaluates
from hloscope.interpreter.values import TOKEN, Value
from hloscope.ir import Op, TupleType
from hloscope.ops import (
    ELEMENTWISE,
    AddDependency,
    AfterAll,
    Case,
    CopyDone,
    CopyStart,
    CreateToken,
    Domain,
    GetTupleElement,
    OptimizationBarrier,
    Result,
    Tuple,
    While,
)


@evaluates(Tuple)
def _tuple(op: Tuple, at: Site) -> Kernel:
    return lambda *parts: parts


@evaluates(GetTupleElement, Result)
def _get_tuple_element(op: GetTupleElement, at: Site) -> Kernel:
    index = op.index
    return lambda whole: whole[index]


@evaluates(OptimizationBarrier, AddDependency, Domain)
def _same(op: OptimizationBarrier, at: Site) -> Kernel:
    """The operand, or the tuple of all operands of a barrier."""
    if isinstance(op, OptimizationBarrier) and len(at.ins.operands) != 1:
        return lambda *values: values
    return lambda value, *_: value


@evaluates(ELEMENTWISE["copy"], lifted=True)
def _copy(op: Op, at: Site) -> Kernel:
    """The operand itself, as no kernel writes to a value that another name may read."""
    return lambda value: value


@evaluates(CopyStart)
def _copy_start(op: CopyStart, at: Site) -> Kernel:
    """Value: (target, source, context)."""
    context = np.zeros((), np.uint32)
    return lambda value: (value, value, context)


@evaluates(CopyDone)
def _copy_done(op: CopyDone, at: Site) -> Kernel:
    return lambda started: started[0]


@evaluates(AfterAll, CreateToken)
def _token(op: AfterAll, at: Site) -> Kernel:
    return lambda *_: TOKEN


@evaluates(Case)
def _case(op: Case, at: Site) -> Kernel:
    """Value of the selected branch; an index out of range selects the last branch."""
    own_operands = len(at.ins.operands) > 1
    several = _is_several(at)

    def run(branches: tuple[Region, ...], values: list[Any]) -> Value:
        selector = values[0]
        index = (0 if selector else 1) if op.predicated else int(selector)
        if not 0 <= index < len(branches):
            index = len(branches) - 1
        # The operands of other branches are dropped first, which frees their memory.
        given = [values[1 + index]] if own_operands else []
        values.clear()
        results = branches[index].taking(given)
        return results if several else results[0]

    return Moving(run)


@evaluates(While)
def _while(op: While, at: Site) -> Kernel:
    """Loop whose state only the loop refers to, so that the body may overwrite it."""
    several = _is_several(at)
    whole = len(at.ins.operands) == 1 and isinstance(at.ins.operands[0].type, TupleType)

    def run(regions: tuple[Region, ...], state: list[Any]) -> Value:
        condition, body = regions
        while condition.taking([*state])[0]:
            results = body.taking(state)
            state = [results] if whole else [*results]
            del results  # an array may be overwritten only if nothing but the state refers to it
        return state[0] if whole or not several else tuple(state)

    return Moving(run)


def _is_several(at: Site) -> bool:
    """Is the value of the instruction a tuple?"""
    return isinstance(at.ins.type, TupleType)
