"""Simplification of slices, pads and gathers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hloscope.ir import Dims, TensorType
from hloscope.mlir import Attribute, Operation, StructAttr, Value
from hloscope.passes.limits import LimitedRewrites, Limits
from hloscope.passes.reading import (
    constant_integers,
    integer_of,
    integers_of,
    maker_of,
    static_result,
    tensor_of,
)
from hloscope.passes.rewriting import Rewriter
from hloscope.passes.simplifying.building import becomes, becomes_value, dims

SLICING: Final = LimitedRewrites()

_BOUNDS: Final = ("start_indices", "limit_indices", "strides")


def slice_bounds(operation: Operation) -> tuple[Dims, Dims, Dims] | None:
    """Return starts, limits and strides of a `slice`; `None` if their number is not the rank."""
    type = tensor_of(operation.operands[0]) if len(operation.operands) == 1 else None
    found = [integers_of(operation, name) for name in _BOUNDS]
    if type is None or any(f is None or len(f) != type.rank for f in found):
        return None
    starts, limits, strides = found
    assert starts is not None
    assert limits is not None
    assert strides is not None
    return starts, limits, strides


def bounds_attributes(
    starts: Sequence[int], limits: Sequence[int], strides: Sequence[int]
) -> dict[str, Attribute]:
    """Return the attributes of a `slice`."""
    return {name: dims(v) for name, v in zip(_BOUNDS, (starts, limits, strides), strict=True)}


@SLICING.on("stablehlo.slice")
def slice_of_everything(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace a slice of the whole operand by the operand."""
    if slice_bounds(operation) is None or static_result(operation) is None:
        return False
    return becomes_value(rewriter, operation, operation.operands[0], merges=True)


@SLICING.on("stablehlo.slice")
def slice_of_concatenate(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Slice only those operands of a concatenation that the slice reads.

    If there are several, the concatenation must have no other use.
    """
    found = slice_bounds(operation)
    joined = maker_of(operation.operands[0], "stablehlo.concatenate") if found else None
    if found is None or joined is None or static_result(operation) is None:
        return False
    starts, ends, strides = found
    number = integer_of(joined, "dimension")
    if number is None or not 0 <= number < len(starts):
        return False
    parts = _parts_read(joined, number, starts[number], ends[number])
    if parts is None:
        return False
    needed, offset = parts
    # No operand means an empty slice; all operands mean that nothing is saved.
    if len(needed) in (0, len(joined.operands)):
        return False
    # With another use, the long concatenation stays and the short one is additional work.
    if len(needed) > 1 and rewriter.uses(joined.results[0]) != 1:
        return False
    source = needed[0]
    if len(needed) > 1:
        new = rewriter.create(joined.name, needed, joined.properties, before=operation)
        new.location = joined.location
        source = new.result
    # Bounds count from the first operand that is left.
    begins, stops = [
        tuple(b - offset * (d == number) for d, b in enumerate(v)) for v in (starts, ends)
    ]
    properties = bounds_attributes(begins, stops, strides)
    return becomes(rewriter, operation, operation.name, (source,), properties)


def _parts_read(
    joined: Operation, dimension: int, start: int, end: int
) -> tuple[list[Value], int] | None:
    """Return the operands that overlap `[start, end)`, and the position of the first one's begin.

    `None` if a size is unknown.
    """
    needed: list[Value] = []
    at = offset = 0
    for value in joined.operands:
        type = tensor_of(value)
        size = type.sizes[dimension] if type is not None and dimension < type.rank else None
        if size is None:
            return None
        if at < end and at + size > start:
            if not needed:
                offset = at
            needed.append(value)
        at += size
    return needed, offset


@SLICING.on("stablehlo.dynamic_slice")
def dynamic_slice_to_slice(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace a dynamic slice of constant starts by a slice; starts are clamped."""
    sizes = integers_of(operation, "slice_sizes")
    type = tensor_of(operation.operands[0]) if operation.operands else None
    if sizes is None or type is None or not type.is_static or len(sizes) != type.rank:
        return False
    starts = _constant_starts(operation.operands[1:], type.rank)
    if starts is None or any(n > m for n, m in zip(sizes, type.shape, strict=True)):
        return False
    begins = [_clamped(s, m - n) for s, m, n in zip(starts, type.shape, sizes, strict=True)]
    ends = [b + n for b, n in zip(begins, sizes, strict=True)]
    properties = bounds_attributes(begins, ends, [1] * type.rank)
    return becomes(
        rewriter, operation, "stablehlo.slice", operation.operands[:1], properties, merges=True
    )


def _constant_starts(values: Sequence[Value], rank: int) -> list[int] | None:
    starts: list[int] = []
    for value in values:
        found = constant_integers(value)
        if found is None or len(found) != 1:
            return None
        starts += found
    return starts if len(starts) == rank else None


def _clamped(start: int, most: int) -> int:
    return max(0, min(start, most))


@SLICING.on("stablehlo.dynamic_update_slice")
def update_of_nothing(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace an update with an empty constant by the operand."""
    if len(operation.operands) < 2 or not limits.is_constant(operation.operands[1]):
        return False
    type = tensor_of(operation.operands[1])
    if type is None or not type.is_static or type.num_elements:
        return False
    return becomes_value(rewriter, operation, operation.operands[0], merges=True)


@SLICING.on("stablehlo.dynamic_update_slice")
def update_of_everything(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace an update of the whole operand by the update."""
    if len(operation.operands) < 2:
        return False
    operand, update = operation.operands[:2]
    type = tensor_of(operand)
    if type is None or not type.is_static or operand.type != update.type:
        return False
    starts = [constant_integers(value) for value in operation.operands[2:]]
    if any(start is None or any(start) for start in starts):
        return False
    return becomes_value(rewriter, operation, update, merges=True)


# ---------------------------------------------------------------------------------------------- pad


@SLICING.on("stablehlo.pad")
def pad_with_nothing(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace a pad by zero amounts by the operand."""
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    if len(operation.operands) != 2:
        return False
    for name in names:
        numbers = integers_of(operation, name)
        if numbers is None or any(numbers):
            return False
    return becomes_value(rewriter, operation, operation.operands[0])


@SLICING.on("stablehlo.pad")
def pad_of_nothing(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace the pad of an empty operand by a broadcast of the padding value."""
    type = tensor_of(operation.operands[0]) if len(operation.operands) == 2 else None
    if type is None or not type.is_static or type.num_elements:
        return False
    if static_result(operation) is None:
        return False
    across = {"broadcast_dimensions": dims(())}
    value = operation.operands[1:]
    return becomes(rewriter, operation, "stablehlo.broadcast_in_dim", value, across)


# ------------------------------------------------------------------------------------------- gather


@SLICING.on("stablehlo.gather")
def gather_to_slice(rewriter: Rewriter, operation: Operation, limits: Limits) -> bool:
    """Replace a gather at one constant index by a slice, without the collapsed dimensions."""
    found = _one_index(operation)
    result = static_result(operation)
    if found is None or result is None:
        return False
    begins, sizes, kept = found
    offsets = integers_in(operation, "offset_dims")
    if offsets != tuple(range(len(kept))) or result.sizes != tuple(sizes[d] for d in kept):
        return False
    ends = [b + n for b, n in zip(begins, sizes, strict=True)]
    properties = bounds_attributes(begins, ends, [1] * len(sizes))
    source = operation.operands[:1]
    if len(kept) == len(sizes):
        return becomes(rewriter, operation, "stablehlo.slice", source, properties)
    whole = TensorType(result.element, tuple(sizes))
    cut = rewriter.create("stablehlo.slice", source, properties, before=operation, types=[whole])
    return becomes(rewriter, operation, "stablehlo.reshape", cut.results, {})


def integers_in(operation: Operation, field: str) -> Dims:
    """Return a field of the dimension numbers; `()` if it is left out."""
    numbers = operation.get("dimension_numbers")
    found = numbers.get(field) if isinstance(numbers, StructAttr) else None
    return found if isinstance(found, tuple) else ()


def _one_index(operation: Operation) -> tuple[list[int], Dims, list[int]] | None:
    """Return starts and sizes of the slice, and the dimensions that are not collapsed.

    `None` unless the gather has one constant index.
    """
    numbers = operation.get("dimension_numbers")
    sizes = integers_of(operation, "slice_sizes")
    if not isinstance(numbers, StructAttr) or sizes is None or len(operation.operands) != 2:
        return None
    type, indices = map(tensor_of, operation.operands)
    if type is None or indices is None or not type.is_static or indices.rank > 1:
        return None
    index, mapped = (
        constant_integers(operation.operands[1]),
        integers_in(operation, "start_index_map"),
    )
    if numbers.get("index_vector_dim") not in (0, None) or index is None:
        return None
    if integers_in(operation, "operand_batching_dims") or len(index) != len(mapped):
        return None
    if len(sizes) != type.rank or any(n > m for n, m in zip(sizes, type.shape, strict=True)):
        return None
    begins = [0] * type.rank
    for d, start in zip(mapped, index, strict=True):
        if not 0 <= d < type.rank:
            return None
        # An index out of range is clamped, by the specification.
        begins[d] = _clamped(start, type.shape[d] - sizes[d])
    collapsed = integers_in(operation, "collapsed_slice_dims")
    if any(not 0 <= d < type.rank or sizes[d] != 1 for d in collapsed):
        return None
    return begins, sizes, [d for d in range(type.rank) if d not in collapsed]


__all__ = ["SLICING", "bounds_attributes", "slice_bounds"]
