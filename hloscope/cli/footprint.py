"""`footprint`: the bytes that kernels must read and write."""

from __future__ import annotations

from functools import partial

import click

from hloscope.api import find_all, footprint_of_program, footprints_of
from hloscope.cli.files import (
    complete_instructions,
    end_if_invalid,
    read_program,
    read_with_findings,
)
from hloscope.cli.options import by_option, device_option, format_option, top_option
from hloscope.cli.printing import (
    command,
    debug_option,
    file_argument,
    json_option,
    print_json,
    print_table,
)
from hloscope.cli.streams import print_long, with_progress
from hloscope.display import page

SCHEMA = "hloscope.footprint/1"


@command()
@file_argument
@click.argument("name", required=False, shell_complete=complete_instructions)
@device_option("GPU, which decides what is updated in place")
@by_option
@top_option("Without NAME: number of groups; the others share one row.")
@format_option()
@json_option
@debug_option
def footprint(
    file: str, name: str | None, device: str, by: str, top: int, form: str, as_json: bool
) -> None:
    """Count the bytes that a kernel must read and write, and the reuse of each element.

    Without NAME, list groups of all kernels of FILE, most bytes first; loop bodies count in every
    iteration.  In NAME, * matches any text and ? any character.
    """
    form = "json" if as_json else form
    if name is not None:
        program = read_program(file)
        found = footprints_of(program, find_all(program.module, name), device)
        if form == "json":
            kernels = [one.to_json() for one in found]
            print_json({"schema": SCHEMA, "file": file, "module": program.name, "kernels": kernels})
        elif form == "text":
            print_long("\n\n".join(map(str, found)))
        else:
            _draw([one.to_svg() for one in found], name, form)
        return
    program, invalid = read_with_findings(file)
    shown = partial(with_progress, label="kernels", printed=False)
    whole = footprint_of_program(program, device, invalid, shown)
    if form == "json":
        print_json(whole.to_json(by))
    elif form == "text":
        count = len(whole.kernels)
        if count:
            print_table(whole.table(top, by))
        of = f"{count:,} kernel{'' if count == 1 else 's'}"
        click.echo(f"{whole.total:,} bytes of {of}", err=True)
        for note in whole.notes:
            click.echo(f"note: {note}", err=True)
    else:
        _draw([whole.to_svg(top, by)], file, form)
    end_if_invalid(invalid)


def _draw(pictures: list[str], title: str, form: str) -> None:
    if form == "html":
        click.echo(page(title, "".join(pictures)), nl=False)
    elif len(pictures) == 1:
        click.echo(pictures[0], nl=False)
    else:
        raise click.UsageError(
            f"`{title}` names {len(pictures)} kernels, an svg shows one: take --format html"
        )
