"""`html`: a page with a program, its maps and verdicts."""

from __future__ import annotations

import os
import sys
from functools import partial

import click

from hloscope.api import EXPLORER_PARTS, explore
from hloscope.cli.files import end_if_invalid, read_program, read_with_findings
from hloscope.cli.options import device_option
from hloscope.cli.printing import command, debug_option, file_argument
from hloscope.cli.streams import output_option, with_progress, write


@command()
@file_argument
@click.argument("newer", metavar="[NEWER]", required=False)
@click.option("--diff", "as_diff", is_flag=True, help="Show NEWER, and what changed since FILE.")
@click.option(
    "--without",
    metavar="PART",
    multiple=True,
    type=click.Choice(EXPLORER_PARTS),
    help=f"Omit a part, for a smaller page or a shorter run: {', '.join(EXPLORER_PARTS)}.",
)
@click.option(
    "-j",
    "--jobs",
    metavar="N",
    type=click.IntRange(1, 1024),
    help="Processes for a large program; default: by the number of processors.",
)
@device_option("GPU of the coalescing model")
@output_option
@debug_option
def html(
    file: str,
    newer: str | None,
    as_diff: bool,
    without: tuple[str, ...],
    jobs: int | None,
    device: str,
    output: str | None,
) -> None:
    """Write a page about the program of FILE: cost, memory, graph, maps and verdicts.

    The page is one file for any browser; it needs no network and no server.  Invalid instructions
    are listed, and the others are answered; the exit code is 3 then.
    """
    if as_diff != (newer is not None):
        raise click.UsageError("--diff compares two programs: hloscope html --diff OLDER NEWER")
    if file == newer == "-":
        raise click.UsageError("only one of the two can be the standard input")
    if output is not None and any(_is_same(output, name) for name in (file, newer or file)):
        raise click.UsageError("the page would be written over the program: name another file")
    before = read_program(file) if as_diff else None
    asked = newer if newer is not None else file
    program, invalid = read_with_findings(asked)
    parts = [part for part in EXPLORER_PARTS if part not in without]
    if output is None and sys.stdout is not None and sys.stdout.isatty():
        raise click.UsageError("a page is not read on a terminal: name a file with -o")
    shown = partial(with_progress, printed=False)
    found = explore(
        program,
        parts=parts,
        device=device,
        before=before,
        shown=shown,
        jobs=jobs or _jobs(),
        invalid=invalid,
    )
    page = found.to_html().encode("utf-8", "replace")
    write(page, output)
    if output is not None:
        click.echo(f"{output}: {len(page):,} bytes", err=True)
    end_if_invalid(invalid)


def _jobs() -> int:
    """Return the number of processes: one more than the usable processors.

    Parts of the page take different times. The result is 1 if only one processor can be used.
    """
    if hasattr(os, "sched_getaffinity"):
        processors = len(os.sched_getaffinity(0))
    else:
        processors = os.cpu_count() or 1
    return processors + 1 if processors > 1 else 1


def _is_same(output: str, name: str) -> bool:
    try:
        return os.path.samefile(output, name)
    except (OSError, ValueError):  # one of them is not there, or is no name of a file
        return False
