"""`chlo.top_k`: a descending sort, then a slice of the first `k`.

Source: StableHLO `ChloLegalizeToStablehlo.cpp`.
"""

from __future__ import annotations

from typing import Final

from hloscope.ir import TensorType
from hloscope.mlir import (
    I1,
    I32,
    I64,
    Block,
    BoolAttr,
    EnumAttr,
    IntegerAttr,
    Operation,
    Region,
    Value,
)
from hloscope.passes.legalizing.chlo.sizes import known_size
from hloscope.passes.legalizing.making import (
    concatenated,
    constant,
    i64,
    reshaped,
    shaped,
    sliced,
    splat,
)
from hloscope.passes.patterns import Patterns
from hloscope.passes.rewriting import Rewriter
from hloscope.stablehlo import made

PATTERNS: Final = Patterns()


@PATTERNS.on("chlo.top_k")
def top_k(rewriter: Rewriter, op: Operation) -> bool:
    """Sort values with their indices, descending and stable, and slice both results."""
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
    """Return an iota along the last dimension, and the sizes of the results as limits."""
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
    """Return a comparator: is the first value greater (in total order for floats)?"""
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
