"""Products of quantized tensors: integer products, corrected for zero points.

`sum((l - zl)(r - zr)) = sum(lr) - zr sum(l) - zl sum(r) + n zl zr`, times the scales.  If only
the weights are quantized, they are dequantized behind a barrier.

Source: StableHLO `StablehloLegalizeQuantToMath.cpp`.
"""

from __future__ import annotations

from math import prod

from hloscope.errors import VerifyError
from hloscope.ir import Dims, TensorType
from hloscope.mlir import I64, Attribute, DenseAttr, Operation, StructAttr, Value, expanded
from hloscope.passes.conversion import replace_converted
from hloscope.passes.legalizing.deprecated import adding
from hloscope.passes.legalizing.making import (
    concatenated,
    constant,
    dense,
    i64,
    integers,
    reshaped,
    shaped,
)
from hloscope.passes.legalizing.quantized.parameters import (
    F32,
    I32,
    as_elements,
    broadcast,
    convert,
    numbers,
    parameters,
    quantized,
    storage_of,
    stored,
)
from hloscope.passes.legalizing.quantized.products import NEAR_ONE, Product
from hloscope.passes.rewriting import Rewriter


def hybrid(rewriter: Rewriter, op: Operation) -> bool:
    """Dequantize the weights, behind a barrier against constant folding, and multiply floats."""
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
    """Replace a product by the integer product, minus its offset, scaled, plus the zero point."""
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
    """Multiply integers by a float and truncate the product to integers."""
    assert isinstance(value.type, TensorType)
    wide = as_elements(value.type, F32)
    made = convert(rewriter, value, wide, before=op)
    made = broadcast(rewriter, "multiply", (made, factor), wide, before=op)
    return convert(rewriter, made, value.type, before=op)


def _kernel(
    rewriter: Rewriter, op: Operation, operands: tuple[Value, Value], zero: int, type: TensorType
) -> tuple[Value, Value]:
    """Return the left operand, padded if necessary, and the integer product."""
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
    """Pad the left operand by its zero point, and remove the padding of the convolution."""
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
    """Offset that zero points add to a product of stored integers."""

    def __init__(
        self, rewriter: Rewriter, op: Operation, lhs: Value, rhs: Value, made: Value, dims: Product
    ) -> None:
        self.rewriter, self.op, self.lhs, self.rhs = rewriter, op, lhs, rhs
        self.made, self.dims = made, dims
        self._sizes: Value | None = None

    def value(self, lhs_zero: int, rhs_zero: int) -> Value | None:
        """Return the offset in the shape of the result; `None` if both zero points are 0."""
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
        """Return `n` times the product of the zero points, where `n` is the number of terms."""
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
        """Return sums of stored integers over dimensions, times the other operand's zero point."""
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
        """Broadcast sums of one operand to the shape of the result."""
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
