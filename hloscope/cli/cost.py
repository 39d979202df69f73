"""`cost`: where the bytes, flops and least time of a program go, in groups that add up."""

from __future__ import annotations

import click

from hloscope.api import COST_SORTS, Model, cost_of, find_all
from hloscope.cli.common import (
    command,
    debug_option,
    file_argument,
    json_option,
    print_json,
    print_table,
)
from hloscope.cli.completing import complete_instructions
from hloscope.cli.files import read_verified_program
from hloscope.cli.options import by_option, device_option, top_option


@command()
@file_argument
@click.argument("name", required=False, shell_complete=complete_instructions)
@device_option("The device")
@by_option
@click.option(
    "--sort",
    type=click.Choice(COST_SORTS),
    default="bound",
    show_default=True,
    help="The amount that totals state and rows are sorted by.",
)
@top_option("The N groups with the largest totals; the others share one row.")
@json_option
@debug_option
def cost(
    file: str, name: str | None, device: str, by: str, sort: str, top: int, as_json: bool
) -> None:
    """Show where the bytes, flops and least time of FILE go, grouped by cause.

    Loops count as often as they run.  With NAME, only kernels of that name; * is any text and ?
    any character.
    """
    program = read_verified_program(file)
    chosen = None if name is None else find_all(program.module, name)
    found = cost_of(program, Model(device).memory(program.analysis), chosen)
    if as_json:
        print_json(found.to_json(by, sort=sort))
        return
    print_table(found.table(by, sort=sort, top=top))
    for note in found.notes:
        click.echo(f"note: {note}", err=True)
