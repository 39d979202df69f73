"""What results and block arguments of ops would like to be called: `%cst` instead of `%0`.

Source: `getAsmResultNames` and `getAsmBlockArgumentNames` in MLIR and StableHLO; MLIR also names
the results of an op that has several, each with a name in its definition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hloscope.ir.types import ElementType, TensorType
from hloscope.mlir.attributes import BoolAttr, DenseArrayAttr, IntegerAttr
from hloscope.mlir.dialects import Suggestion
from hloscope.mlir.ir import Operation, Region
from hloscope.mlir.types import INDEX, element_text

_FIXED: Final = """
    stablehlo.batch_norm_grad       grad_operand grad_scale grad_offset
    stablehlo.batch_norm_training   output batch_mean batch_var
    stablehlo.rng_bit_generator     output_state output
    chlo.top_k                      values indices
    arith.addui_extended            sum overflow
    arith.mulsi_extended            low high
    arith.mului_extended            low high
    shape.split_at                  head tail
    tensor.bitcast                  bitcast
    tensor.cast                     cast
    tensor.collapse_shape           collapsed
    tensor.concat                   concat
    tensor.dim                      dim
    tensor.expand_shape             expanded
    tensor.extract                  extracted
    tensor.extract_slice            extracted_slice
    tensor.from_elements            from_elements
    tensor.gather                   gather
    tensor.generate                 generated
    tensor.insert                   inserted
    tensor.insert_slice             inserted_slice
    tensor.pad                      padded
    tensor.rank                     rank
    tensor.reshape                  reshape
    tensor.scatter                  scatter
    tensor.splat                    splat
    memref.cast                     cast
    memref.dim                      dim
"""


def _constant(op: Operation) -> Sequence[str]:
    """`c` for integers and booleans, `cst` for everything else."""
    type_ = op.results[0].type
    element = type_.element if isinstance(type_, TensorType) else None
    whole = element is not None and element.kind in ("pred", "signed", "unsigned")
    return ("c" if whole and element != INDEX else "cst",)


def _number(op: Operation) -> Sequence[str]:
    """`true`, `c0` for an index, `c0_i32` for an integer, `cst` for everything else."""
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
    """Those of the inputs, then those carried along."""
    sizes = region.parent.get("operandSegmentSizes") if region.parent is not None else None
    count = len(region.blocks[0].arguments)
    inputs = sizes.values[0] if isinstance(sizes, DenseArrayAttr) and sizes.values else 0
    return ["input"] * inputs + ["carry"] * max(count - inputs, 0)


def _always(names: Sequence[str]) -> Suggestion:
    return Suggestion(results=lambda op: names)


_SUGGESTIONS: Final[dict[str, Suggestion]] = {
    **{
        name: _always(names)
        for name, *names in (row.split() for row in _FIXED.strip().splitlines())
    },
    "stablehlo.constant": Suggestion(results=_constant),
    "arith.constant": Suggestion(results=_number),
    "shape.const_size": Suggestion(results=_size),
    "stablehlo.while": Suggestion(arguments=_iterated),
    "chlo.scan": Suggestion(arguments=_scanned),
}


def suggestions(dialect: str) -> Mapping[str, Suggestion]:
    """Names for values of the dialect's ops, by the op's full name.

    >>> sorted(suggestions("chlo"))
    ['chlo.scan', 'chlo.top_k']
    """
    prefix = f"{dialect}."
    return {name: found for name, found in _SUGGESTIONS.items() if name.startswith(prefix)}
