"""Control flow, tuples and barriers; ops that run whole functions, also asynchronously."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec.structs import replace

from hloscope.errors import UnknownNameError, UnsupportedError, did_you_mean
from hloscope.interpreter.ops.transfers import zeros
from hloscope.interpreter.parallel import INFEED, run_grid
from hloscope.interpreter.plan import Plans, run
from hloscope.interpreter.registry import Kernel, Moving, Region, Site, evaluates
from hloscope.interpreter.values import TOKEN, EvaluationError, Value, World
from hloscope.ir import Computation, Op, TupleType, Type
from hloscope.ops import (
    BARE_STARTS,
    ELEMENTWISE,
    AddDependency,
    AfterAll,
    AsyncDone,
    AsyncStart,
    AsyncUpdate,
    Call,
    Case,
    Composite,
    CopyDone,
    CopyStart,
    CreateToken,
    Domain,
    Fusion,
    GetTupleElement,
    OptimizationBarrier,
    Result,
    RunParallel,
    Tuple,
    While,
)

# --------------------------------------------------------------------------------------------------
# Tuples, branches, loops and barriers.  Calls are evaluated by `plan` itself.


@evaluates(Tuple)
def _tuple(op: Tuple, at: Site) -> Kernel:
    return lambda *parts: parts


@evaluates(GetTupleElement, Result)
def _get_tuple_element(op: GetTupleElement, at: Site) -> Kernel:
    index = op.index
    return lambda whole: whole[index]


@evaluates(OptimizationBarrier, AddDependency, Domain)
def _same(op: OptimizationBarrier, at: Site) -> Kernel:
    """Return a kernel that returns its operand; of several operands, their tuple."""
    if isinstance(op, OptimizationBarrier) and len(at.ins.operands) != 1:
        return lambda *values: values
    return lambda value, *_: value


@evaluates(ELEMENTWISE["copy"], lifted=True)
def _copy(op: Op, at: Site) -> Kernel:
    """Return a kernel that returns its operand itself.

    No copy is needed, as no kernel overwrites an array that a later step reads.
    """
    return lambda value: value


@evaluates(CopyStart)
def _copy_start(op: CopyStart, at: Site) -> Kernel:
    """Return the kernel of `copy-start`, whose value is (target, source, context)."""
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
    """Return the kernel of `case`; an index out of range selects the last branch."""
    own_operands = len(at.ins.operands) > 1

    def run(branches: tuple[Region, ...], values: list[Any]) -> Value:
        selector = values[0]
        index = (0 if selector else 1) if op.predicated else int(selector)
        if not 0 <= index < len(branches):
            index = len(branches) - 1
        # The operands of other branches are dropped first, which frees their memory.
        given = [values[1 + index]] if own_operands else []
        values.clear()
        return at.value(branches[index].taking(given))

    return Moving(run)


@evaluates(While)
def _while(op: While, at: Site) -> Kernel:
    """Return the kernel of `while`."""
    whole = len(at.ins.operands) == 1 and isinstance(at.ins.operands[0].type, TupleType)

    def run(regions: tuple[Region, ...], state: list[Any]) -> Value:
        condition, body = regions
        while condition.taking([*state])[0]:
            results = body.taking(state)
            state = [results] if whole else [*results]
            del results  # so that the next iteration frees an array of the state after its last use
        return state[0] if whole else at.value(tuple(state))

    return Moving(run)


# --------------------------------------------------------------------------------------------------
# Asynchronous ops, which are evaluated where they start.
#
# Source: StableHLO spec `async_start`, `async_done`; XLA docs "Async HLO instructions".


@evaluates(AsyncStart)
def _async_start(op: AsyncStart, at: Site) -> Kernel:
    """Return the kernel of `async_start`.

    Its value is the tuple of results in StableHLO, and (operands, result, contexts) in HLO, with
    contexts of zeros.
    """
    if op.region:
        return lambda regions, *values: regions[0](*values)
    type_, has_regions, wrapped = at.ins.type, bool(at.ins.calls), op.wrapped
    is_bare = wrapped is not None and wrapped.name in BARE_STARTS
    if is_bare or not isinstance(type_, TupleType):
        assert wrapped is not None
        return at.kernel_of(wrapped, type_)
    given, result, *contexts = type_.elements
    if result == TupleType(()):
        raise UnsupportedError(f"`{op.name}` whose result is there only when it is done")
    if has_regions and len(at.operands) < len(at.ins.calls[0].parameters) and _is_call(op):
        raise UnsupportedError(f"`{op.name}` to which an update brings operands")
    rest = tuple(map(zeros, contexts))
    packs = isinstance(given, TupleType)
    if wrapped is None or _is_call(op):
        inner = _call_kernel(result)
    else:
        inner = at.kernel_of(wrapped, result)

    def start(*values: Any) -> Value:
        operands = values[1:] if has_regions else values
        return (operands if packs else operands[0], inner(*values), *rest)

    return start


def _is_call(op: AsyncStart) -> bool:
    """Does the op start a call of its computation, not another op, such as a collective?"""
    return op.wrapped is None or isinstance(op.wrapped, Call | Fusion)


def _call_kernel(result: Type) -> Kernel:
    """Return a kernel that calls its computation; it returns one result, or a tuple of several."""
    several = isinstance(result, TupleType)

    def inner(regions: tuple[Region, ...], *values: Value) -> Value:
        results = regions[0](*values)
        return results if several else results[0]

    return inner


@evaluates(AsyncUpdate)
def _async_update(op: AsyncUpdate, at: Site) -> Kernel:
    first = int(bool(at.ins.calls))
    return lambda *begun: begun[first]


@evaluates(AsyncDone)
def _async_done(op: AsyncDone, at: Site) -> Kernel:
    if op.region:
        return at.value
    if op.wrapped_name in BARE_STARTS:
        return lambda *begun: begun[-1]  # a region comes first where the op repeats it
    return lambda *begun: begun[-1][1]


# --------------------------------------------------------------------------------------------------
# Ops that run whole functions: `interpreter.run_parallel` and `composite`.


@evaluates(Composite)
def _composite(op: Composite, at: Site) -> Kernel:
    """Return the kernel of `composite`: the results of its decomposition."""
    return lambda regions, *values: at.value(regions[0](*values))


@evaluates(RunParallel)
def _run_parallel(op: RunParallel, at: Site) -> Kernel:
    """Return the kernel of `run_parallel`, which runs functions in a grid.

    Operands and results are ordered replica by replica, and by partition within one.
    """
    world = at.world
    rows = [[_function(world, name) for name in row] for row in op.programs.value or ()]
    if not rows or not rows[0] or any(len(row) != len(rows[0]) for row in rows):
        raise EvaluationError("`programs` should be rows of functions, all of one length")
    feeds = [_function(world, name) for name in op.infeed.value or ()]
    counts = [len(function.arguments) for row in rows for function in row]
    if sum(counts) != len(at.ins.operands):
        raise EvaluationError(
            f"the programs take {sum(counts)} values, found {len(at.ins.operands)}"
        )

    def kernel(*values: Value) -> Value:
        # A feeding function runs only when `infeed` takes its value.
        queue = deque([_once(function, world) for function in feeds])
        given = iter(values)
        arguments = [[next(given) for _ in range(count)] for count in counts]
        inner = replace(world, extra={**world.extra, INFEED: queue})
        found = run_grid(rows, arguments, inner)
        world.steps = inner.steps
        return at.value(tuple([value for own in found for value in own]))

    return kernel


def _once(function: Computation, world: World) -> Callable[[], tuple[Value, ...]]:
    return lambda: run(Plans(world).of(function), ())


def _function(world: World, text: str) -> Computation:
    """Return the function named `text`.

    A function of a nested module has a longer name that ends with `::text`.

    Raises:
        UnknownNameError: No function has the name, or several functions have it.
    """
    found = world.functions.get(text)
    if found is None:
        inner = [f for full, f in world.functions.items() if full.endswith(f"::{text}")]
        if len(inner) != 1:
            hint = did_you_mean(text, world.functions)
            raise UnknownNameError(f"no function `@{text}`{hint}")
        (found,) = inner
    return found
