"""Sizes of results in terms of the sizes of operands, op by op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from hloscope.affine import Const, Expr, maximum
from hloscope.indexing.symbolic.frames import Frame, Leaf, Rule
from hloscope.indexing.symbolic.symbols import Shape, product_of, sum_of
from hloscope.ir import ByOp, Instruction, Op
from hloscope.ops import (
    BitcastConvert,
    BroadcastInDim,
    Concatenate,
    DotGeneral,
    DynamicBroadcastInDim,
    DynamicIota,
    DynamicPad,
    DynamicReshape,
    Elementwise,
    Pad,
    RealDynamicSlice,
    Reduce,
    ReduceWindow,
    Reshape,
    Reverse,
    Sort,
    Transpose,
    control,
)

Sizes: TypeAlias = Sequence[Expr | None] | None
SIZES: Final = ByOp[Rule]()
"""Rules by op: the sizes of the first array of the result, as far as they are known."""


def _shape(leaf: Leaf) -> Shape:
    if leaf.shape is None:
        raise LookupError("an operand that is not an array")
    return leaf.shape


@SIZES.add(Elementwise)
def _(frame: Frame, ins: Instruction, op: Elementwise) -> Sizes:
    """All operands except scalars have the same sizes."""
    shapes = [_shape(leaf) for leaf in frame.operands(ins)]
    rank = max(map(len, shapes), default=0)
    whole = [shape for shape in shapes if len(shape) == rank]
    return [frame.same(sizes) for sizes in zip(*whole, strict=True)] if whole else None


@SIZES.add(Reverse, BitcastConvert, control.OptimizationBarrier)
def _(frame: Frame, ins: Instruction, op: Op) -> Sizes:
    """The result has the sizes of the first operand, if the ranks agree."""
    return _shape(frame.operands(ins)[0])


@SIZES.add(Sort)
def _(frame: Frame, ins: Instruction, op: Sort) -> Sizes:
    shapes = [_shape(leaf) for leaf in frame.operands(ins)]
    return [frame.same(sizes) for sizes in zip(*shapes, strict=True)]


@SIZES.add(Transpose)
def _(frame: Frame, ins: Instruction, op: Transpose) -> Sizes:
    shape = _shape(frame.operands(ins)[0])
    return [shape[k] for k in op.permutation]


@SIZES.add(BroadcastInDim)
def _(frame: Frame, ins: Instruction, op: BroadcastInDim) -> Sizes:
    """A dimension that is known not to be 1 keeps its size; otherwise the declared size counts."""
    shape = _shape(frame.operands(ins)[0])
    where = {place: k for k, place in enumerate(op.broadcast_dimensions)}
    rank = len(getattr(ins.type, "sizes", ()))
    found = [shape[where[k]] if k in where else None for k in range(rank)]
    return [size if size is not None and _not_one(frame, size) else None for size in found]


def _not_one(frame: Frame, size: Expr) -> bool:
    bounds = frame.symbols.bounds(size)
    return bounds.lo > 1 or bounds.hi == 0


@SIZES.add(Concatenate)
def _(frame: Frame, ins: Instruction, op: Concatenate) -> Sizes:
    shapes = [_shape(leaf) for leaf in frame.operands(ins)]
    columns = list(zip(*shapes, strict=True))
    return [
        sum_of(list(sizes)) if k == op.dimension else frame.same(sizes)
        for k, sizes in enumerate(columns)
    ]


@SIZES.add(Pad)
def _(frame: Frame, ins: Instruction, op: Pad) -> Sizes:
    shape = _shape(frame.operands(ins)[0])
    rows = zip(shape, op.edge_padding_low, op.edge_padding_high, op.interior_padding, strict=True)
    return [_padded(frame, size, low, high, gap) for size, low, high, gap in rows]


def _padded(frame: Frame, size: Expr, low: Expr | int, high: Expr | int, gap: int) -> Expr:
    between = size - 1
    if gap and frame.symbols.bounds(size).lo < 1:
        between = maximum(between, Const(0))
    return size + (between * gap if gap else 0) + low + high


@SIZES.add(DynamicPad)
def _(frame: Frame, ins: Instruction, op: DynamicPad) -> Sizes:
    source, _, *given = frame.operands(ins)
    found: list[Expr | None] = []
    for k, size in enumerate(_shape(source)):
        low, high, gap = [_element(leaf, k) for leaf in given]
        if low is None or high is None or not isinstance(gap, Const):
            found.append(None)
        else:
            found.append(_padded(frame, size, low, high, gap.value))
    return found


def _element(leaf: Leaf, k: int) -> Expr | None:
    return leaf.contents[k] if leaf.contents is not None else None


@SIZES.add(Reduce)
def _(frame: Frame, ins: Instruction, op: Reduce) -> Sizes:
    inputs = [_shape(leaf) for leaf in frame.operands(ins)[: len(ins.operands) // 2]]
    sizes = [frame.same(column) for column in zip(*inputs, strict=True)]
    return [size for k, size in enumerate(sizes) if k not in op.dimensions]


@SIZES.add(ReduceWindow)
def _(frame: Frame, ins: Instruction, op: ReduceWindow) -> Sizes:
    inputs = [_shape(leaf) for leaf in frame.operands(ins)[: len(ins.operands) // 2]]
    for column in zip(*inputs, strict=True):
        frame.same(column)
    shape, window = inputs[0], op.window
    found: list[Expr | None] = []
    for k, size in enumerate(shape):
        if isinstance(size, Const):
            found.append(Const(window.positions(k, size.value)))
            continue
        low, high = window.padding[k]
        spread = (window.sizes[k] - 1) * window.window_dilations[k] + 1
        room = _padded(frame, size, low, high, window.base_dilations[k] - 1)
        if spread == window.strides[k]:  # no position if there is less room, at any size
            found.append(maximum(room, Const(0)) // spread)
        else:
            there = frame.symbols.bounds(room - spread).lo >= 0
            found.append((room - spread) // window.strides[k] + 1 if there else None)
    return found


@SIZES.add(DotGeneral)
def _(frame: Frame, ins: Instruction, op: DotGeneral) -> Sizes:
    (lhs, rhs), dims = map(_shape, frame.operands(ins)), op.dimensions
    for left, right in zip(dims.lhs_contracting, dims.rhs_contracting, strict=True):
        frame.same([lhs[left], rhs[right]])
    batch = [
        frame.same([lhs[left], rhs[right]])
        for left, right in zip(dims.lhs_batch, dims.rhs_batch, strict=True)
    ]
    sides = (
        (lhs, {*dims.lhs_batch, *dims.lhs_contracting}),
        (rhs, {*dims.rhs_batch, *dims.rhs_contracting}),
    )
    free = [size for shape, used in sides for k, size in enumerate(shape) if k not in used]
    return [*batch, *free]


@SIZES.add(DynamicBroadcastInDim)
def _(frame: Frame, ins: Instruction, op: DynamicBroadcastInDim) -> Sizes:
    """The operand states the sizes; hints about expanding and other dimensions are assumed."""
    source, told = _shape(frame.operands(ins)[0]), frame.operands(ins)[1].contents
    for k in op.known_expanding_dimensions or ():
        frame.same([source[k], Const(1)])
    for k in op.known_nonexpanding_dimensions or ():
        if told is not None:
            frame.same([source[k], told[op.broadcast_dimensions[k]]])
    return told


@SIZES.add(DynamicReshape, Reshape)
def _(frame: Frame, ins: Instruction, op: Op) -> Sizes:
    """The number of elements stays the same."""
    known: list[Expr | None] = [
        Const(n) if n is not None else None for n in getattr(ins.type, "sizes", ())
    ]
    if isinstance(op, DynamicReshape):
        known = list(frame.operands(ins)[1].contents or known)
    shape = tuple([size for size in known if size is not None])
    if frame.certain and len(shape) == len(known):
        frame.symbols.unify(product_of(shape), product_of(_shape(frame.operands(ins)[0])))
    return known


@SIZES.add(DynamicIota)
def _(frame: Frame, ins: Instruction, op: DynamicIota) -> Sizes:
    return frame.operands(ins)[0].contents


@SIZES.add(RealDynamicSlice)
def _(frame: Frame, ins: Instruction, op: RealDynamicSlice) -> Sizes:
    source, *given = frame.operands(ins)
    found: list[Expr | None] = []
    for k in range(len(_shape(source))):
        start, limit, step = [_element(leaf, k) for leaf in given]
        if start is None or limit is None or not isinstance(step, Const) or step.value < 1:
            found.append(None)
        else:
            found.append((limit - start + step.value - 1) // step.value)
    return found
