"""Accesses from outputs to operands for unknown sizes, by op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hloscope.affine import Const, Dim, Expr
from hloscope.errors import UnsupportedError
from hloscope.indexing.access import Accesses
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.rules.contraction import SPARSE, dot_labels
from hloscope.indexing.rules.registry import NEVER, exact, over, unknown
from hloscope.indexing.symbolic_movement import (
    NO_RULE,
    RULES,
    Answer,
    SizedInstruction,
    dims,
    element,
)
from hloscope.indexing.symbolic_values import Shape, SizedBuilder
from hloscope.ir import Op, TensorType
from hloscope.ops import (
    ELEMENTWISE,
    Constant,
    Convolution,
    DotGeneral,
    DynamicConv,
    Elementwise,
    Reduce,
    ReduceWindow,
    SelectAndScatter,
    Sort,
    Window,
)

# --------------------------------------------------------------------------------------------------
# Accesses from output to operands for unknown sizes, by op family.
#
# Each rule is the op's definition with symbols for sizes. The inverse map gives the other
# direction.


def symbolic_reads(sized: SizedInstruction) -> tuple[Accesses, ...]:
    """Return, for each operand, the accesses of the elements that an output element reads.

    It never raises: an operand without a known access has one that states the reason.
    """
    op = sized.ins.op
    rule = RULES.find(op)
    try:
        if rule is None:
            raise UnsupportedError(NO_RULE)
        found = tuple(rule(sized, op))
    except UnsupportedError as error:
        return (unknown(error.message),) * len(sized.operands)
    except (LookupError, ValueError, TypeError, ZeroDivisionError):
        return (unknown("operands and result do not fit together"),) * len(sized.operands)
    return found


# --------------------------------------------------------------------------------------------------
# Element-wise ops, which read the element at the same index of each operand.


@RULES.add(Elementwise)
def _(sized: SizedInstruction, op: Elementwise) -> Answer:
    rank, found = len(sized.result), []
    for k in range(len(sized.operands)):
        same = len(sized.shape(k)) == rank
        found.append(
            exact(sized.builder().map(dims(sized.result))) if same else sized.everything(k)
        )
    return found


@RULES.add(ELEMENTWISE["chlo.constant_like"])
def _(sized: SizedInstruction, op: Op) -> Answer:
    return [NEVER] * len(sized.operands)


# --------------------------------------------------------------------------------------------------
# Ops that sum products.


@RULES.add(DotGeneral)
def _(sized: SizedInstruction, op: DotGeneral) -> Answer:
    # The third operand holds the sizes, which decide which elements exist.
    if len(sized.operands) > 2:
        raise UnsupportedError(SPARSE)
    lhs, rhs = sized.shape(0), sized.shape(1)
    left, right, result = dot_labels(op.dimensions, len(lhs), len(rhs))
    return [_by_labels(sized, result, left, lhs), _by_labels(sized, result, right, rhs)]


def _by_labels(
    sized: SizedInstruction, here: list[int], there: list[int], shape: Shape
) -> Accesses:
    """Return the access by which dimensions with equal labels have equal indices.

    Args:
        sized: The instruction.
        here: Labels of the dimensions of the result.
        there: Labels of the dimensions of the operand; those not in `here` take all values.
        shape: Sizes of the operand.
    """
    at = sized.builder()
    where: dict[int, Expr] = {label: Dim(k) for k, label in enumerate(here)}
    index = [
        where[label] if label in where else at.range(shape[k]) for k, label in enumerate(there)
    ]
    return exact(at.map(index))


# --------------------------------------------------------------------------------------------------
# Ops whose bodies combine or compare elements.


_SOME: Final = "the body does not use all it is given in every case"


@RULES.add(Reduce)
def _(sized: SizedInstruction, op: Reduce) -> Answer:
    count = len(sized.operands) // 2
    at, kept = sized.builder(), iter(dims(sized.result))
    index: list[Expr] = [
        at.range(size) if k in op.dimensions else next(kept)
        for k, size in enumerate(sized.shape(0))
    ]
    return [*folded(sized, at.map(index), count), *initial_values(sized, count)]


def _uses_everything(sized: SizedInstruction) -> bool:
    """Does every result of the bodies depend on all parameters, for all values?"""
    return bool(sized.bodies) and all(
        len(sure) == 2 * len(body.reads) for body in sized.bodies for sure in body.sure
    )


def folded(sized: SizedInstruction, m: IndexingMap, count: int) -> list[Accesses]:
    """Return the same access by the map `m` for each of `count` reduced operands.

    It is exact if every result of the body depends on all parameters.
    """
    found = exact(m) if _uses_everything(sized) else over(_SOME, m)
    return [found] * count


def initial_values(sized: SizedInstruction, count: int) -> list[Accesses]:
    """Return, for each of `count` initial values, the access from every output element."""
    initial = sized.everything(count)
    if not _uses_everything(sized):
        initial = over(_SOME, *[a.map for a in initial if a.map is not None])
    return [initial] * count


@RULES.add(Sort)
def _(sized: SizedInstruction, op: Sort) -> Answer:
    """Return accesses of whole lines: of the own operand and those that the comparator reads."""
    at, index = sized.builder(), dims(sized.result)
    index[op.dimension] = at.range(sized.result[op.dimension])
    line = at.map(index)
    body = sized.bodies[0] if sized.bodies else None
    count = len(sized.operands)
    # The comparator of a sort of one operand has to read both elements for all values.
    is_sure = count == 1 and body is not None and body.sure[0] == frozenset((0, 1))
    return [exact(line) if is_sure else over(_SOME, line)] * count


# --------------------------------------------------------------------------------------------------
# Ops over sliding windows.


_CHOICE: Final = "which element of its window a source element goes to depends on the data"


def taps(at: SizedBuilder, window: Window) -> list[Expr]:
    """Return the taps of a window: a range variable per dimension, or 0 if its size is 1."""
    return [at.range(Const(size)) if size != 1 else Const(0) for size in window.sizes]


def base_index(
    at: SizedBuilder, window: Window, k: int, position: Expr, tap: Expr, size: Expr, padding: Expr
) -> Expr:
    """Return the coordinate of the base element under a tap of a window, in one dimension.

    The builder gets the constraint that the base has an element there.

    Args:
        at: Builder of the map.
        window: The window.
        k: The dimension of the window.
        position: Position of the window.
        tap: Index inside the window.
        size: Size of the base, without dilation and padding.
        padding: Padding before the base.
    """
    coordinate = position * window.strides[k] + tap * window.window_dilations[k] - padding
    return element(at, coordinate, window.base_dilations[k], size)


def _base(at: SizedBuilder, window: Window, positions: Sequence[Expr], shape: Shape) -> list[Expr]:
    """Return the index of the base elements under the windows at `positions`.

    Taps become range variables of the builder. `shape` has the sizes of the base.
    """
    return [
        base_index(at, window, k, positions[k], tap, shape[k], Const(window.padding[k][0]))
        for k, tap in enumerate(taps(at, window))
    ]


def _positions(at: SizedBuilder, window: Window, shape: Shape) -> list[Expr]:
    """Return the index of the window positions that contain a base element, over taps.

    The dimensions `Dim(k)` of the map that `at` builds are the index of that element. Taps become
    range variables of the builder. `shape` has the numbers of positions.
    """
    found = []
    for k, tap in enumerate(taps(at, window)):
        coordinate = Dim(k) * window.base_dilations[k] - tap * window.window_dilations[k]
        coordinate = coordinate + window.padding[k][0]
        found.append(element(at, coordinate, window.strides[k], shape[k]))
    return found


@RULES.add(ReduceWindow)
def _(sized: SizedInstruction, op: ReduceWindow) -> Answer:
    count, at = len(sized.operands) // 2, sized.builder()
    index = _base(at, op.window, dims(sized.result), sized.shape(0))
    return [*folded(sized, at.map(index), count), *initial_values(sized, count)]


@RULES.add(SelectAndScatter)
def _(sized: SizedInstruction, op: SelectAndScatter) -> Answer:
    """Return accesses: an element is compared with those that share a window with it."""
    at, among = sized.builder(), sized.builder()
    windows = _positions(at, op.window, sized.shape(1))
    shared = _positions(among, op.window, sized.shape(1))
    compared = _base(among, op.window, shared, sized.shape(0))
    initial = [access.map for access in sized.everything(2) if access.map is not None]
    return [
        over(_CHOICE, among.map(compared)),
        over(_CHOICE, at.map(windows)),
        over(_CHOICE, *initial),
    ]


# --------------------------------------------------------------------------------------------------
# Convolutions.


@RULES.add(Convolution, DynamicConv)
def _(sized: SizedInstruction, op: Convolution | DynamicConv) -> Answer:
    names, window = op.dimensions, op.window
    lhs, rhs = sized.shape(0), sized.shape(1)
    into, over = sized.builder(), sized.builder()
    index, kernel = dims(lhs), dims(rhs)
    index[names.input_batch] = Dim(names.output_batch)
    mine, theirs = taps(into, window), taps(over, window)
    pairs = zip(names.input_spatial, names.output_spatial, strict=True)
    for k, (i, o) in enumerate(pairs):
        before = _padding_before(sized, op, k)
        index[i] = base_index(into, window, k, Dim(o), mine[k], lhs[i], before)
        base_index(over, window, k, Dim(o), theirs[k], lhs[i], before)  # not padding, not a hole
        last = window.sizes[k] - 1
        kernel[names.kernel_spatial[k]] = last - theirs[k] if window.reversal[k] else theirs[k]
    features = rhs[names.kernel_input_feature]
    index[names.input_feature] = into.range(features)
    kernel[names.kernel_input_feature] = over.range(features)
    kernel[names.kernel_output_feature] = Dim(names.output_feature)
    for name, groups in (
        (names.input_batch, op.batch_group_count),
        (names.input_feature, op.feature_group_count),
    ):
        if groups > 1:
            index[name] = _group(sized, op) * (_number(sized, lhs[name]) // groups) + index[name]
    return [exact(into.map(index)), exact(over.map(kernel)), *sized.all_of(2)]


def _padding_before(sized: SizedInstruction, op: Convolution | DynamicConv, k: int) -> Expr:
    """Return the padding before the input in spatial dimension `k`.

    Raises:
        UnsupportedError: It is an operand that is not a constant.
    """
    if len(sized.operands) < 3:
        return Const(op.window.padding[k][0])
    origin = sized.ins.operands[2]
    numbers = None
    if isinstance(origin.op, Constant) and isinstance(origin.type, TensorType):
        numbers = origin.op.literal.integers(origin.type)
    if numbers is None:
        raise UnsupportedError("the padding is not known in terms of sizes")
    return Const(numbers[2 * k] if len(numbers) > 1 else numbers[0])


def _group(sized: SizedInstruction, op: Convolution | DynamicConv) -> Expr:
    """Return the number of the feature group that the output feature belongs to."""
    feature = op.dimensions.output_feature
    count = max(op.batch_group_count, op.feature_group_count)
    return Dim(feature) // (_number(sized, sized.result[feature]) // count)


def _number(sized: SizedInstruction, size: Expr) -> int:
    """Return a size as an integer.

    Raises:
        UnsupportedError: The size is not a constant.
    """
    settled = sized.frame.symbols.simplified(size)
    if not isinstance(settled, Const):
        raise UnsupportedError("how large a group is depends on the sizes")
    return settled.value
