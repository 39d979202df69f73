"""`strip-debuginfo`: removes all locations.

Source: MLIR's `StripDebugInfo.cpp`.
"""

from __future__ import annotations

from typing import Final

from hloscope.mlir import UNKNOWN
from hloscope.passes.framework import Pass, Run


def _run(run: Run) -> None:
    for operation in run.rewriter.walk():
        operation.location = UNKNOWN
        for block in operation.blocks:
            for argument in block.arguments:
                argument.location = UNKNOWN


PASS: Final = Pass("strip-debuginfo", _run, "Removes all locations.")
