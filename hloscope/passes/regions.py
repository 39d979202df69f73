"""Simplification of regions with several blocks; effects of the operations in regions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from hloscope.mlir import Block, BoolAttr, DenseArrayAttr, Operation, Region, Value
from hloscope.mlir.dialects import DEFINITIONS
from hloscope.passes.rewriting import Rewriter

# --------------------------------------------------------------------------------------------------
# Simplification of regions with several blocks, as the greedy driver does it per iteration.
#
# Unreachable blocks are erased, as are unused arguments and arguments that always have one value.
# Equal blocks are merged.  Blocks that read different outer values are not merged, where MLIR would
# give them arguments.
#
# Source: MLIR's `RegionUtils.cpp`.


_SEGMENTS: Final = "operandSegmentSizes"
_Edge: TypeAlias = tuple[Operation, int]
"""An edge of the control-flow graph: a branch, and the number of one of its successors."""


def has_branches(operation: Operation) -> bool:
    """Does a region of the operation have several blocks?"""
    return any(len(region.blocks) > 1 for region in operation.regions)


def clean_regions(rewriter: Rewriter, scope: Operation, *, merges: bool = True) -> bool:
    """Simplify all regions of several blocks in `scope`; return whether anything changed.

    Args:
        rewriter: The rewriter of the module.
        scope: Operation whose regions are simplified, at any depth.
        merges: Merge equal blocks, and replace arguments that have the same value on all edges.
    """
    changed = False
    for operation in [each for each in rewriter.walk(scope) if has_branches(each)]:
        for region in operation.regions:
            if len(region.blocks) > 1:
                changed |= _erase_unreachable(rewriter, region)
                changed |= _erase_unneeded(rewriter, region)
                if merges:
                    changed |= _merge_equal(rewriter, region)
                    changed |= _replace_constant_arguments(rewriter, region)
    return changed


# ------------------------------------------------------------------------------------------ blocks


def _end(block: Block) -> Operation | None:
    return block.operations[-1] if block.operations else None


def _erase_unreachable(rewriter: Rewriter, region: Region) -> bool:
    """Erase the blocks without a path from the entry block; return whether there were any."""
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
    """Erase all operations of some blocks; they may read each other's values."""
    operations = [operation for block in blocks for operation in block.operations]
    _drop_operands(rewriter, operations)
    for operation in operations:
        rewriter.erase(operation)


def _drop_operands(rewriter: Rewriter, operations: Sequence[Operation]) -> None:
    """Remove the operands of operations, so that they can be erased in any order."""
    for operation in operations:
        for each in [*rewriter.walk(operation)]:
            rewriter.set_operands(each, ())


def _merge_equal(rewriter: Rewriter, region: Region) -> bool:
    """Redirect branches to equal blocks to the first of them, and erase the others."""
    first: dict[object, Block] = {}
    same: dict[Block, Block] = {}
    # The entry block is not merged: a region is entered there.
    for block in region.blocks[1:]:
        key = _structure_key(block)
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


def _structure_key(block: Block) -> object | None:
    """Return a key of a block; blocks with equal keys do the same.

    The result is `None` for a block with nested regions.
    """
    places: dict[Value, int] = {value: k for k, value in enumerate(block.arguments)}
    rows: list[object] = [tuple([value.type for value in block.arguments])]
    for operation in block.operations:
        if operation.regions:
            return None
        rows.append(
            (
                operation.name,
                # Values of the block count by position; outer values by identity.
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
    """Return, for each successor, the range `(start, end)` of the operands passed to its arguments.

    The result is `None` if the op is unknown.
    """
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
    """Return the edges that lead to each block.

    `None` in place of the list stands for the entry block, and for blocks with an edge of an op
    whose passed operands are unknown.
    """
    found: dict[Block, list[_Edge] | None] = {block: [] for block in region.blocks}
    # The entry block receives its arguments from the op: they cannot be removed.
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


def _passed(edge: _Edge) -> tuple[Value, ...]:
    """Return the operands that a branch passes along an edge, to the arguments of one successor."""
    operation, k = edge
    lo, hi = (_targets(operation) or ())[k]
    return operation.operands[lo:hi]


def _remove_passed(
    rewriter: Rewriter, block: Block, edges: Sequence[_Edge], gone: set[int]
) -> None:
    """Remove the operands that `edges` pass to the arguments of a block with indices `gone`."""
    for operation, k in edges:
        lo, hi = (_targets(operation) or ())[k]
        sizes = operation.get(_SEGMENTS)
        kept = [
            value
            for at, value in enumerate(operation.operands)
            if not lo <= at < hi or at - lo not in gone
        ]
        # Segment sizes and successor operand counts must agree with the remaining operands.
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


def _remove_arguments(rewriter: Rewriter, block: Block, gone: set[int]) -> None:
    """Remove the unused arguments of a block whose indices are `gone`."""
    left = [value for k, value in enumerate(block.arguments) if k not in gone]
    rewriter.keep_arguments(block, left)


def _replace_constant_arguments(rewriter: Rewriter, region: Region) -> bool:
    """Replace block arguments to which all edges pass the same value by that value.

    Return whether one was replaced.
    """
    changed = False
    for block, edges in _edges(region).items():
        if not edges:
            continue
        gone = set()
        for k, argument in enumerate(block.arguments):
            values = dict.fromkeys(_passed(edge)[k] for edge in edges)
            # A loop may pass an argument back to itself, which would not be a replacement.
            if len(values) == 1 and argument not in values:
                rewriter.replace_uses(argument, next(iter(values)))
                gone.add(k)
        if gone:
            changed = True
            _remove_passed(rewriter, block, edges, gone)
            _remove_arguments(rewriter, block, gone)
    return changed


def _erase_unneeded(rewriter: Rewriter, region: Region) -> bool:
    """Erase arguments and operations that no effect depends on; return whether one was erased."""
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
        and may_be_erased(operation)
        and not any(value in live for value in operation.results)
    ]
    _drop_operands(rewriter, dead)  # they may read each other in a cycle
    for block, places in gone.items():
        _remove_passed(rewriter, block, edges[block] or (), places)
    for block, places in gone.items():
        _remove_arguments(rewriter, block, places)
    for operation in dead:
        rewriter.erase(operation)
    return bool(dead or gone)


def _live(rewriter: Rewriter, region: Region, edges: dict[Block, list[_Edge] | None]) -> set[Value]:
    """Return the values on which operations with effects depend.

    `edges` has the edges to each block.
    """
    live: set[Value] = set()
    work: list[Value] = []
    # Start at the effects, then follow each live value to the operands it is computed from.
    for block in region.blocks:
        for operation in block.operations:
            if not may_be_erased(operation):
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
            # A live block argument makes live what each branch passes for it.
            work += [_passed(edge)[value.index] for edge in edges.get(owner) or ()]
    return live


def _always_read(
    rewriter: Rewriter, operation: Operation, edges: dict[Block, list[_Edge] | None]
) -> Iterator[Value]:
    """Yield the operands that an op, or an op in its regions, reads even if no result is used.

    Operands passed to arguments of successors are left out: they are needed only if the argument
    is. `edges` has the edges to each block; `None` for those whose arguments stay.
    """
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


# --------------------------------------------------------------------------------------------------
# Effects of operations: may an operation be erased if its results have no user?
#
# Source: `MemoryEffectOpInterface` and `NoMemoryEffect` of StableHLO's and MLIR's definitions.


_EFFECTFUL: Final = frozenset(
    [
        *(
            f"stablehlo.{name}"
            for name in (
                "all_gather all_reduce all_to_all async_done async_start collective_broadcast"
                " collective_permute collective_reduce composite cross-replica-sum infeed outfeed"
                " recv reduce_scatter rng send"
            ).split()
        ),
        *(f"func.{name}" for name in ("call", "call_indirect", "func")),
    ]
)
"""Ops with an effect other than computing their results."""

_QUIET_DIALECTS: Final = frozenset(
    "stablehlo chlo shape tensor arith complex bufferization".split()
)
_QUIET: Final = frozenset(["builtin.unrealized_conversion_cast", "func.constant", "memref.cast"])
_ENDS: Final = frozenset(["scf.yield", "scf.condition"])
"""Terminators of the dialect `scf`, for which there are no definitions."""


def is_effect_free(operation: Operation) -> bool:
    """Does the op, without its regions, do nothing but compute its results?"""
    name = operation.name
    if name in _QUIET:
        return True
    if (
        name.partition(".")[0] not in _QUIET_DIALECTS
        or name not in DEFINITIONS
        or name in _EFFECTFUL
    ):
        return False
    if name == "stablehlo.custom_call":
        return operation.get("has_side_effect") in (None, BoolAttr(False))
    return "terminator" not in DEFINITIONS[name].traits and name not in _ENDS


def may_be_erased(operation: Operation) -> bool:
    """May the op be erased, together with its regions, if its results have no user?"""
    if not is_effect_free(operation):
        return False
    work = [operation] if operation.regions else []
    # `work` grows while it is traversed.
    for each in work:
        for inner in each.inside:
            if not (is_effect_free(inner) or is_terminator(inner)):
                return False
            if inner.regions:
                work.append(inner)
    return True


def is_terminator(operation: Operation) -> bool:
    """Is the op a terminator?"""
    definition = DEFINITIONS.get(operation.name)
    ends = definition is not None and "terminator" in definition.traits
    return ends or operation.name in _ENDS
