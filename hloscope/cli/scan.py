"""`scan` and `query`: facts of many programs in tables."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from hloscope.api import QUESTIONS, ScanReport, ask, scan_files
from hloscope.cli.options import device_option, top_option
from hloscope.cli.printing import (
    Bytes,
    command,
    complete_files,
    debug_option,
    json_option,
    print_json,
    print_table,
)
from hloscope.cli.streams import is_tty, styled_errors
from hloscope.display import Table, tab_separated

# --------------------------------------------------------------------------------------------------
# `scan`: facts of many programs in tables.


FAILED: Final = 1
SCAN_SCHEMA: Final = "hloscope.scan/1"
NAMED: Final = 10
"""Maximum number of failed files that are named."""


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
        "schema": SCAN_SCHEMA,
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


# --------------------------------------------------------------------------------------------------
# `query`: queries of the tables of scans.


QUERY_SCHEMA: Final = "hloscope.query/1"


@command()
@click.argument("question", metavar="QUESTION", required=False)
@click.argument("scans", metavar="[SCAN]...", nargs=-1, shell_complete=complete_files)
@click.option("--list", "is_list", is_flag=True, help="List the named questions.")
@click.option("--tsv", is_flag=True, help="Print tab-separated cells, not shortened.")
@top_option("Rows of a named question.", 20)
@json_option
@debug_option
def query(
    question: str | None,
    scans: tuple[str, ...],
    is_list: bool,
    tsv: bool,
    top: int,
    as_json: bool,
) -> None:
    """Query the tables that `scan` wrote into the directory SCAN.

    QUESTION is a name of --list, or SQL for DuckDB over the tables `modules` and `kernels`.  With
    two directories, the older one first, its tables are `old_modules` and `old_kernels`.
    """
    if is_list:
        _list(as_json)
        return
    if question is None:
        raise click.UsageError("ask a QUESTION; --list tells those that have names")
    if tsv and as_json:
        raise click.UsageError("--tsv and --json are two forms")
    if not scans:
        raise click.UsageError("name the directory that `hloscope scan -o` wrote")
    found = ask(question, [Path(one) for one in scans], top)
    if as_json:
        rows = [[_value(cell) for cell in row] for row in found.rows]
        print_json({"schema": QUERY_SCHEMA, "columns": found.columns, "rows": rows})
        return
    rows = [[_shown(cell) for cell in row] for row in found.rows]
    numbers = [
        k
        for k in range(len(found.columns))
        if any(isinstance(row[k], int | float) for row in found.rows)
    ]
    table = Table(found.columns, rows, right=numbers)
    if tsv:
        click.echo(tab_separated(table))
    else:
        print_table(table)


def _list(as_json: bool) -> None:
    """Print the named queries with their descriptions, as text or as JSON."""
    questions = [[name, one.about] for name, one in QUESTIONS.items()]
    if as_json:
        print_json({"schema": QUERY_SCHEMA, "columns": ["name", "about"], "rows": questions})
        return
    for name, about in questions:
        click.echo(f"{name}: {about}")


def _value(cell: Any) -> Any:
    """Return a cell of a table as a JSON value."""
    if cell is None or isinstance(cell, bool | int | str):
        return cell
    if isinstance(cell, float):
        return cell if cell - cell == 0 else None
    if isinstance(cell, dict):
        return {str(key): _value(value) for key, value in cell.items()}
    if isinstance(cell, list | tuple):
        return [_value(one) for one in cell]
    return str(cell)


def _shown(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.4g}"
    if isinstance(cell, dict):
        return json.dumps(_value(cell), ensure_ascii=False)
    return str(cell)
