"""Ops that read no value defined outside of them; their values are numbered separately."""

from __future__ import annotations

from collections.abc import Iterator

from hloscope.dialects import is_isolated
from hloscope.mlir import Operation, Value


def isolated_ops(module: Operation, *, by_trait: bool = False) -> set[Operation]:
    """Return the ops with regions that are isolated from above.

    Args:
        module: The outermost op.
        by_trait: Include only ops whose definition has the trait `IsolatedFromAbove`.
    """
    found: set[Operation] = set()
    depth_of: dict[Value, int] = {}
    # A stack entry is an op with the ops of its regions that are left. `lowest` has, for each
    # entry, the least depth at which a value is defined that its regions read.
    stack: list[tuple[Operation, Iterator[Operation]]] = [(module, _inside(module, depth_of, 1))]
    lowest = [1]
    while stack:
        op, rest = stack[-1]
        for inner in rest:
            for operand in inner.operands:
                depth = depth_of.get(operand, 0)
                if depth < lowest[-1]:
                    lowest[-1] = depth
            if inner.regions:
                stack.append((inner, _inside(inner, depth_of, len(stack) + 1)))
                lowest.append(len(stack))
                break
        else:
            stack.pop()
            low = lowest.pop()
            if lowest and low < lowest[-1]:
                lowest[-1] = low
            # `stack` now has the ops around `op`, so values of its own regions are at depth
            # `len(stack) + 1` or more: it is isolated if nothing shallower is read.
            if is_isolated(op.name) or (not by_trait and low > len(stack)):
                found.add(op)
    return found


def _inside(op: Operation, depth_of: dict[Value, int], depth: int) -> Iterator[Operation]:
    """Iterate over the ops in the regions of an op.

    Depths of all arguments and results are recorded first, since an op may read a value that is
    defined later.
    """
    for block in op.blocks:
        for argument in block.arguments:
            depth_of[argument] = depth
        for inner in block.operations:
            for result in inner.results:
                depth_of[result] = depth
    for block in op.blocks:
        yield from block.operations
