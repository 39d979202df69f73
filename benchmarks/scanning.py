"""Scans of real programs: by one process, by two, by Dask, after damage, and again.

    python benchmarks/scanning.py [--json] [--every N] [--keep FOLDER] [--anew] [WAY ...]

The programs are those of the conformance data: models as HLO and StableHLO, and XLA's own tests.
Processor time is that of all processes.  What is measured is kept, with the tables, in a folder
that is named after hloscope's code and the files: a run that was ended goes on with the next way,
and ways that are asked for later are compared with the tables that are there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from hloscope.api import ScanReport, scan_files  # noqa: E402
from hloscope.checks.scan import code_digest  # noqa: E402
from tests.conftest import SHARED  # noqa: E402

KEEP: Final = Path(tempfile.gettempdir(), "hloscope-scanning")
TABLES: Final = ("modules.parquet", "kernels.parquet")


def programs(every: int) -> list[str]:
    """Files of the corpus, one of so many."""
    real = SHARED / "real"
    found = [
        *sorted((real / "models").glob("*.hlo.txt")),
        *sorted((real / "models").glob("*.stablehlo.mlir")),
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


WAYS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "one process": ("one", {"jobs": 1}),
    "two processes": ("two", {"jobs": 2}),
    "again, one process": ("one", {"jobs": 1}),
    "Dask, local": ("dask", {"jobs": 2, "dask": "local"}),
    "after an end and damage": ("end", {"jobs": 2}),
}
"""Each way of scanning: the folder of its tables, and what `scan_files` is given."""


def measured(files: list[str], place: Path, ways: list[str]) -> Iterator[dict[str, Any]]:
    """A row for each way of scanning; one that was measured before is taken from `place`.

    The first way is always among them: the others are compared with it.
    """
    for number, (way, (name, options)) in enumerate(WAYS.items()):
        if way not in ways and number:
            continue
        kept, folder = place / f"{number}.json", place / name
        if not kept.exists():
            if not way.startswith("again"):
                shutil.rmtree(folder, ignore_errors=True)
            if way.startswith("after"):
                stopped(files, folder)
            row = {"way": way, **timed(partial(scan_files, files, folder, **options))}
            row["equal"] = tables(folder) == tables(place / "one")
            kept.write_text(json.dumps(row))
        yield json.loads(kept.read_text())


def place_of(files: list[str], keep: Path) -> Path:
    """The folder of what is measured of these files by this code."""
    digest = blake2b("\n".join([code_digest(), *files]).encode(), digest_size=8).hexdigest()
    return keep / digest


def main() -> None:
    """Print a row for each way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("ways", nargs="*", metavar="WAY", help=f"of {', '.join(WAYS)}; all")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--every", type=int, default=1, help="take one file of so many")
    parser.add_argument("--keep", type=Path, default=KEEP, help=f"where; {KEEP} if not given")
    parser.add_argument("--anew", action="store_true", help="forget what was measured before")
    options = parser.parse_args()
    if wrong := set(options.ways) - WAYS.keys():
        parser.error(f"no such way: {', '.join(sorted(wrong))}")
    files = programs(options.every)
    place = place_of(files, options.keep)
    if options.anew:
        shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True, exist_ok=True)
    for row in measured(files, place, options.ways or list(WAYS)):
        if options.json:
            print(json.dumps(row), flush=True)
        else:
            print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)


if __name__ == "__main__":
    main()
