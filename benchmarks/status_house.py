"""Rows of the status table about the code itself: what the tests notice, how far a reader goes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Final

from benchmarks.measuring import Figure, benchmark, percent

FAULTS: Final = 200
SEED: Final = 2711
BEFORE: Final = {"value": (41, 53), "map": (50, 66)}
"""Files of the walks, in HLO and StableHLO, before the rooms had doors (60,029 lines)."""


def planted() -> Figure:
    """Single faults in rules, laws, typing and evaluation, and what tests that enter them notice.

    `benchmarks/planted_faults.py`; `$HLOSCOPE_PLANTED`, a folder, keeps what was found, to go on
    after a stop.  A fault that changes nothing counts as caught by nobody: it is listed beside.
    """
    kept = os.environ.get("HLOSCOPE_PLANTED")
    options = ["--count", str(FAULTS), "--seed", str(SEED), *(["--results", kept] if kept else [])]
    rows = benchmark("planted_faults.py", *options)
    if not rows:
        return "not measured: benchmarks/planted_faults.py printed nothing", []
    ends = Counter(row["end"] for row in rows)
    faults = len(rows) - ends["equivalent"]
    notes = [
        f"{row['end']}: {row['path']}:{row['line']} `{row['function']}`: {row['what']}"
        f"{' (' + row['why'] + ')' if row['why'] else ''}"
        for row in rows
        if row["end"] != "caught"
    ]
    quick = sum(row["suite"] == "quick" for row in rows)
    said = (
        f"{percent(ends['caught'], faults)} caught, {percent(quick, faults)} by the quick tests; "
        f"{ends['equivalent']} more change nothing"
    )
    return said, notes


def walked() -> Figure:
    """Files entered from the text of a `reduce_window` to its value and map, HLO and StableHLO."""
    rows = benchmark("walk.py")
    if not rows:
        return "not measured: benchmarks/walk.py printed nothing", []
    counts = {way: [len(r["files"]) for r in rows if r["way"] == way] for way in BEFORE}
    said = "; ".join(
        f"{way} {' / '.join(map(str, found))} (before {' / '.join(map(str, BEFORE[way]))})"
        for way, found in counts.items()
    )
    return said, [f"{r['language']} to {r['way']}: {' '.join(r['files'])}" for r in rows]


ROWS: Final[dict[str, tuple[str, str, bool, Callable[[], Figure]]]] = {
    "planted-faults": ("planted faults", f"≥ 95 % of {FAULTS}", False, planted),
    "walk": ("a stranger's walk", "fewer files than before", False, walked),
}
"""As `status.ROWS`."""
