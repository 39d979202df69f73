"""`scan`: facts of many programs in tables."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from hloscope.api import ScanReport, scan_files
from hloscope.cli.amounts import Bytes
from hloscope.cli.common import command, complete_files, debug_option, json_option, print_json
from hloscope.cli.options import device_option
from hloscope.cli.paging import is_tty
from hloscope.cli.streams import styled_errors

FAILED: Final = 1
SCHEMA: Final = "hloscope.scan/1"
NAMED: Final = 10
"""Files that went wrong and are named."""


@command()
@click.argument("paths", metavar="PATHS...", nargs=-1, required=True, shell_complete=complete_files)
@click.option(
    "-o", "--output", metavar="DIR", required=True, help="Folder for the tables and the cache."
)
@click.option(
    "-j", "--jobs", metavar="N", type=click.IntRange(1, 1024),
    help="Number of processes; by default one per processor.",
)  # fmt: skip
@click.option("--dask", metavar="ADDRESS", help="Use Dask workers: tcp://HOST:PORT, or local.")
@device_option("GPU of the coalescing model")
@click.option(
    "--max-seconds-per-file", "seconds", metavar="S", default=600.0, show_default=True,
    type=click.FloatRange(0, min_open=True), help="Skip a file that takes longer.",
)  # fmt: skip
@click.option(
    "--max-memory-per-file", "memory", metavar="SIZE", type=Bytes(), default="4G",
    show_default=True, help="Skip a file that takes more memory.",
)  # fmt: skip
@click.option(
    "--cache", metavar="DIR", help="Folder of the cache, instead of `cache` in DIR of --output."
)
@json_option
@debug_option
def scan(
    paths: tuple[str, ...],
    output: str,
    jobs: int | None,
    dask: str | None,
    device: str,
    seconds: float,
    memory: int,
    cache: str | None,
    as_json: bool,
) -> None:
    """Write the facts of many programs into tables: modules.parquet and kernels.parquet.

    PATHS are files, directories, patterns, and URLs that fsspec knows.  Results are cached: an
    interrupted scan continues where it ended, and the next scan reads only new files.  The tables
    do not depend on the number of workers.  The exit code is 1 if a file failed; the tables say
    why.

    Needs the packages of the extra `scan`: pip install 'hloscope[scan]'.
    """
    with _progress() as progress:
        found = scan_files(
            paths, Path(output), jobs=jobs, dask=dask, device=device, seconds=seconds,
            memory=memory, cache=None if cache is None else Path(cache), progress=progress,
        )  # fmt: skip
    if as_json:
        print_json(_described(found))
    else:
        click.echo(_summary(found))
        _name_troubles(found)
    if found.unkept:
        click.echo(f"what was found is not kept for the next scan: {found.unkept}", err=True)
    if found.troubles:
        click.get_current_context().exit(FAILED)


def _summary(found: ScanReport) -> str:
    counts = ", ".join(f"{count:,} {status}" for status, count in found.statuses.items() if count)
    return (
        f"{_number(found.files, 'file')}, {found.kept:,} known from before: {counts}\n"
        f"{_number(found.kernels, 'kernel')} in {found.folder / 'kernels.parquet'}"
    )


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _name_troubles(found: ScanReport) -> None:
    for file, status, error in found.troubles[:NAMED]:
        click.echo(f"{file}: {status}: {error.partition(chr(10))[0]}", err=True)
    more = len(found.troubles) - NAMED
    if more > 0:
        click.echo(f"and {more:,} more: hloscope query errors {found.folder}", err=True)


def _described(found: ScanReport) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "folder": str(found.folder),
        "files": found.files,
        "known": found.kept,
        "kernels": found.kernels,
        "statuses": found.statuses,
        "troubles": [
            {"file": file, "status": status, "error": error}
            for file, status, error in found.troubles
        ],
        "unkept": found.unkept,
    }


def _time_left(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """Yield a function that shows progress with rate and time left, if there is a terminal."""
    if not is_tty(sys.stderr):
        yield None
        return
    file = styled_errors()
    start, last = time.monotonic(), 0.0

    def show(done: int, most: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < 0.2 and done < most:
            return
        last = now
        told = f"{done:,} of {_number(most, 'file')}"
        if done:
            rate = done / max(now - start, 1e-9)
            told += f", {rate:.1f}/s, {_time_left((most - done) / rate)} left"
        click.echo(f"\r{told}\x1b[K", file, nl=False)

    try:
        yield show
    finally:
        click.echo("\r\x1b[K", file, nl=False)
