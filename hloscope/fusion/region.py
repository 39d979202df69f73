"""Sets of instructions that are, or could be, one fusion, and the accesses inside them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from hloscope.errors import UnknownNameError
from hloscope.fusion.analysis import Analysis
from hloscope.fusion.traversal import AccessesByValue, AccessSet, AccessTraversal
from hloscope.indexing import Accesses
from hloscope.ir import Computation, Instruction, captured
from hloscope.ops import Call, Fusion, Parameter
from hloscope.support.walks import needed_first

Grouped: TypeAlias = dict[Instruction, dict[int, Accesses]]
"""Accesses from the start of a traversal to each value, by the number of its tensor."""


class Region(Struct, frozen=True):
    """Instructions of one computation that are, or could be, one fusion.

    Inner fusions are expanded.

    Attributes:
        inside: The instructions.  A traversal ends at any other instruction.
        root: The default start of traversals.
    """

    inside: frozenset[Instruction]
    root: Instruction

    @classmethod
    def of_instruction(cls, ins: Instruction) -> Region:
        """Return the region of one instruction; of a fusion, it includes everything inside."""
        return cls(frozenset([ins]), ins)

    @classmethod
    def of_producer_consumer(cls, producer: Instruction, consumer: Instruction) -> Region:
        """Return the region of two instructions as one fusion, with the consumer as root."""
        return cls(frozenset([producer, consumer]), consumer)

    @classmethod
    def of_computation(cls, computation: Computation) -> Region:
        """Return the region of all instructions of a computation except its parameters."""
        inside = [i for i in computation.instructions if not isinstance(i.op, Parameter)]
        return cls(frozenset(inside), computation.root)

    @classmethod
    def of_instructions(cls, instructions: Iterable[Instruction], root: Instruction) -> Region:
        """Return the region of some instructions of one computation, with the root `root`."""
        return cls(frozenset(instructions), root)


def grouped(
    analysis: Analysis,
    region: Region,
    start: Instruction | None = None,
    output: int = 0,
    *,
    opened: bool = True,
) -> Grouped:
    """Return the accesses of one output to every instruction of a region and to its inputs.

    Instructions inside fusions are included: their parameters, and the operands passed for them.

    Args:
        analysis: The analysis, which memoizes accesses.
        region: The instructions to traverse.
        start: The instruction whose output it is: one of the region, one inside a fusion, or an
            input of the region. An input has only the access to itself. By default it is the root.
        output: Number of the tensor of its value.
        opened: Whether to include the instructions inside fusions.

    Raises:
        UnknownNameError: `start` is not in the region.
    """
    start = region.root if start is None else start
    walk = AccessTraversal(analysis.interner, analysis.leaves)
    leaf = analysis.leaf_of(start.type, output)
    assert leaf is not None, f"`{start.name}` has no output {output}"
    walk.begin(start, leaf)
    found: AccessesByValue = {}
    is_at_edge = any(start in inside.operands for inside in region.inside)
    if start not in region.inside and not is_at_edge:
        walk = _to_outside(analysis, _path(analysis, region, start), walk, found)
    walk.to_producers(_order(region.inside).get, analysis.reads)
    _merge(found, walk.found)
    if opened:
        _open_all(analysis, found, walk, region.inside)
    return {ins: _tensors(analysis, ins, leaves) for ins, leaves in found.items()}


def _tensors(
    analysis: Analysis, ins: Instruction, leaves: Mapping[int, AccessSet]
) -> dict[int, Accesses]:
    """Return the accesses to a value by the number of its tensor, without those to run-time sizes.

    `leaves` has the accesses by the number of the leaf.
    """
    found = {}
    for leaf, accesses in sorted(leaves.items()):
        tensor = analysis.tensor_of(ins.type, leaf)
        if tensor is not None:
            found[tensor] = tuple(accesses)
    return found


def epilogue(
    analysis: Analysis, computation: Computation, parent: Instruction, root: Instruction
) -> Accesses:
    """Return the accesses from `parent` to the elements of `root` that depend on it.

    Both are tensors in one computation.
    """
    walk = AccessTraversal(analysis.interner, analysis.leaves)
    walk.begin(parent, 0)
    positions = analysis.positions(computation)
    first, last = positions[parent], positions[root]
    between = computation.instructions[first + 1 : last + 1]
    walk.to_users(analysis.users(between), analysis.writes)
    return tuple(walk.found.get(root, {}).get(0, {}))


def _is_open(analysis: Analysis, ins: Instruction) -> bool:
    """Is the instruction a fusion or call whose inner instructions can be listed?"""
    return (
        isinstance(ins.op, Fusion | Call) and bool(ins.calls) and analysis.has_consistent_sizes(ins)
    )


def _open_all(
    analysis: Analysis,
    found: AccessesByValue,
    walk: AccessTraversal,
    inside: Container[Instruction],
) -> None:
    """Add the accesses to every instruction inside the fusions and calls of a traversal.

    Args:
        analysis: The analysis, which memoizes accesses.
        found: The accesses, which are extended in place.
        walk: The finished traversal; all accesses start at its start.
        inside: The instructions that may be expanded.
    """
    todo = [
        (ins, leaf, accesses)
        for ins, leaves in walk.found.items()
        if ins in inside and _is_open(analysis, ins)
        for leaf, accesses in leaves.items()
    ]
    while todo:
        fusion, leaf, before = todo.pop()
        callee = fusion.calls[0]
        # One traversal per fusion from its root; composed with the accesses to the fusion it gives
        # the accesses from the start.
        inner = AccessTraversal(analysis.interner, analysis.leaves)
        inner.begin(callee.root, leaf)
        inner.to_producers(analysis.positions(callee).get, analysis.reads)
        reached: AccessesByValue = {
            ins: {k: walk.through(before, further) for k, further in leaves.items()}
            for ins, leaves in inner.found.items()
        }
        _merge(found, reached)
        todo += [
            (ins, k, accesses)
            for ins, leaves in reached.items()
            if _is_open(analysis, ins)
            for k, accesses in leaves.items()
        ]


def _to_outside(
    analysis: Analysis, path: Sequence[Instruction], walk: AccessTraversal, found: AccessesByValue
) -> AccessTraversal:
    """Add the accesses to everything that an instruction inside nested fusions reads in them.

    Args:
        analysis: The analysis, which memoizes accesses.
        path: The fusions around the instruction, outermost first.
        walk: A traversal that has begun at the instruction.
        found: The accesses, which are extended in place.

    Returns:
        A traversal that begins with the accesses to the operands of the outermost fusion.
    """
    # From the innermost fusion outwards: what is reached of the parameters of one continues at the
    # operands of the fusion, which belong to the next computation outside.
    for fusion in reversed(path):
        callee = fusion.calls[0]
        walk.to_producers(analysis.positions(callee).get, analysis.reads)
        _merge(found, walk.found)
        _open_all(analysis, found, walk, walk.found)
        outside = AccessTraversal(analysis.interner, analysis.leaves)
        for parameter, operand in zip(callee.parameters, fusion.operands, strict=False):
            for leaf, accesses in walk.found.get(parameter, {}).items():
                outside.add(operand, leaf, accesses)
        walk = outside
    return walk


def _path(analysis: Analysis, region: Region, start: Instruction) -> list[Instruction]:
    """Return the nested fusions that contain the instruction, outermost first.

    Raises:
        UnknownNameError: No fusion of the region contains it.
    """
    todo = [[ins] for ins in region.inside if _is_open(analysis, ins)]
    while todo:
        path = todo.pop()
        for ins in path[-1].calls[0].instructions:
            if ins is start:
                return path
            if _is_open(analysis, ins):
                todo.append([*path, ins])
    raise UnknownNameError(f"`{start.name}` is not in the region")


def _merge(into: AccessesByValue, more: Mapping[Instruction, dict[int, AccessSet]]) -> None:
    """Add the accesses of `more`, by value and leaf, to the dictionary `into`."""
    for ins, leaves in more.items():
        mine = into.setdefault(ins, {})
        for leaf, accesses in leaves.items():
            mine.setdefault(leaf, {}).update(accesses)


def _order(inside: frozenset[Instruction]) -> dict[Instruction, int]:
    """Return a number for each of the instructions; producers have smaller numbers than users."""

    def read(ins: Instruction) -> list[Instruction]:
        return [o for o in (*captured(ins)[::-1], *ins.operands[::-1]) if o in inside]

    # The set has no order; names make the numbering, and so the order of results, reproducible.
    firsts = sorted(inside, key=lambda ins: ins.name)
    return {ins: number for number, ins in enumerate(needed_first(firsts, read))}
