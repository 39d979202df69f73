"""Groups of a reduction kernel: roots that share work are computed by the same blocks.

Source: XLA `xla/backends/gpu/codegen/emitters/reduction_base.cc`, `GroupDisjointReductions`.
"""

from __future__ import annotations

import networkx as nx

from hloscope.ir import Instruction
from hloscope.memory.choice import Choice
from hloscope.ops import BroadcastInDim, Constant


def groups_of(choice: Choice) -> list[int]:
    """The number of the group of each root."""
    roots = range(len(choice.roots))
    together = nx.Graph()
    together.add_nodes_from(roots)
    is_reduction = [choice.is_reduction_root(k) for k in roots]
    others = [k for k in roots if not is_reduction[k]]
    nx.add_path(together, others)  # their order of reading and writing is kept
    for ins, reached in _reached(choice).items():
        joined: list[int] = []
        has_reduction = False
        for k in reached:
            if is_reduction[k]:
                if has_reduction and _is_cheap(ins):
                    continue
                has_reduction = True
            joined.append(k)
        nx.add_path(together, joined)
    numbers: dict[int, int] = {}
    for number, group in enumerate(sorted(map(sorted, nx.connected_components(together)))):
        numbers.update(dict.fromkeys(group, number))
    return [numbers[k] for k in roots]


def _reached(choice: Choice) -> dict[Instruction, list[int]]:
    """The roots that each instruction inside leads to."""
    reached: dict[Instruction, set[int]] = {ins: set() for ins in choice.fused.inside}
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
