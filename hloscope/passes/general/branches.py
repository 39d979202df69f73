"""Branches with known conditions, and blocks with a single predecessor.

Source: MLIR's `ControlFlowOps.cpp`, the canonicalization patterns of `cf.br` and `cf.cond_br`.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from hloscope.mlir import Block, BoolAttr, DenseArrayAttr, IntegerAttr, Operation, Region
from hloscope.passes.patterns import Patterns
from hloscope.passes.regions import has_branches
from hloscope.passes.rewriting import OpenBlock, Rewriter

BRANCHES: Final = Patterns()

_SEGMENTS: Final = "operandSegmentSizes"


@BRANCHES.on("cf.cond_br")
def known_branch(rewriter: Rewriter, operation: Operation) -> bool:
    """Replace a branch of constant condition, or of two equal targets, by `cf.br`."""
    sizes = operation.get(_SEGMENTS)
    if len(operation.successors) != 2 or not isinstance(sizes, DenseArrayAttr):
        return False
    counts = [int(n) for n in sizes.values]
    # Segments: the condition, operands of the true successor, operands of the false one.
    if len(counts) != 3 or counts[0] != 1 or sum(counts) != len(operation.operands):
        return False
    middle = 1 + counts[1]
    operands_of = operation.operands[1:middle], operation.operands[middle:]
    truth = _constant_condition(operation)
    # With an unknown condition, both ways must lead to one block with the same operands.
    if truth is None:
        if (
            operation.successors[0] is not operation.successors[1]
            or operands_of[0] != operands_of[1]
        ):
            return False
        truth = True
    chosen = 0 if truth else 1
    branch = Operation(
        "cf.br",
        operands_of[chosen],
        successors=(operation.successors[chosen],),
        successor_operands=(len(operands_of[chosen]),),
        location=operation.location,
        source=operation.source,
        start=operation.start,
        end=operation.end,
    )
    rewriter.insert(branch, before=operation)
    rewriter.erase(operation)
    return True


def _constant_condition(operation: Operation) -> bool | None:
    """Return the condition; `None` if it is not constant."""
    owner = operation.operands[0].owner
    if not isinstance(owner, Operation) or owner.name != "arith.constant":
        return None
    match owner.get("value"):
        case BoolAttr(truth):
            return truth
        case IntegerAttr(number):
            return bool(number)
        case _:
            return None


@BRANCHES.on("cf.assert")
def known_assertion(rewriter: Rewriter, operation: Operation) -> bool:
    """Erase an assertion of a constant that holds."""
    if len(operation.operands) != 1 or not _constant_condition(operation):
        return False
    rewriter.erase(operation)
    return True


def merge_blocks(rewriter: Rewriter, scope: Operation) -> int:
    """Merge blocks into their only predecessor; return the number of merged blocks."""
    owners = [each for each in rewriter.walk(scope) if has_branches(each)]
    return sum(_merge_region(rewriter, region) for each in owners for region in each.regions)


def _merge_region(rewriter: Rewriter, region: Region) -> int:
    """Merge blocks of a region into their only predecessor; return how many."""
    ends = [end for block in region.blocks if (end := _end(block)) is not None]
    # Predecessor edges are counted once: merging removes the only edge to a block, and moves the
    # edges of its terminator unchanged.
    led_to = Counter(block for end in ends for block in end.successors)
    gone: set[Block] = set()
    for block in region.blocks:
        # The merged block's terminator is now the end of this one, which may merge again.
        while block not in gone and (target := _only_target(block, led_to)) is not None:
            if target is region.blocks[0] or target in gone:
                break
            branch = _end(block)
            assert branch is not None
            rewriter.inline(target, branch.operands, before=branch)
            rewriter.erase(branch)
            gone.add(target)
    region.blocks = tuple([block for block in region.blocks if block not in gone])
    return len(gone)


def _end(block: Block) -> Operation | None:
    """Return the last operation; the list of all would be built anew after each change."""
    return block.last if isinstance(block, OpenBlock) else None


def _only_target(block: Block, led_to: Counter[Block]) -> Block | None:
    """Return the only successor of a block, if the block is its only predecessor."""
    end = _end(block)
    if end is None or end.name != "cf.br" or len(end.successors) != 1:
        return None
    (target,) = end.successors
    is_fit = target is not block and len(target.arguments) == len(end.operands)
    return target if is_fit and led_to[target] == 1 else None


__all__ = ["BRANCHES", "merge_blocks"]
