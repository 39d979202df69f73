"""`chlo-legalize-to-stablehlo`: replaces every op of CHLO by ops of StableHLO.

Where sizes are known only at run time, ops of `shape` compute them.

Source: StableHLO `ChloLegalizeToStablehlo.cpp`.
"""

from __future__ import annotations

from typing import Final

from hloscope.mlir import Operation
from hloscope.passes.conversion import Conversion
from hloscope.passes.framework import Pass, Run
from hloscope.passes.legalizing.chlo import (
    bessel,
    bits,
    broadcasting,
    constants,
    elementary,
    error,
    gamma,
    hyperbolic,
    inverse,
    ragged_dot,
    scan,
    top_k,
)
from hloscope.passes.legalizing.chlo.expansions import rows

PATTERNS: Final = (
    *constants.PATTERNS,
    *broadcasting.PATTERNS,
    *top_k.PATTERNS,
    *ragged_dot.PATTERNS,
    *scan.PATTERNS,
    *bits.PATTERNS,
    *rows(elementary, inverse, hyperbolic, error, gamma, bessel, bits),
)


def _is_legal(operation: Operation) -> bool:
    return not operation.name.startswith("chlo.")


def _run(run: Run) -> None:
    Conversion(run, PATTERNS, _is_legal, broadcasting.warning_of).convert_functions()


PASS: Final = Pass(
    "chlo-legalize-to-stablehlo",
    _run,
    "Expands CHLO into StableHLO, with shape ops for unknown sizes.",
    on_functions=True,
)
