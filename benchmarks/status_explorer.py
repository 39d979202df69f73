"""Rows of the status table about the explorer: its page in a browser, and hostile names in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from benchmarks.measuring import Figure, benchmark, figure, percent, suite
from tests.browser import CHROMIUM

ABSENT: Final = "not measured: there is no Chromium here"


def pages() -> Figure:
    """Pages of the GPU dumps: size, first paint, click to lit, and 200 clicks compared."""
    if not CHROMIUM:
        return ABSENT, []
    rows = benchmark("explorer.py")
    if not rows:
        return "not measured: benchmarks/explorer.py printed nothing", []
    clicks = sum(row["compared"]["clicks"] for row in rows)
    equal = sum(row["compared"]["equal"] for row in rows)
    small = sum(row["page_bytes"] <= row["most_bytes"] for row in rows)
    slow = sum(row["lit_ms"]["over 100"] for row in rows)
    said = (
        f"{small} of {len(rows)} pages small; first paint ≤ "
        f"{max(row['first_paint_ms'] for row in rows)} ms; {percent(clicks - slow, clicks)} clicks "
        f"lit within 100 ms, main thread ≤ "
        f"{max(row['main_thread_cpu_ms']['most'] for row in rows)} CPU ms; "
        f"{percent(equal, clicks)} lit as the maps say"
    )
    return said, list(map(_note, rows))


def _note(row: dict[str, Any]) -> str:
    lit = row["lit_ms"]
    return (
        f"{row['program']}: {row['page_bytes']:,} bytes of {row['most_bytes']:,}, click to lit: "
        f"median {lit['median']} ms, 95 % {lit['95 %']} ms, most {lit['most']} ms"
    )


def hostile() -> Figure:
    """100 hostile programs in pages, SVG, notebooks, the terminal and a browser."""
    if not CHROMIUM:
        return ABSENT, []
    return figure(*suite("tests/display/explorer"))


ROWS: Final[dict[str, tuple[str, str, bool, Callable[[], Figure]]]] = {
    "explorer": (
        "explorer, GPU dumps and StableHLO",
        "≤ 400 kB + 1.5 × gz text; < 2 s; < 100 ms; 100 % of clicks",
        True,
        pages,
    ),
    "explorer-hostile": ("explorer, hostile names and elements", "100 %", False, hostile),
}
