"""Groups of a reduction kernel: roots that share work are computed by the same blocks.

Source: XLA `xla/backends/gpu/codegen/emitters/reduction_base.cc`, `GroupDisjointReductions`.
"""

from __future__ import annotations

from hloscope.ir import Instruction
from hloscope.memory.choice import Choice
from hloscope.ops import BroadcastInDim, Constant


def groups_of(choice: Choice) -> list[int]:
    """Return the group number of each root."""
    roots = range(len(choice.roots))
    is_reduction = [choice.is_reduction_root(k) for k in roots]
    # All roots that are not reductions form one group, which keeps the order of their accesses.
    together = [[k for k in roots if not is_reduction[k]]]
    for ins, reached in _reached(choice).items():
        joined: list[int] = []
        has_reduction = False
        for k in reached:
            if is_reduction[k]:
                # A cheap value that two reductions share is computed twice; it does not tie them
                # together.
                if has_reduction and _is_cheap(ins):
                    continue
                has_reduction = True
            joined.append(k)
        together.append(joined)
    return _numbered(len(roots), together)


def _numbered(count: int, together: list[list[int]]) -> list[int]:
    """Number the roots by group, in order of the first root of each.

    >>> _numbered(4, [[3, 1], [2]])
    [0, 1, 2, 1]
    """
    group = list(range(count))
    for roots in together:
        for root in roots[1:]:
            old, new = group[root], group[roots[0]]
            group = [new if number == old else number for number in group]
    order = list(dict.fromkeys(group))
    return [order.index(number) for number in group]


def _reached(choice: Choice) -> dict[Instruction, list[int]]:
    """Return the roots that depend on each value, inputs included, for values with several."""
    values = (*choice.fused.edge, *choice.fused.inside)
    reached: dict[Instruction, set[int]] = {ins: set() for ins in values}
    for k, root in enumerate(choice.roots):
        if root in reached:
            reached[root].add(k)
    for ins in reversed(choice.fused.inside):
        if ins.op.name == "tuple":
            continue
        for operand in ins.operands:
            if operand in reached:
                reached[operand] |= reached[ins]
    return {ins: sorted(some) for ins, some in reached.items() if len(some) > 1}


def _is_cheap(ins: Instruction) -> bool:
    """Is it a constant, or a broadcast scalar or constant?"""
    while isinstance(ins.op, BroadcastInDim) and ins.operands:
        ins = ins.operands[0]
    return isinstance(ins.op, Constant) or not getattr(ins.type, "sizes", (1,))
