"""`chlo-legalize-to-stablehlo`: replaces every op of CHLO by ops of StableHLO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hloscope.errors import HloscopeError
from hloscope.ir import DialectType, TensorType, Type
from hloscope.mlir import (
    I1,
    I32,
    I64,
    INDEX,
    Attribute,
    Block,
    BoolAttr,
    DenseArrayAttr,
    EnumAttr,
    IntegerAttr,
    Operation,
    Region,
    Value,
)
from hloscope.passes.conversion import (
    Conversion,
    InsertionPoint,
    always_broadcastable,
    i64,
    shaped,
)
from hloscope.passes.framework import Pass, Run
from hloscope.passes.legalizing.chlo_loops import RAGGED_DOT_PATTERNS, SCAN_PATTERNS
from hloscope.passes.legalizing.elementary_functions import (
    BITS_PATTERNS,
    BITS_ROWS,
    ELEMENTARY_ROWS,
    HYPERBOLIC_ROWS,
    INVERSE_ROWS,
)
from hloscope.passes.legalizing.special_functions import BESSEL_ROWS, ERROR_ROWS, GAMMA_ROWS
from hloscope.passes.legalizing.terms import CONSTANTS_PATTERNS, rows
from hloscope.passes.patterns import Patterns
from hloscope.passes.rewriting import Rewriter
from hloscope.stablehlo import broadcast_together, made, region_of

# --------------------------------------------------------------------------------------------------
# `chlo.broadcast_*`: explicit broadcasts of the operands, then the plain op.
#
# Unknown sizes are compared and broadcast by ops of `shape`, under the assumption that they are
# compatible.
#
# Source: StableHLO `ChloLegalizeToStablehlo.cpp`.


BROADCASTING_PATTERNS: Final = Patterns()

_WITNESS: Final = DialectType("!shape.witness")

_PLAIN: Final = {
    f"chlo.broadcast_{name}": f"stablehlo.{name}"
    for name in (
        "add and atan2 compare complex divide maximum minimum multiply or power remainder"
        " shift_left shift_right_arithmetic shift_right_logical subtract xor"
    ).split()
} | {f"chlo.broadcast_{name}": f"chlo.{name}" for name in "next_after polygamma zeta".split()}


def _properties(op: Operation) -> dict[str, Attribute]:
    """Return the attributes of the StableHLO op that replaces a CHLO op.

    Enums become StableHLO's; `broadcast_dimensions` is dropped.
    """
    found = {k: v for k, v in op.properties.items() if k != "broadcast_dimensions"}
    return {
        k: EnumAttr("stablehlo", v.name, v.value) if isinstance(v, EnumAttr) else v
        for k, v in found.items()
    }


def _ranked(values: Sequence[Value]) -> list[TensorType] | None:
    types = [value.type for value in values if isinstance(value.type, TensorType)]
    return types if len(types) == len(values) else None


def _is_known(type: Type) -> bool:
    """Does every dimension of the type have a static size or a bound?"""
    return isinstance(type, TensorType) and (type.is_static or type.is_bounded)


def broadcasts_as_numpy(op: Operation, types: Sequence[TensorType]) -> bool:
    """Are the dimensions of the operand of lower rank aligned to the last dimensions of the other?

    Numpy's broadcasting aligns them so.
    """
    given = op.get("broadcast_dimensions")
    if not isinstance(given, DenseArrayAttr):
        return given is None
    small, large = sorted((types[0].rank, types[1].rank))
    return given.values == tuple(range(large - small, large))


@BROADCASTING_PATTERNS.on(*_PLAIN)
def binary(rewriter: Rewriter, op: Operation) -> bool:
    """Replace a binary CHLO op with implicit broadcasting by the StableHLO op.

    Operands of equal shape are used unchanged, static or bounded ones are broadcast statically, and
    others at run time.
    """
    types = _ranked(op.operands)
    result = op.result.type
    if types is None or len(types) != 2 or not isinstance(result, TensorType):
        return False
    left, right = types
    known = _is_known(left) and _is_known(right)
    same = (left.sizes, left.bounds, left.encoding) == (right.sizes, right.bounds, right.encoding)
    if known and same:
        operands: Sequence[Value] = op.operands
    # Other alignments are refused, with the message of `warning_of`.
    elif not broadcasts_as_numpy(op, types):
        return False
    # A bounded or static result needs no sizes from run time.
    elif known and _is_known(result):
        try:
            made, operands = broadcast_together(op.operands)
        except HloscopeError:
            return False
        for new in made:
            new.location = op.location
            rewriter.insert(new, before=op)
    else:
        rewriter.replace(op, _assuming_binary(rewriter, op, result).results)
        return True
    return rewriter.replace_by(op, _PLAIN[op.name], operands, _properties(op))


def _assuming(rewriter: Rewriter, op: Operation, witness: Value) -> tuple[Operation, Operation]:
    """Create a `shape.assuming` of `witness` that returns the results of `op`.

    Return it and the terminator of its region, which has no operands yet.
    """
    end = Operation("shape.assuming_yield", (), (), location=op.location)
    region = Region((Block((), (end,)),))
    types = [value.type for value in op.results]
    new = rewriter.create("shape.assuming", (witness,), before=op, types=types, regions=(region,))
    return new, end


def _stretched(at: InsertionPoint, value: Value, sizes: Value, result: TensorType) -> Value:
    """Broadcast a value at run time to the shape that the value `sizes` holds.

    Its dimensions are aligned to the last ones. `result` is the type of the result.
    """
    type = value.type
    assert isinstance(type, TensorType)
    along = range(result.rank - type.rank, result.rank)
    return at.broadcast_to(value, along, shaped(type.element, *result.sizes), sizes)


def _assuming_binary(rewriter: Rewriter, op: Operation, result: TensorType) -> Operation:
    at = InsertionPoint(rewriter, op)
    shapes = [at.shape_of(value) for value in op.operands]
    witness = at.make("shape.cstr_broadcastable", _WITNESS, *shapes)
    made, end = _assuming(rewriter, op, witness)
    inside = InsertionPoint(rewriter, end)
    shapes = [inside.shape_of(value) for value in op.operands]
    sizes = inside.make("shape.broadcast", shaped(INDEX, result.rank), *shapes)
    wide = [_stretched(inside, value, sizes, result) for value in op.operands]
    plain = inside.make(_PLAIN[op.name], result, *wide, **_properties(op))
    rewriter.set_operands(end, (plain,))
    return made


@BROADCASTING_PATTERNS.on("chlo.broadcast_select")
def select(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `chlo.broadcast_select` by `select` of operands broadcast at run time.

    A scalar predicate is not broadcast.
    """
    types, result = _ranked(op.operands), op.result.type
    if types is None or len(types) != 3 or not isinstance(result, TensorType):
        return False
    at = InsertionPoint(rewriter, op)
    shapes = [at.shape_of(value) for value in op.operands]
    # Sizes that are surely compatible need no check at run time.
    if always_broadcastable([type.sizes for type in types]):
        witness = at.make("shape.const_witness", _WITNESS, passing=BoolAttr(True))
    else:
        witness = at.make("shape.cstr_broadcastable", _WITNESS, *shapes)
    made, end = _assuming(rewriter, op, witness)
    inside = InsertionPoint(rewriter, end)
    sizes = inside.make("shape.broadcast", shaped(INDEX, None), *shapes)
    sizes = inside.make("tensor.cast", shaped(INDEX, result.rank), sizes)
    pred, *branches = op.operands
    if types[0].rank:
        pred = _stretched(inside, pred, sizes, result)
    wide = [_stretched(inside, value, sizes, result) for value in branches]
    rewriter.set_operands(end, (inside.make("stablehlo.select", result, pred, *wide),))
    rewriter.replace(op, made.results)
    return True


def warning_of(op: Operation) -> str | None:
    """Return a warning if the broadcast of an op is not aligned to the last dimensions.

    Else `None`.
    """
    types = _ranked(op.operands)
    if op.name not in _PLAIN or types is None or len(types) != 2:
        return None
    given = op.get("broadcast_dimensions")
    if broadcasts_as_numpy(op, types) or not isinstance(given, DenseArrayAttr):
        return None
    dims = ", ".join(map(str, given.values))
    return f"unsupported non prefix-padded dynamic rank broadcast_dimensions = {dims}"


# --------------------------------------------------------------------------------------------------
# `chlo.top_k`: a descending sort, then a slice of the first `k`.
#
# Source: StableHLO `ChloLegalizeToStablehlo.cpp`.


TOP_K_PATTERNS: Final = Patterns()


@TOP_K_PATTERNS.on("chlo.top_k")
def top_k(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `chlo.top_k` by a stable descending sort of values and indices, and two slices."""
    operand, k = op.operands[0], op.get("k")
    type = operand.type
    results = [value.type for value in op.results]
    if not isinstance(type, TensorType) or not type.rank or not isinstance(k, IntegerAttr):
        return False
    if len(results) != 2 or not all(isinstance(t, TensorType) for t in results):
        return False
    last, most = type.rank - 1, type.sizes[-1]
    # A `k` beyond a known size is invalid, and must not become an invalid slice.
    if k.value < 0 or (most is not None and k.value > most):
        return False
    at, limits = InsertionPoint(rewriter, op), None
    if type.is_static:
        numbers = at.iota(shaped(I32, *type.sizes), last)
    else:
        numbers, limits = _dynamic(at, operand, type, k.value)
    # A stable sort keeps the order of equal values, so that lower indices come first.
    ordered = rewriter.create(
        "stablehlo.sort",
        (operand, numbers),
        {"dimension": i64(last), "is_stable": BoolAttr(True)},
        before=op,
        types=(type, numbers.type),
        regions=(_greater(type),),
    )
    if limits is None:
        zeros, ends = [0] * type.rank, [*type.shape[:-1], k.value]
        parts = [at.slice(value, zeros, ends) for value in ordered.results]
    else:
        vector = shaped(I64, type.rank)
        bounds = at.splat("0", vector), limits, at.splat("1", vector)
        parts = [
            at.make("stablehlo.real_dynamic_slice", wanted, value, *bounds)
            for value, wanted in zip(ordered.results, results, strict=True)
        ]
    rewriter.replace(op, parts)
    return True


def _dynamic(at: InsertionPoint, operand: Value, type: TensorType, k: int) -> tuple[Value, Value]:
    """Return the two values that a `top_k` of dynamic sizes computes at run time.

    They are an iota along the last dimension of the operand, and the limits of the slices of the
    results: the operand's sizes, with `k` as the last. `type` is the operand's type.
    """
    sizes = [at.known_size(operand, d) for d in range(type.rank)]
    shape = at.concatenate(sizes)
    limits = at.concatenate([*sizes[:-1], at.reshape(at.constant(k, I64), 1)])
    numbers = at.make(
        "stablehlo.dynamic_iota",
        shaped(I32, *type.sizes),
        shape,
        iota_dimension=i64(type.rank - 1),
    )
    return numbers, limits


def _greater(type: TensorType) -> Region:
    """Return the comparator region of a descending sort; floats are compared in total order."""
    kinds = (type.element, type.element, I32, I32)
    arguments = tuple([Value(shaped(element), None, n) for n, element in enumerate(kinds)])
    properties = {"comparison_direction": EnumAttr("stablehlo", "comparison_direction", "GT")}
    # A comparison with NaN is false both ways; a total order keeps the sort well-defined.
    if type.element.kind == "float":
        properties["compare_type"] = EnumAttr("stablehlo", "comparison_type", "TOTALORDER")
    compare = made("stablehlo.compare", arguments[:2], properties, types=(shaped(I1),))
    end = made("stablehlo.return", compare.results, types=())
    return region_of(arguments, (compare, end))


# --------------------------------------------------------------------------------------------------
# `chlo-legalize-to-stablehlo`: replaces every op of CHLO by ops of StableHLO.
#
# Where sizes are known only at run time, ops of `shape` compute them.
#
# Source: StableHLO `ChloLegalizeToStablehlo.cpp`.


PATTERNS: Final = (
    *CONSTANTS_PATTERNS,
    *BROADCASTING_PATTERNS,
    *TOP_K_PATTERNS,
    *RAGGED_DOT_PATTERNS,
    *SCAN_PATTERNS,
    *BITS_PATTERNS,
    *rows(
        ELEMENTARY_ROWS,
        INVERSE_ROWS,
        HYPERBOLIC_ROWS,
        ERROR_ROWS,
        GAMMA_ROWS,
        BESSEL_ROWS,
        BITS_ROWS,
    ),
)


def _is_legal(operation: Operation) -> bool:
    return not operation.name.startswith("chlo.")


def _run(run: Run) -> None:
    Conversion(run, PATTERNS, _is_legal, warning_of).convert_functions()


PASS: Final = Pass(
    "chlo-legalize-to-stablehlo",
    _run,
    "Expands CHLO into StableHLO, with shape ops for unknown sizes.",
    on_functions=True,
)
