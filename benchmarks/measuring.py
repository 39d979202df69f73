"""What the rows of the status table share: figures of test suites and of benchmarks."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, Final, TypeVar
from xml.etree import ElementTree

ROOT: Final = Path(__file__).parents[1]
CORES: Final = os.cpu_count() or 1
HAS_XLA: Final = importlib.util.find_spec("jaxlib") is not None

T = TypeVar("T")
Figure = tuple[str, list[str]]
"""The figure of a row, and notes below the table."""


def percent(part: int, whole: int) -> str:
    """`part of whole (percent)`."""
    return f"{part:,} of {whole:,} ({100 * part / max(whole, 1):.2f} %)"


def span_of(rows: list[dict[str, Any]], name: str) -> str:
    """The least and the largest of ratios that have a best and a median each."""
    best, middle = zip(*(row[name] for row in rows), strict=True)
    return f"{min(best)}–{max(best)} × (medians {min(middle)}–{max(middle)})"


def suite(*paths: str, options: tuple[str, ...] = ("--full",)) -> tuple[Counter[str], list[str]]:
    """How many test cases passed, failed and skipped; and the names of those that did not pass."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *options, *paths],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            check=False,
        )
        if not report.exists():
            return Counter(failed=1), [f"{' '.join(paths)} could not be run"]
        counts: Counter[str] = Counter()
        failed = []
        for case in ElementTree.parse(report).iter("testcase"):
            tags = {child.tag for child in case}
            kind = "failed" if tags & {"failure", "error"} else "skipped" if tags else "passed"
            counts[kind] += 1
            if kind == "failed":
                failed.append(str(case.get("name")))
        return counts, failed


def figure(counts: Counter[str], failed: list[str], what: str = "tests") -> Figure:
    """The figure of a suite: its tests, each of which may look at many cases."""
    whole = counts["passed"] + counts["failed"]
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    notes = [f"does not pass: `{name}`" for name in failed[:12]]
    return f"{percent(counts['passed'], whole)} {what} pass{skipped}", notes


def load(*rooms: str) -> None:
    """Import all files of rooms, which are otherwise imported as answers need them.

    What takes the time of a question that is the first of its process is then the question.
    """
    for room in rooms:
        package = importlib.import_module(f"hloscope.{room}")
        for found in walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(found.name)


def benchmark(name: str, *options: str) -> list[dict[str, Any]]:
    """The JSON lines that a benchmark prints."""
    done = run(str(ROOT / "benchmarks" / name), "--json", *options)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A process of this interpreter, and what it prints."""
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def side_by_side(ask: Callable[[int], T], count: int) -> list[T]:
    """The answers to questions 0 to `count`, as many at once as there are cores."""
    with ThreadPoolExecutor(CORES) as pool:
        return [*pool.map(ask, range(count))]


def fresh_seed() -> int:
    """Where the seeds of today begin: every day has its own programs."""
    return int(time.strftime("%Y%m%d")) * 100_000
