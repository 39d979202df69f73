"""Products of quantized tensors as products of stored integers, corrected for zero points."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final, NamedTuple

from hloscope.errors import VerifyError
from hloscope.ir import ELEMENT_TYPES, Dims, ElementType, QuantizedType, TensorType, Type, encode
from hloscope.mlir import (
    I64,
    Attribute,
    DenseArrayAttr,
    DenseAttr,
    Operation,
    StructAttr,
    Value,
    expanded,
)
from hloscope.passes.conversion import (
    concatenated,
    constant,
    converted,
    dense,
    i64,
    integers,
    replace_converted,
    reshaped,
    shaped,
)
from hloscope.passes.legalizing.versions import adding
from hloscope.passes.rewriting import Rewriter

# --------------------------------------------------------------------------------------------------
# Products of quantized tensors: integer products, corrected for zero points.
#
# `sum((l - zl)(r - zr)) = sum(lr) - zr sum(l) - zl sum(r) + n zl zr`, times the scales.  If only
# the weights are quantized, they are dequantized behind a barrier.
#
# Source: StableHLO `StablehloLegalizeQuantToMath.cpp`.


def hybrid(rewriter: Rewriter, op: Operation) -> bool:
    """Replace a product of floats and quantized weights by a product of floats.

    The dequantized weights pass through an optimization barrier, which prevents constant folding.
    """
    lhs, rhs = stored(rewriter, op)
    weights = quantized(op.operands[1].type)
    assert weights is not None
    type = as_elements(rhs.type, F32)
    barrier = rewriter.create(
        "stablehlo.optimization_barrier", (rhs,), before=op, types=(rhs.type,)
    )
    scales, zeros, along = parameters(rewriter, weights, F32, before=op)
    value = convert(rewriter, barrier.result, type, before=op)
    if any(weights.zero_points):
        value = broadcast(rewriter, "subtract", (value, zeros), type, along, before=op)
    value = broadcast(rewriter, "multiply", (value, scales), type, along, before=op)
    new = rewriter.create(
        op.name,
        (lhs, value),
        op.properties,
        before=op,
        types=(op.result.type,),
        attributes=op.attributes,
    )
    rewriter.replace(op, new.results)
    return True


def integer_product(rewriter: Rewriter, op: Operation, dims: Product) -> bool:
    """Replace a quantized product with dimensions `dims` by a product of stored integers.

    The offset of the zero points is subtracted, the scale applied and the result's zero point
    added.
    """
    lhs, rhs = stored(rewriter, op)
    left, right, result = (quantized(v.type) for v in (*op.operands, op.result))
    assert left is not None
    assert right is not None
    assert result is not None
    type = as_elements(op.result.type, I32)
    lhs, made = _kernel(rewriter, op, (lhs, rhs), left.zero_points[0], type)
    right_zero = right.zero_points[0] if right.is_per_tensor else 0
    offset = _Offset(rewriter, op, lhs, rhs, made, dims).value(left.zero_points[0], right_zero)
    # Both scales factor out of the sum, so that one multiplication rescales to the result.
    scale = left.scales[0] * right.scales[0] / result.scales[0]
    if abs(scale - 1.0) > NEAR_ONE:
        factor = numbers(rewriter, [scale], F32, per_axis=False, before=op)
        made = _scaled(rewriter, made, factor, op)
        if offset is not None:
            offset = _scaled(rewriter, offset, factor, op)
    zero = result.zero_points[0] if result.is_per_tensor else 0
    added = numbers(rewriter, [zero], I32, per_axis=False, before=op)
    if offset is not None:
        added = broadcast(rewriter, "subtract", (added, offset), type, before=op)
    made = broadcast(rewriter, "add", (made, added), type, before=op)
    wanted = storage_of(op.result.type)
    assert isinstance(wanted, TensorType)
    replace_converted(rewriter, op, [convert(rewriter, made, wanted, before=op)])
    return True


def _scaled(rewriter: Rewriter, value: Value, factor: Value, op: Operation) -> Value:
    """Return the integers `value` times the float `factor`, truncated to integers."""
    assert isinstance(value.type, TensorType)
    wide = as_elements(value.type, F32)
    made = convert(rewriter, value, wide, before=op)
    made = broadcast(rewriter, "multiply", (made, factor), wide, before=op)
    return convert(rewriter, made, value.type, before=op)


def _kernel(
    rewriter: Rewriter, op: Operation, operands: tuple[Value, Value], zero: int, type: TensorType
) -> tuple[Value, Value]:
    """Return the left operand, padded if necessary, and the product of stored integers.

    Args:
        rewriter: The rewriter of the module.
        op: The quantized product.
        operands: Stored integers of both operands.
        zero: Zero point of the left operand, with which a convolution is padded.
        type: Type of the product.
    """
    lhs, rhs = operands
    properties: dict[str, Attribute] = dict(op.properties)
    name = op.name
    if name == "stablehlo.dot":
        name = "stablehlo.dot_general"
        fields = (("lhs_contracting_dimensions", (1,)), ("rhs_contracting_dimensions", (0,)))
        properties["dot_dimension_numbers"] = StructAttr("stablehlo", "dot", fields)
    elif name == "stablehlo.convolution":
        lhs, properties = _padded(rewriter, op, lhs, zero, properties)
    new = rewriter.create(
        name, (lhs, rhs), properties, before=op, types=(type,), attributes=op.attributes
    )
    return lhs, new.result


def _padded(
    rewriter: Rewriter, op: Operation, lhs: Value, zero: int, properties: dict[str, Attribute]
) -> tuple[Value, dict[str, Attribute]]:
    """Return the left operand padded by its zero point, and the attributes without padding.

    Both are unchanged unless the op is a convolution with padding.

    Args:
        rewriter: The rewriter of the module.
        op: Operation before which ops are inserted.
        lhs: The left operand, stored integers.
        zero: Its zero point.
        properties: The attributes of the product.
    """
    given, type = properties.get("padding"), lhs.type
    numbers_of = properties["dimension_numbers"]
    assert isinstance(type, TensorType)
    assert isinstance(numbers_of, StructAttr)
    try:
        pads = expanded(given) if isinstance(given, DenseAttr) else ()
    except (ValueError, VerifyError):
        pads = ()
    space = numbers_of.get("input_spatial_dimensions")
    if not any(pads) or not isinstance(space, tuple) or len(pads) != 2 * len(space):
        return lhs, properties
    low, high = [0] * type.rank, [0] * type.rank
    # The stored value of 0.0 is the zero point; the convolution would pad by stored zeros.
    for k, d in enumerate(space):
        low[d], high[d] = pads[2 * k], pads[2 * k + 1]
    sizes = [
        None if size is None else size + a + b
        for size, a, b in zip(type.sizes, low, high, strict=True)
    ]
    value = dense(str(zero), shaped(type.element))
    filler = rewriter.constant(value, shaped(type.element), before=op)
    padded = rewriter.create(
        "stablehlo.pad",
        (lhs, filler),
        {
            "edge_padding_low": integers(low),
            "edge_padding_high": integers(high),
            "interior_padding": integers([0] * type.rank),
        },
        before=op,
        types=(shaped(type.element, *sizes),),
    )
    none = dense("0", shaped(I64, len(space), 2))
    return padded.result, {**properties, "padding": none}


class _Offset:
    """The offset that zero points add to a product of stored integers."""

    def __init__(
        self, rewriter: Rewriter, op: Operation, lhs: Value, rhs: Value, made: Value, dims: Product
    ) -> None:
        self.rewriter, self.op, self.lhs, self.rhs = rewriter, op, lhs, rhs
        self.made, self.dims = made, dims
        self._sizes: Value | None = None

    def value(self, lhs_zero: int, rhs_zero: int) -> Value | None:
        """Return the offset in the shape of the result; `None` if it is 0.

        The arguments are the zero points of the left and the right operand.
        """
        op, dims, rewriter = self.op, self.dims, self.rewriter
        total: Value | None = None
        lhs_type, rhs_type = self.lhs.type, self.rhs.type
        assert isinstance(lhs_type, TensorType)
        assert isinstance(rhs_type, TensorType)
        # `zr sum(l)`: sums of the left operand, one for each of its free indices.
        if rhs_zero:
            over = (*dims.lhs_spatial, *dims.lhs_contracting)
            part = self._sums(self.lhs, rhs_zero, over)
            total = self._broadcast_sums(part, over, dims.lhs_batching, len(dims.lhs_batching))
        # `zl sum(r)`: the free dimensions of the right operand follow those of the left one.
        if lhs_zero:
            over = (*dims.rhs_spatial, *dims.rhs_contracting)
            part = self._sums(self.rhs, lhs_zero, over)
            first = lhs_type.rank - len(dims.lhs_contracting)
            first = first if dims.channels is None else dims.channels
            part = self._broadcast_sums(part, over, dims.rhs_batching, first)
            if total is None:
                total = part
            else:
                total = rewriter.create("stablehlo.add", (total, part), before=op).result
        # `n zl zr` has the opposite sign of both sums in the expansion above.
        if lhs_zero and rhs_zero and total is not None:
            both = self._constant_part(lhs_zero * rhs_zero, rhs_type)
            assert isinstance(total.type, TensorType)
            total = broadcast(rewriter, "subtract", (total, both), total.type, before=op)
        return total

    def _constant_part(self, product: int, type: TensorType) -> Value:
        """Return `n * product`, where `n` is the number of terms of each sum, as `i32` of rank 0.

        `product` is the product of both zero points; `type` is the type of the right operand.
        """
        op, rewriter = self.op, self.rewriter
        over = (*self.dims.rhs_spatial, *self.dims.rhs_contracting)
        count = constant(rewriter, 1, I32, before=op)
        unknown = [d for d in over if type.sizes[d] is None]
        for d in unknown:
            size = self._size(self.rhs, d)
            count = rewriter.create("stablehlo.multiply", (count, size), before=op).result
        sizes = [type.sizes[d] for d in over]
        known = prod(extent for extent in sizes if extent is not None)
        made = numbers(rewriter, [product * known], I32, per_axis=False, before=op)
        if unknown:
            made = rewriter.create("stablehlo.multiply", (made, count), before=op).result
        return made

    def _size(self, value: Value, d: int) -> Value:
        return self.rewriter.create(
            "stablehlo.get_dimension_size",
            (value,),
            {"dimension": i64(d)},
            before=self.op,
            types=(shaped(I32),),
        ).result

    def _sums(self, value: Value, zero: int, over: Dims) -> Value:
        """Return the sums of stored integers of an operand over dimensions `over`, times `zero`.

        `zero` is the zero point of the other operand.
        """
        op, rewriter, type = self.op, self.rewriter, value.type
        assert isinstance(type, TensorType)
        wide = convert(rewriter, value, as_elements(type, I32), before=op)
        start = constant(rewriter, 0, I32, before=op)
        rest = shaped(I32, *[s for d, s in enumerate(type.sizes) if d not in over])
        sums = rewriter.create(
            "stablehlo.reduce",
            (wide, start),
            {"dimensions": integers(over)},
            before=op,
            types=(rest,),
            regions=(adding(rest),),
        ).result
        factor = numbers(rewriter, [zero], I32, per_axis=False, before=op)
        return broadcast(rewriter, "multiply", (sums, factor), rest, before=op)

    def _broadcast_sums(self, part: Value, over: Dims, batching: Dims, first: int) -> Value:
        """Broadcast the sums `part` of one operand to the shape of the result.

        Args:
            part: The sums.
            over: Summed dimensions of the operand.
            batching: Batching dimensions of the operand.
            first: Result dimension of the first remaining dimension of the operand; the others
                follow.
        """
        op, rewriter, type = self.op, self.rewriter, self.made.type
        assert isinstance(part.type, TensorType)
        assert isinstance(type, TensorType)
        rank = part.type.rank + len(over)
        # Result dimensions: batching ones first, then the free ones of each operand, in order.
        dims, batch, free = [], 0, first
        for d in range(rank):
            if d in over:
                continue
            if d in batching:
                dims.append(batch)
                batch += 1
            else:
                dims.append(free)
                free += 1
        properties = {"broadcast_dimensions": integers(dims)}
        if type.is_static:
            return rewriter.create(
                "stablehlo.broadcast_in_dim", (part,), properties, before=op, types=(type,)
            ).result
        # Both sums have the result's shape, whose sizes are computed once.
        if self._sizes is None:
            self._sizes = self._sizes_of(type)
        return rewriter.create(
            "stablehlo.dynamic_broadcast_in_dim",
            (part, self._sizes),
            properties,
            before=op,
            types=(type,),
        ).result

    def _sizes_of(self, type: TensorType) -> Value:
        op, rewriter = self.op, self.rewriter
        parts = []
        for d, size in enumerate(type.sizes):
            if size is not None:
                parts.append(constant(rewriter, [size], I64, before=op))
                continue
            wide = convert(rewriter, self._size(self.made, d), shaped(I64), before=op)
            parts.append(reshaped(rewriter, wide, 1, before=op))
        return concatenated(rewriter, parts, before=op)


# --------------------------------------------------------------------------------------------------
# Dimensions of quantized products, and the products that integer arithmetic supports.
#
# Source: StableHLO `StablehloLegalizeQuantToMath.cpp`.


NEAR_ONE: Final = 0.001
"""Maximum relative difference of scales, and of ratios of scales, that count as equal."""


class Product(NamedTuple):
    """Dimensions of a product's operands by role.

    A convolution's window moves along the `spatial` ones.
    """

    lhs_batching: Dims
    lhs_spatial: Dims
    lhs_contracting: Dims
    rhs_batching: Dims
    rhs_spatial: Dims
    rhs_contracting: Dims
    channels: int | None = None
    """Result dimension of the output features of a convolution; `None` for a dot product."""


def kind_of(op: Operation) -> str:
    """Return `quantized`, `hybrid` (only the weights are), or an empty text for other products."""
    lhs, rhs, result = (quantized(v.type) for v in (*op.operands[:2], op.results[0]))
    if lhs is None and result is None and rhs is not None:
        return "hybrid" if rhs.is_per_tensor or rhs.is_per_axis else ""
    if lhs is None or rhs is None or result is None or not lhs.is_per_tensor:
        return ""
    both = (rhs.is_per_tensor and result.is_per_tensor) or (rhs.is_per_axis and result.is_per_axis)
    return "quantized" if both else ""


def of_dot(op: Operation) -> Product | None:
    """Return the dimensions of a `dot` or `dot_general` by role; `None` if it is malformed."""
    if op.name == "stablehlo.dot":
        is_matrix = all(_is_matrix(value.type) for value in op.operands)
        return Product((), (), (1,), (), (), (0,)) if is_matrix else None
    given = op.get("dot_dimension_numbers")
    if not isinstance(given, StructAttr):
        return None
    names = "lhs_batching lhs_contracting rhs_batching rhs_contracting".split()
    dims = [given.get(f"{name}_dimensions") or () for name in names]
    lists = [d for d in dims if isinstance(d, tuple)]
    if len(lists) != 4:
        return None
    return Product(lists[0], (), lists[1], lists[2], (), lists[3])


def _is_matrix(type: object) -> bool:
    return isinstance(type, TensorType) and type.rank == 2


def _layouts(rank: int) -> dict[tuple[tuple[str, object], ...], Product]:
    """Return the dimensions of each supported convolution of this rank, by its dimension numbers.

    Features are the last dimension, or the second. With three spatial dimensions, upstream expects
    the kernel's input features first.
    """
    last, space = rank - 1, tuple(range(1, rank - 1))
    taken, made = (1, 0) if rank == 4 else (0, 1)
    window, after = tuple(range(rank - 2)), tuple(range(2, rank))
    channels_last = {
        "input_batch_dimension": 0,
        "input_feature_dimension": last,
        "input_spatial_dimensions": space,
        "kernel_input_feature_dimension": rank - 2,
        "kernel_output_feature_dimension": last,
        "kernel_spatial_dimensions": window,
        "output_batch_dimension": 0,
        "output_feature_dimension": last,
        "output_spatial_dimensions": space,
    }
    channels_second = {
        "input_batch_dimension": 0,
        "input_feature_dimension": 1,
        "input_spatial_dimensions": after,
        "kernel_input_feature_dimension": taken,
        "kernel_output_feature_dimension": made,
        "kernel_spatial_dimensions": after,
        "output_batch_dimension": 0,
        "output_feature_dimension": 1,
        "output_spatial_dimensions": after,
    }
    return {
        _fields(channels_last): Product((0,), space, (last,), (), window, (rank - 2,), last),
        _fields(channels_second): Product((0,), after, (1,), (), after, (taken,), 1),
    }


def _fields(given: dict[str, object]) -> tuple[tuple[str, object], ...]:
    return tuple(sorted((k, v) for k, v in given.items() if v not in (0, ())))


def of_convolution(op: Operation) -> Product | None:
    """Return the dimensions of a convolution by role; `None` if it must not use integers.

    Its zero points, scales, dilation or dimension numbers are not supported then.
    """
    lhs, rhs, given = op.operands[0].type, op.operands[1].type, op.get("dimension_numbers")
    result, weights = quantized(op.result.type), quantized(rhs)
    if not isinstance(lhs, TensorType) or not isinstance(rhs, TensorType) or result is None:
        return None
    if not isinstance(given, StructAttr) or weights is None or lhs.rank not in (4, 5):
        return None
    zero_points = (*weights.zero_points, *(result.zero_points if weights.is_per_axis else ()))
    if any(zero_points):
        # Upstream has no offset for these zero points: it requires them to be 0.
        return None
    if weights.is_per_axis and not _is_proportional(weights, result, rhs.rank):
        return None
    dilation = op.get("lhs_dilation")
    if isinstance(dilation, DenseArrayAttr) and any(d != 1 for d in dilation.values):
        return None
    return _layouts(lhs.rank).get(_fields(dict(given.fields)))


def _is_proportional(weights: QuantizedType, result: QuantizedType, rank: int) -> bool:
    """Are the scales of a convolution's result proportional to those of its weights?

    The weights must be quantized along the last of their `rank` dimensions.
    """
    if weights.axis != rank - 1 or len(weights.scales) != len(result.scales):
        return False
    ratios = [r / w for r, w in zip(result.scales, weights.scales, strict=True)]
    return all(abs((ratio - ratios[0]) / ratios[0]) <= NEAR_ONE for ratio in ratios)


# --------------------------------------------------------------------------------------------------
# Quantized types: stored and expressed types, and parameters as constants.


F32: Final = ELEMENT_TYPES["f32"]
I32: Final = ELEMENT_TYPES["s32"]


def quantized(type: Type) -> QuantizedType | None:
    """Return the quantized element type of a tensor type; `None` for other types."""
    if isinstance(type, TensorType) and isinstance(type.element, QuantizedType):
        return type.element
    return None


def storage_of(type: Type) -> Type:
    """Return the type with stored integers as elements; other types are unchanged."""
    element = quantized(type)
    return type if element is None else as_elements(type, element.storage)


def expressed_of(type: Type) -> Type:
    """Return the type with expressed floats as elements; other types are unchanged."""
    element = quantized(type)
    return type if element is None else as_elements(type, element.expressed)


def as_elements(type: Type, element: ElementType) -> TensorType:
    """Return a tensor type with another element type."""
    assert isinstance(type, TensorType)
    return TensorType(element, type.sizes, None, type.bounds, type.encoding)


def stored(rewriter: Rewriter, op: Operation) -> list[Value]:
    """Return the operands of an op, cast to stored integers."""
    return [converted(rewriter, v, storage_of(v.type), before=op) for v in op.operands]


def has_quantized(op: Operation) -> bool:
    """Does an operand or result have a quantized type?"""
    return any(quantized(value.type) is not None for value in (*op.operands, *op.results))


def numbers(
    rewriter: Rewriter,
    values: Sequence[float],
    element: ElementType,
    *,
    per_axis: bool,
    before: Operation,
) -> Value:
    """Create a constant of element type `element`: rank 1 for values per axis, else rank 0."""
    assert element in (F32, I32)
    if element == F32:
        raw = b"".join(encode(value, "f32").to_bytes(4, "little") for value in values)
    else:
        raw = b"".join((int(value) % (1 << 32)).to_bytes(4, "little") for value in values)
    if per_axis and len(set(values)) == 1:
        raw = raw[:4]
    type = shaped(element, len(values)) if per_axis else shaped(element)
    return rewriter.constant(DenseAttr(raw, type), type, before=before)


def parameters(
    rewriter: Rewriter, type: QuantizedType, zero_points: ElementType, *, before: Operation
) -> tuple[Value, Value, dict[str, Attribute]]:
    """Create constants of a type's scales and zero points.

    Return both with the attribute that broadcasts them.
    """
    axis = type.is_per_axis
    scales = numbers(rewriter, type.scales, F32, per_axis=axis, before=before)
    zeros = numbers(rewriter, type.zero_points, zero_points, per_axis=axis, before=before)
    return scales, zeros, along(type)


def along(type: QuantizedType) -> dict[str, Attribute]:
    """Return the attribute with which scales are broadcast along the quantized dimension.

    It is empty if the type has one scale for all elements.
    """
    return {"broadcast_dimensions": integers(type.axes)} if type.is_per_axis else {}


def broadcast(
    rewriter: Rewriter,
    name: str,
    values: tuple[Value, Value],
    type: TensorType,
    properties: dict[str, Attribute] | None = None,
    *,
    before: Operation,
) -> Value:
    """Create the CHLO op `broadcast_<name>` of two values, with result type `type`."""
    return rewriter.create(
        f"chlo.broadcast_{name}", values, properties or {}, before=before, types=(type,)
    ).result


def convert(rewriter: Rewriter, value: Value, type: TensorType, *, before: Operation) -> Value:
    """Create a `stablehlo.convert` to type `type`."""
    return rewriter.create("stablehlo.convert", (value,), before=before, types=(type,)).result


def rounded(
    rewriter: Rewriter, value: Value, type: QuantizedType, *, clamps: bool, before: Operation
) -> Value:
    """Return values in units of the stored integers, rounded to the nearest integer.

    With `clamps`, they are clamped to the range of the stored integers.
    """
    own = value.type
    if clamps:
        low = numbers(rewriter, [type.storage_min], F32, per_axis=False, before=before)
        high = numbers(rewriter, [type.storage_max], F32, per_axis=False, before=before)
        value = rewriter.create(
            "stablehlo.clamp", (low, value, high), before=before, types=(own,)
        ).result
    return rewriter.create(
        "stablehlo.round_nearest_even", (value,), before=before, types=(own,)
    ).result
