"""Views of the graph: users of values, orders of traversal, networkx graphs.

Views are computed on demand, in time linear in the part of the graph they cover, and not updated.
Control predecessors count for the order of instructions, not as uses.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from hloscope.errors import UnknownNameError
from hloscope.ir.graph import Computation, Instruction
from hloscope.lazy import lazy
from hloscope.walks import needed_first

if TYPE_CHECKING:
    import networkx as nx

    Graph: TypeAlias = nx.MultiDiGraph[str]
else:
    nx = lazy("networkx")

Uses: TypeAlias = dict[Instruction, tuple[Instruction, ...]]
"""Users of each instruction, in text order; a user that reads a value twice is listed once."""


def inside_out(start: Computation, done: Container[Computation]) -> Iterator[Computation]:
    """Yield a computation and all that it calls, callees first; skip those in `done`."""
    if not start.callees:
        return iter(() if start in done else (start,))
    return needed_first([start], lambda computation: computation.callees[::-1], done)


def users(computation: Computation) -> Uses:
    """Return the users of every instruction of `computation`.

    >>> from hloscope.ir.graph import Body
    >>> from hloscope.ir.op import Op
    >>> from hloscope.ir.types import TokenType
    >>> a = Instruction("a", TokenType(), Op())
    >>> b = Instruction("b", TokenType(), Op(), (a, a))
    >>> users(Computation("c", Body((a, b), (), b)))[a]
    (<b = (a, a)>,)
    """
    found: dict[Instruction, list[Instruction]] = {ins: [] for ins in computation}
    for ins in computation:
        for operand in dict.fromkeys(ins.operands):
            if operand in found:  # a region may read values from outside
                found[operand].append(ins)
    return {ins: tuple(by) for ins, by in found.items()}


def topological_order(computation: Computation) -> tuple[Instruction, ...]:
    """Return the instructions, operands and control predecessors first, else in text order.

    HLO text is already in such an order; a rewritten computation may not be.

    Raises:
        ValueError: The instructions form a cycle; the message names one on it.
    """
    order: dict[Instruction, None] = {}
    inside = set(computation)
    open_: set[Instruction] = set()
    for first in computation:
        stack = [first]
        while stack:
            ins = stack[-1]
            if ins in order:
                stack.pop()
                continue
            # Depth first with an explicit stack.  An instruction on the stack whose operands still
            # wait when it comes up again waits for itself.
            waits = [o for o in _before(ins) if o in inside and o not in order]
            if not waits:
                open_.discard(ins)
                order[stack.pop()] = None
                continue
            if ins in open_:
                raise ValueError(f"`{ins.name}` depends on itself")
            open_.add(ins)
            stack += reversed(waits)
    return tuple(order)


def neighbourhood(
    ins: Instruction, distance: int, computation: Computation
) -> tuple[Instruction, ...]:
    """Return the instructions at most `distance` operand edges away from `ins`, in text order.

    Edges count in both directions.

    Raises:
        UnknownNameError: `ins` is not in `computation`.
    """
    if ins not in set(computation):
        raise UnknownNameError(f"`{ins.name}` is not in computation `{computation.name}`")
    uses = users(computation)
    found = {ins}
    edge = [ins]
    for _ in range(distance):
        near = (n for at in edge for n in (*at.operands, *uses[at]) if n in uses)
        edge = [n for n in dict.fromkeys(near) if n not in found]
        found.update(edge)
    return tuple(i for i in computation if i in found)


def to_networkx(
    what: Computation | Iterable[Instruction], names: Mapping[Instruction, str] | None = None
) -> Graph:
    """Return instructions as a networkx graph with an edge from each operand to its user.

    Nodes are instruction names, or their replacements in `names`, with the data `op`, `type` and
    `instruction`.  Edges have the data `operand` (operand number) or `control=True`.  Edges to
    instructions outside of `what` are left out.

    >>> from hloscope.ir.op import Op
    >>> from hloscope.ir.types import TokenType
    >>> a = Instruction("a", TokenType(), Op())
    >>> list(to_networkx([a, Instruction("b", TokenType(), Op(), (a,))]).edges(data=True))
    [('a', 'b', {'operand': 0})]
    """
    graph: Graph = nx.MultiDiGraph()
    instructions = tuple(what)
    name = names or {ins: ins.name for ins in instructions}
    inside = set(instructions)
    for ins in instructions:
        data: dict[str, Any] = {"op": ins.op.name, "type": ins.type, "instruction": ins}
        graph.add_node(name[ins], **data)
    for ins in instructions:
        for number, operand in enumerate(ins.operands):
            if operand in inside:
                graph.add_edge(name[operand], name[ins], operand=number)
        for before in ins.control_predecessors:
            if before in inside:
                graph.add_edge(name[before], name[ins], control=True)
    return graph


def _before(ins: Instruction) -> tuple[Instruction, ...]:
    """Operands and control predecessors of an instruction."""
    return ins.operands + ins.control_predecessors
