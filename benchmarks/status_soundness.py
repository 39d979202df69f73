"""Rows of the status table about soundness: what is said against what programs do."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Final

from benchmarks.measuring import ROOT, Figure, benchmark, figure, suite

PROGRAMS: Final = 10_000
"""Generated programs of each language."""
MUTATIONS: Final = 20_000


def generated() -> Figure:
    """Random programs that nest, asked in both directions, against their execution.

    A failure is an element that moved and is in no map, a claim `exact` of what cannot reach the
    output, a direction that is no inverse of the other, a type that is not what is inferred, a
    crash, or readings that differ.  Programs are counted, each once.
    """
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.agreement.search", language, "0", str(PROGRAMS),
             "--show", "0"],
            cwd=ROOT, stdout=subprocess.PIPE, text=True,
        )
        for language in ("hlo", "mlir")
    ]  # fmt: skip
    said, notes = [], []
    for language, process in zip(("HLO", "StableHLO"), running, strict=True):
        out, _ = process.communicate()
        failures = re.search(r"^failures: Counter\((.*)\)$", out, re.MULTILINE)
        if process.returncode or failures is None:
            said.append(f"{language}: not measured, the search ended with {process.returncode}")
            continue
        count = sum(map(int, re.findall(r": (\d+)", failures[1])))
        said.append(f"{language}: {count} failures in {PROGRAMS:,} programs")
        notes += [f"{language}: {line.strip()}" for line in out.splitlines() if line]
    return "; ".join(said), notes


def executed_real() -> Figure:
    """Fusions and entry instructions of `real/models` and `real/modules`, each different one once.

    What was seen to move is in the maps of the program's own instance, or of a smaller one.
    """
    (row,) = benchmark("execution.py") or [{}]
    if not row:
        return "not measured: benchmarks/execution.py printed nothing", []
    kinds: dict[str, int] = row["kinds"]
    done = sum(n for kind, n in kinds.items() if kind.startswith("executed"))
    said = (
        f"{len(row['refuted'])} pairs refuted; {done:,} of {row['different']:,} different ones"
        f" executed ({row['asked']:,} with repeats, {row['files']:,} files), {row['runs']:,} runs"
    )
    return said, [*row["refuted"][:20], *[f"{n:,} {kind}" for kind, n in kinds.items()][:12]]


def runtime_claims() -> Figure:
    """Random pairs of maps with runtime variables, against enumeration over random tables.

    Tests are counted: one of them asks about 5,000 pairs, the others about maps made by hand.  A
    call of two seconds of processor time fails it.
    """
    return figure(*suite("tests/indexing/test_runtime_relations.py"), "tests (one of 5,000 pairs)")


def commands() -> Figure:
    """Mutated programs and maps, each through one command with options of its own."""
    (row,) = benchmark("robustness.py", "--commands", "--count", str(MUTATIONS)) or [{}]
    if not row:
        return "not measured: benchmarks/robustness.py printed nothing", []
    counts = Counter(row["counts"])
    bad = {k: n for k, n in counts.items() if not k.startswith(("fine", "refused"))}
    said = f"{sum(bad.values())} other answers of {sum(counts.values()):,}, {row['slow']} over 2 s"
    notes = [f"{n:,} {kind}" for kind, n in counts.most_common()]
    return f"{said}; slowest {row['slowest']:.1f} s; {row['megabytes']:.0f} MB", notes


ROWS: Final[dict[str, tuple[str, str, bool, Callable[[], Figure]]]] = {
    "generated": ("generated programs", "20,000, nothing missing", False, generated),
    "execution": ("real programs by execution", "0 refuted", True, executed_real),
    "runtime-claims": ("claims about runtime variables", "0 wrong", False, runtime_claims),
    "commands": ("broken input, every command", "own answers only; < 2 s", True, commands),
}
"""As `status.ROWS`."""
