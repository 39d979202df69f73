"""`canonicalize`: folds of MLIR's dialects, for the ops that occur in StableHLO programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from hloscope.ir import TensorType, Type
from hloscope.mlir import (
    INDEX,
    Attribute,
    Block,
    BoolAttr,
    DenseArrayAttr,
    DenseAttr,
    IntegerAttr,
    Operation,
    Region,
    Value,
)
from hloscope.passes.conversion import InsertionPoint, always_broadcastable, dense, shaped
from hloscope.passes.folding import INDEX_FOLDS, fold_integers, signed_integers
from hloscope.passes.framework import GreedyDriver, Pass, Run
from hloscope.passes.patterns import Patterns
from hloscope.passes.reading import defining_op
from hloscope.passes.regions import has_branches
from hloscope.passes.rewriting import OpenBlock, Rewriter
from hloscope.stablehlo import integers_in

# --------------------------------------------------------------------------------------------------
# `canonicalize`: folds of MLIR's dialects, for the ops that occur in StableHLO programs.
#
# Dead code is erased; constants are unified and moved to the front; casts without effect are
# erased; known sizes (`shape`, `tensor`, `arith`) are computed; known branches (`cf`) are taken.
#
# Source: MLIR's `fold` and canonicalization patterns of `Shape.cpp`, `TensorOps.cpp`,
# `ArithOps.cpp`.


PATTERNS: Final = Patterns()
_MOST_ROUNDS: Final = 10
"""Largest number of iterations of the greedy driver over one function, as in MLIR."""


def _fold(rewriter: Rewriter, op: Operation, name: str, value: Attribute, type: Type) -> bool:
    """Replace the only result of `op` by a constant, and return true.

    The constant is an op `name` of this value and type. With a greedy driver, an equal constant at
    the front of the scope is used again.
    """
    key = "shape" if name == "shape.const_shape" else "value"
    driver = rewriter.watcher
    if isinstance(driver, GreedyDriver):
        made = driver.constant(name, {key: value}, type, before=op)
    else:
        made = rewriter.create(name, (), {key: value}, before=op, types=(type,)).result
    rewriter.replace(op, [made])
    return True


def _shape_literal(sizes: Sequence[int]) -> DenseAttr:
    """Return the literal of a constant shape, a vector of `index`."""
    text = f"[{', '.join(map(str, sizes))}]" if sizes else ""
    return dense(text, shaped(INDEX, len(sizes)))


def _fold_shape(rewriter: Rewriter, op: Operation, sizes: Sequence[int]) -> bool:
    return _fold(rewriter, op, "shape.const_shape", _shape_literal(sizes), op.result.type)


def _shape(value: Value) -> tuple[int, ...] | None:
    """Return the sizes in a `shape.const_shape`; `None` if `value` is not one."""
    owner = defining_op(value, "shape.const_shape")
    return None if owner is None else integers_in(owner.get("shape"))


def _known_extents(value: Value) -> tuple[int | None, ...] | None:
    """Return the sizes that a value of a shape type stands for; an unknown size is `None`.

    The value is a constant, or the shape of a ranked tensor; the result is `None` for any other
    value.
    """
    source = defining_op(value, "shape.shape_of")
    if source is not None:
        type = source.operands[0].type
        return type.sizes if isinstance(type, TensorType) else None
    return _shape(value)


def _broadcast_extents(shapes: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """Return the numpy broadcast of the shapes; `None` if two sizes are not compatible."""
    rank = max(map(len, shapes), default=0)
    found = [1] * rank
    for shape in shapes:
        for k, size in enumerate(shape, rank - len(shape)):
            if size != 1 and found[k] not in (1, size):
                return None
            found[k] = size if size != 1 else found[k]
    return tuple(found)


# ------------------------------------------------------------------------------------------- shapes


@PATTERNS.on("shape.shape_of")
def shape_of_known(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `shape.shape_of` of a tensor of static shape by a constant."""
    type = op.operands[0].type
    if not isinstance(type, TensorType) or not type.is_static:
        return False
    if not isinstance(op.result.type, TensorType):
        return False
    return _fold_shape(rewriter, op, type.shape)


@PATTERNS.on("shape.broadcast", "shape.cstr_broadcastable")
def constants_last(rewriter: Rewriter, op: Operation) -> bool:
    """Move constant operands after all others; these ops do not depend on the order."""
    ordered = sorted(op.operands, key=lambda value: _shape(value) is not None)
    if tuple(ordered) == op.operands:
        return False
    rewriter.set_operands(op, ordered)
    return True


@PATTERNS.on("shape.broadcast", "shape.cstr_broadcastable")
def without_duplicates(rewriter: Rewriter, op: Operation) -> bool:
    """Remove operands that occur before in the operand list."""
    once = tuple(dict.fromkeys(op.operands))
    if once == op.operands:
        return False
    rewriter.set_operands(op, once)
    return True


@PATTERNS.on("shape.broadcast", "shape.cstr_broadcastable")
def without_empty(rewriter: Rewriter, op: Operation) -> bool:
    """Remove operands that are the shape of a scalar; they do not change a broadcast."""
    rest = [value for value in op.operands if _shape(value) != ()]
    if len(rest) == len(op.operands) or not rest:
        return False
    rewriter.set_operands(op, rest)
    return True


@PATTERNS.on("shape.broadcast")
def broadcast_known(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `shape.broadcast` of constant shapes, or of a single shape, by its result."""
    if not isinstance(op.result.type, TensorType) or not op.operands:
        return False
    if len(op.operands) == 1 and op.operands[0].type == op.result.type:
        rewriter.replace(op, op.operands)
        return True
    shapes = [shape for value in op.operands if (shape := _shape(value)) is not None]
    found = _broadcast_extents(shapes) if len(shapes) == len(op.operands) else None
    return found is not None and _fold_shape(rewriter, op, found)


@PATTERNS.on("shape.broadcast")
def broadcast_constants(rewriter: Rewriter, op: Operation) -> bool:
    """Replace several constant operands of `shape.broadcast` by their broadcast."""
    known = [(value, shape) for value in op.operands if (shape := _shape(value)) is not None]
    found = _broadcast_extents([shape for _, shape in known]) if len(known) > 1 else None
    if found is None or len(known) == len(op.operands):
        return False
    constants = [value for value, _ in known]
    same = next((value for value, shape in known if shape == found), None)
    if same is None:
        value, at = _shape_literal(found), InsertionPoint(rewriter, op)
        same = at.make("shape.const_shape", value.type, shape=value)
    rest = [value for value in op.operands if value not in constants]
    rewriter.set_operands(op, [*rest, same])
    return True


@PATTERNS.on("shape.broadcast")
def broadcast_rank(rewriter: Rewriter, op: Operation) -> bool:
    """Set the rank of the result of `shape.broadcast` to the largest rank of the operands."""
    wanted = shaped(INDEX, None)
    if op.result.type != wanted:
        return False
    sizes = [v.type.sizes[0] for v in op.operands if isinstance(v.type, TensorType)]
    if len(sizes) != len(op.operands) or None in sizes or not sizes:
        return False
    rank = max(size for size in sizes if size is not None)
    at, exact = InsertionPoint(rewriter, op), shaped(INDEX, rank)
    new = at.make("shape.broadcast", exact, *op.operands, **op.properties)
    return rewriter.replace_by(op, "tensor.cast", (new,))


@PATTERNS.on("shape.cstr_broadcastable")
def surely_broadcastable(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `shape.cstr_broadcastable` by a true witness if it holds for any dynamic sizes."""
    shapes = [shape for v in op.operands if (shape := _known_extents(v)) is not None]
    if len(op.operands) > 1 and len(shapes) != len(op.operands):
        return False
    if not always_broadcastable(shapes):
        return False
    return rewriter.replace_by(op, "shape.const_witness", (), {"passing": BoolAttr(True)})


@PATTERNS.on("shape.assuming")
def assuming_true(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `shape.assuming` by the operations of its region if its witness is constant true."""
    witness = defining_op(op.operands[0], "shape.const_witness")
    if witness is None or witness.get("passing") != BoolAttr(True):
        return False
    return _inline_region(rewriter, op, "shape.assuming_yield")


def _inline_region(rewriter: Rewriter, op: Operation, end: str, number: int = 0) -> bool:
    """Replace an op by the operations of its region `number`.

    Return false, and change nothing, unless the region has one block without arguments that ends in
    the op `end` with as many operands as the op has results.
    """
    blocks = op.regions[number].blocks
    if len(blocks) != 1 or not blocks[0].operations or blocks[0].arguments:
        return False
    last = blocks[0].operations[-1]
    if last.name != end or len(last.operands) != len(op.results):
        return False
    rewriter.inline(blocks[0], (), before=op)
    values = last.operands
    rewriter.erase(last)
    rewriter.replace(op, values)
    return True


# -------------------------------------------------------------------------------------------- casts


@PATTERNS.on("tensor.cast")
def cast_of_cast(rewriter: Rewriter, op: Operation) -> bool:
    """Simplify `tensor.cast` of a cast back to the first type, or of a constant shape."""
    source = op.operands[0]
    inner = defining_op(source, "tensor.cast")
    if inner is not None and inner.operands[0].type == op.result.type:
        rewriter.replace(op, inner.operands)
        return True
    sizes = _shape(source)
    if sizes is None or op.result.type != shaped(INDEX, len(sizes)):
        return False
    return rewriter.replace_by(op, "shape.const_shape", (), {"shape": _shape_literal(sizes)})


@PATTERNS.on("bufferization.to_buffer", "bufferization.to_tensor")
def to_buffer_and_back(rewriter: Rewriter, op: Operation) -> bool:
    """Replace a conversion to a buffer and back, or the reverse, by the first value."""
    other = {
        "bufferization.to_buffer": "bufferization.to_tensor",
        "bufferization.to_tensor": "bufferization.to_buffer",
    }
    inner = defining_op(op.operands[0], other[op.name])
    if inner is None or inner.operands[0].type != op.result.type:
        return False
    rewriter.replace(op, inner.operands)
    return True


# ----------------------------------------------------------------------------------- single numbers


@PATTERNS.on("tensor.extract")
def extract_of_shape(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `tensor.extract` of a constant shape at a constant index by a constant."""
    at, sizes = [signed_integers(value) for value in op.operands[1:]], _shape(op.operands[0])
    if sizes is None or len(at) != 1 or at[0] is None or not 0 <= at[0][0] < len(sizes):
        return False
    return fold_integers(rewriter, op, (sizes[at[0][0]],))


@PATTERNS.on("scf.if")
def known_condition(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `scf.if` of a constant condition by the operations of the branch that runs."""
    chosen = signed_integers(op.operands[0]) if len(op.operands) == 1 else None
    if chosen is None or len(op.regions) != 2:
        return False
    return _inline_region(rewriter, op, "scf.yield", 0 if chosen[0] else 1)


def _run(run: Run) -> None:
    patterns = INDEX_FOLDS + PATTERNS + BRANCHES
    for function in run.functions():
        for _ in range(_MOST_ROUNDS):
            run.greedy(function, patterns, merges_blocks=False)
            merged = merge_blocks(run.rewriter, function)
            run.fired += Counter({"merge_blocks": merged} if merged else {})
            if not merged:
                break


PASS: Final = Pass(
    "canonicalize",
    _run,
    "Erases dead code and casts, computes known sizes, moves constants to the front.",
)


# --------------------------------------------------------------------------------------------------
# Branches with known conditions, and blocks with a single predecessor.
#
# Source: MLIR's `ControlFlowOps.cpp`, the canonicalization patterns of `cf.br` and `cf.cond_br`.


BRANCHES: Final = Patterns()

_SEGMENTS: Final = "operandSegmentSizes"


@BRANCHES.on("cf.cond_br")
def known_branch(rewriter: Rewriter, operation: Operation) -> bool:
    """Replace `cf.cond_br` of constant condition, or of two equal targets, by `cf.br`."""
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
    # With an unknown condition, both successors must be one block, with the same operands.
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
    """Return the condition of a branch or assertion as a bool; `None` if it is not constant."""
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
    """Erase `cf.assert` of a condition that is the constant true."""
    if len(operation.operands) != 1 or not _constant_condition(operation):
        return False
    rewriter.erase(operation)
    return True


def merge_blocks(rewriter: Rewriter, scope: Operation) -> int:
    """Merge each block into its only predecessor, in all regions of `scope`.

    Return the number of merges.
    """
    owners = [each for each in rewriter.walk(scope) if has_branches(each)]
    return sum(_merge_region(rewriter, region) for each in owners for region in each.regions)


def _merge_region(rewriter: Rewriter, region: Region) -> int:
    """Merge each block of a region into its only predecessor; return the number of merges."""
    ends = [end for block in region.blocks if (end := _end(block)) is not None]
    # Predecessor edges are counted once: merging removes the only edge to a block, and moves the
    # edges of its terminator unchanged.
    branch_counts = Counter(block for end in ends for block in end.successors)
    gone: set[Block] = set()
    for block in region.blocks:
        # The merged block's terminator is now the end of this one, which may merge again.
        while block not in gone and (target := _only_target(block, branch_counts)) is not None:
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
    """Return the last operation of a block in constant time.

    `None` if the block is empty, or not an `OpenBlock`.
    """
    return block.last if isinstance(block, OpenBlock) else None


def _only_target(block: Block, branch_counts: Counter[Block]) -> Block | None:
    """Return the block that can be merged into `block`; `None` if there is none.

    It is the target of the `cf.br` that ends `block`. `branch_counts` has the number of branches to
    each block: the target must have no other predecessor.
    """
    end = _end(block)
    if end is None or end.name != "cf.br" or len(end.successors) != 1:
        return None
    (target,) = end.successors
    is_fit = target is not block and len(target.arguments) == len(end.operands)
    return target if is_fit and branch_counts[target] == 1 else None
