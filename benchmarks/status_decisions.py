"""Rows of the status table about decisions: tiles, coalescing, cancellation, layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from benchmarks.decisions import verdicts
from benchmarks.measuring import Figure, benchmark, figure, percent, suite
from tests.memory.test_emitters import NO_THREADS, NOT_HERE, SAME, compared_maps


def symbolic() -> Figure:
    """XLA's tests of symbolic tiles, constraints, the analysis of fusions, and schedules.

    One case is exact here where XLA is not: of a dynamic-update-slice, what the update replaces is
    not read.  Names that XLA makes unique are compared without their suffix, default layouts are
    not printed.
    """
    counts, failed = suite(
        "tests/tiling/test_symbolic_conformance.py", "tests/tiling/test_analysis_conformance.py"
    )
    return figure(counts, failed, "cases")


def propagated() -> Figure:
    """XLA's tests of tile propagation, tiling spaces, tiled computations, and their printing."""
    counts, failed = suite(
        "tests/tiling/test_propagation_conformance.py",
        "tests/tiling/test_space_conformance.py",
        "tests/tiling/test_tiled_conformance.py",
    )
    return figure(counts, failed, "cases")


def exact() -> Figure:
    """Random maps and tile sizes: what tiles touch, holes and overlaps, against enumeration.

    Besides, 1,000 tilings of a softmax at once, and rank 16 through ten reshapes, both in
    processor seconds.
    """
    (row,) = benchmark("tiles.py") or [{}]
    if not row:
        return "not measured: benchmarks/tiles.py printed nothing", []
    return _said(row), [f"differs: {pair}" for pair in row["wrong"][:12]]


def _said(row: dict[str, Any]) -> str:
    share = 100 * row["undecided"] / max(row["pairs"], 1)
    return (
        f"{row['pairs'] - len(row['wrong']):,} of {row['pairs']:,} pairs equal, {share:.2f} % "
        f"undecided; {row['tilings']:,} tilings in {row['sweep_seconds']} s; rank 16 in "
        f"{row['hard_seconds']} s, {row['hard_megabytes']} MB"
    )


def coalescing() -> Figure:
    """XLA's verdicts and thread maps; random accesses against enumeration of every lane."""
    counts, failed = suite("tests/memory")
    return figure(counts, failed, "tests, one of them all 1,000 accesses,")


def thread_maps() -> Figure:
    """Thread maps that XLA's emitters printed for the H100, compared as sets by isl.

    Of the file's maps some lead from elements and not from threads, and some belong to programs
    that are not among the models; bijections are XLA's own cases, proved by isl.
    """
    counts, failed = suite("tests/memory/test_emitters.py")
    told = compared_maps()
    away = {reason: n for reason, n in told.items() if set(reason.split("; ")) <= NOT_HERE}
    other = [reason for reason in told if reason not in (SAME, NO_THREADS, *away)]
    whole = told[SAME] + len(other)
    said = (
        f"{percent(told[SAME], whole)} of XLA's thread maps whose program is here are the same; "
        f"{sum(away.values())} of other programs, {told[NO_THREADS]} not of threads"
    )
    passed, notes = figure(counts, failed)
    return f"{said}; {passed}", [f"differs: {reason}" for reason in other] + notes


def layouts() -> Figure:
    """Random maps and layouts of Triton, CuTe and TVM, there and back, and composed, by isl."""
    counts, failed = suite("tests/indexing/layouts")
    return figure(counts, failed, "tests, 2,000 random layouts for each law,")


def chains() -> Figure:
    """Every chain of data movement of every program of real/models, optimized and StableHLO."""
    programs, kinds = verdicts()
    whole, undecided = sum(kinds.values()), kinds.pop("undecided", 0)
    each = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
    said = f"{percent(whole - undecided, whole)} chains of {programs} programs decided: {each}"
    return said, []


def cancelling() -> Figure:
    """XLA's tests of reshapes; random chains against execution on numbered elements."""
    counts, failed = suite("tests/movement")
    return figure(counts, failed, "tests, one of them 1,150 random chains,")


def whole() -> Figure:
    """Each question to a whole dump, as a process; processor seconds, start-up included.

    Besides, one question to one of seven kernels, after reading: the median and the worst.
    """
    rows = benchmark("decisions.py")
    told = [
        f"{row['dump']} `{row['question']}` {row['seconds']} s, "
        + (f"worst {row['worst']} s" if "worst" in row else f"{row['megabytes']} MB")
        for row in rows
    ]
    notes = [f"exit code {row['exit']}: {row}" for row in rows if row["exit"]]
    return "; ".join(told) or "not measured: benchmarks/decisions.py printed nothing", notes


ROWS: Final[dict[str, tuple[str, str, bool, Callable[[], Figure]]]] = {
    "tiles": ("tiles, XLA's tests", "100 %, ≤ 4 explained", True, symbolic),
    "propagation": (
        "tile propagation, spaces, XLA's tests",
        "100 %, ≤ 2 explained",
        True,
        propagated,
    ),
    "exact_tiles": (
        "exact tiles",
        "10,000 equal, < 1 % undecided; sweep < 1 s; rank 16 < 1 s, < 200 MB",
        False,
        exact,
    ),
    "coalescing": ("coalescing", "17 of 17, 36 of 36; 1,000 equal", True, coalescing),
    "thread_maps": ("thread maps", "36 of 36; ≥ 95 % of XLA's", True, thread_maps),
    "layouts": ("layouts", "2,000 there and back", False, layouts),
    "chains": ("chains of real/models", "100 % get a verdict", True, chains),
    "cancelling": ("cancellation", "no wrong verdict in 1,000", True, cancelling),
    "decisions": (
        "whole dumps",
        "coalesce < 30 s, XLA's verdicts < 10 s; one question < 0.3 s",
        True,
        whole,
    ),
}
