"""`stablehlo-legalize-qdq-to-quantized-op`: merges dequantize, op, quantize into one op.

Source: StableHLO `StablehloLegalizeQDQToQuantizedOp.cpp`.
"""

from __future__ import annotations

from typing import Final

from hloscope.mlir import Operation
from hloscope.passes.framework import Pass, until_none_fits
from hloscope.passes.patterns import Patterns
from hloscope.passes.rewriting import Rewriter

PATTERNS: Final = Patterns()


@PATTERNS.on("stablehlo.uniform_quantize")
def quantized_op(rewriter: Rewriter, op: Operation) -> bool:
    """Replace a quantized op of dequantized operands by the op on quantized types."""
    inner = op.operands[0].owner
    if not isinstance(inner, Operation) or inner.regions or len(inner.results) != 1:
        return False
    owners = [value.owner for value in inner.operands]
    sources = [
        owner.operands[0]
        for owner in owners
        if isinstance(owner, Operation) and owner.name == "stablehlo.uniform_dequantize"
    ]
    if not sources or len(sources) != len(owners):
        return False
    new = rewriter.create(
        inner.name,
        sources,
        inner.properties,
        before=op,
        types=(op.result.type,),
        attributes=inner.attributes,
        location=inner.location,
    )
    rewriter.replace(op, new.results)
    return True


PASS: Final = Pass(
    "stablehlo-legalize-qdq-to-quantized-op",
    until_none_fits(PATTERNS, "StablehloLegalizeQDQToQuantizedOpPass"),
    "Merges dequantize, op and quantize into one quantized op.",
    on_functions=True,
)
