"""`stablehlo-legalize-composite-to-call`: replaces composites by calls of their decomposition.

Source: StableHLO `StablehloLegalizeCompositeToCall.cpp`.
"""

from __future__ import annotations

from typing import Final

from hloscope.mlir import Operation, StringAttr, SymbolAttr
from hloscope.passes.conversion import Conversion
from hloscope.passes.framework import Option, Pass, Run, names
from hloscope.passes.patterns import Patterns
from hloscope.passes.rewriting import Rewriter

PATTERNS: Final = Patterns()

_COMPOSITE: Final = "stablehlo.composite"


@PATTERNS.on(_COMPOSITE)
def composite(rewriter: Rewriter, op: Operation) -> bool:
    """Replace a composite by a call; its attributes are dropped."""
    callee = op.get("decomposition")
    if not isinstance(callee, SymbolAttr):
        return False
    types = [value.type for value in op.results]
    new = rewriter.create("func.call", op.operands, {"callee": callee}, before=op, types=types)
    rewriter.replace(op, new.results)
    return True


def _run(run: Run) -> None:
    excepted = frozenset(run.options["except"])

    def is_legal(operation: Operation) -> bool:
        if operation.name != _COMPOSITE:
            return True
        name = operation.get("name")
        return isinstance(name, StringAttr) and name.text in excepted

    Conversion(run, PATTERNS, is_legal).convert_functions()


PASS: Final = Pass(
    "stablehlo-legalize-composite-to-call",
    _run,
    "Replaces composites by calls of their decompositions.",
    {"except": Option((), "Names of composites that stay.", names)},
    on_functions=True,
)
