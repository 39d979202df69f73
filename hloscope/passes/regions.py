"""Cleaning up regions of several blocks, as the greedy driver does between its iterations.

Blocks that are never reached go, arguments that nobody needs or that are always the same value, and
blocks that are the same as another one.  Blocks that differ in what they read from outside stay
apart, where MLIR would give them arguments.

Source: MLIR's `RegionUtils.cpp`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from hloscope.mlir import Block, DenseArrayAttr, Operation, Region, Value
from hloscope.passes.effects import may_go
from hloscope.passes.rewriting import Rewriter

_SEGMENTS: Final = "operandSegmentSizes"
_Edge: TypeAlias = tuple[Operation, int]
"""A branch, and which of its successors is meant."""


def has_branches(operation: Operation) -> bool:
    """Has one of its regions several blocks?"""
    return any(len(region.blocks) > 1 for region in operation.regions)


def clean_regions(rewriter: Rewriter, scope: Operation, *, merges: bool = True) -> bool:
    """Clean up all regions of several blocks in an operation; has anything changed?

    Args:
        rewriter: Of the module.
        scope: Where.
        merges: Do equal blocks become one, and arguments that are always the same value go?
    """
    changed = False
    for operation in [each for each in rewriter.walk(scope) if has_branches(each)]:
        for region in operation.regions:
            if len(region.blocks) > 1:
                changed |= _reached(rewriter, region)
                changed |= _needed(rewriter, region)
                if merges:
                    changed |= _merged(rewriter, region)
                    changed |= _without_constant_arguments(rewriter, region)
    return changed


# ------------------------------------------------------------------------------------------ blocks


def _end(block: Block) -> Operation | None:
    return block.operations[-1] if block.operations else None


def _reached(rewriter: Rewriter, region: Region) -> bool:
    """Blocks to which nothing leads from the first one go."""
    reached = {region.blocks[0]: None}
    work = [region.blocks[0]]
    for block in work:
        for operation in block.operations:
            for successor in operation.successors:
                if successor not in reached:
                    reached[successor] = None
                    work.append(successor)
    lost = [block for block in region.blocks if block not in reached]
    _erase(rewriter, lost)
    region.blocks = tuple([block for block in region.blocks if block in reached])
    return bool(lost)


def _erase(rewriter: Rewriter, blocks: Sequence[Block]) -> None:
    """Take out all that stands in blocks, which may read each other's values."""
    operations = [operation for block in blocks for operation in block.operations]
    for operation in operations:
        for each in [*rewriter.walk(operation)]:
            rewriter.set_operands(each, ())
    for operation in operations:
        rewriter.erase(operation)


def _merged(rewriter: Rewriter, region: Region) -> bool:
    """Of blocks that are the same all branches go to the first."""
    first: dict[object, Block] = {}
    same: dict[Block, Block] = {}
    for block in region.blocks[1:]:
        key = _form(block)
        if key is not None and first.setdefault(key, block) is not block:
            same[block] = first[key]
    for block in region.blocks:
        end = _end(block)
        if end is not None and any(successor in same for successor in end.successors):
            end.successors = tuple([same.get(each, each) for each in end.successors])
            rewriter.watcher.changed(end)
    _erase(rewriter, [*same])
    region.blocks = tuple([block for block in region.blocks if block not in same])
    return bool(same)


def _form(block: Block) -> object | None:
    """Equal for blocks that do the same; nothing for those that hold regions."""
    places: dict[Value, int] = {value: k for k, value in enumerate(block.arguments)}
    rows: list[object] = [tuple([value.type for value in block.arguments])]
    for operation in block.operations:
        if operation.regions:
            return None
        rows.append(
            (
                operation.name,
                tuple([places.get(value, value) for value in operation.operands]),
                tuple([value.type for value in operation.results]),
                frozenset(operation.properties.items()),
                frozenset(operation.attributes.items()),
                operation.successors,
            )
        )
        for value in operation.results:
            places[value] = len(places)
    return tuple(rows)


# --------------------------------------------------------------------------------------- arguments


def _targets(operation: Operation) -> tuple[tuple[int, int], ...] | None:
    """Of each successor, which operands become its arguments; `None` if nobody knows."""
    match operation.name:
        case "cf.br" if len(operation.successors) == 1:
            return ((0, len(operation.operands)),)
        case "cf.cond_br" if len(operation.successors) == 2:
            sizes = operation.get(_SEGMENTS)
            if isinstance(sizes, DenseArrayAttr) and len(sizes.values) == 3:
                middle = 1 + int(sizes.values[1])
                return (1, middle), (middle, len(operation.operands))
    return None


def _edges(region: Region) -> dict[Block, list[_Edge] | None]:
    """The branches that lead to each block; `None` if one hands over nobody knows what."""
    found: dict[Block, list[_Edge] | None] = {block: [] for block in region.blocks}
    found[region.blocks[0]] = None
    for block in region.blocks:
        for operation in block.operations:
            targets = _targets(operation)
            for k, successor in enumerate(operation.successors):
                edges = found.get(successor)
                fits = targets is not None and targets[k][1] - targets[k][0] == len(
                    successor.arguments
                )
                if edges is not None and fits:
                    edges.append((operation, k))
                else:
                    found[successor] = None
    return found


def _given(edge: _Edge) -> tuple[Value, ...]:
    """What a branch hands over."""
    operation, k = edge
    lo, hi = (_targets(operation) or ())[k]
    return operation.operands[lo:hi]


def _hand_over_less(
    rewriter: Rewriter, block: Block, edges: Sequence[_Edge], gone: set[int]
) -> None:
    """Branches to a block leave out what they hand over for some of its arguments."""
    for operation, k in edges:
        lo, hi = (_targets(operation) or ())[k]
        sizes = operation.get(_SEGMENTS)
        kept = [
            value
            for at, value in enumerate(operation.operands)
            if not lo <= at < hi or at - lo not in gone
        ]
        if isinstance(sizes, DenseArrayAttr):
            values = list(sizes.values)
            values[k + 1] -= len(gone)
            changed = {**operation.properties, _SEGMENTS: replace(sizes, values=tuple(values))}
            rewriter.set_properties(operation, changed)
        if operation.successor_operands:
            counts = list(operation.successor_operands)
            counts[k] -= len(gone)
            operation.successor_operands = tuple(counts)
        rewriter.set_operands(operation, kept)


def _drop(rewriter: Rewriter, block: Block, gone: set[int]) -> None:
    """Leave out arguments of a block that nobody reads any more."""
    left = [value for k, value in enumerate(block.arguments) if k not in gone]
    rewriter.keep_arguments(block, left)


def _without_constant_arguments(rewriter: Rewriter, region: Region) -> bool:
    """An argument for which every branch hands over the same value is that value."""
    changed = False
    for block, edges in _edges(region).items():
        if not edges:
            continue
        gone = set()
        for k, argument in enumerate(block.arguments):
            values = dict.fromkeys(_given(edge)[k] for edge in edges)
            if len(values) == 1 and argument not in values:
                rewriter.replace_uses(argument, next(iter(values)))
                gone.add(k)
        if gone:
            changed = True
            _hand_over_less(rewriter, block, edges, gone)
            _drop(rewriter, block, gone)
    return changed


def _needed(rewriter: Rewriter, region: Region) -> bool:
    """Arguments, and what they are computed from, go if nothing lasting needs them."""
    edges = _edges(region)
    live = _live(rewriter, region, edges)
    gone = {
        block: places
        for block, known in edges.items()
        if known and (places := {k for k, value in enumerate(block.arguments) if value not in live})
    }
    dead = [
        operation
        for block in region.blocks
        for operation in block.operations
        if operation is not block.operations[-1]
        and may_go(operation)
        and not any(value in live for value in operation.results)
    ]
    for operation in dead:  # they may read each other, around a circle of branches
        for each in [*rewriter.walk(operation)]:
            rewriter.set_operands(each, ())
    for block, places in gone.items():
        _hand_over_less(rewriter, block, edges[block] or (), places)
    for block, places in gone.items():
        _drop(rewriter, block, places)
    for operation in dead:
        rewriter.erase(operation)
    return bool(dead or gone)


def _live(rewriter: Rewriter, region: Region, edges: dict[Block, list[_Edge] | None]) -> set[Value]:
    """The values that ops with lasting effects need."""
    live: set[Value] = set()
    work: list[Value] = []
    for block in region.blocks:
        for operation in block.operations:
            if not may_go(operation):
                work += _always_read(rewriter, operation, edges)
    while work:
        value = work.pop()
        if value in live:
            continue
        live.add(value)
        owner = value.owner
        if isinstance(owner, Operation):
            if owner.parent in edges:
                work += _always_read(rewriter, owner, edges)
        elif isinstance(owner, Block):
            work += [_given(edge)[value.index] for edge in edges.get(owner) or ()]
    return live


def _always_read(
    rewriter: Rewriter, operation: Operation, edges: dict[Block, list[_Edge] | None]
) -> Iterator[Value]:
    """What an op reads, in its regions too, but for what it hands over to blocks."""
    handed: set[int] = set()
    targets = _targets(operation) or ()
    for successor, (lo, hi) in zip(operation.successors, targets, strict=False):
        if edges.get(successor):
            handed |= set(range(lo, hi))
    for k, value in enumerate(operation.operands):
        if k not in handed:
            yield value
    if operation.regions:
        for inner in rewriter.walk(operation):
            yield from inner.operands


__all__ = ["clean_regions", "has_branches"]
