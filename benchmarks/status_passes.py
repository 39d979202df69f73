"""Rows of docs/status.md about passes over StableHLO."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from typing import Final

from benchmarks.measuring import ROOT, Figure, percent
from tests.conftest import SHARED
from tests.passes.chunks import cases, judge

_OPTIMIZING: Final = ("aggressive_folder", "side_effects", "aggressive_simpl", "target_independent")


def optimizes() -> Figure:
    """Upstream's tests of the folder, the simplifier and both, judged by their CHECK lines."""
    verdicts = {case.name: judge(case) for part in _OPTIMIZING for case in cases(part)}
    wrong = [name for name, why in verdicts.items() if why]
    return f"{percent(len(verdicts) - len(wrong), len(verdicts))} chunks", wrong


def optimizes_quickly() -> Figure:
    """GPT-48's training step, 41,000 ops, through `opt --pass target-independent-optimization`."""
    file = SHARED / "real/big/gpt48_train_step.stablehlo.mlir"
    command = [sys.executable, "-m", "hloscope", "opt", str(file), "--pass"]
    used = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [*command, "target-independent-optimization"],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            return f"exit code {done.returncode}", done.stderr.splitlines()[:5]
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return f"{min(used):.1f} s CPU, the best of three", [f"{seconds:.1f} s" for seconds in used]


ROWS: Final[dict[str, tuple[str, str, bool, Callable[[], Figure]]]] = {
    "optimizing": ("folding, simplification", "≥ 98 % of the chunks", True, optimizes),
    "optimizing-speed": ("GPT-48 optimised", "< 5 s", True, optimizes_quickly),
}
