"""Rows of docs/status.md about passes over StableHLO."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from benchmarks.measuring import ROOT, Figure, figure, percent, suite
from benchmarks.status_dynamism import REFINING
from tests.conftest import SHARED
from tests.passes import random_programs
from tests.passes.chunks import Case, cases, judge
from tests.passes.testdata import FINE, REDEFINED, REFUSED, SIGNLESS

_OPTIMIZING: Final = ("aggressive_folder", "side_effects", "aggressive_simpl", "target_independent")


def optimizes() -> Figure:
    """Upstream's tests of the folder, the simplifier and both, judged by their CHECK lines."""
    return _judged(case for part in _OPTIMIZING for case in cases(part))


def converts() -> Figure:
    """All other chunks of the tests of passes: shape, CHLO, quantised, versions, the rest."""
    known = (*_OPTIMIZING, *REFINING)
    return _judged(c for c in cases() if not any(part in c.chunk["source"] for part in known))


def _judged(chosen: Iterable[Case]) -> Figure:
    verdicts = {case.name: judge(case) for case in chosen}
    wrong = [f"{name}: {why.splitlines()[0]}" for name, why in verdicts.items() if why]
    return f"{percent(len(verdicts) - len(wrong), len(verdicts))} chunks", wrong


def random_meaning() -> Figure:
    """Every pass on 1,000 random programs, interpreted before and after.

    Refused is what a pass has no answer for; it says so.
    """
    counts, wrong = random_programs.counted(range(1000), random_programs.names())
    return _runs(counts, len(wrong)), wrong


def meaning() -> Figure:
    """Every pass on upstream's executable programs, interpreted before and after.

    Refused is what a pass has no answer for; it says so.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.passes.testdata", "--json"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    if not lines:
        return "not measured: tests/passes/testdata.py printed nothing", [done.stderr[-200:]]
    counts: dict[str, Counter[str]] = {k: Counter(row) for k, row in json.loads(lines[-1]).items()}
    wrong = {
        name: sum(n for what, n in row.items() if what not in FINE) for name, row in counts.items()
    }
    return _runs(counts, sum(wrong.values())), [f"`{name}`: {n}" for name, n in wrong.items() if n]


def _runs(counts: dict[str, Counter[str]], changed: int) -> str:
    runs = sum(row.total() - row[REDEFINED] for row in counts.values())
    refused, redefined = (sum(row[k] for row in counts.values()) for k in (REFUSED, REDEFINED))
    said = f"{changed} changed of {runs:,} runs of {len(counts)} passes; {refused:,} refused"
    if redefined:
        said += f"; {redefined:,} not counted, whose unsigned integers `{SIGNLESS}` makes signed"
    return said


def laws() -> Figure:
    """Each law of the simplifier fires, keeps values, and needs its side condition."""
    return figure(*suite("tests/passes/test_laws.py"))


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
    "converting": ("other passes", "≥ 98 % of the chunks", True, converts),
    "pass-random": ("passes, random programs", "equal bit for bit", False, random_meaning),
    "pass-meaning": ("passes, real programs", "0 changed", True, meaning),
    "pass-laws": ("passes, laws", "100 %", False, laws),
    "optimizing-speed": ("GPT-48 optimised", "< 5 s", True, optimizes_quickly),
}
