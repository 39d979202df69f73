"""`tile`: the tilings of an instruction."""

from __future__ import annotations

import click

from hloscope.api import LIMITS, SCHEDULES, InstructionView, Program, ScheduleName, Tiles
from hloscope.cli.files import complete_instructions, read_program
from hloscope.cli.options import Sizes, device_option, format_option, top_option
from hloscope.cli.printing import command, debug_option, file_argument, json_option, print_json
from hloscope.cli.streams import print_long


@command()
@file_argument
@click.argument("name", required=False, shell_complete=complete_instructions)
@click.option("--sizes", type=Sizes(), help="Tile sizes, such as 16,64; by default those in FILE.")
@click.option("--space", is_flag=True, help="Print the tiling space and every instruction's tiles.")
@click.option("--search", is_flag=True, help="Rank the tile sizes that a device can run.")
@device_option("Device whose limits --search respects", LIMITS)
@click.option(
    "--stages",
    metavar="K",
    type=click.IntRange(1, 64),
    default=1,
    help="Pipeline stages that --search assumes.",
)
@top_option("Number of tile sizes that --search lists.", 10)
@click.option(
    "--schedule",
    type=click.Choice(SCHEDULES),
    default="major_to_minor",
    help="Order in which Triton programs process tiles.",
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
    """List the tile sizes that NAME in FILE can have, and what its tiles read.

    NAME is a fusion or another instruction; by default, the root of the entry computation.  The
    constraints are XLA's.  If FILE states tile sizes of a Triton fusion, their tiles and their rank
    are printed.
    """
    form = "json" if as_json else form
    program = read_program(file)
    view = _root(program) if name is None else program[name]
    if space:
        if search or form not in ("text", "json"):
            raise click.UsageError("--space prints text or JSON only and excludes --search")
        _print_space(view, sizes, form)
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
    """Return the root, which must be an array."""
    root = program.root
    if root.ir.op.name in ("tuple", "return") and len(root.operands) != 1:
        near = f", such as {root.operands[0].name}" if root.operands else ""
        raise click.UsageError(f"`{root.name}` is a tuple of several arrays: give NAME{near}")
    return root


def _print_space(view: InstructionView, sizes: tuple[int, ...] | None, form: str) -> None:
    """Print the tiling space of an instruction, as XLA's experimental tiling defines it."""
    try:
        found = view.tiling_space(sizes)
    except ValueError as error:  # --sizes fits no dimensions
        raise click.UsageError(str(error)) from None
    if form == "json":
        print_json(found.to_json())
    else:
        print_long(found.text())
