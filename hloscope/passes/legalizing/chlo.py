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
    always_broadcastable,
    concatenated,
    constant,
    i64,
    integers,
    known_size,
    reshaped,
    shaped,
    sliced,
    splat,
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
from hloscope.passes.rewriting import Patterns, Rewriter
from hloscope.stablehlo import broadcast_together, made

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
    name, properties = _PLAIN[op.name], _properties(op)
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
    new = rewriter.create(name, operands, properties, before=op, types=(result,))
    rewriter.replace(op, new.results)
    return True


def _shape_of(rewriter: Rewriter, value: Value, before: Operation) -> Value:
    assert isinstance(value.type, TensorType)
    type = TensorType(INDEX, (value.type.rank,))
    return rewriter.create("shape.shape_of", (value,), before=before, types=(type,)).result


def _assuming(rewriter: Rewriter, op: Operation, witness: Value) -> tuple[Operation, Operation]:
    """Create a `shape.assuming` of `witness` that returns the results of `op`.

    Return it and the terminator of its region, which has no operands yet.
    """
    end = Operation("shape.assuming_yield", (), (), location=op.location)
    region = Region((Block((), (end,)),))
    types = [value.type for value in op.results]
    new = rewriter.create("shape.assuming", (witness,), before=op, types=types, regions=(region,))
    return new, end


def _stretched(
    rewriter: Rewriter, value: Value, sizes: Value, result: TensorType, end: Operation
) -> Value:
    """Broadcast a value at run time to the shape that the value `sizes` holds.

    Its dimensions are aligned to the last ones. `result` is the type of the result; ops are
    inserted before `end`.
    """
    type = value.type
    assert isinstance(type, TensorType)
    dims = integers(range(result.rank - type.rank, result.rank))
    return rewriter.create(
        "stablehlo.dynamic_broadcast_in_dim",
        (value, sizes),
        {"broadcast_dimensions": dims},
        before=end,
        types=(shaped(type.element, *result.sizes),),
    ).result


def _assuming_binary(rewriter: Rewriter, op: Operation, result: TensorType) -> Operation:
    shapes = [_shape_of(rewriter, value, op) for value in op.operands]
    witness = rewriter.create(
        "shape.cstr_broadcastable", shapes, before=op, types=(_WITNESS,)
    ).result
    made, end = _assuming(rewriter, op, witness)
    inner = [_shape_of(rewriter, value, end) for value in op.operands]
    extents = TensorType(INDEX, (result.rank,))
    sizes = rewriter.create("shape.broadcast", inner, before=end, types=(extents,)).result
    wide = [_stretched(rewriter, value, sizes, result, end) for value in op.operands]
    plain = rewriter.create(_PLAIN[op.name], wide, _properties(op), before=end, types=(result,))
    rewriter.set_operands(end, plain.results)
    return made


@BROADCASTING_PATTERNS.on("chlo.broadcast_select")
def select(rewriter: Rewriter, op: Operation) -> bool:
    """Replace `chlo.broadcast_select` by `select` of operands broadcast at run time.

    A scalar predicate is not broadcast.
    """
    types, result = _ranked(op.operands), op.result.type
    if types is None or len(types) != 3 or not isinstance(result, TensorType):
        return False
    shapes = [_shape_of(rewriter, value, op) for value in op.operands]
    # Sizes that are surely compatible need no check at run time.
    if always_broadcastable([type.sizes for type in types]):
        properties = {"passing": BoolAttr(True)}
        witness = rewriter.create(
            "shape.const_witness", (), properties, before=op, types=(_WITNESS,)
        )
    else:
        witness = rewriter.create("shape.cstr_broadcastable", shapes, before=op, types=(_WITNESS,))
    made, end = _assuming(rewriter, op, witness.result)
    unknown = shaped(INDEX, None)
    sizes = rewriter.create("shape.broadcast", shapes, before=end, types=(unknown,))
    extents = TensorType(INDEX, (result.rank,))
    cast = rewriter.create("tensor.cast", sizes.results, before=end, types=(extents,)).result
    pred, *branches = op.operands
    wide = []
    if types[0].rank:
        pred = _stretched(rewriter, pred, cast, result, end)
    wide = [_stretched(rewriter, value, cast, result, end) for value in branches]
    plain = rewriter.create("stablehlo.select", (pred, *wide), before=end, types=(result,))
    rewriter.set_operands(end, plain.results)
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
    if type.is_static:
        iota_type = shaped(I32, *type.sizes)
        numbers = rewriter.create(
            "stablehlo.iota", (), {"iota_dimension": i64(last)}, before=op, types=(iota_type,)
        ).result
        limits = None
    else:
        numbers, limits = _dynamic(rewriter, op, type, k.value)
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
        parts = [sliced(rewriter, value, zeros, ends, before=op) for value in ordered.results]
    else:
        vector = shaped(I64, type.rank)
        starts = splat(rewriter, "0", vector, before=op)
        steps = splat(rewriter, "1", vector, before=op)
        parts = [
            rewriter.create(
                "stablehlo.real_dynamic_slice",
                (value, starts, limits, steps),
                before=op,
                types=(wanted,),
            ).result
            for value, wanted in zip(ordered.results, results, strict=True)
        ]
    rewriter.replace(op, parts)
    return True


def _dynamic(rewriter: Rewriter, op: Operation, type: TensorType, k: int) -> tuple[Value, Value]:
    """Return the two values that a `top_k` of dynamic sizes computes at run time.

    They are an iota along the last dimension of the operand, and the limits of the slices of the
    results: the operand's sizes, with `k` as the last. `type` is the operand's type.
    """
    sizes = [known_size(rewriter, op.operands[0], d, before=op) for d in range(type.rank)]
    shape = concatenated(rewriter, sizes, before=op)
    wanted = reshaped(rewriter, constant(rewriter, k, I64, before=op), 1, before=op)
    limits = concatenated(rewriter, [*sizes[:-1], wanted], before=op)
    numbers = rewriter.create(
        "stablehlo.dynamic_iota",
        (shape,),
        {"iota_dimension": i64(type.rank - 1)},
        before=op,
        types=(shaped(I32, *type.sizes),),
    )
    return numbers.result, limits


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
    block = Block(arguments, (compare, end))
    for argument in arguments:
        argument.owner = block
    return Region((block,))


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
