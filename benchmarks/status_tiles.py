"""Rows of the status table about tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from benchmarks.measuring import Figure, benchmark, figure, suite


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


ROWS: Final[dict[str, tuple[str, str, bool, Callable[[], Figure]]]] = {
    "tiles": ("tiles, XLA's tests", "100 %, ≤ 4 explained", True, symbolic),
    "exact_tiles": (
        "exact tiles",
        "10,000 equal, < 1 % undecided; sweep < 1 s; rank 16 < 1 s, < 200 MB",
        False,
        exact,
    ),
}
