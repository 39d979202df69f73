"""The commands `tile` and `cancel`: tile sizes, and data movement that cancels."""

from __future__ import annotations

import os
from typing import Final

import click

from hloscope.api import (
    LIMITS,
    SCHEDULES,
    IndexingMap,
    InstructionView,
    Invalid,
    Movement,
    Program,
    ScheduleName,
    Tiles,
    movements,
)
from hloscope.cli.compare import end_compared, is_map, sides_of
from hloscope.cli.files import (
    complete_instructions,
    end_if_invalid,
    read_program,
    read_verified_program,
    read_with_findings,
)
from hloscope.cli.options import Sizes, by_option, device_option, format_option, top_option
from hloscope.cli.printing import (
    command,
    debug_option,
    file_argument,
    print_json,
    print_table,
)
from hloscope.cli.streams import print_long
from hloscope.display import (
    about_movement,
    chain_json,
    grouped_movement,
    movement_groups_json,
    movement_summary,
    movement_table,
)

# --------------------------------------------------------------------------------------------------
# `tile`: the tilings of an instruction.


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
) -> None:
    """List the tile sizes that NAME in FILE can have, and what its tiles read.

    NAME is a fusion or another instruction; by default, the root of the entry computation.  The
    constraints are XLA's.  If FILE states tile sizes of a Triton fusion, their tiles and their rank
    are printed.
    """
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
    """Return the root of the entry computation.

    Raises:
        click.UsageError: The root is a tuple of several arrays.
    """
    root = program.root
    if root.ir.op.name in ("tuple", "return") and len(root.operands) != 1:
        near = f", such as {root.operands[0].name}" if root.operands else ""
        raise click.UsageError(f"`{root.name}` is a tuple of several arrays: give NAME{near}")
    return root


def _print_space(view: InstructionView, sizes: tuple[int, ...] | None, form: str) -> None:
    """Print the tiling space of an instruction, as XLA's experimental tiling defines it.

    Args:
        view: The instruction.
        sizes: Tile size of each dimension; `None` for variables.
        form: `json` or `text`.
    """
    try:
        found = view.tiling_space(sizes)
    except ValueError as error:  # --sizes fits no dimensions
        raise click.UsageError(str(error)) from None
    if form == "json":
        print_json(found.to_json())
    else:
        print_long(found.text())


# --------------------------------------------------------------------------------------------------
# `cancel`: chains of data movement, their bytes, and the bytes that a proved rewriting saves.


SCHEMA: Final = "hloscope.cancel/2"
TOP: Final = 20


@command()
@file_argument
@click.argument(
    "name", metavar="[NAME|OTHER]", required=False, shell_complete=complete_instructions
)
@click.option("--top", metavar="N", type=click.IntRange(1), help="Number of rows; default: 20.")
@by_option
@click.option(
    "--by-name", is_flag=True, help="Pair the parameters of FILE and OTHER by name, not by number."
)
@format_option("Output format; a picture shows one chain.")
@debug_option
def cancel(
    file: str,
    name: str | None,
    top: int | None,
    by: str,
    by_name: bool,
    form: str,
) -> None:
    """Find reshapes, transposes, copies and broadcasts of FILE that cancel or are free.

    Consecutive ops that move data are a chain: reshapes, transposes, bitcasts, copies, broadcasts,
    slices, pads, reverses, concatenates and element-wise ops, also through fusions.  A chain is a
    no-op, a bitcast, one transpose, or real movement.  Each row is a group of equal chains: the
    bytes that they read and write in all runs, and the bytes that a proved rewriting saves.  With
    NAME, an instruction or a pattern with * and ?, print its chains with proofs and shorter
    programs.

    With OTHER (a file, FILE:NAME, or a map if FILE is one), prove that both move the same data:
    each element of memory to the same place.  The exit code is 0 if they do, 1 if not, 4 if
    undecided.
    """
    if name is not None and _is_other(name):
        one, other = sides_of(file, name)
        compared = list(movements(one, other, by_name=by_name))
        is_maps = isinstance(one, IndexingMap)
        end_compared(compared, SCHEMA if form == "json" else "", maps=is_maps)
    if by_name:
        raise click.UsageError("--by-name is about the parameters of two programs: give OTHER")
    most = TOP if top is None else top
    if name is None and form in ("text", "json"):
        program, invalid = read_with_findings(file)
        _print_all(program, invalid, most, by, form)
        end_if_invalid(invalid)
        return
    program = read_verified_program(file) if name is None else read_program(file)
    found = program.cancellations(program.like(name)) if name else program.cancellations()[:1]
    if form in ("svg", "html"):
        if len(found) != 1:
            raise click.UsageError(f"a picture shows one chain, not {len(found)}: give NAME")
        click.echo(found[0].to_svg() if form == "svg" else found[0].to_html(), nl=False)
    elif form == "json":
        described = [chain.to_json() for chain in found[:most]]
        print_json({"schema": SCHEMA, "file": file, "chains": described})
    else:
        print_long("\n\n".join(map(str, found[:most])))


def _is_other(text: str) -> bool:
    """Does the argument name a file, an instruction in a file, or a map?

    Otherwise it names an instruction of the first file.
    """
    return is_map(text) or os.path.exists(text) or os.path.exists(text.rpartition(":")[0])


def _print_all(program: Program, invalid: Invalid, most: int, by: str, form: str) -> None:
    """Print the data movement of a program, as a table or as JSON.

    Args:
        program: The program.
        invalid: The findings about it; no chain leads through invalid instructions.
        most: Maximum number of groups.
        by: The grouping.
        form: `text` or `json`.
    """
    found = Movement(program.module, invalid)
    savings = found.savings
    groups, grouping = grouped_movement(savings, found.module, found.places, by)
    notes = [*about_movement(savings), *found.notes]
    if form == "text":
        if groups:
            print_table(movement_table(groups, grouping, most))
        for line in (movement_summary(savings), *notes):
            click.echo(line, err=True)
        return
    kinds: dict[str, int] = {}
    for chain in found.chains:
        kinds[str(chain.kind)] = kinds.get(str(chain.kind), 0) + 1
    order = sorted(savings.figures, key=lambda figures: (-figures.saved, -figures.moved))
    chains = [figures for figures in order if figures.chain is not None]
    print_json(
        {
            "schema": SCHEMA,
            "file": program.file,
            "groups": movement_groups_json(groups, grouping, most)[:most],
            "number_of_groups": len(groups),
            "chains": [chain_json(figures) for figures in chains[:most]],
            "number_of_chains": len(chains),
            "verdicts": kinds,
            "bytes_moved": savings.moved,
            "bytes_saved": savings.saved,
            "notes": notes,
        }
    )
