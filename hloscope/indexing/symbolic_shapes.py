"""Sizes of results in terms of the sizes of operands, op by op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from hloscope.affine import NEG_INF, Const, Expr, Interval, maximum, minimum
from hloscope.indexing.symbolic_values import (
    SIZE_BITS,
    Contents,
    Frame,
    Leaf,
    Rule,
    Shape,
    product_of,
    sum_of,
    values_of,
)
from hloscope.ir import ByOp, Instruction, Op, TensorType
from hloscope.ops import (
    ELEMENTWISE,
    BitcastConvert,
    BroadcastInDim,
    Concatenate,
    Constant,
    DotGeneral,
    DynamicBroadcastInDim,
    DynamicIota,
    DynamicPad,
    DynamicReshape,
    Elementwise,
    GetDimensionSize,
    Iota,
    Pad,
    RealDynamicSlice,
    Reduce,
    ReduceWindow,
    Reshape,
    Reverse,
    Slice,
    Sort,
    Transpose,
    control,
)

# --------------------------------------------------------------------------------------------------
# Sizes of results in terms of the sizes of operands, op by op.


Sizes: TypeAlias = Sequence[Expr | None] | None
SIZES: Final = ByOp[Rule]()
"""Rules by op: the sizes of the result's first array; `None` for unknown ones."""


def _shape(leaf: Leaf) -> Shape:
    if leaf.shape is None:
        raise LookupError("an operand that is not an array")
    return leaf.shape


@SIZES.add(Elementwise)
def _(frame: Frame, ins: Instruction, op: Elementwise) -> Sizes:
    """Return the common sizes of all operands except scalars."""
    shapes = [_shape(leaf) for leaf in frame.operands(ins)]
    rank = max(map(len, shapes), default=0)
    whole = [shape for shape in shapes if len(shape) == rank]
    return [frame.same(sizes) for sizes in zip(*whole, strict=True)] if whole else None


@SIZES.add(Reverse, BitcastConvert, control.OptimizationBarrier)
def _(frame: Frame, ins: Instruction, op: Op) -> Sizes:
    """Return the sizes of the first operand, which the result has too."""
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
    """Return, for each dimension, the operand's size if it is known not to be 1; else `None`.

    `None` stands for the size that the type declares.
    """
    shape = _shape(frame.operands(ins)[0])
    where = {place: k for k, place in enumerate(op.broadcast_dimensions)}
    rank = len(getattr(ins.type, "sizes", ()))
    found: list[Expr | None] = []
    for k in range(rank):
        bounds = frame.symbols.bounds(shape[where[k]]) if k in where else Interval.EVERYTHING
        found.append(shape[where[k]] if bounds.lo > 1 or bounds.hi == 0 else None)
    return found


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
    """Return the size of a padded dimension.

    Args:
        frame: The symbolic values of the computation.
        size: The size before padding.
        low: Padding before the first element.
        high: Padding after the last element.
        gap: Padding between two elements.
    """
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
    """Return element `k` of an array in row-major order; `None` if its elements are not known."""
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
        # No window position, whatever the size is, if it would be negative.
        if spread == window.strides[k]:
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
    """Return the sizes in operand 1.

    Hints about (non-)expanding dimensions are recorded as facts.
    """
    source, told = _shape(frame.operands(ins)[0]), frame.operands(ins)[1].contents
    for k in op.known_expanding_dimensions or ():
        frame.same([source[k], Const(1)])
    for k in op.known_nonexpanding_dimensions or ():
        if told is not None:
            frame.same([source[k], told[op.broadcast_dimensions[k]]])
    return told


@SIZES.add(DynamicReshape, Reshape)
def _(frame: Frame, ins: Instruction, op: Op) -> Sizes:
    """Return the sizes of the result; record that it has as many elements as operand 0."""
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


# --------------------------------------------------------------------------------------------------
# Elements of small integer arrays from which sizes are computed, op by op.
#
# Integers of 32 bits and more are treated as unbounded: results hold as long as no size overflows
# them. Narrower integers, and known numbers, are followed if they fit.


Elements: TypeAlias = Sequence[Expr | None] | None
CONTENTS: Final = ByOp[Rule]()
"""Rules by op: the elements of the result in row-major order; `None` for an unknown one."""


@CONTENTS.add(Constant)
def _(frame: Frame, ins: Instruction, op: Constant) -> Elements:
    assert isinstance(ins.type, TensorType)
    numbers, count = op.literal.integers(ins.type), ins.type.num_elements
    if numbers is None:
        return None
    return [Const(n) for n in (numbers * count if len(numbers) == 1 else numbers)]


@CONTENTS.add(Iota)
def _(frame: Frame, ins: Instruction, op: Iota) -> Elements:
    assert isinstance(ins.type, TensorType)
    return [Const(k) for k in range(ins.type.num_elements)]


@CONTENTS.add(GetDimensionSize)
def _(frame: Frame, ins: Instruction, op: GetDimensionSize) -> Elements:
    shape = frame.operands(ins)[0].shape
    return None if shape is None else (shape[op.dimension],)


@CONTENTS.add(Reshape, DynamicReshape, control.OptimizationBarrier)
def _(frame: Frame, ins: Instruction, op: Op) -> Elements:
    return frame.operands(ins)[0].contents


@CONTENTS.add(BroadcastInDim)
def _(frame: Frame, ins: Instruction, op: BroadcastInDim) -> Elements:
    known = frame.operands(ins)[0].contents
    assert isinstance(ins.type, TensorType)
    count = ins.type.num_elements
    return known * count if known is not None and len(known) == 1 else known


@CONTENTS.add(Concatenate)
def _(frame: Frame, ins: Instruction, op: Concatenate) -> Elements:
    parts: list[Expr | None] = []
    for leaf in frame.operands(ins):
        if leaf.contents is None:
            return None
        parts += leaf.contents
    return parts


@CONTENTS.add(Slice)
def _(frame: Frame, ins: Instruction, op: Slice) -> Elements:
    known = frame.operands(ins)[0].contents
    if known is None or len(op.start_indices) != 1:
        return None
    return known[op.start_indices[0] : op.limit_indices[0] : op.strides[0]]


Arithmetic: TypeAlias = Callable[..., Expr | None]


def _divided(frame: Frame, a: Expr, b: Expr) -> Expr | None:
    """Return the quotient `a / b`, or `None` if it is not known.

    It rounds towards zero, so it is a floor only if no operand is negative.
    """
    if not isinstance(b, Const) or b.value <= 0 or frame.symbols.bounds(a).lo < 0:
        return None
    return a // b


def _remainder(frame: Frame, a: Expr, b: Expr) -> Expr | None:
    """Return `a % b` if `b` is a positive constant and `a` is not negative; else `None`."""
    if not isinstance(b, Const) or b.value <= 0 or frame.symbols.bounds(a).lo < 0:
        return None
    return a % b


def _greater(frame: Frame, a: Expr, b: Expr) -> Expr:
    """Return the larger of two elements; a `max` is needed only if their order is not known."""
    bounds = frame.symbols.bounds(a - b)
    return a if bounds.lo >= 0 else b if bounds.hi <= 0 else maximum(a, b)


def _less(frame: Frame, a: Expr, b: Expr) -> Expr:
    bounds = frame.symbols.bounds(a - b)
    return b if bounds.lo >= 0 else a if bounds.hi <= 0 else minimum(a, b)


def _sign(frame: Frame, a: Expr) -> Expr | None:
    """Return the sign of an element: 1 or -1, or `min(a, 1)` if it is not negative; else `None`."""
    bounds = frame.symbols.bounds(a)
    if bounds.lo > 0:
        return Const(1)
    if bounds.hi < 0:
        return Const(-1)
    return minimum(a, Const(1)) if bounds.lo == 0 else None


def _both(frame: Frame, a: Expr | None, b: Expr | None) -> Expr | None:
    """Return the conjunction of booleans, 0 or 1; `None` if it is not known.

    It is 0 if either is 0, even if the other is unknown.
    """
    return _joined(a, b, Const(0))


def _either(frame: Frame, a: Expr | None, b: Expr | None) -> Expr | None:
    """Return the disjunction of booleans, 0 or 1; `None` if it is not known."""
    return _joined(a, b, Const(1))


def _joined(a: Expr | None, b: Expr | None, decides: Const) -> Expr | None:
    """Return the conjunction or disjunction of two booleans; `None` if it is not known.

    `decides` is the value of one boolean that decides the result.
    """
    if decides in (a, b):
        return decides
    return b if isinstance(a, Const) else a if isinstance(b, Const) else None


def _chosen(frame: Frame, choice: Expr | None, a: Expr | None, b: Expr | None) -> Expr | None:
    """Return `a` if the boolean `choice` is true, else `b`; `None` if that is not known.

    An unknown choice between equal elements is known.
    """
    if isinstance(choice, Const):
        return a if choice.value else b
    known = a is not None and b is not None
    return a if known and frame.symbols.equal(a, b) else None  # type: ignore[arg-type]


_ARITHMETIC: Final[dict[str, Arithmetic]] = {
    "add": lambda frame, a, b: a + b,
    "subtract": lambda frame, a, b: a - b,
    "multiply": lambda frame, a, b: a * b,
    "negate": lambda frame, a: -a,
    "divide": _divided,
    "remainder": _remainder,
    "maximum": _greater,
    "minimum": _less,
    "sign": _sign,
    "convert": lambda frame, a: a,
    "copy": lambda frame, a: a,
}
"""Functions of elements, by op, for which all operands must be known."""
_LOGIC: Final[dict[str, Arithmetic]] = {"and": _both, "or": _either, "select": _chosen}
"""Functions of elements, by op, that accept `None` for unknown operands."""


def _kind(ins: Instruction) -> str:
    return ins.type.element.kind if isinstance(ins.type, TensorType) else ""


def _elementwise(rule: Arithmetic, *, partial: bool) -> Callable[..., Elements]:
    """Return a rule of `CONTENTS` that applies a function of elements to the operands' elements.

    With `partial`, the function accepts `None` for unknown operands; otherwise such elements are
    unknown.
    """

    def found(frame: Frame, ins: Instruction, op: Op) -> Elements:
        kinds = {_kind(operand) for operand in ins.operands[-1:]} | {_kind(ins)}
        numbers = rule not in (_both, _either)
        if ("pred" in kinds) == numbers and rule is not _chosen:
            return None
        columns = _columns(frame, ins)
        if columns is None:
            return None
        return [
            _fitting(frame, ins, rule(frame, *each)) if partial or None not in each else None
            for each in zip(*columns, strict=True)
        ]

    return found


def _fitting(frame: Frame, ins: Instruction, e: Expr | None) -> Expr | None:
    """Return `e`, an element of the result, if the result's type can hold it.

    The result is `None` if it may wrap around. Types of `SIZE_BITS` bits and more are assumed to
    hold it.
    """
    assert isinstance(ins.type, TensorType)
    element = ins.type.element
    if e is None or element.kind == "pred":
        return e
    if element.integer_limits is None:
        return None
    holds, bounds = values_of(element), frame.symbols.bounds(e)
    is_known = isinstance(e, Const) or element.bits < SIZE_BITS
    if is_known:
        return e if holds.contains(bounds) else None
    return e if element.kind == "signed" or bounds.lo >= 0 else None


def _columns(frame: Frame, ins: Instruction) -> list[Contents] | None:
    """Return the elements of each operand, all as lists of equal length; scalars are repeated.

    The result is `None` if an operand has no list of elements (see `Leaf.contents`).
    """
    found = [leaf.contents for leaf in frame.operands(ins)]
    known = [contents for contents in found if contents is not None]
    if len(known) < len(found) or not known:
        return None
    count = max(map(len, known))
    return [contents * count if len(contents) == 1 else contents for contents in known]


for _name, _rule in {**_ARITHMETIC, **_LOGIC}.items():
    CONTENTS.add(ELEMENTWISE[_name])(_elementwise(_rule, partial=_name in _LOGIC))


def comparison(ins: Instruction) -> str:
    """Return the direction of a comparison, such as `LT`, of integers or booleans.

    The result is empty for other instructions.
    """
    if any(_kind(operand) not in ("signed", "unsigned", "pred") for operand in ins.operands):
        return ""
    return str(getattr(ins.op, "comparison_direction", ""))


DIRECTIONS: Final = {
    "EQ": Interval(0, 0),
    "GE": Interval(0, Interval.EVERYTHING.hi),
    "GT": Interval(1, Interval.EVERYTHING.hi),
    "LE": Interval(NEG_INF, 0),
    "LT": Interval(NEG_INF, -1),
}
"""By direction, the interval of `a - b` for which the comparison of a and b is true.

`NE` is the negation of `EQ`.
"""


@CONTENTS.add(ELEMENTWISE["compare"])
def _(frame: Frame, ins: Instruction, op: Op) -> Elements:
    columns, direction = _columns(frame, ins), comparison(ins)
    if columns is None or not direction:
        return None
    is_not = direction == "NE"
    inside = DIRECTIONS["EQ" if is_not else direction]
    found: list[Expr | None] = []
    for a, b in zip(*columns, strict=True):
        bounds = Interval.EVERYTHING if a is None or b is None else frame.symbols.bounds(a - b)
        if inside.contains(bounds):
            found.append(Const(0 if is_not else 1))
        else:
            found.append(Const(1 if is_not else 0) if (bounds & inside).is_empty else None)
    return found
