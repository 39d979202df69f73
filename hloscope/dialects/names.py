"""Suggested names of results and block arguments, such as `%cst` instead of `%0`.

Fixed names are in the rows; this module has those that depend on the op.

Source: `getAsmResultNames` and `getAsmBlockArgumentNames` in MLIR and StableHLO.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hloscope.ir import ElementType, TensorType
from hloscope.mlir import (
    INDEX,
    BoolAttr,
    Definition,
    DenseArrayAttr,
    IntegerAttr,
    Operation,
    Region,
    Suggestion,
    element_text,
)


def _constant(op: Operation) -> Sequence[str]:
    """`c` for integers and booleans, else `cst`."""
    type_ = op.results[0].type
    element = type_.element if isinstance(type_, TensorType) else None
    whole = element is not None and element.kind in ("pred", "signed", "unsigned")
    return ("c" if whole and element != INDEX else "cst",)


def _number(op: Operation) -> Sequence[str]:
    """`true`, `c0` for an index, `c0_i32` for an integer, else `cst`."""
    match op.get("value"):
        case BoolAttr(value):
            return ("true" if value else "false",)
        case IntegerAttr(value, ElementType() as type_):
            return (f"c{value}" if type_ == INDEX else f"c{value}_{element_text(type_)}",)
        case _:
            return ("cst",)


def _size(op: Operation) -> Sequence[str]:
    value = op.get("value")
    return (f"c{value.value}",) if isinstance(value, IntegerAttr) else ()


def _iterated(region: Region) -> Sequence[str]:
    return ["iterArg"] * len(region.blocks[0].arguments)


def _scanned(region: Region) -> Sequence[str]:
    """Names of a scan's arguments: those for inputs, then those for carries."""
    sizes = region.parent.get("operandSegmentSizes") if region.parent is not None else None
    count = len(region.blocks[0].arguments)
    inputs = sizes.values[0] if isinstance(sizes, DenseArrayAttr) and sizes.values else 0
    return ["input"] * inputs + ["carry"] * max(count - inputs, 0)


_COMPUTED: Final[dict[str, Suggestion]] = {
    "stablehlo.constant": Suggestion(results=_constant),
    "arith.constant": Suggestion(results=_number),
    "shape.const_size": Suggestion(results=_size),
    "stablehlo.while": Suggestion(arguments=_iterated),
    "chlo.scan": Suggestion(arguments=_scanned),
}


def suggestion(definition: Definition) -> Suggestion | None:
    """Return the suggested names of an op's values; `None` if there are none."""
    computed = _COMPUTED.get(definition.name)
    if computed is not None or not definition.suggested:
        return computed
    return Suggestion(results=lambda op: definition.suggested)
