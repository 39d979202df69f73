"""`tile`: how an instruction can be tiled."""

from __future__ import annotations

import re
from typing import Final

import click

from hloscope.api import SCHEDULES, InstructionView, ScheduleName, Tiles
from hloscope.cli.common import debug_option, file_argument, print_json
from hloscope.cli.files import read_program
from hloscope.cli.paging import print_long

FORMATS: Final = ("text", "json", "svg", "html")


def _sizes(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    """The tile sizes that `--sizes 16,64` means."""
    if value is None:
        return None
    if not re.fullmatch(r"\s*(\d{1,18}(\s*,\s*\d{1,18})*)?\s*", value):
        raise click.BadParameter(f"`{value}` is not a list of positive integers such as 16,64")
    return tuple([int(n) for n in value.split(",") if n.strip()])


@click.command
@file_argument
@click.argument("name", required=False)
@click.option("--sizes", metavar="N,N,..", callback=_sizes, help="Tile sizes, for example 16,64.")
@click.option("--space", is_flag=True, help="The tiling space, and every instruction's tiles.")
@click.option("--search", is_flag=True, help="Rank the tilings that a device can run.")
@click.option("--device", metavar="D", default="h100", help="Whose limits --search keeps to.")
@click.option(
    "--stages",
    metavar="K",
    type=click.IntRange(1, 64),
    default=1,
    help="Pipeline stages that --search takes for granted.",
)
@click.option(
    "--top", metavar="K", type=click.IntRange(1, 10_000), default=10, help="How many to list."
)
@click.option(
    "--schedule",
    type=click.Choice(SCHEDULES),
    default="major_to_minor",
    help="In which order programs take the tiles.",
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help="What to print.")
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@debug_option
def tile(
    file: str,
    name: str | None,
    sizes: tuple[int, ...] | None,
    space: bool,
    search: bool,
    device: str,
    stages: int,
    top: int,
    schedule: ScheduleName,
    form: str,
    as_json: bool,
) -> None:
    """Tell how NAME in FILE can be tiled: XLA's constraints, and what tiles really read.

    NAME is a fusion or another instruction, the entry computation's root if not given.
    """
    form = "json" if as_json else form
    if form in ("svg", "html") and sizes is None:
        raise click.UsageError("a picture is of one tile: say --sizes")
    program = read_program(file)
    view = program.root if name is None else program[name]
    if space:
        if search or form not in ("text", "json"):
            raise click.UsageError("--space is told as text or JSON, and is not searched")
        _tell_space(view, sizes, form)
        return
    try:
        found: Tiles = view.tiles(sizes, schedule=schedule)
    except ValueError as error:  # --sizes fits no tensor
        raise click.UsageError(str(error)) from None
    if search:
        found = found.search(device=device, stages=stages, top=top)
    match form:
        case "json":
            print_json(found.to_json())
        case "svg":
            click.echo(found.to_svg(), nl=False)
        case "html":
            click.echo(found.to_html(), nl=False)
        case _:
            print_long(str(found))


def _tell_space(view: InstructionView, sizes: tuple[int, ...] | None, form: str) -> None:
    """Print the tiling space of an instruction, as XLA's experimental tiling has it."""
    try:
        found = view.tiling_space(sizes)
    except ValueError as error:  # --sizes fits no dimensions
        raise click.UsageError(str(error)) from None
    if form == "json":
        print_json(found.to_json())
    else:
        print_long(found.text())
