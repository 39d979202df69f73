"""Rules for slices with fixed starts and with run-time starts.

A run-time start is clamped so that the slice fits: the runtime variable is the clamped value in
`[0, size - slice size]`. Every output element reads the starts. Starts of dimensions that the slice
covers completely are clamped to [0, 0] and have no influence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hloscope.affine import Const, Dim, Expr, linear
from hloscope.indexing.access import Accesses
from hloscope.indexing.rules.registry import (
    NEVER,
    MapBuilder,
    all_of_operands,
    all_output_sizes,
    dims,
    everything,
    everywhere,
    exact,
    has_dynamic_sizes,
    identity,
    input_to_output,
    output_to_input,
    runs,
    sizes,
)
from hloscope.ir import Dims, Instruction
from hloscope.ops import DynamicSlice, DynamicUpdateSlice, RealDynamicSlice, Slice


@output_to_input(Slice)
def _(ins: Instruction, op: Slice, output: int) -> tuple[Accesses, ...]:
    at = MapBuilder(sizes(ins.type))
    steps = zip(op.strides, op.start_indices, strict=True)
    return (
        exact(at.map([linear((Dim(k), by), (start, 1)) for k, (by, start) in enumerate(steps)])),
    )


@input_to_output(Slice)
def _(ins: Instruction, op: Slice, operand: int) -> tuple[Accesses, ...]:
    at = MapBuilder(sizes(ins.operands[0].type))
    results: list[Expr] = []
    for k, size in enumerate(sizes(ins.type)):
        start, step = op.start_indices[k], op.strides[k]
        at.require(Dim(k), start, start + (size - 1) * step)
        if step == 1:
            results.append(Dim(k) - start)
        else:
            at.require((Dim(k) - start) % step, 0, 0)
            results.append((Dim(k) - start) // step)
    return (exact(at.map(results)),)


def starts(ins: Instruction, first: int, rank: int) -> list[tuple[Instruction, Sequence[Expr]]]:
    """Return, for each dimension, the operand that holds the start, and the element of it.

    From operand `first` on, there is one scalar per dimension, or one vector. The element is given
    by its index, `()` in a scalar.
    """
    operands = ins.operands[first:]
    if len(operands) == 1 and len(sizes(operands[0].type)) == 1:
        return [(operands[0], (Const(k),)) for k in range(rank)]
    return [(operand, ()) for operand in operands]


def _start(
    at: MapBuilder, ins: Instruction, first: int, array: Dims, slice_sizes: Dims
) -> Iterator[Expr]:
    for (origin, index), size, window in zip(
        starts(ins, first, len(array)), array, slice_sizes, strict=True
    ):
        yield at.read(0, size - window, origin, index)


def _movable(ins: Instruction, array: Dims, slice_sizes: Dims) -> list[int]:
    """Return the dimensions in which a slice can be moved.

    `array` has the sizes of the array and `slice_sizes` those of the slice. In other dimensions the
    start is always clamped to 0.
    """
    if 0 in slice_sizes:
        return []
    if has_dynamic_sizes(ins):  # a dimension as large as its bound may be smaller at run time
        return [*range(len(array))]
    return [
        k for k, (size, window) in enumerate(zip(array, slice_sizes, strict=True)) if window < size
    ]


def _starts_read(ins: Instruction, first: int, array: Dims, window: Dims) -> tuple[Accesses, ...]:
    """Return the accesses of the start operands, from number `first` on, by an output element.

    `array` and `window` have the sizes of the array and of the slice.
    """
    shape, movable = sizes(ins.type), _movable(ins, array, window)
    operands = ins.operands[first:]
    if len(operands) == 1 and len(sizes(operands[0].type)) == 1:
        return (_elements_of_vector(shape, movable),)
    all_of = everything(shape, ())
    return tuple([all_of if k in movable else NEVER for k in range(len(operands))])


def _elements_of_vector(shape: Dims, numbers: Sequence[int]) -> Accesses:
    """Return the access from each element of an array of sizes `shape` to elements of a vector.

    The elements are those at `numbers`.
    """
    found = []
    for lo, hi in runs(numbers):
        at = MapBuilder(shape)
        found.append(at.map([at.range(hi - lo + 1) + lo]))
    return exact(*found)


def _from_start(
    ins: Instruction, first: int, operand: int, array: Dims, window: Dims
) -> tuple[Accesses, ...]:
    """Return the accesses of outputs from a start operand, the inverse of `_starts_read`.

    `operand` is the number of that operand, and `first` that of the first start operand. `array`
    and `window` have the sizes of the array and of the slice.
    """
    source, movable = sizes(ins.operands[operand].type), _movable(ins, array, window)
    if not source:
        return everywhere(ins, operand) if operand - first in movable else (NEVER,)
    (target,) = all_output_sizes(ins)
    found = []
    for lo, hi in runs(movable):
        at = MapBuilder(source)
        if (lo, hi) != (0, source[0] - 1):
            at.require(Dim(0), lo, hi)
        found.append(at.map([at.range(size) for size in target]))
    return (exact(*found),)


@output_to_input(DynamicSlice, shared=False)
def _(ins: Instruction, op: DynamicSlice, output: int) -> tuple[Accesses, ...]:
    whole, part = sizes(ins.operands[0].type), sizes(ins.type)
    at = MapBuilder(part)
    results = [Dim(k) + start for k, start in enumerate(_start(at, ins, 1, whole, part))]
    return (exact(at.map(results)), *_starts_read(ins, 1, whole, part))


@input_to_output(DynamicSlice, shared=False)
def _(ins: Instruction, op: DynamicSlice, operand: int) -> tuple[Accesses, ...]:
    whole, part = sizes(ins.operands[0].type), sizes(ins.type)
    if operand > 0:
        return _from_start(ins, 1, operand, whole, part)
    at = MapBuilder(whole)
    return (exact(at.map(_within(at, ins, 1, whole, part))),)


def _within(at: MapBuilder, ins: Instruction, first: int, array: Dims, window: Dims) -> list[Expr]:
    """Return the index inside the window of the array element at the map's dimensions.

    The builder gets the constraint that the element is inside the window. `array` and `window` have
    the sizes of array and window, and `first` is the number of the first start operand.
    """
    results: list[Expr] = []
    for k, start in enumerate(_start(at, ins, first, array, window)):
        at.require(Dim(k) - start, 0, window[k] - 1)
        results.append(Dim(k) - start)
    return results


@output_to_input(DynamicUpdateSlice, shared=False)
def _(ins: Instruction, op: DynamicUpdateSlice, output: int) -> tuple[Accesses, ...]:
    whole, part = (sizes(operand.type) for operand in ins.operands[:2])
    at = MapBuilder(whole)
    update = exact(at.map(_within(at, ins, 2, whole, part)))
    return (_outside(ins, whole, part), update, *_starts_read(ins, 2, whole, part))


@input_to_output(DynamicUpdateSlice, shared=False)
def _(ins: Instruction, op: DynamicUpdateSlice, operand: int) -> tuple[Accesses, ...]:
    whole, part = (sizes(operand.type) for operand in ins.operands[:2])
    if operand > 1:
        return _from_start(ins, 2, operand, whole, part)
    if operand == 0:
        return (_outside(ins, whole, part),)
    at = MapBuilder(part)
    return (exact(at.map(Dim(k) + s for k, s in enumerate(_start(at, ins, 2, whole, part)))),)


def _outside(ins: Instruction, array: Dims, window: Dims) -> Accesses:
    """Return the access from an output element to the same operand element, outside the update.

    `array` has the sizes of the operand, `window` those of the update. The access consists of
    disjoint pieces, each determined by the first dimension that is outside of the window. With `0
    <= index < size` and `0 <= start <= size - window`, `index` is outside of the window if and only
    if `(index - start) % size >= window`, as an index before the window wraps around.
    """
    if 0 in window:
        return identity(array)
    places = starts(ins, 2, len(array))
    partial = [k for k, size in enumerate(array) if window[k] < size]
    pieces = []
    for count, last in enumerate(partial):
        at = MapBuilder(array)
        for k in partial[: count + 1]:
            offset = Dim(k) - at.read(0, array[k] - window[k], *places[k])
            if k == last:
                at.require(offset % array[k], window[k], array[k] - 1)
            else:
                at.require(offset, 0, window[k] - 1)
        pieces.append(at.map(dims(len(array))))
    return exact(*pieces)


@output_to_input(RealDynamicSlice, shared=False)
def _(ins: Instruction, op: RealDynamicSlice, output: int) -> tuple[Accesses, ...]:
    whole = sizes(ins.operands[0].type)
    at = MapBuilder(sizes(ins.type))
    results: list[Expr] = []
    for k, size in enumerate(whole):
        start = at.read(0, max(size - 1, 0), ins.operands[1], (Const(k),))
        step = at.read(1, max(size, 1), ins.operands[3], (Const(k),))
        results.append(Dim(k) * step + start)
        at.require(results[k], 0, size - 1)
    return (exact(at.map(results)), *all_of_operands(ins, 1))


@input_to_output(RealDynamicSlice, shared=False)
def _(ins: Instruction, op: RealDynamicSlice, operand: int) -> tuple[Accesses, ...]:
    if operand > 0:
        return everywhere(ins, operand)
    whole, part = sizes(ins.operands[0].type), sizes(ins.type)
    at = MapBuilder(whole)
    results: list[Expr] = []
    for k, size in enumerate(part):
        start = at.read(0, max(whole[k] - 1, 0), ins.operands[1], (Const(k),))
        step = at.read(1, max(whole[k], 1), ins.operands[3], (Const(k),))
        position = at.range(size)
        at.require(Dim(k) - position * step - start, 0, 0)
        results.append(position)
    return (exact(at.map(results)),)
