"""`chlo.scan` as a loop over slices, and `chlo.ragged_dot` as one product per group."""

from __future__ import annotations

from typing import Final, NamedTuple

from hloscope.ir import Dims, TensorType
from hloscope.mlir import (
    I1,
    I32,
    I64,
    ArrayAttr,
    Attribute,
    Block,
    BoolAttr,
    EnumAttr,
    IntegerAttr,
    Operation,
    StructAttr,
    UnitAttr,
    Value,
)
from hloscope.ops import with_element
from hloscope.passes.conversion import InsertionPoint, i64, shaped
from hloscope.passes.legalizing.terms import like_constant, literal
from hloscope.passes.patterns import Patterns
from hloscope.passes.rewriting import OpenBlock, Rewriter
from hloscope.stablehlo import i64_array, region_of

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
    at = InsertionPoint(rewriter, op)
    count = at.as_i64(at.size(decoded.inputs[0], decoded.dimension))
    start = at.constant(0, I64)
    empty = [_zeros(at, decoded, type) for type in decoded.outputs]
    operands = (start, *decoded.inits, *empty)
    types = tuple([value.type for value in operands])
    regions = tuple([region_of([Value(type) for type in types]) for _ in range(2)])
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


def _zeros(at: InsertionPoint, decoded: _Scan, type: TensorType) -> Value:
    """Return a tensor of zeros of `type`, the initial value of an output of the scan."""
    return at.broadcast(at.literal(literal(0, type.element)), (), type, decoded.inputs[0])


def _condition(rewriter: Rewriter, block: Block, count: Value) -> None:
    """Add to `block` the condition of a loop: its first argument, the step, is below `count`."""
    end = rewriter.create("stablehlo.return", (), into=block, types=())
    step = block.arguments[0]
    less = InsertionPoint(rewriter, end).compare("LT", step, count, shaped(I1))
    rewriter.set_operands(end, (less,))


def _body(rewriter: Rewriter, decoded: _Scan, block: Block, count: Value) -> None:
    """Add the operations of the loop's body to `block`.

    They slice the inputs, run the scan's region, update the outputs and increment the step. `count`
    is the value of the number of steps.
    """
    step, carried = block.arguments[0], len(decoded.inits)
    # The terminator is created first: all other ops are inserted before it.
    end = rewriter.create("stablehlo.return", (), into=block, types=())
    inside = InsertionPoint(rewriter, end)
    place = step
    # A reverse scan runs from slice `count - 1` down to 0.
    if decoded.is_reverse:
        last = inside.infer("stablehlo.subtract", count, inside.constant(1, I64))
        place = inside.infer("stablehlo.subtract", last, step)
    given = [_slice(inside, decoded, value, place) for value in decoded.inputs]
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
        _update_output(inside, decoded, old, new, place)
        for old, new in zip(block.arguments[1 + carried :], values[:outputs], strict=True)
    ]
    following = inside.infer("stablehlo.add", step, inside.constant(1, I64))
    rewriter.set_operands(end, (following, *values[outputs:], *made))


def _slice(at: InsertionPoint, decoded: _Scan, value: Value, place: Value) -> Value:
    """Return the slice of an input `value` at index `place`, without the scanned dimension."""
    type, d = value.type, decoded.dimension
    assert isinstance(type, TensorType)
    rest = [size for k, size in enumerate(type.sizes) if k != d and size is not None]
    if not type.is_static:
        return at.reshape(_dynamic_slice(at, decoded, value, place), *rest)
    zero = at.constant(0, I64)
    starts = [place if k == d else zero for k in range(type.rank)]
    sizes = i64_array([1 if k == d else size for k, size in enumerate(type.shape)])
    part = at.infer("stablehlo.dynamic_slice", value, *starts, slice_sizes=sizes)
    return at.reshape(part, *rest)


def _dynamic_slice(at: InsertionPoint, decoded: _Scan, value: Value, place: Value) -> Value:
    """Return the slice of size 1 of an input `value` at index `place`, for dynamic sizes.

    Only the scanned dimension may be dynamic.
    """
    type, d = value.type, decoded.dimension
    assert isinstance(type, TensorType)
    zero = at.constant(0, I64)
    starts = at.concatenate([at.reshape(place if k == d else zero, 1) for k in range(type.rank)])
    limits = []
    for k, size in enumerate(type.sizes):
        if k == d:
            limits.append(at.infer("stablehlo.add", place, at.constant(1, I64)))
        else:
            assert size is not None
            limits.append(at.as_i64(at.constant(size, I32)))
    ends = at.concatenate([at.reshape(limit, 1) for limit in limits])
    steps = at.splat("1", shaped(I64, type.rank))
    sizes = [1 if k == d else size for k, size in enumerate(type.sizes)]
    cut = shaped(type.element, *sizes)
    return at.make("stablehlo.real_dynamic_slice", cut, value, starts, ends, steps)


def _update_output(
    at: InsertionPoint, decoded: _Scan, old: Value, new: Value, place: Value
) -> Value:
    """Return the output `old` of a scan with the slice `new` written to it at index `place`."""
    type, d = old.type, decoded.dimension
    assert isinstance(type, TensorType)
    sizes = [1 if k == d else size for k, size in enumerate(type.sizes)]
    part = at.reshape(new, *[size for size in sizes if size is not None])
    zero = at.constant(0, I64)
    starts = [place if k == d else zero for k in range(type.rank)]
    return at.make("stablehlo.dynamic_update_slice", type, old, part, *starts)


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
    at = InsertionPoint(rewriter, op)
    # A ragged batching dimension needs no mask: every batch has one product anyway.
    if decoded.ragged in decoded.dims["lhs_batching_dimensions"]:
        made = _product(at, decoded, decoded.lhs, decoded.rhs, result, group=None)
    # Groups divide the sum over the ragged dimension: the results are separate products.
    elif decoded.ragged in decoded.dims["lhs_contracting_dimensions"]:
        parts = _groups(at, decoded, shaped(result.element, *result.sizes[1:]), slices=False)
        if parts is None or not result.is_static:
            return False
        made = at.concatenate([at.reshape(part, 1, *result.shape[1:]) for part in parts])
    # Groups divide rows: each row is in one group, so that the masked products add up.
    else:
        parts = _groups(at, decoded, result, slices=True)
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
    at: InsertionPoint, decoded: _Ragged, type: TensorType, *, slices: bool
) -> list[Value] | None:
    """Return the product of each group, with result type `type`.

    With `slices`, `rhs` has a dimension of groups, and the list has only the sum of the products.
    `None` if the number of groups is unknown or too large.
    """
    sizes = decoded.sizes.type
    assert isinstance(sizes, TensorType)
    if not sizes.is_static or not sizes.rank or not 0 < sizes.shape[-1] <= MOST_GROUPS:
        return None
    if slices and not decoded.dims["rhs_group_dimensions"]:
        return None
    lead = sizes.shape[:-1]
    start = at.splat("0", shaped(I64, *lead))
    numbers = _numbers(at, decoded)
    zero = like_constant(at, literal(0, decoded.lhs_type.element), decoded.lhs)
    parts: list[Value] = []
    for group in range(sizes.shape[-1]):
        part = at.slice(decoded.sizes, [0] * len(lead) + [group], [*lead, group + 1])
        limit = at.infer("stablehlo.add", start, at.as_i64(at.reshape(part, *lead)))
        masked = _masked(at, decoded, (start, limit, numbers, zero))
        rhs = _group_of(at, decoded, group) if slices else decoded.rhs
        product = _product(at, decoded, masked, rhs, type, group=group if slices else None)
        if slices and parts:
            parts = [at.make("stablehlo.add", type, parts[0], product)]
        else:
            parts.append(product)
        # Groups are consecutive along the ragged dimension: each begins where the last one ended.
        start = limit
    return parts


def _numbers(at: InsertionPoint, decoded: _Ragged) -> Value:
    """Return an iota along the ragged dimension of the left operand; its other sizes are 1."""
    type, ragged = decoded.lhs_type, decoded.ragged
    wanted = shaped(I64, *[type.sizes[k] if k == ragged else 1 for k in range(type.rank)])
    if type.sizes[ragged] is not None:
        return at.iota(wanted, ragged)
    parts = [
        at.known_size(decoded.lhs, k) if k == ragged else at.splat("1", shaped(I64, 1))
        for k in range(type.rank)
    ]
    shape, along = at.concatenate(parts), i64(ragged)
    return at.make("stablehlo.dynamic_iota", wanted, shape, iota_dimension=along)


def _masked(
    at: InsertionPoint, decoded: _Ragged, known: tuple[Value, Value, Value, Value]
) -> Value:
    """Return the left operand with zeros outside one group.

    `known` has four values: start and end of the group along the ragged dimension, an iota along
    it, and zeros in the shape of the left operand.
    """
    start, limit, numbers, zero = known
    type = decoded.lhs_type
    batching = decoded.dims["lhs_batching_dimensions"]
    inner = (*batching, *decoded.dims["lhs_contracting_dimensions"])
    outer = [k for k in range(min(type.rank, decoded.ragged)) if k not in inner]
    assert isinstance(start.type, TensorType)
    # Group sizes have the leading batching and outer dimensions of the left operand.
    dims = [*batching, *outer][: start.type.rank]
    whole, pred = with_element(type, I64), with_element(type, I1)
    low, high, place = (
        at.broadcast(value, along, whole, decoded.lhs)
        for value, along in ((start, dims), (limit, dims), (numbers, range(type.rank)))
    )
    inside = at.compare("GE", place, low, pred), at.compare("LT", place, high, pred)
    both = at.make("stablehlo.and", pred, *inside)
    return at.make("stablehlo.select", type, both, decoded.lhs, zero)


def _group_of(at: InsertionPoint, decoded: _Ragged, group: int) -> Value:
    """Return the slice of the right operand for group `group`, without the dimension of groups."""
    type, d = decoded.rhs_type, decoded.dims["rhs_group_dimensions"][0]
    rest = [k for k in range(type.rank) if k != d]
    if type.is_static:
        starts = [group if k == d else 0 for k in range(type.rank)]
        limits = [group + 1 if k == d else type.shape[k] for k in range(type.rank)]
        part = at.slice(decoded.rhs, starts, limits)
        return at.reshape(part, *[type.shape[k] for k in rest])
    lows, highs = [], []
    for k in range(type.rank):
        lows.append(at.constant([group if k == d else 0], I64))
        if k == d:
            highs.append(at.constant([group + 1], I64))
        else:
            highs.append(at.reshape(at.as_i64(at.size(decoded.rhs, k)), 1))
    bounds = at.concatenate(lows), at.concatenate(highs), at.splat("1", shaped(I64, type.rank))
    cut = shaped(type.element, *[1 if k == d else type.sizes[k] for k in range(type.rank)])
    part = at.make("stablehlo.real_dynamic_slice", cut, decoded.rhs, *bounds)
    shape = at.concatenate([highs[k] for k in rest])
    flat = shaped(type.element, *[type.sizes[k] for k in rest])
    return at.make("stablehlo.dynamic_reshape", flat, part, shape)


def _product(
    at: InsertionPoint,
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
    gone = decoded.dims["rhs_group_dimensions"][0] if group is not None else decoded.rhs_type.rank
    fields = []
    for name in (
        "lhs_batching_dimensions",
        "rhs_batching_dimensions",
        "lhs_contracting_dimensions",
        "rhs_contracting_dimensions",
    ):
        dims = decoded.dims[name]
        if name.startswith("rhs"):
            dims = tuple([k - (k > gone) for k in dims])
        if dims:
            fields.append((name, dims))
    dot = StructAttr("stablehlo", "dot", tuple(fields))
    return at.make(
        "stablehlo.dot_general",
        type,
        lhs,
        rhs,
        **decoded.properties,
        dot_dimension_numbers=dot,
    )
