"""Rows of the status table about scans: the same tables whoever makes them, and how fast."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

from benchmarks.measuring import Figure, benchmark, percent

ABSENT: Final = "not measured: pyarrow or distributed is absent"


SPEED: Final = ("one process", "two processes", "again, one process")


@cache
def _measured(*ways: str) -> dict[str, dict[str, Any]]:
    """Rows by way, of all files; what was measured before by the same code is not done again."""
    if any(find_spec(name) is None for name in ("pyarrow", "distributed")):
        return {}
    return {row["way"]: row for row in benchmark("scanning.py", *ways)}


def scans() -> Figure:
    """Models and XLA's tests by two processes, by Dask, and after an end and damaged answers.

    Each is compared, byte for byte, with the tables that one process writes.
    """
    rows = _measured()
    if not rows:
        return ABSENT, []
    first = rows["one process"]
    others = [row for way, row in rows.items() if way != "one process"]
    notes = [
        f"{first['files']:,} files, {first['kernels']:,} kernels; {first['broken']:,} files are no"
        f" programs, {first['limit'] + first['failed']:,} could not be looked at",
        *(f"{row['way']}: {row['known']:,} files known from before" for row in others),
    ]
    return f"{percent(sum(row['equal'] for row in others), len(others))} ways are equal", notes


def speed() -> Figure:
    """Files a second of one process, of two, and of a second run."""
    rows = _measured(*SPEED)
    if not rows:
        return ABSENT, []
    one, two, again = (rows[way]["seconds"] for way in SPEED)
    notes = [
        f"{row['way']}: {row['files'] / row['seconds']:.1f} files/s, {row['processor']:.0f} s of"
        " processors"
        for row in rows.values()
    ]
    return f"{one / two:.2f} × by two, {one / again:.0f} × again", notes


ROWS: Final[dict[str, tuple[str, str, bool, Callable[[], Figure]]]] = {
    "scan": ("scans", "the same tables whoever makes them", True, scans),
    "scan-speed": ("scan speed", "≥ 1.7 × on 2 cores; ≥ 5 × again", True, speed),
}
"""As `status.ROWS`."""
