"""Rows of the status table about soundness: what is said against what programs do."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.measuring import (
    Figure,
    benchmark,
    figure,
    fresh_seed,
    run,
    side_by_side,
    suite,
)

PROGRAMS: Final = 10_000
"""Generated programs of each language."""
MUTATIONS: Final = 100_000
EACH: Final = 2500
"""Mutations of one process."""
KEPT: Final = Path(tempfile.gettempdir()) / "hloscope-broken-input"
SWEPT: Final = 25_000
"""Changed ops of each language."""


def _searched(search: str, count: int, figure_in: Callable[[str], str | None]) -> Figure:
    """The figure of a search in so many programs of each language; `None` is no figure."""
    seed, languages = fresh_seed(), {"HLO": "hlo", "StableHLO": "mlir"}
    words = [
        ("-m", search, code, str(seed), str(seed + count), "--show", "0")
        for code in languages.values()
    ]
    every = side_by_side(lambda k: run(*words[k]), len(words))
    said, notes = [], []
    for language, done in zip(languages, every, strict=True):
        found = None if done.returncode else figure_in(done.stdout)
        if found is None:
            found = f"not measured, the search ended with {done.returncode}"
        else:
            notes += [f"{language}: {line.strip()}" for line in done.stdout.splitlines() if line]
        said.append(f"{language}: {found}")
    return "; ".join(said), notes


def generated() -> Figure:
    """Random programs that nest, asked in both directions, against their execution.

    A failure is an element that moved and is in no map, a claim `exact` of what cannot reach the
    output, a direction that is no inverse of the other, a type that is not what is inferred, a
    crash, or readings that differ.  Programs are counted, each once.
    """

    def failures(out: str) -> str | None:
        found = re.search(r"^failures: Counter\((.*)\)$", out, re.MULTILINE)
        if found is None:
            return None
        count = sum(map(int, re.findall(r": (\d+)", found[1])))
        return f"{count} failures in {PROGRAMS:,} programs"

    return _searched("tests.agreement.search", PROGRAMS, failures)


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
    """Mutated programs, maps and files of arrays, each through one command with options of its own.

    Every day has its own mutations; processes have 2,500 each.  What has another answer, or takes
    long, is kept in `hloscope-broken-input` in the folder for temporary files.  Times are of the
    processor, of the command and the processes it starts, whatever else the machine does.
    """
    seed = fresh_seed()
    parts = side_by_side(
        lambda k: benchmark(
            *("robustness.py", "--commands", "--count", str(EACH), "--keep", str(KEPT)),
            *("--seed", str(seed + k)),
        ),
        MUTATIONS // EACH,
    )
    rows = [row for part in parts for row in part]
    if not rows:
        return "not measured: benchmarks/robustness.py printed nothing", []
    counts: Counter[str] = sum((Counter(row["counts"]) for row in rows), Counter())
    early = MUTATIONS // EACH - len(rows)
    bad = {k: n for k, n in counts.items() if not k.startswith(("fine", "refused"))}
    slow = sum(row["slow"] for row in rows)
    slowest, most = (max(row[key] for row in rows) for key in ("slowest", "megabytes"))
    said = f"{sum(bad.values())} other answers of {sum(counts.values()):,}, {slow} over 2 s"
    ended = f"; {early} processes ended early" if early else ""
    notes = [f"{n:,} {kind}" for kind, n in counts.most_common()]
    return f"{said}; slowest {slowest:.1f} s; {most:.0f} MB{ended}", [f"seed {seed}", *notes]


def swept() -> Figure:
    """Ops with changed operands, types and attributes: do all answers say the same of each?

    What `verify` accepts is printed, read, indexed, inferred and run without a crash; what is wrong
    for one is wrong for all.
    """

    def contradictions(out: str) -> str | None:
        found = re.search(r"^(\d+) programs, (\d+) with contradictions$", out, re.MULTILINE)
        return found and f"{found[2]} contradictions in {int(found[1]):,} programs"

    return _searched("tests.verifier.search", SWEPT, contradictions)


ROWS: Final[dict[str, tuple[str, str, bool, Callable[[], Figure]]]] = {
    "generated": ("generated programs", "20,000, nothing missing", False, generated),
    "execution": ("real programs by execution", "0 refuted", True, executed_real),
    "runtime-claims": ("claims about runtime variables", "0 wrong", False, runtime_claims),
    "op-sweep": ("changed ops", "50,000, 0 contradictions", False, swept),
    "commands": ("broken input, every command", "own answers only; < 2 s of CPU", True, commands),
}
"""As `status.ROWS`."""
