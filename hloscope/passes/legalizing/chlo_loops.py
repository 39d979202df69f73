"""`chlo.scan` as a loop over slices, and `chlo.ragged_dot` as one product per group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from hloscope.ir import Dims, TensorType
from hloscope.mlir import (
    I1,
    I32,
    I64,
    INDEX,
    ArrayAttr,
    Attribute,
    Block,
    BoolAttr,
    EnumAttr,
    IntegerAttr,
    Operation,
    Region,
    StructAttr,
    UnitAttr,
    Value,
)
from hloscope.ops import with_element
from hloscope.passes.conversion import (
    as_i64,
    concatenated,
    constant,
    dimension_size,
    i64,
    integers,
    known_size,
    reshaped,
    shaped,
    sliced,
    splat,
)
from hloscope.passes.legalizing.terms import like_constant, literal
from hloscope.passes.rewriting import OpenBlock, Patterns, Rewriter

# --------------------------------------------------------------------------------------------------
# `chlo.scan`: a loop that reads a slice of each input and writes one into each output.
#
# Source: StableHLO `ChloLegalizeToStablehlo.cpp`.  A reverse scan begins with the last slice.


SCAN_PATTERNS: Final = Patterns()


class _Scan(NamedTuple):
    """Operands, output types and attributes of a `chlo.scan`."""

    op: Operation
    inputs: tuple[Value, ...]
    inits: tuple[Value, ...]
    outputs: tuple[TensorType, ...]
    dimension: int
    is_reverse: bool


@SCAN_PATTERNS.on("chlo.scan")
def scan(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `chlo.scan` by a `while` over the step, the carried values and the outputs."""
    decoded = _read_scan(op)
    if decoded is None:
        return False
    count = dimension_size(rewriter, decoded.inputs[0], decoded.dimension, before=op)
    start = constant(rewriter, 0, I64, before=op)
    empty = [_zeros(rewriter, decoded, type) for type in decoded.outputs]
    operands = (start, *decoded.inits, *empty)
    types = tuple([value.type for value in operands])
    cond, body = _block(types), _block(types)
    regions = (Region((cond,)), Region((body,)))
    loop = rewriter.create("stablehlo.while", operands, before=op, types=types, regions=regions)
    cond, body = (region.block for region in loop.regions)
    _condition(rewriter, cond, count)
    _body(rewriter, decoded, body, count)
    carried, done = 1 + len(decoded.inits), loop.results
    # The loop has carried values first; the results of the scan have outputs first.
    rewriter.replace(op, [*done[carried:], *done[1:carried]])
    return True


def _read_scan(op: Operation) -> _Scan | None:
    """Return operands, types and attributes of a `chlo.scan`; `None` if it cannot be expanded.

    It cannot be if it is malformed, or if a size of a dimension that is not scanned is dynamic.
    """
    dimension = op.get("dimension")
    if not isinstance(dimension, IntegerAttr) or len(op.regions) != 1:
        return None
    blocks = op.regions[0].blocks
    if len(blocks) != 1 or not isinstance(blocks[0], OpenBlock) or blocks[0].last is None:
        return None
    # The region returns outputs and carried values; the results have both, so that the number of
    # carried values follows from the difference.
    carries = len(blocks[0].last.operands) - (len(op.results) - _carries(op, blocks[0]))
    count = len(op.operands) - carries
    types = [value.type for value in (*op.operands, *op.results)]
    if count <= 0 or carries < 0 or not all(isinstance(t, TensorType) for t in types):
        return None
    outputs = [v.type for v in op.results[: len(op.results) - carries]]
    arrays = [*[v.type for v in op.operands[:count]], *outputs]
    known = tuple([t for t in arrays if isinstance(t, TensorType)])
    d = dimension.value
    # Slices are reshaped to the other sizes, so these must be known.
    for type in known:
        others = type.sizes[:d] + type.sizes[d + 1 :]
        if not 0 <= d < type.rank or None in others:
            return None
    if len(blocks[0].arguments) != len(op.operands):
        return None
    if len(blocks[0].last.operands) != len(op.results):
        return None
    return _Scan(
        op,
        op.operands[:count],
        op.operands[count:],
        known[count:],
        d,
        op.get("is_reverse") in (BoolAttr(True), UnitAttr()),
    )


def _carries(op: Operation, block: Block) -> int:
    """Return the number of operands that a `chlo.scan` carries from step to step.

    It is read from the operand segment sizes, else computed from the arguments of its block
    `block`.
    """
    segments = op.get("operandSegmentSizes")
    values = getattr(segments, "values", None)
    if values and len(values) == 2:
        return int(values[1])
    return len(op.operands) - len(block.arguments)


def _block(types: Sequence[object]) -> Block:
    """Return an empty block with arguments of these types."""
    arguments = tuple([Value(type, None, k) for k, type in enumerate(types)])  # type: ignore[arg-type]
    block = Block(arguments)
    for argument in arguments:
        argument.owner = block
    return block


def _zeros(rewriter: Rewriter, decoded: _Scan, type: TensorType) -> Value:
    """Return a tensor of zeros of `type`, the initial value of an output of the scan."""
    op = decoded.op
    zero = rewriter.constant(literal(0, type.element), shaped(type.element), before=op)
    properties = {"broadcast_dimensions": integers(())}
    if type.is_static:
        return rewriter.create(
            "stablehlo.broadcast_in_dim", (zero,), properties, before=op, types=(type,)
        ).result
    extents = shaped(INDEX, type.rank)
    sizes = rewriter.create("shape.shape_of", (decoded.inputs[0],), before=op, types=(extents,))
    return rewriter.create(
        "stablehlo.dynamic_broadcast_in_dim",
        (zero, sizes.result),
        properties,
        before=op,
        types=(type,),
    ).result


def _condition(rewriter: Rewriter, block: Block, count: Value) -> None:
    """Add to `block` the condition of a loop: its first argument, the step, is below `count`."""
    properties = {"comparison_direction": EnumAttr("stablehlo", "comparison_direction", "LT")}
    end = rewriter.create("stablehlo.return", (), into=block, types=())
    less = rewriter.create(
        "stablehlo.compare",
        (block.arguments[0], count),
        properties,
        before=end,
        types=(shaped(I1),),
    )
    rewriter.set_operands(end, less.results)


def _body(rewriter: Rewriter, decoded: _Scan, block: Block, count: Value) -> None:
    """Add the operations of the loop's body to `block`.

    They slice the inputs, run the scan's region, update the outputs and increment the step. `count`
    is the value of the number of steps.
    """
    step, carried = block.arguments[0], len(decoded.inits)
    # The terminator is created first: all other ops are inserted before it.
    end = rewriter.create("stablehlo.return", (), into=block, types=())
    at = step
    # A reverse scan runs from slice `count - 1` down to 0.
    if decoded.is_reverse:
        one = constant(rewriter, 1, I64, before=end)
        last = rewriter.create("stablehlo.subtract", (count, one), before=end).result
        at = rewriter.create("stablehlo.subtract", (last, step), before=end).result
    given = [_slice(rewriter, decoded, value, at, end) for value in decoded.inputs]
    inner = decoded.op.regions[0].block
    assert isinstance(inner, OpenBlock)
    assert inner.last is not None
    yielded = inner.last
    arguments = [*given, *block.arguments[1 : 1 + carried]]
    rewriter.inline(inner, arguments, before=end)
    # The yielded values are read after inlining, when arguments have been replaced.
    values = yielded.operands
    rewriter.erase(yielded)
    outputs = len(decoded.outputs)
    made = [
        _update_output(rewriter, decoded, old, new, (at, end))
        for old, new in zip(block.arguments[1 + carried :], values[:outputs], strict=True)
    ]
    one = constant(rewriter, 1, I64, before=end)
    following = rewriter.create("stablehlo.add", (step, one), before=end).result
    rewriter.set_operands(end, (following, *values[outputs:], *made))


def _slice(rewriter: Rewriter, decoded: _Scan, value: Value, at: Value, end: Operation) -> Value:
    """Return the slice of an input `value` of the scan at step `at`, without the scanned dimension.

    Ops are inserted before `end`.
    """
    type, d = value.type, decoded.dimension
    assert isinstance(type, TensorType)
    sizes = [1 if k == d else size for k, size in enumerate(type.sizes)]
    rest = [size for k, size in enumerate(type.sizes) if k != d and size is not None]
    if type.is_static:
        zero = constant(rewriter, 0, I64, before=end)
        starts = [at if k == d else zero for k in range(type.rank)]
        part = rewriter.create(
            "stablehlo.dynamic_slice",
            (value, *starts),
            {"slice_sizes": integers([size for size in sizes if size is not None])},
            before=end,
        ).result
    else:
        part = _dynamic_slice(rewriter, decoded, value, at, end)
    return reshaped(rewriter, part, *rest, before=end)


def _dynamic_slice(
    rewriter: Rewriter, decoded: _Scan, value: Value, at: Value, end: Operation
) -> Value:
    """Return the slice of size 1 of an input `value` at step `at`, for dynamic sizes.

    Only the scanned dimension may be dynamic. Ops are inserted before `end`.
    """
    type, d = value.type, decoded.dimension
    assert isinstance(type, TensorType)
    zero = constant(rewriter, 0, I64, before=end)
    flat = [reshaped(rewriter, at if k == d else zero, 1, before=end) for k in range(type.rank)]
    starts = concatenated(rewriter, flat, before=end)
    limits = []
    for k, size in enumerate(type.sizes):
        if k == d:
            one = constant(rewriter, 1, I64, before=end)
            limits.append(rewriter.create("stablehlo.add", (at, one), before=end).result)
        else:
            assert size is not None
            known = constant(rewriter, size, I32, before=end)
            limits.append(as_i64(rewriter, known, before=end))
    flat = [reshaped(rewriter, limit, 1, before=end) for limit in limits]
    ends = concatenated(rewriter, flat, before=end)
    steps = splat(rewriter, "1", shaped(I64, type.rank), before=end)
    sizes = [1 if k == d else size for k, size in enumerate(type.sizes)]
    return rewriter.create(
        "stablehlo.real_dynamic_slice",
        (value, starts, ends, steps),
        before=end,
        types=(shaped(type.element, *sizes),),
    ).result


def _update_output(
    rewriter: Rewriter, decoded: _Scan, old: Value, new: Value, place: tuple[Value, Operation]
) -> Value:
    """Return the output `old` of a scan with the slice `new` written to it.

    `place` has the index along the scanned dimension, and the operation before which ops are
    inserted.
    """
    at, end = place
    type, d = old.type, decoded.dimension
    assert isinstance(type, TensorType)
    sizes = [1 if k == d else size for k, size in enumerate(type.sizes)]
    part = reshaped(rewriter, new, *[size for size in sizes if size is not None], before=end)
    zero = constant(rewriter, 0, I64, before=end)
    starts = [at if k == d else zero for k in range(type.rank)]
    return rewriter.create(
        "stablehlo.dynamic_update_slice", (old, part, *starts), before=end, types=(type,)
    ).result


# --------------------------------------------------------------------------------------------------
# `chlo.ragged_dot`: one product per group, of a left operand that is zero outside the group.
#
# Source: StableHLO `ChloLegalizeToStablehlo.cpp`.


RAGGED_DOT_PATTERNS: Final = Patterns()

MOST_GROUPS: Final = 1 << 12
"""Maximum number of groups of a `ragged_dot` that is expanded: each group needs a dozen ops."""


class _Ragged(NamedTuple):
    """A `chlo.ragged_dot` with its operands and attributes.

    Attributes:
        op: The operation.
        lhs: The left operand.
        rhs: The right operand.
        sizes: The operand with the group sizes.
        dims: The dimension numbers by name, such as `lhs_ragged_dimensions`.
        properties: Attributes that the `dot_general` of each group gets: `precision_config`, if
            present.
    """

    op: Operation
    lhs: Value
    rhs: Value
    sizes: Value
    dims: dict[str, Dims]
    properties: dict[str, Attribute]

    @property
    def lhs_type(self) -> TensorType:
        assert isinstance(self.lhs.type, TensorType)
        return self.lhs.type

    @property
    def rhs_type(self) -> TensorType:
        assert isinstance(self.rhs.type, TensorType)
        return self.rhs.type

    @property
    def ragged(self) -> int:
        return self.dims["lhs_ragged_dimensions"][0]


@RAGGED_DOT_PATTERNS.on("chlo.ragged_dot")
def ragged_dot(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `chlo.ragged_dot` by one product per group.

    The form depends on the role of the ragged dimension: batching, contracting, or neither.
    """
    decoded, result = _read_ragged_dot(op), op.result.type
    if decoded is None or not isinstance(result, TensorType):
        return False
    # A ragged batching dimension needs no mask: every batch has one product anyway.
    if decoded.ragged in decoded.dims["lhs_batching_dimensions"]:
        made = _product(rewriter, decoded, decoded.lhs, decoded.rhs, result, group=None)
    # Groups divide the sum over the ragged dimension: the results are separate products.
    elif decoded.ragged in decoded.dims["lhs_contracting_dimensions"]:
        parts = _groups(rewriter, decoded, shaped(result.element, *result.sizes[1:]), slices=False)
        if parts is None or not all(isinstance(size, int) for size in result.sizes):
            return False
        rows = [reshaped(rewriter, part, 1, *result.shape[1:], before=op) for part in parts]
        made = concatenated(rewriter, rows, before=op)
    # Groups divide rows: each row is in one group, so that the masked products add up.
    else:
        parts = _groups(rewriter, decoded, result, slices=True)
        if not parts:
            return False
        made = parts[0]
    rewriter.replace(op, [made])
    return True


def _read_ragged_dot(op: Operation) -> _Ragged | None:
    """Return operands, dimensions and attributes of a `ragged_dot`; `None` if it is malformed."""
    given = op.get("ragged_dot_dimension_numbers")
    if len(op.operands) != 3 or not isinstance(given, StructAttr):
        return None
    lhs, rhs, sizes = op.operands
    if not all(isinstance(value.type, TensorType) for value in op.operands):
        return None
    names = (
        "lhs_batching_dimensions rhs_batching_dimensions lhs_contracting_dimensions"
        " rhs_contracting_dimensions lhs_ragged_dimensions rhs_group_dimensions"
    ).split()
    dims: dict[str, Dims] = {}
    for name in names:
        found = given.get(name) or ()
        if not isinstance(found, tuple):
            return None
        dims[name] = found
    if len(dims["lhs_ragged_dimensions"]) != 1 or len(dims["rhs_group_dimensions"]) > 1:
        return None
    properties: dict[str, Attribute] = {}
    precision = op.get("precision_config")
    if isinstance(precision, ArrayAttr):
        properties["precision_config"] = ArrayAttr(
            tuple(
                EnumAttr("stablehlo", e.name, e.value) if isinstance(e, EnumAttr) else e
                for e in precision.elements
            )
        )
    return _Ragged(op, lhs, rhs, sizes, dims, properties)


def _groups(
    rewriter: Rewriter, decoded: _Ragged, type: TensorType, *, slices: bool
) -> list[Value] | None:
    """Return the product of each group, with result type `type`.

    With `slices`, `rhs` has a dimension of groups, and the list has only the sum of the products.
    `None` if the number of groups is unknown or too large.
    """
    op, sizes = decoded.op, decoded.sizes.type
    assert isinstance(sizes, TensorType)
    if not sizes.is_static or not sizes.rank or not 0 < sizes.shape[-1] <= MOST_GROUPS:
        return None
    if slices and not decoded.dims["rhs_group_dimensions"]:
        return None
    lead = sizes.shape[:-1]
    start = splat(rewriter, "0", shaped(I64, *lead), before=op)
    numbers = _numbers(rewriter, decoded)
    zero = like_constant(rewriter, literal(0, decoded.lhs_type.element), decoded.lhs, op)
    parts: list[Value] = []
    for group in range(sizes.shape[-1]):
        part = sliced(
            rewriter, decoded.sizes, [0] * len(lead) + [group], [*lead, group + 1], before=op
        )
        count = as_i64(rewriter, reshaped(rewriter, part, *lead, before=op), before=op)
        limit = rewriter.create("stablehlo.add", (start, count), before=op).result
        masked = _masked(rewriter, decoded, (start, limit, numbers, zero))
        rhs = _group_of(rewriter, decoded, group) if slices else decoded.rhs
        product = _product(rewriter, decoded, masked, rhs, type, group=group if slices else None)
        if slices and parts:
            product = rewriter.create(
                "stablehlo.add", (parts[0], product), before=op, types=(type,)
            ).result
            parts = []
        parts.append(product)
        # Groups are consecutive along the ragged dimension: each begins where the last one ended.
        start = limit
    return parts


def _numbers(rewriter: Rewriter, decoded: _Ragged) -> Value:
    """Return an iota along the ragged dimension of the left operand; its other sizes are 1."""
    op, type, ragged = decoded.op, decoded.lhs_type, decoded.ragged
    sizes = [type.sizes[k] if k == ragged else 1 for k in range(type.rank)]
    properties = {"iota_dimension": i64(ragged)}
    wanted = shaped(I64, *sizes)
    if type.sizes[ragged] is not None:
        return rewriter.create("stablehlo.iota", (), properties, before=op, types=(wanted,)).result
    parts = [
        known_size(rewriter, decoded.lhs, k, before=op)
        if k == ragged
        else splat(rewriter, "1", shaped(I64, 1), before=op)
        for k in range(type.rank)
    ]
    shape = concatenated(rewriter, parts, before=op)
    return rewriter.create(
        "stablehlo.dynamic_iota", (shape,), properties, before=op, types=(wanted,)
    ).result


def _masked(
    rewriter: Rewriter, decoded: _Ragged, known: tuple[Value, Value, Value, Value]
) -> Value:
    """Return the left operand with zeros outside one group.

    `known` has four values: start and end of the group along the ragged dimension, an iota along
    it, and zeros in the shape of the left operand.
    """
    start, limit, numbers, zero = known
    op, type = decoded.op, decoded.lhs_type
    outer = [
        k
        for k in range(type.rank)
        if k not in decoded.dims["lhs_batching_dimensions"]
        and k not in decoded.dims["lhs_contracting_dimensions"]
        and k < decoded.ragged
    ]
    assert isinstance(start.type, TensorType)
    # Group sizes have the leading batching and outer dimensions of the left operand.
    dims = [*decoded.dims["lhs_batching_dimensions"], *outer][: start.type.rank]
    low = _spread(rewriter, decoded, start, dims)
    high = _spread(rewriter, decoded, limit, dims)
    at = _spread(rewriter, decoded, numbers, range(type.rank))
    pred = with_element(type, I1)
    inside = []
    for direction, border in (("GE", low), ("LT", high)):
        properties = {
            "comparison_direction": EnumAttr("stablehlo", "comparison_direction", direction)
        }
        inside.append(
            rewriter.create(
                "stablehlo.compare", (at, border), properties, before=op, types=(pred,)
            ).result
        )
    both = rewriter.create("stablehlo.and", inside, before=op, types=(pred,)).result
    return rewriter.create(
        "stablehlo.select", (both, decoded.lhs, zero), before=op, types=(type,)
    ).result


def _spread(
    rewriter: Rewriter, decoded: _Ragged, value: Value, dims: Dims | list[int] | range
) -> Value:
    """Return integers broadcast to the shape of the left operand, as `i64`.

    `dims` has, for each dimension of `value`, the dimension of the left operand.
    """
    op, type = decoded.op, with_element(decoded.lhs_type, I64)
    properties = {"broadcast_dimensions": integers(dims)}
    if type.is_static:
        return rewriter.create(
            "stablehlo.broadcast_in_dim", (value,), properties, before=op, types=(type,)
        ).result
    extents = TensorType(INDEX, (type.rank,))
    sizes = rewriter.create("shape.shape_of", (decoded.lhs,), before=op, types=(extents,))
    return rewriter.create(
        "stablehlo.dynamic_broadcast_in_dim",
        (value, sizes.result),
        properties,
        before=op,
        types=(type,),
    ).result


def _group_of(rewriter: Rewriter, decoded: _Ragged, group: int) -> Value:
    """Return the slice of the right operand for group `group`, without the dimension of groups."""
    op, type, at = decoded.op, decoded.rhs_type, decoded.dims["rhs_group_dimensions"][0]
    rest = [k for k in range(type.rank) if k != at]
    if type.is_static:
        starts = [group if k == at else 0 for k in range(type.rank)]
        limits = [group + 1 if k == at else type.shape[k] for k in range(type.rank)]
        part = sliced(rewriter, decoded.rhs, starts, limits, before=op)
        return reshaped(rewriter, part, *[type.shape[k] for k in rest], before=op)
    lows, highs = [], []
    for k in range(type.rank):
        if k == at:
            lows.append(constant(rewriter, [group], I64, before=op))
            highs.append(constant(rewriter, [group + 1], I64, before=op))
        else:
            lows.append(constant(rewriter, [0], I64, before=op))
            size = dimension_size(rewriter, decoded.rhs, k, before=op)
            highs.append(reshaped(rewriter, size, 1, before=op))
    bounds = [concatenated(rewriter, parts, before=op) for parts in (lows, highs)]
    steps = splat(rewriter, "1", shaped(I64, type.rank), before=op)
    sizes = tuple([1 if k == at else type.sizes[k] for k in range(type.rank)])
    part = rewriter.create(
        "stablehlo.real_dynamic_slice",
        (decoded.rhs, *bounds, steps),
        before=op,
        types=(shaped(type.element, *sizes),),
    ).result
    shape = concatenated(rewriter, [highs[k] for k in rest], before=op)
    flat = shaped(type.element, *[type.sizes[k] for k in rest])
    return rewriter.create(
        "stablehlo.dynamic_reshape", (part, shape), before=op, types=(flat,)
    ).result


def _product(
    rewriter: Rewriter,
    decoded: _Ragged,
    lhs: Value,
    rhs: Value,
    type: TensorType,
    *,
    group: int | None,
) -> Value:
    """Return the `dot_general` of the operands of one group, with result type `type`.

    If `group`, the index of the group, is not `None`, the dimension of groups was removed from
    `rhs`: later dimension numbers are 1 less.
    """
    # No dimension comes after the rank: without a group, none is renumbered.
    at = decoded.dims["rhs_group_dimensions"][0] if group is not None else decoded.rhs_type.rank
    fields = []
    for name in (
        "lhs_batching_dimensions",
        "rhs_batching_dimensions",
        "lhs_contracting_dimensions",
        "rhs_contracting_dimensions",
    ):
        dims = decoded.dims[name]
        if name.startswith("rhs"):
            dims = tuple([k - (k > at) for k in dims])
        if dims:
            fields.append((name, dims))
    properties = {
        **decoded.properties,
        "dot_dimension_numbers": StructAttr("stablehlo", "dot", tuple(fields)),
    }
    return rewriter.create(
        "stablehlo.dot_general", (lhs, rhs), properties, before=decoded.op, types=(type,)
    ).result
