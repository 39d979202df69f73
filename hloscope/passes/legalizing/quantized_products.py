"""Products of quantized tensors as products of stored integers, corrected for zero points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from math import prod
from typing import Final, NamedTuple

from hloscope.errors import VerifyError
from hloscope.ir import ELEMENT_TYPES, Dims, ElementType, QuantizedType, TensorType, Type, encode
from hloscope.mlir import (
    I64,
    NO_ATTRIBUTES,
    Attribute,
    DenseArrayAttr,
    DenseAttr,
    Operation,
    StructAttr,
    Value,
    expanded,
)
from hloscope.passes.conversion import (
    InsertionPoint,
    converted,
    dense,
    replace_converted,
    shaped,
)
from hloscope.passes.legalizing.versions import adding
from hloscope.passes.rewriting import Rewriter
from hloscope.stablehlo import i64_array

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
    at, type = Quantizer(rewriter, op), as_elements(rhs.type, F32)
    barrier = at.make("stablehlo.optimization_barrier", rhs.type, rhs)
    scales, zeros, along = at.parameters(weights, F32)
    value = at.convert(barrier, type)
    if any(weights.zero_points):
        value = at.combine("subtract", value, zeros, type, along)
    value = at.combine("multiply", value, scales, type, along)
    return rewriter.replace_by(op, op.name, (lhs, value), op.properties, attributes=op.attributes)


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
    at, type = Quantizer(rewriter, op), as_elements(op.result.type, I32)
    lhs, made = _kernel(at, (lhs, rhs), left.zero_points[0], type)
    right_zero = right.zero_points[0] if right.is_per_tensor else 0
    offset = _Offset(at, lhs, rhs, made, dims).value(left.zero_points[0], right_zero)
    # Both scales factor out of the sum, so that one multiplication rescales to the result.
    scale = left.scales[0] * right.scales[0] / result.scales[0]
    if abs(scale - 1.0) > NEAR_ONE:
        factor = at.number(scale, F32)
        made = _scaled(at, made, factor)
        if offset is not None:
            offset = _scaled(at, offset, factor)
    added = at.number(result.zero_points[0] if result.is_per_tensor else 0, I32)
    if offset is not None:
        added = at.combine("subtract", added, offset, type)
    made = at.combine("add", made, added, type)
    wanted = storage_of(op.result.type)
    assert isinstance(wanted, TensorType)
    replace_converted(rewriter, op, [at.convert(made, wanted)])
    return True


def _scaled(at: Quantizer, value: Value, factor: Value) -> Value:
    """Return the integers `value` times the float `factor`, truncated to integers."""
    assert isinstance(value.type, TensorType)
    wide = as_elements(value.type, F32)
    return at.convert(at.combine("multiply", at.convert(value, wide), factor, wide), value.type)


def _kernel(
    at: Quantizer, operands: tuple[Value, Value], zero: int, type: TensorType
) -> tuple[Value, Value]:
    """Return the left operand, padded if necessary, and the product of stored integers.

    Args:
        at: Where ops are created: at the quantized product.
        operands: Stored integers of both operands.
        zero: Zero point of the left operand, with which a convolution is padded.
        type: Type of the product.
    """
    (lhs, rhs), op = operands, at.before
    properties: dict[str, Attribute] = dict(op.properties)
    name = op.name
    if name == "stablehlo.dot":
        name = "stablehlo.dot_general"
        fields = (("lhs_contracting_dimensions", (1,)), ("rhs_contracting_dimensions", (0,)))
        properties["dot_dimension_numbers"] = StructAttr("stablehlo", "dot", fields)
    elif name == "stablehlo.convolution":
        lhs, properties = _padded(at, lhs, zero, properties)
    new = at.rewriter.create(
        name, (lhs, rhs), properties, before=op, types=(type,), attributes=op.attributes
    )
    return lhs, new.result


def _padded(
    at: Quantizer, lhs: Value, zero: int, properties: dict[str, Attribute]
) -> tuple[Value, dict[str, Attribute]]:
    """Return the left operand padded by its zero point, and the attributes without padding.

    Both are unchanged unless the op is a convolution with padding.

    Args:
        at: Where ops are created.
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
    padded = at.make(
        "stablehlo.pad",
        shaped(type.element, *sizes),
        lhs,
        at.splat(str(zero), shaped(type.element)),
        edge_padding_low=i64_array(low),
        edge_padding_high=i64_array(high),
        interior_padding=i64_array([0] * type.rank),
    )
    none = dense("0", shaped(I64, len(space), 2))
    return padded, {**properties, "padding": none}


class _Offset:
    """The offset that zero points add to a product of stored integers."""

    def __init__(self, at: Quantizer, lhs: Value, rhs: Value, made: Value, dims: Product) -> None:
        self.at, self.lhs, self.rhs, self.made, self.dims = at, lhs, rhs, made, dims
        self._sizes: Value | None = None

    def value(self, lhs_zero: int, rhs_zero: int) -> Value | None:
        """Return the offset in the shape of the result; `None` if it is 0.

        The arguments are the zero points of the left and the right operand.
        """
        at, dims = self.at, self.dims
        total: Value | None = None
        lhs_type = self.lhs.type
        assert isinstance(lhs_type, TensorType)
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
            total = part if total is None else at.infer("stablehlo.add", total, part)
        # `n zl zr` has the opposite sign of both sums in the expansion above.
        if lhs_zero and rhs_zero and total is not None:
            both = self._constant_part(lhs_zero * rhs_zero)
            assert isinstance(total.type, TensorType)
            total = at.combine("subtract", total, both, total.type)
        return total

    def _constant_part(self, product: int) -> Value:
        """Return `n * product`, where `n` is the number of terms of each sum, as `i32` of rank 0.

        `product` is the product of both zero points.
        """
        at, type = self.at, self.rhs.type
        assert isinstance(type, TensorType)
        over = (*self.dims.rhs_spatial, *self.dims.rhs_contracting)
        terms = at.constant(1, I32)
        unknown = [d for d in over if type.sizes[d] is None]
        for d in unknown:
            terms = at.infer("stablehlo.multiply", terms, at.size(self.rhs, d))
        known = prod(size for d in over if (size := type.sizes[d]) is not None)
        made = at.number(product * known, I32)
        return at.infer("stablehlo.multiply", made, terms) if unknown else made

    def _sums(self, value: Value, zero: int, over: Dims) -> Value:
        """Return the sums of stored integers of an operand over dimensions `over`, times `zero`.

        `zero` is the zero point of the other operand.
        """
        at, type = self.at, value.type
        assert isinstance(type, TensorType)
        rest = shaped(I32, *[s for d, s in enumerate(type.sizes) if d not in over])
        operands = at.convert(value, as_elements(type, I32)), at.constant(0, I32)
        sums = at.rewriter.create(
            "stablehlo.reduce",
            operands,
            {"dimensions": i64_array(over)},
            before=at.before,
            types=(rest,),
            regions=(adding(rest),),
        ).result
        return at.combine("multiply", sums, at.number(zero, I32), rest)

    def _broadcast_sums(self, part: Value, over: Dims, batching: Dims, first: int) -> Value:
        """Broadcast the sums `part` of one operand to the shape of the result.

        Args:
            part: The sums.
            over: Summed dimensions of the operand.
            batching: Batching dimensions of the operand.
            first: Result dimension of the first remaining dimension of the operand; the others
                follow.
        """
        type = self.made.type
        assert isinstance(part.type, TensorType)
        assert isinstance(type, TensorType)
        # Result dimensions: batching ones first, then the free ones of each operand, in order.
        batch, free = count(), count(first)
        dims = [
            next(batch if d in batching else free)
            for d in range(part.type.rank + len(over))
            if d not in over
        ]
        if type.is_static:
            return self.at.broadcast(part, dims, type, self.made)
        # Both sums have the result's shape, whose sizes are computed once.
        if self._sizes is None:
            self._sizes = self._sizes_of(type)
        return self.at.broadcast_to(part, dims, type, self._sizes)

    def _sizes_of(self, type: TensorType) -> Value:
        at, parts = self.at, []
        for d, size in enumerate(type.sizes):
            if size is None:
                wide = at.convert(at.size(self.made, d), shaped(I64))
                parts.append(at.reshape(wide, 1))
            else:
                parts.append(at.constant([size], I64))
        return at.concatenate(parts)


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


def along(type: QuantizedType) -> dict[str, Attribute]:
    """Return the attribute with which scales are broadcast along the quantized dimension.

    It is empty if the type has one scale for all elements.
    """
    return {"broadcast_dimensions": i64_array(type.axes)} if type.is_per_axis else {}


class Quantizer(InsertionPoint):
    """An insertion point that creates quantization parameters and arithmetic on stored integers."""

    __slots__ = ()

    def number(self, value: float, element: ElementType) -> Value:
        """Create a constant of rank 0 and element type `f32` or `i32`."""
        return self.literal(DenseAttr(_raw(value, element), shaped(element)))

    def per_axis(self, values: Sequence[float], element: ElementType) -> Value:
        """Create a constant of rank 1 and element type `f32` or `i32`, one value for each slice."""
        different = values if len(set(values)) > 1 else values[:1]
        raw = b"".join([_raw(value, element) for value in different])
        return self.literal(DenseAttr(raw, shaped(element, len(values))))

    def numbers(self, values: Sequence[float], element: ElementType, *, per_axis: bool) -> Value:
        """Create a constant of `values`: rank 1 for values per axis, else rank 0."""
        return self.per_axis(values, element) if per_axis else self.number(values[0], element)

    def parameters(
        self, type: QuantizedType, zero_points: ElementType
    ) -> tuple[Value, Value, dict[str, Attribute]]:
        """Create constants of a type's scales and zero points.

        Return both with the attribute that broadcasts them.
        """
        axis = type.is_per_axis
        scales = self.numbers(type.scales, F32, per_axis=axis)
        return scales, self.numbers(type.zero_points, zero_points, per_axis=axis), along(type)

    def combine(
        self,
        name: str,
        left: Value,
        right: Value,
        type: TensorType,
        along: Mapping[str, Attribute] = NO_ATTRIBUTES,
    ) -> Value:
        """Create the CHLO op `broadcast_<name>` of two values, with result type `type`.

        `along` has the dimensions along which the second value is broadcast.
        """
        return self.make(f"chlo.broadcast_{name}", type, left, right, **along)

    def limits(self, type: QuantizedType, element: ElementType) -> tuple[Value, Value]:
        """Create constants of the least and the largest stored integer."""
        return self.number(type.storage_min, element), self.number(type.storage_max, element)

    def round(self, value: Value, type: QuantizedType, *, clamps: bool) -> Value:
        """Round values in units of the stored integers to the nearest integer.

        With `clamps`, they are clamped to the range of the stored integers.
        """
        if clamps:
            low, high = self.limits(type, F32)
            value = self.make("stablehlo.clamp", value.type, low, value, high)
        return self.make("stablehlo.round_nearest_even", value.type, value)


def _raw(value: float, element: ElementType) -> bytes:
    assert element in (F32, I32)
    bits = encode(value, "f32") if element == F32 else int(value) % (1 << 32)
    return bits.to_bytes(4, "little")
