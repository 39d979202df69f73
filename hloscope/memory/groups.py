"""Groups of a reduction kernel: roots that share work are computed by the same blocks.

Source: XLA `xla/backends/gpu/codegen/emitters/reduction_base.cc`, `GroupDisjointReductions`.
"""

from __future__ import annotations

from hloscope.ir import Instruction
from hloscope.memory.choice import Choice
from hloscope.ops import BroadcastInDim, Constant


def groups_of(choice: Choice) -> list[int]:
    """The number of the group of each root."""
    roots = range(len(choice.roots))
    is_reduction = [choice.is_reduction_root(k) for k in roots]
    # Roots that are no reductions stay together: their order of reading and writing is kept.
    together = [[k for k in roots if not is_reduction[k]]]
    for ins, reached in _reached(choice).items():
        joined: list[int] = []
        has_reduction = False
        for k in reached:
            if is_reduction[k]:
                if has_reduction and _is_cheap(ins):
                    continue
                has_reduction = True
            joined.append(k)
        together.append(joined)
    return _numbered(len(roots), together)


def _numbered(count: int, together: list[list[int]]) -> list[int]:
    """A number for each root, the same for those that are together, in order of the first.

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
    """The roots that each value leads to, if there are several; what is handed in counts too."""
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
    """Is it a constant, or a scalar or constant spread out?"""
    while isinstance(ins.op, BroadcastInDim) and ins.operands:
        ins = ins.operands[0]
    return isinstance(ins.op, Constant) or not getattr(ins.type, "sizes", (1,))
