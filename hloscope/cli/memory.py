"""`memory`: the buffers at the memory peak of a program, and what lowers the peak."""

from __future__ import annotations

from typing import Final

import click

from hloscope.api import MemoryAnswer, MemoryDifferenceAnswer
from hloscope.cli.files import complete_instructions, read_verified_program
from hloscope.cli.options import any_device_option, by_buffers_option, format_option, top_option
from hloscope.cli.printing import (
    command,
    complete_files,
    debug_option,
    file_argument,
    json_option,
    print_json,
    print_table,
)
from hloscope.cli.streams import print_long

MOST_DIGITS: Final = 18
"""Digits of a moment; a longer number is a name, of which there is none."""


@command()
@file_argument
@click.argument("after", metavar="[AFTER]", required=False, shell_complete=complete_files)
@click.option(
    "--at",
    metavar="NAME",
    shell_complete=complete_instructions,
    help="Show this moment instead of the peak: the name of an instruction, or a number.",
)
@by_buffers_option
@any_device_option("Device that holds the program (default for GPU programs: h100)")
@top_option("Number of groups; the others share one row.")
@format_option()
@json_option
@debug_option
def memory(
    file: str,
    after: str | None,
    at: str | None,
    by: str,
    device: str | None,
    top: int,
    form: str,
    as_json: bool,
) -> None:
    """List the buffers that hold the memory of FILE at its peak, and what lowers the peak.

    FILE is a scheduled program, as XLA dumps it after optimisation.  The first figure is the least
    memory that any assignment needs; the second estimates what XLA allocates.  A program without a
    schedule has no peak, and the sums of its buffers are printed.

    With AFTER, list the buffers that XLA allocates for only one of the two programs.  A picture
    shows the live bytes over the schedule by kind and source line, of two programs on one scale.
    """
    if file == after == "-":
        raise click.UsageError("only one of the two can be the standard input")
    form = "json" if as_json else form
    is_drawn = form in ("svg", "html")
    if is_drawn and (at is not None or by != "group"):
        raise click.UsageError("--at and --by are about text and JSON")
    is_about_one = at is not None or by != "group" or (device is not None and not is_drawn)
    if after is not None and is_about_one:
        raise click.UsageError("--at, --by and --device are about one program")
    found = read_verified_program(file).memory()
    if after is not None:
        compared = found.difference(read_verified_program(after).memory())
        _print_difference(compared, form, device, top)
        return
    is_moment = at is not None and at.isascii() and at.isdecimal() and len(at) <= MOST_DIGITS
    where = int(at) if at is not None and is_moment else at
    if form == "json":
        print_json(found.to_json(by, at=where))
        return
    if is_drawn:
        _print_picture(found, form, found.device(device))
        return
    click.echo(found.about, err=True)
    _print_text(found, where, by, device, top)
    for note in found.notes:
        click.echo(f"note: {note}", err=True)


def _print_difference(
    compared: MemoryDifferenceAnswer, form: str, device: str | None, top: int
) -> None:
    """Print the difference of two programs as text, JSON or a picture."""
    if form == "json":
        print_json(compared.to_json())
    elif form == "text":
        print_long("\n".join(compared.lines(top)))
    else:
        _print_picture(compared, form, device)


def _print_picture(
    found: MemoryAnswer | MemoryDifferenceAnswer, form: str, device: str | None
) -> None:
    drawn = found.to_svg(device) if form == "svg" else found.to_html(device)
    click.echo(drawn, nl=False)


def _print_text(
    found: MemoryAnswer, where: int | str | None, by: str, device: str | None, top: int
) -> None:
    """Print the first lines, the buffers at the moment, and the answers."""
    for line in found.first_lines(device):
        click.echo(line)
    if not found.has_moments:
        return
    moment = found.peak if where is None else found.at(where)
    click.echo()
    if where is not None:
        click.echo(str(moment).partition("\n")[0])
    print_table(moment.table(by, top))
    answers = [*found.answers()]
    if answers:
        click.echo()
    for line in answers:
        click.echo(line)
