"""Ops that run whole functions: `interpreter.run_parallel` and `composite`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from msgspec.structs import replace

from hloscope.errors import UnknownNameError, did_you_mean
from hloscope.interpreter.parallel import INFEED, run_grid
from hloscope.interpreter.plan import Plans, run
from hloscope.interpreter.registry import Kernel, Region, Site, evaluates
from hloscope.interpreter.values import EvaluationError, Value
from hloscope.interpreter.world import World
from hloscope.ir import Computation, TupleType
from hloscope.ops import Composite, RunParallel


@evaluates(Composite)
def _composite(op: Composite, at: Site) -> Kernel:
    """The results of its decomposition."""
    several = isinstance(at.ins.type, TupleType)

    def kernel(regions: tuple[Region, ...], *values: Value) -> Value:
        results = regions[0](*values)
        return results if several else results[0]

    return kernel


@evaluates(RunParallel)
def _run_parallel(op: RunParallel, at: Site) -> Kernel:
    """Run functions in a grid; operands and results are listed replica by replica."""
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
    several = isinstance(at.ins.type, TupleType)

    def kernel(*values: Value) -> Value:
        # A feeding function runs only when `infeed` takes its value.
        queue = deque([_once(function, world) for function in feeds])
        given = iter(values)
        arguments = [[next(given) for _ in range(count)] for count in counts]
        inner = replace(world, extra={**world.extra, INFEED: queue})
        found = run_grid(rows, arguments, inner)
        world.steps = inner.steps
        results = tuple([value for own in found for value in own])
        return results if several else results[0]

    return kernel


def _once(function: Computation, world: World) -> Callable[[], tuple[Value, ...]]:
    return lambda: run(Plans(world).of(function), ())


def _function(world: World, text: str) -> Computation:
    """Return the function of a name; in a nested module, its full name ends with `::name`.

    Raises:
        UnknownNameError: No function, or several functions, have the name.
    """
    found = world.functions.get(text)
    if found is None:
        inner = [f for full, f in world.functions.items() if full.endswith(f"::{text}")]
        if len(inner) != 1:
            hint = did_you_mean(text, world.functions)
            raise UnknownNameError(f"no function `@{text}`{hint}")
        (found,) = inner
    return found
