"""`tile`: how an instruction can be tiled."""

from __future__ import annotations

import click

from hloscope.api import LIMITS, SCHEDULES, InstructionView, Program, ScheduleName, Tiles
from hloscope.cli.common import command, debug_option, file_argument, json_option, print_json
from hloscope.cli.completing import complete_instructions
from hloscope.cli.files import read_program
from hloscope.cli.options import Sizes, device_option, format_option, top_option
from hloscope.cli.paging import print_long


@command()
@file_argument
@click.argument("name", required=False, shell_complete=complete_instructions)
@click.option(
    "--sizes", type=Sizes(), help="Tile sizes, for example 16,64; if not given, the dump's."
)
@click.option("--space", is_flag=True, help="The tiling space, and every instruction's tiles.")
@click.option("--search", is_flag=True, help="Rank the tilings that a device can run.")
@device_option("Whose limits --search keeps to", LIMITS)
@click.option(
    "--stages",
    metavar="K",
    type=click.IntRange(1, 64),
    default=1,
    help="Pipeline stages that --search takes for granted.",
)
@top_option("How many --search lists.", 10)
@click.option(
    "--schedule",
    type=click.Choice(SCHEDULES),
    default="major_to_minor",
    help="In which order programs take the tiles.",
)
@format_option()
@json_option
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

    NAME is a fusion or another instruction, the entry computation's root if not given.  A Triton
    fusion whose dump holds tile sizes is told with these, and with their place in the ranking.
    """
    form = "json" if as_json else form
    program = read_program(file)
    view = _root(program) if name is None else program[name]
    if space:
        if search or form not in ("text", "json"):
            raise click.UsageError("--space is told as text or JSON, and is not searched")
        _tell_space(view, sizes, form)
        return
    try:
        found: Tiles = view.tiles(sizes, schedule=schedule)
    except ValueError as error:  # --sizes fits no tensor
        raise click.UsageError(str(error)) from None
    if form in ("svg", "html") and found.report.sizes is None:
        raise click.UsageError("a picture is of one tile: say --sizes")
    if search or (found.report.is_own and form in ("text", "json")):
        found = found.search(device=device, stages=stages, top=top if search else 1)
    match form:
        case "json":
            print_json(found.to_json())
        case "svg":
            click.echo(found.to_svg(), nl=False)
        case "html":
            click.echo(found.to_html(), nl=False)
        case _:
            print_long(str(found))


def _root(program: Program) -> InstructionView:
    """What the program returns: one array, or nothing can be said of its tiles."""
    root = program.root
    if root.ir.op.name in ("tuple", "return") and len(root.operands) != 1:
        near = f", such as {root.operands[0].name}" if root.operands else ""
        raise click.UsageError(f"`{root.name}` is a tuple of several arrays: give NAME{near}")
    return root


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
