"""`stablehlo-legalize-quantized-op-to-qdq`: computes quantized ops in expressed floats.

Source: StableHLO `StablehloLegalizeQuantizedOpToQDQ.cpp`.
"""

from __future__ import annotations

from typing import Final

from hloscope.dialects import DEFINITIONS
from hloscope.mlir import Definition, Operation
from hloscope.passes.framework import Pass, until_none_fits
from hloscope.passes.legalizing.quantized.parameters import expressed_of, has_quantized, quantized
from hloscope.passes.patterns import Patterns
from hloscope.passes.rewriting import Rewriter

PATTERNS: Final = Patterns()

_COMBINING: Final = (
    "batch_norm_grad batch_norm_inference batch_norm_training cholesky clamp compare convolution"
    " dot dot_general select triangular_solve"
)
"""Ops that are not elementwise, whose quantized form is defined by dequantization, too."""


def _is_elementwise(definition: Definition) -> bool:
    """Is the op elementwise on quantized operands and results?"""
    values = definition.operands + definition.results
    takes_all = all("Q" in slot.constraint for slot in values)
    is_quantize = definition.name == "stablehlo.uniform_quantize"
    return "elementwise" in definition.traits and takes_all and not is_quantize


DEQUANTIZED_OPS: Final = (
    *(n for n in DEFINITIONS if n.startswith("stablehlo.") and _is_elementwise(DEFINITIONS[n])),
    *(f"stablehlo.{name}" for name in _COMBINING.split()),
)
"""Ops whose quantized form is defined by that of floats.

Source: StableHLO spec.
"""


@PATTERNS.on(*DEQUANTIZED_OPS)
def dequantized(rewriter: Rewriter, op: Operation) -> bool:
    """Dequantize the operands, apply the op, quantize the results."""
    if not has_quantized(op) or op.regions:
        return False
    operands = []
    for value in op.operands:
        if quantized(value.type) is None:
            operands.append(value)
        else:
            type = expressed_of(value.type)
            made = rewriter.create(
                "stablehlo.uniform_dequantize", (value,), before=op, types=(type,)
            )
            operands.append(made.result)
    new = rewriter.create(
        op.name,
        operands,
        op.properties,
        before=op,
        types=[expressed_of(value.type) for value in op.results],
        attributes=op.attributes,
    )
    results = []
    for old, made_value in zip(op.results, new.results, strict=True):
        if quantized(old.type) is None:
            results.append(made_value)
        else:
            back = rewriter.create(
                "stablehlo.uniform_quantize", (made_value,), before=op, types=(old.type,)
            )
            results.append(back.result)
    rewriter.replace(op, results)
    return True


PASS: Final = Pass(
    "stablehlo-legalize-quantized-op-to-qdq",
    until_none_fits(PATTERNS, "StablehloLegalizeQuantizedOpToQDQPass"),
    "Expands quantized ops into dequantize, op on floats, quantize.",
    on_functions=True,
)
