"""Ops of a test program with smaller sizes: their attributes and constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from hloscope.errors import HloscopeError
from hloscope.indexing import CUDNN_ROLES
from hloscope.interpreter import World, dtype_of, kernel
from hloscope.ir import (
    BufferType,
    ComputedLiteral,
    FutureType,
    Instruction,
    Op,
    QuantizedType,
    TensorType,
    TupleType,
    Type,
)
from hloscope.ops import (
    NO_WINDOW,
    AsyncStart,
    Broadcast,
    Constant,
    ConvDimensions,
    Convolution,
    CustomCall,
    DynamicSlice,
    Fft,
    Gather,
    Pad,
    ReduceWindow,
    Scan,
    SelectAndScatter,
    Slice,
    TopK,
    Window,
)
from hloscope.proof.sizes import ShrinkError, Sizes, as_begun, shape_of
from hloscope.support.arrays import np


class Step(Struct, frozen=True):
    """One instruction, with new types of its value and operands.

    Attributes:
        ins: The instruction with its old sizes.
        sizes: The new size of each old size.
        operands: New types of the operands.
        type: New type of the value.
    """

    ins: Instruction
    sizes: Sizes
    operands: tuple[Type, ...]
    type: Type

    def old(self, operand: int) -> tuple[int, ...]:
        """Return the old shape of operand number `operand`."""
        return shape_of(self.ins.operands[operand].type)

    def new(self, operand: int) -> tuple[int, ...]:
        """Return the new shape of operand number `operand`."""
        return shape_of(self.operands[operand])

    def size(self, old: int) -> int:
        """Return the new size that replaces an old size."""
        return self.sizes.get(old, old)


Resizer: TypeAlias = Callable[[Any, Step], Op]
_R = TypeVar("_R", bound=Resizer)
_RESIZERS: Final[dict[type[Op], Resizer]] = {}


def resizes(*ops: type[Op]) -> Callable[[_R], _R]:
    """Return a decorator that registers a function for these ops, which adapts them to new sizes.

    Ops without a function are unchanged.
    """

    def register(resizer: _R) -> _R:
        _RESIZERS.update(dict.fromkeys(ops, resizer))
        return resizer

    return register


def resized_op(step: Step) -> Op:
    """Return the op of a step, with attributes for the new sizes."""
    resizer = _RESIZERS.get(type(step.ins.op))
    return step.ins.op if resizer is None else resizer(step.ins.op, step)


def resized_type(type: Type, sizes: Sizes) -> Type:
    """Return the type with each size and bound replaced by the new one.

    Raises:
        ShrinkError: The type is quantized along an axis.
    """
    match type:
        case TensorType():
            element = type.element
            # Scales per axis have one value per index, so they would have to be resized too.
            if isinstance(element, QuantizedType) and not element.is_per_tensor:
                raise ShrinkError("its scales go with the sizes")
            return TensorType(
                element,
                tuple([n if n is None else sizes.get(n, n) for n in type.sizes]),
                type.layout,
                tuple([n if n is None else sizes.get(n, n) for n in type.bounds]),
                type.encoding,
            )
        case TupleType():
            return TupleType(tuple([resized_type(t, sizes) for t in type.elements]))
        case FutureType():
            return FutureType(tuple([resized_type(t, sizes) for t in type.elements]))
        case BufferType():
            inner = resized_type(type.element, sizes)
            assert isinstance(inner, TensorType)
            return BufferType(inner)
        case _:
            return type


def with_fields(op: Op, **new: Any) -> Op:
    """Return the op with the fields in `new` replaced."""
    cls = type(op)
    return cls(**{name: new.get(name, getattr(op, name)) for name in cls.__struct_fields__})


# ------------------------------------------------------------------------------------ values


@resizes(Constant)
def resized_constant(op: Constant, step: Step) -> Op:
    """Return a constant cut to the new sizes: the first elements along each dimension.

    Integers that may be sizes or indices are replaced by those for the new sizes.
    """
    type_ = step.type
    if not isinstance(type_, TensorType):
        raise ShrinkError("a constant that is not a tensor")
    array = constant_value(step.ins)
    cut = array[tuple([slice(0, n) for n in type_.shape])]
    if type_.element.kind in ("signed", "unsigned") and not isinstance(
        type_.element, QuantizedType
    ):
        cut = _scaled(cut, step.sizes)
    return Constant(ComputedLiteral(cut))


_MOST_MADE_UP: Final = 1 << 24
"""Largest number of elements that are made up for a constant without elements in the text."""


def constant_value(ins: Instruction) -> Any:
    """Return the elements of a constant; made-up ones if the text omits them.

    Raises:
        ShrinkError: The constant cannot be read.
    """
    try:
        return kernel(ins, World())()
    except (HloscopeError, ValueError) as error:
        type_ = ins.type
        is_elided = isinstance(ins.op, Constant) and ins.op.literal.is_elided
        if not is_elided or not isinstance(type_, TensorType):
            raise ShrinkError(f"the constant `{ins.name}` cannot be read: {error}") from None
        if type_.num_elements > _MOST_MADE_UP:
            raise ShrinkError(f"the constant `{ins.name}` is left out, and large") from None
        numbers = np.arange(type_.num_elements).reshape(type_.shape) % 5
        return numbers.astype(dtype_of(type_.element))


def _scaled(array: Any, sizes: Sizes) -> Any:
    """Return integers scaled down as the sizes are: `sizes` has the new size of each old size.

    Old sizes and last indices are mapped exactly, other integers by interpolation, those above the
    largest old size not at all. The sign stays.
    """
    known = {0: 0, 1: 1}
    for size, small in sizes.items():
        known[size - 1] = small - 1
    known |= dict(sizes)
    if len(known) < 3 or (array.dtype.kind == "u" and array.dtype.itemsize == 8):
        return array
    old = np.array(sorted(known))
    exact = np.array([known[int(n)] for n in old])
    magnitude = np.abs(array.astype(np.int64))
    # `maximum.accumulate` keeps the interpolation monotone, so that order is preserved.
    between = np.interp(magnitude, old, np.maximum.accumulate(exact)).astype(np.int64)
    at = np.clip(np.searchsorted(old, magnitude), 0, len(old) - 1)
    scaled = np.where(old[at] == magnitude, exact[at], between)
    inside = (magnitude <= old[-1]) & (magnitude >= 0)
    signed = np.where(array.astype(np.int64) < 0, -scaled, scaled)
    return np.where(inside, signed, array.astype(np.int64)).astype(array.dtype)


# ------------------------------------------------------------------------------------- sizes


_SIZES: Final[dict[type[Op], str]] = {
    DynamicSlice: "slice_sizes",
    Gather: "slice_sizes",
    Broadcast: "broadcast_sizes",
    TopK: "k",
    Fft: "fft_length",
    Scan: "scan_dim_size",
}
"""Field of each op that is a size, a tuple of sizes, or `None`."""


@resizes(*_SIZES)
def resized_fields(op: Op, step: Step) -> Op:
    """Return the op with new sizes in place of the old ones that a field states."""
    name = _SIZES[type(op)]
    old = getattr(op, name)
    new = tuple(map(step.size, old)) if isinstance(old, tuple) else step.size(old)
    return with_fields(op, **{name: new})


@resizes(AsyncStart)
def resized_async_start(op: AsyncStart, step: Step) -> Op:
    """Return the start of an asynchronous operation, with that operation for new sizes."""
    if op.wrapped is None:
        return op
    begun = as_begun(step.ins)
    type_ = resized_type(begun.type, step.sizes)
    return with_fields(op, wrapped=resized_op(replace(step, ins=begun, type=type_)))


# ------------------------------------------------------------------------- slices and windows


@resizes(Slice)
def resized_slice(op: Slice, step: Step) -> Op:
    """Return the slice for the new sizes of operand and result in `step`.

    It starts at 0, or ends at the last element, if the old one does. The stride is reduced if the
    operand is too small; the remaining room is before the start, in the old proportion.
    """
    starts, limits, strides = [], [], []
    for lo, hi, by, n, new, count in zip(
        op.start_indices,
        op.limit_indices,
        op.strides,
        step.old(0),
        step.new(0),
        shape_of(step.type),
        strict=True,
    ):
        # The stride must fit `count` elements into the new size; the rest is room for the start.
        stride = by if count < 2 else max(1, min(by, (new - 1) // (count - 1)))
        span = (count - 1) * stride + 1 if count else 0
        room = new - span
        start = 0 if lo == 0 else room if hi == n else max(1, room * lo // max(n, 1))
        start = max(0, min(start, room))
        starts.append(start)
        limits.append(min(new, start + span + (min(by, stride) - 1 if hi < n else 0)))
        strides.append(stride)
    return Slice(tuple(starts), tuple(limits), tuple(strides))


@resizes(Pad)
def resized_pad(op: Pad, step: Step) -> Op:
    """Return the padding for the new sizes of operand and result in `step`.

    Interior padding is reduced to the available room, the rest is divided into low and high padding
    in the old proportion.
    """
    low, high, interior = [], [], []
    for lo, hi, inner, n, count in zip(
        op.edge_padding_low,
        op.edge_padding_high,
        op.interior_padding,
        step.new(0),
        shape_of(step.type),
        strict=True,
    ):
        # Interior padding only between elements: reduced until the result has room for it.
        between = inner if n < 2 else min(inner, max(1, (count - 1) // (n - 1) - 1)) if inner else 0
        first, last = _edges(lo, hi, count - n - max(0, n - 1) * between)
        low.append(first)
        high.append(last)
        interior.append(between)
    return Pad(tuple(low), tuple(high), tuple(interior))


def _edges(low: int, high: int, both: int) -> tuple[int, int]:
    """Return low and high padding with the sum `both`, in the proportion of `low` and `high`."""
    if low == 0:
        return 0, both
    if high == 0:
        return both, 0
    first = both * low // (low + high) if (low > 0) == (high > 0) else max(-1, min(low, 1))
    if (low > 0) == (high > 0) and low + high:
        first = max(first, min(1, both)) if low > 0 else min(first, max(-1, both))
    return first, both - first


def _windowed(
    window: Window,
    sizes: list[int],
    base: list[int],
    count: list[int],
) -> Window:
    """Return a window for new sizes; only sizes and padding change.

    All lists have one entry for each dimension.

    Args:
        window: The old window.
        sizes: New sizes of the window.
        base: New sizes of the array that the window moves over.
        count: New numbers of window positions.
    """
    padding = []
    for d, (low, high) in enumerate(window.padding):
        spread = (sizes[d] - 1) * window.window_dilations[d] + 1
        dilated = (base[d] - 1) * window.base_dilations[d] + 1 if base[d] else 0
        # The total padding follows from sizes and positions: dilated base + padding = (count - 1)
        # * stride + dilated window.
        both = (count[d] - 1) * window.strides[d] + spread - dilated
        before = (window.sizes[d] - 1) * window.window_dilations[d]
        if low == before and low:
            first, last = spread - 1, both - spread + 1
        elif high == before and high:
            first, last = both - spread + 1, spread - 1
        else:
            first, last = _edges(low, high, both)
        padding.append((first, last))
    return replace(window, sizes=tuple(sizes), padding=tuple(padding))


def _taps(old: int, step: Step, base: int, new_base: int) -> int:
    """Return the new size of a window dimension of size `old`.

    Args:
        old: Old size.
        step: The instruction, with the new size of each old size; such a size is taken if there is
            one.
        base: Not used.
        new_base: New number of elements that the window moves over.
    """
    if old in step.sizes:
        return step.sizes[old]
    return old if old <= 3 else max(2, min(old, new_base))


@resizes(ReduceWindow, SelectAndScatter)
def resized_reduce_window(op: ReduceWindow | SelectAndScatter, step: Step) -> Op:
    """Return the op with a window for the new shapes."""
    is_scatter = isinstance(op, SelectAndScatter)
    first = step.type.elements[0] if isinstance(step.type, TupleType) else step.type
    base, count = step.new(0), step.new(1) if is_scatter else shape_of(first)
    old, window = step.old(0), op.window
    sizes = [
        _taps(n, step, a, b) if n > 1 else 1
        for n, a, b in zip(window.sizes, old, base, strict=True)
    ]
    return type(op)(_windowed(window, sizes, list(base), list(count)))


@resizes(Convolution)
def resized_convolution(op: Convolution, step: Step) -> Op:
    """Return the convolution with its window and feature group count for the new shapes."""
    shapes = step.new(0), step.new(1), shape_of(step.type)
    window, groups = _convolution(op.window, op.dimensions, op.feature_group_count, shapes)
    return with_fields(
        op,
        window=window,
        feature_group_count=groups,
        batch_group_count=step.size(op.batch_group_count),
    )


def _convolution(
    window: Window,
    dims: ConvDimensions,
    groups: int,
    shapes: tuple[Sequence[int], Sequence[int], Sequence[int]],
) -> tuple[Window, int]:
    """Return the window and the feature group count of a convolution for new shapes.

    Args:
        window: The old window.
        dims: The dimension numbers.
        groups: The old feature group count.
        shapes: New shapes of the operand, the kernel and the result.
    """
    lhs, rhs, out = shapes
    resized = _windowed(
        window,
        [rhs[d] for d in dims.kernel_spatial],
        [lhs[d] for d in dims.input_spatial],
        [out[d] for d in dims.output_spatial],
    )
    if groups > 1:
        groups = lhs[dims.input_feature] // max(1, rhs[dims.kernel_input_feature])
    return resized, groups


@resizes(CustomCall)
def resized_custom_call(op: CustomCall, step: Step) -> Op:
    """Return a cuDNN convolution with window and feature group count for new sizes.

    Other custom calls are returned unchanged. The window is that of the forward convolution, also
    for gradients.
    """
    roles = CUDNN_ROLES.get(op.call_target_name)
    if roles is None or op.dimensions is None or len(step.operands) < 2:
        return op
    result = step.type.elements[0] if isinstance(step.type, TupleType) else step.type
    by_role = dict(zip(roles, (step.new(0), step.new(1), shape_of(result)), strict=True))
    window, groups = _convolution(
        op.window or NO_WINDOW,
        op.dimensions,
        op.feature_group_count,
        (by_role[0], by_role[1], by_role[2]),
    )
    return with_fields(op, window=window, feature_group_count=groups)
