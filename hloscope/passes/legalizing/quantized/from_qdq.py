"""`stablehlo-legalize-qdq-to-quantized-op`: what is between dequantize and quantize is quantised.

Source: StableHLO `StablehloLegalizeQDQToQuantizedOp.cpp`.
"""

from __future__ import annotations

from typing import Final

from hloscope.mlir import Operation
from hloscope.passes.framework import Pass, Run
from hloscope.passes.patterns import Patterns
from hloscope.passes.rewriting import Rewriter

PATTERNS: Final = Patterns()

_NO_END: Final = "Failed to converge StablehloLegalizeQDQToQuantizedOpPass in 10 iterations"


@PATTERNS.on("stablehlo.uniform_quantize")
def quantized_op(rewriter: Rewriter, op: Operation) -> bool:
    """All operands of what is quantised are dequantised."""
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


def _run(run: Run) -> None:
    for function in run.functions():
        if not run.greedy(function, PATTERNS):
            run.error(function, _NO_END)


PASS: Final = Pass(
    "stablehlo-legalize-qdq-to-quantized-op",
    _run,
    "Ops of real numbers between dequantize and quantize become quantised ops.",
    on_functions=True,
)
