"""`chlo.broadcast_*`: explicit broadcasts of the operands, then the plain op.

Unknown sizes are compared and broadcast by ops of `shape`, under the assumption that they are
compatible.

Source: StableHLO `ChloLegalizeToStablehlo.cpp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hloscope.errors import HloscopeError
from hloscope.ir import DialectType, TensorType, Type
from hloscope.mlir import (
    INDEX,
    Attribute,
    Block,
    BoolAttr,
    DenseArrayAttr,
    EnumAttr,
    Operation,
    Region,
    Value,
)
from hloscope.passes.legalizing.making import integers, shaped, surely_meet
from hloscope.passes.patterns import Patterns
from hloscope.passes.rewriting import Rewriter
from hloscope.stablehlo import broadcast_together

PATTERNS: Final = Patterns()

_WITNESS: Final = DialectType("!shape.witness")

_PLAIN: Final = {
    f"chlo.broadcast_{name}": f"stablehlo.{name}"
    for name in (
        "add and atan2 compare complex divide maximum minimum multiply or power remainder"
        " shift_left shift_right_arithmetic shift_right_logical subtract xor"
    ).split()
} | {f"chlo.broadcast_{name}": f"chlo.{name}" for name in "next_after polygamma zeta".split()}


def _properties(op: Operation) -> dict[str, Attribute]:
    """Return the attributes of the plain op; enumerations get StableHLO's dialect."""
    found = {k: v for k, v in op.properties.items() if k != "broadcast_dimensions"}
    return {
        k: EnumAttr("stablehlo", v.name, v.value) if isinstance(v, EnumAttr) else v
        for k, v in found.items()
    }


def _ranked(values: Sequence[Value]) -> list[TensorType] | None:
    types = [value.type for value in values if isinstance(value.type, TensorType)]
    return types if len(types) == len(values) else None


def _is_known(type: Type) -> bool:
    """Are all sizes known or bounded?"""
    return isinstance(type, TensorType) and (type.is_static or type.is_bounded)


def broadcasts_as_numpy(op: Operation, types: Sequence[TensorType]) -> bool:
    """Does the smaller operand have the last dimensions of the larger one, as in numpy?"""
    given = op.get("broadcast_dimensions")
    if not isinstance(given, DenseArrayAttr):
        return given is None
    small, large = sorted((types[0].rank, types[1].rank))
    return given.values == tuple(range(large - small, large))


@PATTERNS.on(*_PLAIN)
def binary(rewriter: Rewriter, op: Operation) -> bool:
    """Use equal shapes unchanged; broadcast known shapes statically, others at run time."""
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
    """Return a `shape.assuming` whose region has only its terminator, and the terminator."""
    end = Operation("shape.assuming_yield", (), (), location=op.location)
    region = Region((Block((), (end,)),))
    types = [value.type for value in op.results]
    new = rewriter.create("shape.assuming", (witness,), before=op, types=types, regions=(region,))
    return new, end


def _stretched(
    rewriter: Rewriter, value: Value, sizes: Value, result: TensorType, end: Operation
) -> Value:
    """Broadcast a value to the sizes of the result, aligned to the last dimensions."""
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


@PATTERNS.on("chlo.broadcast_select")
def select(rewriter: Rewriter, op: Operation) -> bool:
    """Broadcast by ops of `shape`; a scalar predicate is not broadcast."""
    types, result = _ranked(op.operands), op.result.type
    if types is None or len(types) != 3 or not isinstance(result, TensorType):
        return False
    shapes = [_shape_of(rewriter, value, op) for value in op.operands]
    # Sizes that are surely compatible need no check at run time.
    if surely_meet([type.sizes for type in types]):
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
    """Return a warning about a broadcast that is not aligned to the last dimensions, or `None`."""
    types = _ranked(op.operands)
    if op.name not in _PLAIN or types is None or len(types) != 2:
        return None
    given = op.get("broadcast_dimensions")
    if broadcasts_as_numpy(op, types) or not isinstance(given, DenseArrayAttr):
        return None
    dims = ", ".join(map(str, given.values))
    return f"unsupported non prefix-padded dynamic rank broadcast_dimensions = {dims}"
