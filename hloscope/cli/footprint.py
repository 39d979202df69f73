"""`footprint`: bytes that kernels read and write at least, and where a program's bytes go."""

from __future__ import annotations

import click

from hloscope.api import DEVICES, find_all, footprint_of_program, footprints_of
from hloscope.cli.common import (
    debug_option,
    file_argument,
    json_option,
    print_json,
    print_table,
)
from hloscope.cli.files import read_program
from hloscope.cli.paging import print_long

SCHEMA = "hloscope.footprint/1"


@click.command
@file_argument
@click.argument("name", required=False)
@click.option(
    "--device",
    metavar="NAME",
    default="h100",
    show_default=True,
    help=f"The GPU, which decides what is updated in place: {', '.join(DEVICES)}.",
)
@click.option(
    "--top",
    metavar="N",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Of a whole program, the N kernels with most bytes.",
)
@json_option
@debug_option
def footprint(file: str, name: str | None, device: str, top: int, as_json: bool) -> None:
    """Tell how many bytes a fusion reads and writes at least, how often it needs each element.

    Without NAME, the kernels of FILE that move most, bodies of loops as often as they run.
    In NAME, * is any text and ? any character.
    """
    program = read_program(file)
    if name is not None:
        found = footprints_of(program, find_all(program.module, name), device)
        if as_json:
            kernels = [one.to_json() for one in found]
            print_json({"schema": SCHEMA, "file": file, "module": program.name, "kernels": kernels})
        else:
            print_long("\n\n".join(map(str, found)))
        return
    whole = footprint_of_program(program, device)
    if as_json:
        print_json(whole.to_json())
        return
    if whole.runs:
        print_table(whole.table(top))
    click.echo(f"{whole.total:,} bytes of {len(whole.runs)} kernels", err=True)
    for note in whole.notes:
        click.echo(f"note: {note}", err=True)
