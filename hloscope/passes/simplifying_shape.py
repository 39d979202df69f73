"""Simplification of ops that rearrange or select elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hloscope.ir import Dims, TensorType
from hloscope.mlir import I64, IntegerAttr, Operation, StructAttr, Value
from hloscope.passes.conversion import SLICE_BOUNDS, slice_attributes
from hloscope.passes.dynamism.shapes import PADDING
from hloscope.passes.patterns import Limits, Patterns
from hloscope.passes.reading import (
    constant_integers,
    defining_op,
    integer_of,
    integers_of,
    static_result,
    tensor_of,
)
from hloscope.passes.rewriting import Rewriter
from hloscope.passes.simplifying_laws import (
    is_identity,
    replace_by_splat,
    replace_by_value,
    same_static_count,
)
from hloscope.stablehlo import i64_array

# --------------------------------------------------------------------------------------------------
# Simplification of ops that rearrange elements.


SHAPE: Final = Patterns()


def _only(op: Operation) -> TensorType | None:
    """Return the type of an op's only operand; `None` unless it has one operand and one result."""
    if len(op.operands) != 1 or len(op.results) != 1:
        return None
    return tensor_of(op.operands[0])


def _mapped(op: Operation, name: str) -> Dims | None:
    """Return the result dimension of each operand dimension, from attribute `name`.

    `None` if the attribute is missing or invalid.
    """
    numbers, result = integers_of(op, name), tensor_of(op.results[0])
    operand = tensor_of(op.operands[0])
    if numbers is None or result is None or operand is None or len(numbers) != operand.rank:
        return None
    return numbers if all(0 <= d < result.rank for d in numbers) else None


# --------------------------------------------------------------------------------- broadcast_in_dim


def _broadcast(op: Operation) -> Dims | None:
    return None if _only(op) is None else _mapped(op, "broadcast_dimensions")


def is_reshape(op: Operation) -> bool:
    """Does a `broadcast_in_dim` keep each element once, in row-major order, as a reshape?"""
    numbers = _broadcast(op)
    return (
        numbers is not None
        and list(numbers) == sorted(numbers)
        and same_static_count(_only(op), tensor_of(op.results[0]))
    )


@SHAPE.on("stablehlo.broadcast_in_dim", benefit=2)
def broadcast_to_reshape(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `broadcast_in_dim` by `reshape`, if each element occurs once and in order."""
    if not is_reshape(op) or op.result.type == op.operands[0].type:
        return False
    return rewriter.replace_by(op, "stablehlo.reshape", op.operands, attributes=op.attributes)


@SHAPE.on("stablehlo.broadcast_in_dim", benefit=2)
def broadcast_to_itself(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace a `broadcast_in_dim` that changes nothing by its operand."""
    numbers = _broadcast(op)
    if numbers is None or not is_identity(numbers):
        return False
    return replace_by_value(rewriter, op, op.operands[0], merges=True)


@SHAPE.on("stablehlo.broadcast_in_dim")
def broadcast_of_broadcast(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Merge two nested `broadcast_in_dim` into one, unless the inner one is a reshape."""
    outer = _broadcast(op)
    inner = defining_op(op.operands[0], "stablehlo.broadcast_in_dim") if outer else None
    numbers = _broadcast(inner) if inner is not None else None
    if outer is None or inner is None or numbers is None or is_reshape(inner):
        return False
    both = {"broadcast_dimensions": i64_array([outer[d] for d in numbers])}
    return rewriter.replace_by(op, op.name, inner.operands, both, attributes=op.attributes)


@SHAPE.on("stablehlo.broadcast_in_dim")
def broadcast_to_transpose(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace a `broadcast_in_dim` that only permutes dimensions by `transpose`."""
    numbers, result = _broadcast(op), tensor_of(op.results[0])
    if numbers is None or result is None or sorted(numbers) != [*range(result.rank)]:
        return False
    if not same_static_count(tensor_of(op.operands[0]), result):
        return False
    order = {"permutation": i64_array([numbers.index(d) for d in range(result.rank)])}
    return rewriter.replace_by(
        op, "stablehlo.transpose", op.operands, order, attributes=op.attributes
    )


# -------------------------------------------------------------------- reshape, transpose, convert


@SHAPE.on("stablehlo.reshape")
def reshape_of_reshape(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `reshape(reshape(x))` by one `reshape`."""
    inner = defining_op(op.operands[0], op.name) if _only(op) else None
    if inner is None or _only(inner) is None:
        return False
    return rewriter.replace_by(
        op,
        op.name,
        inner.operands,
        op.properties,
        attributes=op.attributes,
    )


@SHAPE.on("stablehlo.reshape", "stablehlo.convert")
def same_type(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace a reshape or conversion to the same type by its operand."""
    return _only(op) is not None and replace_by_value(rewriter, op, op.operands[0], merges=True)


def _permutation(op: Operation) -> Dims | None:
    numbers = None if _only(op) is None else _mapped(op, "permutation")
    return numbers if numbers is not None and sorted(numbers) == [*range(len(numbers))] else None


@SHAPE.on("stablehlo.transpose")
def transpose_to_itself(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace a `transpose` with the identity permutation by its operand."""
    order = _permutation(op)
    if order is None or not is_identity(order):
        return False
    return replace_by_value(rewriter, op, op.operands[0], merges=True)


@SHAPE.on("stablehlo.transpose")
def transpose_of_transpose(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `transpose(transpose(x))` by one `transpose`."""
    outer = _permutation(op)
    inner = defining_op(op.operands[0], op.name) if outer is not None else None
    first = _permutation(inner) if inner is not None else None
    if outer is None or inner is None or first is None:
        return False
    both = {"permutation": i64_array([first[d] for d in outer])}
    return rewriter.replace_by(op, op.name, inner.operands, both, attributes=op.attributes)


@SHAPE.on("stablehlo.transpose")
def transpose_to_reshape(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `transpose` by `reshape` if dimensions of size above 1 keep their order."""
    order, type = _permutation(op), _only(op)
    if order is None or type is None or not type.is_static or static_result(op) is None:
        return False
    moved = [d for d in order if type.sizes[d] != 1]
    if moved != sorted(moved):
        return False
    return rewriter.replace_by(op, "stablehlo.reshape", op.operands)


# ------------------------------------------------------------------------------------ reverse, iota


@SHAPE.on("stablehlo.reverse")
def reverse_to_itself(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace a `reverse` by its operand if that leaves all elements unchanged."""
    type, listed = _only(op), integers_of(op, "dimensions")
    if type is None or listed is None or not all(0 <= d < type.rank for d in listed):
        return False
    known = limits.known(op.operands[0])
    is_still = type.is_static and (
        type.num_elements == 0 or all(type.sizes[d] == 1 for d in listed)
    )
    is_splat = known is not None and known.is_splat
    if listed and not is_still and not is_splat:
        return False
    return replace_by_value(rewriter, op, op.operands[0])


def _iota(op: Operation) -> tuple[int, TensorType] | None:
    number = integer_of(op, "iota_dimension")
    type = tensor_of(op.results[0]) if len(op.results) == 1 else None
    if number is None or type is None or not 0 <= number < type.rank:
        return None
    return number, type


@SHAPE.on("stablehlo.iota")
def iota_of_one(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace an `iota` whose dimension has size 1 by zeros."""
    found = _iota(op)
    if found is None or found[1].sizes[found[0]] != 1:
        return False
    return replace_by_splat(rewriter, op, 0)


@SHAPE.on("stablehlo.iota")
def iota_to_broadcast(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace an `iota` by the broadcast of an iota of rank 1."""
    found = _iota(op)
    if found is None or found[1].rank < 2:
        return False
    number, type = found
    line = TensorType(type.element, (type.sizes[number],))
    if not type.is_static:
        return False
    properties = {**op.properties, "iota_dimension": IntegerAttr(0, I64)}
    row = rewriter.create(op.name, (), properties, before=op, types=[line])
    across = {"broadcast_dimensions": i64_array([number])}
    return rewriter.replace_by(op, "stablehlo.broadcast_in_dim", row.results, across)


# -------------------------------------------------------------------------------------- concatenate


@SHAPE.on("stablehlo.concatenate")
def concatenate_one(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `concatenate` of one operand by the operand."""
    return len(op.operands) == 1 and replace_by_value(rewriter, op, op.operands[0])


@SHAPE.on("stablehlo.concatenate")
def concatenate_without_empty(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Remove operands of `concatenate` without elements, if others remain."""
    number = integer_of(op, "dimension")
    if number is None:
        return False
    kept = []
    for value in op.operands:
        type = tensor_of(value)
        if type is None or not 0 <= number < type.rank:
            return False
        if type.sizes[number] != 0:
            kept.append(value)
    if not kept or len(kept) == len(op.operands):
        return False
    rewriter.set_operands(op, kept)
    return True


@SHAPE.on("stablehlo.concatenate")
def concatenate_of_concatenate(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace operands of `concatenate` that are concatenations themselves by their operands.

    They must be of the same dimension and have no other use.
    """
    number = integer_of(op, "dimension")
    operands: list[Value] = []
    # The stack is reversed, so that operands are found in order.
    work, seen = [*reversed(op.operands)], {op}
    while work:
        value = work.pop()
        inner = defining_op(value, op.name)
        if (
            inner is None
            or inner in seen
            or rewriter.uses(value) != 1
            or integer_of(inner, "dimension") != number
            or len(inner.results) != 1
        ):
            operands.append(value)
        else:
            seen.add(inner)
            work += reversed(inner.operands)
    if operands == [*op.operands]:
        return False
    rewriter.set_operands(op, operands)
    return True


# --------------------------------------------------------------------------------------------------
# Simplification of slices, pads and gathers.


SLICING: Final = Patterns()


def slice_bounds(op: Operation) -> tuple[Dims, Dims, Dims] | None:
    """Return starts, limits and strides of a `slice`; `None` if their number is not the rank."""
    type = tensor_of(op.operands[0]) if len(op.operands) == 1 else None
    found = [integers_of(op, name) for name in SLICE_BOUNDS]
    if type is None or any(f is None or len(f) != type.rank for f in found):
        return None
    starts, limits, strides = found
    assert starts is not None
    assert limits is not None
    assert strides is not None
    return starts, limits, strides


@SLICING.on("stablehlo.slice")
def slice_of_everything(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace a `slice` of all elements by its operand."""
    if slice_bounds(op) is None or static_result(op) is None:
        return False
    return replace_by_value(rewriter, op, op.operands[0], merges=True)


@SLICING.on("stablehlo.slice")
def slice_of_concatenate(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Slice only those operands of a `concatenate` of which the slice reads elements.

    If there are several, the concatenation must have no other use.
    """
    found = slice_bounds(op)
    joined = defining_op(op.operands[0], "stablehlo.concatenate") if found else None
    if found is None or joined is None or static_result(op) is None:
        return False
    starts, ends, strides = found
    number = integer_of(joined, "dimension")
    if number is None or not 0 <= number < len(starts):
        return False
    parts = _parts_read(joined, number, starts[number], ends[number])
    if parts is None:
        return False
    needed, offset = parts
    # Without operands the slice is empty; if all operands are read, nothing is saved.
    if len(needed) in (0, len(joined.operands)):
        return False
    # With another use, the long concatenation stays and the short one is additional work.
    if len(needed) > 1 and rewriter.uses(joined.results[0]) != 1:
        return False
    source = needed[0]
    if len(needed) > 1:
        new = rewriter.create(joined.name, needed, joined.properties, before=op)
        new.location = joined.location
        source = new.result
    # Bounds are relative to the begin of the first operand that is read.
    begins, stops = [
        tuple(b - offset * (d == number) for d, b in enumerate(v)) for v in (starts, ends)
    ]
    properties = slice_attributes(begins, stops, strides)
    return rewriter.replace_by(op, op.name, (source,), properties)


def _parts_read(
    joined: Operation, dimension: int, start: int, end: int
) -> tuple[list[Value], int] | None:
    """Return the operands of a concatenation of which a slice reads elements.

    Args:
        joined: The `concatenate`.
        dimension: Its dimension.
        start: First index of the slice along the dimension.
        end: Index after the last one.

    Returns:
        The operands, and the index at which the first of them begins; `None` if a size is dynamic.
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
def dynamic_slice_to_slice(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `dynamic_slice` of constant starts by `slice`; the starts are clamped first."""
    sizes = integers_of(op, "slice_sizes")
    type = tensor_of(op.operands[0]) if op.operands else None
    if sizes is None or type is None or not type.is_static or len(sizes) != type.rank:
        return False
    starts = _constant_starts(op.operands[1:], type.rank)
    if starts is None or any(n > m for n, m in zip(sizes, type.shape, strict=True)):
        return False
    begins = [_clamped(s, m - n) for s, m, n in zip(starts, type.shape, sizes, strict=True)]
    ends = [b + n for b, n in zip(begins, sizes, strict=True)]
    properties = slice_attributes(begins, ends, [1] * type.rank)
    return rewriter.replace_by(
        op,
        "stablehlo.slice",
        op.operands[:1],
        properties,
        attributes=op.attributes,
    )


def _constant_starts(values: Sequence[Value], rank: int) -> list[int] | None:
    """Return the constant start indices, one per dimension; `None` if one is not constant.

    `rank` is the number of dimensions.
    """
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
def update_of_nothing(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `dynamic_update_slice` with an empty constant by its operand."""
    if len(op.operands) < 2 or not limits.is_constant(op.operands[1]):
        return False
    type = tensor_of(op.operands[1])
    if type is None or not type.is_static or type.num_elements:
        return False
    return replace_by_value(rewriter, op, op.operands[0], merges=True)


@SLICING.on("stablehlo.dynamic_update_slice")
def update_of_everything(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `dynamic_update_slice` of all elements by the update."""
    if len(op.operands) < 2:
        return False
    operand, update = op.operands[:2]
    type = tensor_of(operand)
    if type is None or not type.is_static or operand.type != update.type:
        return False
    starts = [constant_integers(value) for value in op.operands[2:]]
    if any(start is None or any(start) for start in starts):
        return False
    return replace_by_value(rewriter, op, update, merges=True)


# ---------------------------------------------------------------------------------------------- pad


@SLICING.on("stablehlo.pad")
def pad_with_nothing(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `pad` with amounts of 0 by its operand."""
    if len(op.operands) != 2:
        return False
    for name in PADDING:
        numbers = integers_of(op, name)
        if numbers is None or any(numbers):
            return False
    return replace_by_value(rewriter, op, op.operands[0])


@SLICING.on("stablehlo.pad")
def pad_of_nothing(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `pad` of an operand without elements by a broadcast of the padding value."""
    type = tensor_of(op.operands[0]) if len(op.operands) == 2 else None
    if type is None or not type.is_static or type.num_elements:
        return False
    if static_result(op) is None:
        return False
    across = {"broadcast_dimensions": i64_array(())}
    value = op.operands[1:]
    return rewriter.replace_by(op, "stablehlo.broadcast_in_dim", value, across)


# ------------------------------------------------------------------------------------------- gather


@SLICING.on("stablehlo.gather")
def gather_to_slice(rewriter: Rewriter, op: Operation, limits: Limits) -> bool:
    """Replace `gather` at one constant index by `slice`, and `reshape` for collapsed dimensions."""
    found = _one_index(op)
    result = static_result(op)
    if found is None or result is None:
        return False
    begins, sizes, kept = found
    offsets = integers_in(op, "offset_dims")
    if offsets != tuple(range(len(kept))) or result.sizes != tuple(sizes[d] for d in kept):
        return False
    ends = [b + n for b, n in zip(begins, sizes, strict=True)]
    properties = slice_attributes(begins, ends, [1] * len(sizes))
    source = op.operands[:1]
    if len(kept) == len(sizes):
        return rewriter.replace_by(op, "stablehlo.slice", source, properties)
    whole = TensorType(result.element, tuple(sizes))
    cut = rewriter.create("stablehlo.slice", source, properties, before=op, types=[whole])
    return rewriter.replace_by(op, "stablehlo.reshape", cut.results)


def integers_in(op: Operation, field: str) -> Dims:
    """Return the field `field` of a gather's dimension numbers; `()` if it is missing."""
    numbers = op.get("dimension_numbers")
    found = numbers.get(field) if isinstance(numbers, StructAttr) else None
    return found if isinstance(found, tuple) else ()


def _one_index(op: Operation) -> tuple[list[int], Dims, list[int]] | None:
    """Return what a `gather` at one constant index reads: start and size in each dimension.

    The third item has the dimensions that are not collapsed. `None` for any other gather.
    """
    numbers = op.get("dimension_numbers")
    sizes = integers_of(op, "slice_sizes")
    if not isinstance(numbers, StructAttr) or sizes is None or len(op.operands) != 2:
        return None
    type, indices = map(tensor_of, op.operands)
    if type is None or indices is None or not type.is_static or indices.rank > 1:
        return None
    index, mapped = (
        constant_integers(op.operands[1]),
        integers_in(op, "start_index_map"),
    )
    if numbers.get("index_vector_dim") not in (0, None) or index is None:
        return None
    if integers_in(op, "operand_batching_dims") or len(index) != len(mapped):
        return None
    if len(sizes) != type.rank or any(n > m for n, m in zip(sizes, type.shape, strict=True)):
        return None
    begins = [0] * type.rank
    for d, start in zip(mapped, index, strict=True):
        if not 0 <= d < type.rank:
            return None
        # An index out of range is clamped, by the specification.
        begins[d] = _clamped(start, type.shape[d] - sizes[d])
    collapsed = integers_in(op, "collapsed_slice_dims")
    if any(not 0 <= d < type.rank or sizes[d] != 1 for d in collapsed):
        return None
    return begins, sizes, [d for d in range(type.rank) if d not in collapsed]
