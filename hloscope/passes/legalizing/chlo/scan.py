"""`chlo.scan`: a loop that reads a slice of each input and writes one into each output.

Source: StableHLO `ChloLegalizeToStablehlo.cpp`.  A reverse scan begins with the last slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from hloscope.ir import TensorType
from hloscope.mlir import (
    I1,
    I32,
    I64,
    INDEX,
    Block,
    BoolAttr,
    EnumAttr,
    IntegerAttr,
    Operation,
    Region,
    UnitAttr,
    Value,
)
from hloscope.passes.legalizing.chlo.sizes import as_i64, dimension_size
from hloscope.passes.legalizing.chlo.terms import literal
from hloscope.passes.legalizing.making import (
    concatenated,
    constant,
    integers,
    reshaped,
    shaped,
    splat,
)
from hloscope.passes.patterns import Patterns
from hloscope.passes.rewriting import OpenBlock, Rewriter

PATTERNS: Final = Patterns()


class _Scan(NamedTuple):
    """Operands, output types and attributes of a `scan`."""

    op: Operation
    inputs: tuple[Value, ...]
    inits: tuple[Value, ...]
    outputs: tuple[TensorType, ...]
    dimension: int
    is_reverse: bool


@PATTERNS.on("chlo.scan")
def scan(rewriter: Rewriter, op: Operation) -> bool:
    """Replace by a `while` whose state is the step, the carried values and the outputs."""
    read = _read(op)
    if read is None:
        return False
    count = dimension_size(rewriter, read.inputs[0], read.dimension, before=op)
    start = constant(rewriter, 0, I64, before=op)
    empty = [_zeros(rewriter, read, type) for type in read.outputs]
    operands = (start, *read.inits, *empty)
    types = tuple([value.type for value in operands])
    cond, body = _block(types), _block(types)
    regions = (Region((cond,)), Region((body,)))
    loop = rewriter.create("stablehlo.while", operands, before=op, types=types, regions=regions)
    cond, body = (region.block for region in loop.regions)
    _condition(rewriter, cond, count)
    _body(rewriter, read, body, count)
    carried, done = 1 + len(read.inits), loop.results
    # The loop has carried values first; the results of the scan have outputs first.
    rewriter.replace(op, [*done[carried:], *done[1:carried]])
    return True


def _read(op: Operation) -> _Scan | None:
    """Return the parts of a `scan`; `None` if it is malformed or another size is unknown."""
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
    """Return the number of carried operands, as the operand segments declare."""
    segments = op.get("operandSegmentSizes")
    values = getattr(segments, "values", None)
    if values and len(values) == 2:
        return int(values[1])
    return len(op.operands) - len(block.arguments)


def _block(types: Sequence[object]) -> Block:
    arguments = tuple([Value(type, None, k) for k, type in enumerate(types)])  # type: ignore[arg-type]
    block = Block(arguments)
    for argument in arguments:
        argument.owner = block
    return block


def _zeros(rewriter: Rewriter, read: _Scan, type: TensorType) -> Value:
    """Create the initial value of an output: zeros."""
    op = read.op
    zero = rewriter.constant(literal(0, type.element), shaped(type.element), before=op)
    properties = {"broadcast_dimensions": integers(())}
    if type.is_static:
        return rewriter.create(
            "stablehlo.broadcast_in_dim", (zero,), properties, before=op, types=(type,)
        ).result
    extents = shaped(INDEX, type.rank)
    sizes = rewriter.create("shape.shape_of", (read.inputs[0],), before=op, types=(extents,))
    return rewriter.create(
        "stablehlo.dynamic_broadcast_in_dim",
        (zero, sizes.result),
        properties,
        before=op,
        types=(type,),
    ).result


def _condition(rewriter: Rewriter, block: Block, count: Value) -> None:
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


def _body(rewriter: Rewriter, read: _Scan, block: Block, count: Value) -> None:
    """Fill the loop's body: slices of inputs, the scan's region, updates of outputs, next step."""
    step, carried = block.arguments[0], len(read.inits)
    # The terminator is created first: all other ops are inserted before it.
    end = rewriter.create("stablehlo.return", (), into=block, types=())
    at = step
    # A reverse scan runs from slice `count - 1` down to 0.
    if read.is_reverse:
        one = constant(rewriter, 1, I64, before=end)
        last = rewriter.create("stablehlo.subtract", (count, one), before=end).result
        at = rewriter.create("stablehlo.subtract", (last, step), before=end).result
    given = [_slice(rewriter, read, value, at, end) for value in read.inputs]
    inner = read.op.regions[0].block
    assert isinstance(inner, OpenBlock)
    assert inner.last is not None
    yielded = inner.last
    arguments = [*given, *block.arguments[1 : 1 + carried]]
    rewriter.inline(inner, arguments, before=end)
    # The yielded values are read after inlining, when arguments have been replaced.
    values = yielded.operands
    rewriter.erase(yielded)
    outputs = len(read.outputs)
    made = [
        _update_output(rewriter, read, old, new, (at, end))
        for old, new in zip(block.arguments[1 + carried :], values[:outputs], strict=True)
    ]
    one = constant(rewriter, 1, I64, before=end)
    following = rewriter.create("stablehlo.add", (step, one), before=end).result
    rewriter.set_operands(end, (following, *values[outputs:], *made))


def _slice(rewriter: Rewriter, read: _Scan, value: Value, at: Value, end: Operation) -> Value:
    """Return one slice of an input, without the scanned dimension."""
    type, d = value.type, read.dimension
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
        part = _dynamic_slice(rewriter, read, value, at, end)
    return reshaped(rewriter, part, *rest, before=end)


def _dynamic_slice(
    rewriter: Rewriter, read: _Scan, value: Value, at: Value, end: Operation
) -> Value:
    """Return a slice of size 1 along the scanned dimension, whose size is unknown."""
    type, d = value.type, read.dimension
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
    rewriter: Rewriter, read: _Scan, old: Value, new: Value, place: tuple[Value, Operation]
) -> Value:
    """Return an output with one more slice."""
    at, end = place
    type, d = old.type, read.dimension
    assert isinstance(type, TensorType)
    sizes = [1 if k == d else size for k, size in enumerate(type.sizes)]
    part = reshaped(rewriter, new, *[size for size in sizes if size is not None], before=end)
    zero = constant(rewriter, 0, I64, before=end)
    starts = [at if k == d else zero for k in range(type.rank)]
    return rewriter.create(
        "stablehlo.dynamic_update_slice", (old, part, *starts), before=end, types=(type,)
    ).result
