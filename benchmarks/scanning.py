"""Scans of real programs: by one process, by two, by Dask, after damage, and again.

    python benchmarks/scanning.py [--json] [--every N]

The programs are those of the conformance data: models and XLA's own tests.  Processor time is that
of all processes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from hloscope.api import ScanReport, scan_files  # noqa: E402
from tests.conftest import SHARED  # noqa: E402

TABLES: Final = ("modules.parquet", "kernels.parquet")


def programs(every: int) -> list[str]:
    """Files of the corpus, one of so many."""
    real = SHARED / "real"
    found = [
        *sorted((real / "models").glob("*.hlo.txt")),
        *sorted((real / "modules").rglob("*.hlo")),
    ]
    return [str(path) for path in found[::every]]


def timed(scan: Callable[[], ScanReport]) -> dict[str, Any]:
    """How a scan went, and what it took."""
    start, before = time.monotonic(), os.times()
    report = scan()
    after = os.times()
    return {
        "files": report.files,
        "known": report.kept,
        "kernels": report.kernels,
        **report.statuses,
        "seconds": time.monotonic() - start,
        "processor": sum(after[:4]) - sum(before[:4]),
    }


def tables(folder: Path) -> list[bytes]:
    """What was written."""
    return [(folder / name).read_bytes() for name in TABLES]


def stopped(files: list[str], folder: Path) -> None:
    """A scan that is ended when a third of it is done, and whose answers are damaged then."""

    def stop(done: int, most: int) -> None:
        if done >= most // 3:
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        scan_files(files, folder, jobs=2, progress=stop)
    for path in sorted((folder / "cache").rglob("*.json"))[::10]:
        path.write_bytes(path.read_bytes()[:-3])


def measured(files: list[str], folder: Path) -> list[dict[str, Any]]:
    """A row for each way of scanning."""
    ways: dict[str, Callable[[], ScanReport]] = {
        "one process": lambda: scan_files(files, folder / "one", jobs=1),
        "two processes": lambda: scan_files(files, folder / "two", jobs=2),
        "again, one process": lambda: scan_files(files, folder / "one", jobs=1),
        "Dask, local": lambda: scan_files(files, folder / "dask", jobs=2, dask="local"),
        "after an end and damage": lambda: scan_files(files, folder / "end", jobs=2),
    }
    folders = dict(zip(ways, ("one", "two", "one", "dask", "end"), strict=True))
    rows = []
    for name, scan in ways.items():
        if name.startswith("after"):
            stopped(files, folder / "end")
        row = {"way": name, **timed(scan)}
        row["equal"] = tables(folder / folders[name]) == tables(folder / "one")
        rows.append(row)
    return rows


def main() -> None:
    """Print a row for each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--every", type=int, default=1, help="take one file of so many")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for row in measured(programs(options.every), Path(folder)):
            if options.json:
                print(json.dumps(row), flush=True)
            else:
                print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)


if __name__ == "__main__":
    main()
