"""Ops that take sizes as operands or return them, and arrays of bounded dynamic size."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from hloscope.interpreter.calls.custom_call import implements
from hloscope.interpreter.ops.shape import broadcast, iota, pad, reshaped
from hloscope.interpreter.ops.slicing import window
from hloscope.interpreter.registry import Concern, Kernel, Maker, Site, adapts, evaluates
from hloscope.interpreter.values import Array, EvaluationError, Value, claim, dtype_of, plain_value
from hloscope.ir import Dims, Instruction, Op, TensorType, TupleType, Type, value_of
from hloscope.ops import (
    AddDependency,
    AsyncDone,
    AsyncStart,
    AsyncUpdate,
    Broadcast,
    BroadcastInDim,
    Case,
    Composite,
    CopyDone,
    CopyStart,
    CustomCall,
    Domain,
    DynamicBroadcastInDim,
    DynamicGather,
    DynamicIota,
    DynamicPad,
    DynamicReshape,
    DynamicSlice,
    DynamicUpdateSlice,
    Elementwise,
    Gather,
    GetDimensionSize,
    GetTupleElement,
    OptimizationBarrier,
    RealDynamicSlice,
    ReduceWindow,
    RngBitGenerator,
    Scatter,
    SetDimensionSize,
    Slice,
    TopK,
    Transpose,
    Tuple,
    While,
    Window,
)

# --------------------------------------------------------------------------------------------------
# Ops that take sizes as operands, or return them.


def run_time_sizes(given: Any, at: Site) -> list[int]:
    """Return the result sizes that an operand states at run time.

    `given` is the operand's value: a vector, or a sequence of scalars.

    Raises:
        EvaluationError: A size is negative or contradicts the result's type, or the result would
            exceed the memory limit.
    """
    sizes = [int(size) for size in given]
    return checked_sizes(sizes, at)


def checked_sizes(sizes: list[int], at: Site) -> list[int]:
    """Return `sizes` after checking them against the instruction's result type and the limits.

    Raises:
        EvaluationError: A size is negative or contradicts the result's type, or the result would
            exceed the memory limit.
    """
    result = at.result
    if len(sizes) != result.rank or any(
        have < 0 or (want is not None and have != want) or (most is not None and have > most)
        for have, want, most in zip(sizes, result.sizes, result.each_bound, strict=True)
    ):
        declared_text = ", ".join("?" if s is None else str(s) for s in result.most)
        raise EvaluationError(
            f"the result has sizes {sizes}, which are none of its type, [{declared_text}]"
        )
    claim(prod(sizes) * -(-result.element.bits // 8), f"`{at.ins.name}`")
    return sizes


@evaluates(DynamicReshape)
def _dynamic_reshape(op: DynamicReshape, at: Site) -> Kernel:
    """Return the kernel of `dynamic_reshape`; the run-time sizes must have as many elements."""

    def kernel(value: Any, *given: Any) -> Value:
        is_vector = len(given) == 1 and given[0].ndim == 1  # HLO has a scalar for each size
        sizes = run_time_sizes(given[0] if is_vector else given, at)
        if prod(sizes) != value.size:
            raise EvaluationError(f"{value.size} elements cannot have sizes {sizes}")
        return reshaped(value, sizes)

    return kernel


@evaluates(DynamicBroadcastInDim)
def _dynamic_broadcast_in_dim(op: DynamicBroadcastInDim, at: Site) -> Kernel:
    """Return the kernel of `dynamic_broadcast_in_dim`; operand sizes have to be 1 or equal."""
    dims = op.broadcast_dimensions

    def kernel(value: Any, given: Any) -> Value:
        sizes = run_time_sizes(given, at)
        for d, size in zip(dims, value.shape, strict=True):
            if size not in (1, sizes[d]):
                raise EvaluationError(f"size {size} cannot be broadcast to {sizes[d]}")
        return broadcast(value, dims, sizes)

    return kernel


@evaluates(DynamicIota)
def _dynamic_iota(op: DynamicIota, at: Site) -> Kernel:
    dtype = dtype_of(at.result.element)
    return lambda given: iota(run_time_sizes(given, at), op.iota_dimension, dtype)


@evaluates(DynamicPad)
def _dynamic_pad(op: DynamicPad, at: Site) -> Kernel:
    """Return the kernel of `dynamic_pad`, which pads by run-time amounts."""

    def kernel(value: Array, padding: Array, *given: Array) -> Value:
        low, high, interior = ([int(x) for x in amounts] for amounts in given)
        if min(interior, default=0) < 0:
            raise EvaluationError(f"interior padding is negative: {interior}")
        ends = zip(value.shape, low, high, interior, strict=True)
        checked_sizes([a + n + max(n - 1, 0) * i + b for n, a, b, i in ends], at)
        return pad(value, padding, low, high, interior)

    return kernel


@evaluates(GetDimensionSize)
def _get_dimension_size(op: GetDimensionSize, at: Site) -> Kernel:
    d = op.dimension
    return lambda x: np.asarray(x.shape[d], np.int32)[()]


# --------------------------------------------------------------------------------------------------
# Arrays of bounded dynamic size: run-time elements in front of memory up to the bound.
#
# A value of type `f32[<=8]` is an array of its run-time size, which is enough for most ops.  On a
# device it lies in memory of the size of the bound, and some ops see that memory: start indices are
# clamped to the bound, and a slice reads elements after the run-time size.  Elementwise ops write
# that memory too.  After the results of other ops it is taken to be zero.
#
# Source: XLA `dynamic_padder.cc`, `dynamic_dimension_inference.cc`.


class Bounded(np.ndarray[Any, Any]):
    """The run-time elements of an array with bounded dynamic sizes, as a view of its memory.

    Attributes:
        memory: Array with the sizes of the bounds, of which this array is the start; `None` if
            unknown.
    """

    memory: Array | None = None

    def __array_finalize__(self, source: Any) -> None:
        """Set `memory` to `None` if numpy derives an array from another: its layout differs."""
        self.memory = None


def in_memory(memory: Array, sizes: Sequence[int]) -> Array:
    """Return the array of shape `sizes` at the start of `memory`, with `memory` attached."""
    memory = np.asarray(memory)
    found = memory[tuple(map(slice, sizes))].view(Bounded)
    found.memory = memory
    return found


def is_bounded(type_: Type) -> bool:
    """Is it an array type with dynamic sizes, all of which have a bound?"""
    return isinstance(type_, TensorType) and type_.is_bounded


def memory_of(value: Any, type_: Type) -> Any:
    """Return the memory of an array: an array with the sizes of the type's bounds.

    It has the elements of `value` at its start; elements that were never written are zero. For a
    type without bounds, `value` is returned.
    """
    known = getattr(value, "memory", None) if isinstance(value, Bounded) else None
    if known is not None:
        return known
    if not is_bounded(type_):
        return value
    assert isinstance(type_, TensorType)
    if value.shape == type_.shape:
        return np.asarray(value)
    memory = np.zeros(type_.shape, value.dtype)
    memory[tuple(map(slice, value.shape))] = value
    return memory


_IN_PLACE: Final[tuple[type[Op], ...]] = Elementwise, Transpose, BroadcastInDim, Broadcast
"""Ops that are computed on the whole memory of their operands, up to the bounds."""
_READS_MEMORY: Final[tuple[type[Op], ...]] = DynamicSlice, RealDynamicSlice, Gather, DynamicGather
"""Ops that may read any element of their first operand's memory."""
_PASSED_ON: Final[tuple[type[Op], ...]] = (
    AddDependency, AsyncDone, AsyncStart, AsyncUpdate, Case, Composite, CopyDone, CopyStart,
    CustomCall, Domain, GetTupleElement, OptimizationBarrier, Tuple, While,
)  # fmt: skip
"""Ops that return values unchanged, with their memory, and custom calls.

Custom calls handle memory themselves.
"""


@adapts(Concern.UNKNOWN_SIZES)
def with_memory(maker: Maker, ins: Instruction) -> Maker:
    """Return `maker`, wrapped so that its kernels handle memory beyond the run-time sizes.

    It is unchanged if no type of `ins` is bounded, or if the op returns memory unchanged.
    """
    types = [ins.type, *[operand.type for operand in ins.operands]]
    if not any(map(is_bounded, types)) or isinstance(ins.op, (SetDimensionSize, *_PASSED_ON)):
        return maker

    def make(op: Any, at: Site) -> Kernel:
        inner = maker(op, at)
        if isinstance(op, _IN_PLACE):
            return _in_place(inner, at)
        if isinstance(op, _READS_MEMORY):
            return _read_from_memory(inner, at)
        match op:
            case Slice():
                return _slice(op, at)
            case DynamicUpdateSlice():
                return _update(at)
            case Scatter() if isinstance(at.ins.type, TensorType):
                return _scatter(inner, at)
            case _:
                return lambda *values: inner(*map(plain_value, values))

    return make


def _in_place(inner: Kernel, at: Site) -> Kernel:
    """Return a kernel that applies `inner` to the run-time elements, and to the whole memory.

    The result has the run-time elements, with the whole memory attached.
    """

    def kernel(*values: Any) -> Value:
        existing = _expanded([np.asarray(v)[()] for v in values], at)
        result: Any = inner(*existing)
        memories = [memory_of(v, t) for v, t in zip(values, at.operands, strict=True)]
        # An operand was broadcast at run time, so the memories do not correspond element by
        # element.
        if any(a.shape != np.shape(v) for a, v in zip(existing, values, strict=True)):
            return result  # type: ignore[no-any-return]
        memory: Any = inner(*memories)
        if memory.ndim == 0 or memory.shape == result.shape:
            return result  # type: ignore[no-any-return]
        return in_memory(memory, result.shape)

    return kernel


def _expanded(values: list[Any], at: Site) -> list[Any]:
    """Return the operands of a binary op, broadcast along dynamic dimensions of run-time size 1.

    Other operands are returned unchanged.

    Source: XLA `dynamic_padder.cc`, `RewriteDynamicBinaryOp`.
    """
    if not isinstance(at.ins.op, Elementwise) or len(values) != 2:
        return values
    a, b = values
    if a.shape == b.shape or a.ndim != b.ndim or not all(map(is_bounded, at.operands)):
        return values
    one, other = (t.sizes for t in at.operands if isinstance(t, TensorType))
    for m, n, x, y in zip(a.shape, b.shape, one, other, strict=True):
        if m != n and (1 not in (m, n) or x is not None or y is not None):
            return values
    return list(np.broadcast_arrays(a, b))


def _read_from_memory(inner: Kernel, at: Site) -> Kernel:
    """Return a kernel that applies `inner` to the operand's whole memory.

    Dynamic result sizes follow from the operand's run-time sizes.
    """
    op, result, whole = at.ins.op, at.result, at.operands[0]

    def kernel(value: Any, *others: Any) -> Value:
        found: Any = inner(memory_of(value, whole), *map(plain_value, others))
        sizes = list(found.shape)
        for k, (declared, d) in enumerate(
            zip(result.sizes, _sources_of_sizes(op, result), strict=True)
        ):
            if declared is None and d is not None:
                sizes[k] = min(sizes[k], value.shape[d])
        return found if tuple(sizes) == found.shape else in_memory(found, sizes)

    return kernel


def _sources_of_sizes(op: Op, result: TensorType) -> list[int | None]:
    """Return, for each result dimension, the dimension of the first operand that has its size.

    `None` if there is none.
    """
    if not isinstance(op, Gather | DynamicGather):
        return list(range(result.rank))
    gone = {*op.collapsed_slice_dims, *op.operand_batching_dims}
    rank = len(op.offset_dims) + len(gone)
    left = iter([d for d in range(rank) if d not in gone])
    return [next(left) if k in op.offset_dims else None for k in range(result.rank)]


def _slice(op: Slice, at: Site) -> Kernel:
    """Return the kernel of a `slice` that reads the whole memory of its operand.

    Dynamic result sizes count only the run-time elements.
    """
    index = tuple(map(slice, op.start_indices, op.limit_indices, op.strides))
    declared, whole = at.result.sizes, at.operands[0]

    def kernel(value: Any) -> Value:
        found = memory_of(value, whole)[index]
        sizes = [
            len(range(*part.indices(have))) if size is None else size
            for part, have, size in zip(index, value.shape, declared, strict=True)
        ]
        return found if tuple(sizes) == found.shape else in_memory(found, sizes)

    return kernel


def _update(at: Site) -> Kernel:
    """Return a kernel that writes the run-time elements of an update into the whole memory.

    The start index is clamped as if the update's whole memory were written. `inner` is not used.
    """
    whole, part = at.operands[:2]

    def kernel(value: Any, update: Any, *starts: Any) -> Value:
        memory, patch = memory_of(value, whole), memory_of(update, part)
        given = starts
        if len(starts) == 1 and starts[0].ndim == 1:
            given = tuple(starts[0])
        place = window(memory.shape, patch.shape, given)
        there = [w.start for w in place]
        # Only the run-time elements of the update are written.
        first = [slice(s, s + n) for s, n in zip(there, update.shape, strict=True)]
        result = np.array(memory, dtype=memory.dtype)
        result[tuple(first)] = np.asarray(update)
        return in_memory(result, value.shape) if value.shape != memory.shape else result

    return kernel


def _scatter(inner: Kernel, at: Site) -> Kernel:
    """Return a kernel that scatters into the whole memory, also beyond the run-time elements.

    `inner` is the kernel of the scatter.
    """
    whole = at.operands[0]

    def kernel(regions: Any, value: Any, *others: Any) -> Value:
        memory: Any = inner(regions, memory_of(value, whole), *map(plain_value, others))
        return memory if memory.shape == value.shape else in_memory(memory, value.shape)

    return kernel


@evaluates(SetDimensionSize)
def _set_dimension_size(op: SetDimensionSize, at: Site) -> Kernel:
    """Return the kernel of `set_dimension_size`: the start of the memory, up to the new size.

    If the result's type is static, the result is the whole memory.
    """
    d, (whole, _) = op.dimension, at.operands
    is_static, known = at.result.is_static, at.result.sizes[d]

    def kernel(value: Any, given: Any) -> Value:
        memory = memory_of(value, whole)
        if is_static:
            return memory  # type: ignore[no-any-return]
        sizes = [*value.shape]
        sizes[d] = int(given) if known is None else known
        checked_sizes(sizes, at)
        return in_memory(_long_enough(memory, sizes), sizes)

    return kernel


def _long_enough(memory: Array, sizes: Sequence[int]) -> Array:
    """Return the memory, extended with zeros along dimensions where `sizes` exceed its sizes.

    This happens only for a type without bounds.
    """
    longer = tuple(map(max, memory.shape, sizes))
    if longer == memory.shape:
        return memory
    result = np.zeros(longer, memory.dtype)
    result[tuple(map(slice, memory.shape))] = memory
    return result


@implements("SliceToDynamic")
def _slice_to_dynamic(op: CustomCall, at: Site) -> Kernel:
    """Return the kernel of `SliceToDynamic`.

    Operands: an array, then the run-time size of each dimension.
    """
    declared = at.result.sizes

    def kernel(value: Any, *given: Any) -> Value:
        sizes = [int(n) if s is None else s for n, s in zip(given, declared, strict=True)]
        return in_memory(value, checked_sizes(sizes, at))

    return kernel


@implements("PadToStatic")
def _pad_to_static(op: CustomCall, at: Site) -> Kernel:
    """Return the kernel of `PadToStatic`.

    Results: the whole memory, then the run-time size of each dimension.
    """
    whole = at.operands[0]

    def kernel(value: Any) -> Value:
        sizes = [np.asarray(n, np.int32)[()] for n in value.shape]
        return (memory_of(value, whole), *sizes)

    return kernel


# --------------------------------------------------------------------------------------------------
# Custom calls for ops whose parameters are operands.
#
# JAX exports them where sizes are unknown, such as `stablehlo.dynamic_reduce_window`. Source:
# StableHLO `StablehloCanonicalizeDynamism.cpp`, which replaces them by those ops.


@implements("stablehlo.dynamic_reduce_window")
def _reduce_window(op: CustomCall, at: Site) -> Kernel:
    """Return the kernel of `stablehlo.dynamic_reduce_window`.

    Operands: inputs, initial values, sizes, strides, base dilations, window dilations, padding.
    """
    number = len(at.results)

    def windowed(sizes: Dims, strides: Dims, base: Dims, dilations: Dims, padding: Dims) -> Kernel:
        if min((*sizes, *strides, *base, *dilations), default=1) < 1:
            raise EvaluationError(
                f"`{op.call_target_name}` has no window of sizes {sizes} and strides {strides}"
            )
        pairs = tuple(zip(padding[::2], padding[1::2], strict=True))
        window = Window(sizes, strides, pairs, base, dilations, (False,) * len(sizes))
        return at.kernel_of(ReduceWindow(window), at.ins.type, 2 * number)

    def call(regions: Any, *values: Any) -> Value:
        given = [tuple(np.ravel(v).tolist()) for v in values[2 * number :]]
        return windowed(*given)(regions, *values[: 2 * number])

    return call


@implements("stablehlo.dynamic_top_k")
def _top_k(op: CustomCall, at: Site) -> Kernel:
    """Return the kernel of `stablehlo.dynamic_top_k`; operands: an array, the number k."""

    def call(value: Any, k: Any) -> Value:
        if not 0 <= int(k) <= value.shape[-1]:
            raise EvaluationError(
                f"the top {int(k)} are asked for, there are {value.shape[-1]} elements"
            )
        return at.kernel_of(TopK(int(k)), at.ins.type, 1)(value)

    return call


@implements("stablehlo.dynamic_rng_bit_generator")
def _rng_bit_generator(op: CustomCall, at: Site) -> Kernel:
    """Return the kernel of `stablehlo.dynamic_rng_bit_generator`; operands: state, sizes."""
    algorithm = value_of([*op.settings, *at.ins.extras], "rng_algorithm") or "DEFAULT"
    bits = at.results[-1]
    assert isinstance(bits, TensorType)
    result = Site(Instruction(at.ins.name, bits, op), at.world)

    def call(state: Any, given: Any) -> Value:
        sized = TensorType(bits.element, tuple(run_time_sizes(given, result)))
        types = TupleType((*at.results[:-1], sized))
        return at.kernel_of(RngBitGenerator(algorithm), types, 1)(state)

    return call
