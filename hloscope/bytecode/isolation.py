"""Which ops read nothing that is defined around them: their values are numbered anew."""

from __future__ import annotations

from collections.abc import Iterator

from hloscope.dialects import is_isolated
from hloscope.mlir import Operation, Value


def isolated_ops(module: Operation, *, by_trait: bool = False) -> set[Operation]:
    """The ops with regions that are isolated from above.

    Args:
        module: The op at the top.
        by_trait: Count only those whose definition says so, not those that happen to be.
    """
    found: set[Operation] = set()
    depth_of: dict[Value, int] = {}
    # The ops around the present one, the ops still to be seen in each, and the least depth at
    # which something that is read inside is defined.
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
            if is_isolated(op.name) or (not by_trait and low > len(stack)):
                found.add(op)
    return found


def _inside(op: Operation, depth_of: dict[Value, int], depth: int) -> Iterator[Operation]:
    """The ops in the regions of an op; their results are at that depth, forward reads included."""
    for block in op.blocks:
        for argument in block.arguments:
            depth_of[argument] = depth
        for inner in block.operations:
            for result in inner.results:
                depth_of[result] = depth
    for block in op.blocks:
        yield from block.operations
