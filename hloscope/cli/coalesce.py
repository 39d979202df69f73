"""`coalesce`: sectors that warps transfer, and the causes of unused ones."""

from __future__ import annotations

import re

import click
from click.core import ParameterSource

from hloscope.api import (
    Invalid,
    Model,
    Program,
    ProgramCoalescing,
    coalescing_of_all,
    device_of_dump,
    execute_named,
    find_all,
    kernels_of,
    refuse_other_targets,
    thread_map_of,
)
from hloscope.cli.files import complete_instructions, end_if_invalid, print_findings, read_program
from hloscope.cli.options import (
    Sizes,
    as_if_option,
    by_option,
    device_option,
    file_option,
    format_option,
    top_option,
)
from hloscope.cli.printing import (
    command,
    debug_option,
    file_argument,
    json_option,
    print_differences,
    print_json,
    print_table,
)
from hloscope.cli.streams import print_long, with_progress
from hloscope.errors import ParseError, UnsupportedError

FAILED = 1
MAX_THREADS_PER_BLOCK = 1024
"""Threads of a block.  Source: CUDA C++ Programming Guide, "Technical Specifications"."""
MOST_BLOCKS = (1 << 31) - 1
"""Blocks of a grid in its first dimension, from the same table."""


def _launch(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """Parse the blocks and threads of `--launch 256,128`."""
    if value is None:
        return None
    numbers = re.fullmatch(r"\s*(\d{1,18})\s*,\s*(\d{1,18})\s*", value)
    if numbers is None:
        raise click.BadParameter(f"`{value}` is not blocks,threads such as 256,128")
    if not 0 < int(numbers[2]) <= MAX_THREADS_PER_BLOCK:
        raise click.BadParameter(f"a block has 1 to {MAX_THREADS_PER_BLOCK} threads, not {numbers[2]}")
    if not 0 < int(numbers[1]) <= MOST_BLOCKS:
        raise click.BadParameter(f"a grid has 1 to {MOST_BLOCKS:,} blocks, not {numbers[1]}")
    return int(numbers[1]), int(numbers[2])


def _map(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Check that the text is a map or a layout."""
    if value is not None:
        try:
            thread_map_of(value)
        except ParseError as error:
            raise click.BadParameter(f"not a map: {error.message}") from error
    return value


@command()
@file_argument
@click.argument("name", required=False, shell_complete=complete_instructions)
@device_option("GPU of the model")
@as_if_option
@by_option
@top_option("Without NAME: number of groups; the others share one row.")
@click.option(
    "--fail-below",
    metavar="SHARE",
    type=click.FloatRange(0, 1),
    help="Exit with 1 if ideal over transferred sectors of an access is below SHARE.",
)
@click.option(
    "--threads",
    metavar="T",
    type=click.IntRange(1, 1024),
    help="Threads per block of a loop fusion.",
)
@click.option(
    "--vector",
    metavar="V",
    type=click.IntRange(1, 64),
    help="Elements per thread of a loop fusion.",
)
@click.option(
    "--launch",
    metavar="B,T",
    callback=_launch,
    help="Blocks and threads of a loop fusion; thread numbers continue across blocks.",
)
@click.option(
    "--thread-map",
    metavar="MAP",
    callback=_map,
    help="Map from threads to output elements to use instead of XLA's: a map, Triton's "
    "#ttg.blocked<{…}> or linear layout, or CuTe's (threads,values):(strides).",
)
@click.option(
    "--tile",
    type=Sizes(),
    help="Tile sizes of a block-level (Triton) fusion, or of the layout of --thread-map.",
)
@click.option(
    "--from-ptx",
    is_flag=True,
    help="Execute the PTX of NAME in the dump folder FILE, and compare its requests, sectors and"
    " outputs with the model and the HLO.",
)
@file_option("--inputs", about="With --from-ptx: arrays of the operands, .npz or .npy.")
@click.option(
    "--xla",
    "verdicts_only",
    is_flag=True,
    help="Print only the verdicts of XLA's own analysis; faster.",
)
@format_option()
@json_option
@debug_option
def coalesce(
    file: str,
    name: str | None,
    device: str,
    as_if: str | None,
    by: str,
    top: int,
    fail_below: float | None,
    threads: int | None,
    vector: int | None,
    launch: tuple[int, int] | None,
    thread_map: str | None,
    tile: tuple[int, ...] | None,
    from_ptx: bool,
    inputs: str | None,
    verdicts_only: bool,
    form: str,
    as_json: bool,
) -> None:
    """Count the sectors that the warps of a kernel transfer, and name the cause of unused ones.

    Without NAME, list groups of accesses of all kernels of FILE, most unused bytes first; loop
    bodies count in every iteration.  In NAME, * matches any text and ? any character.
    """
    if from_ptx or inputs is not None:
        if not from_ptx or name is None or form not in ("text", "json"):
            raise click.UsageError("--from-ptx needs NAME and prints text or JSON; --inputs, it")
        _execute(file, name, inputs, as_if or device, as_json=as_json or form == "json")
        return
    if launch is not None and threads is not None:
        raise click.UsageError("--launch and --threads both say how many threads")
    if verdicts_only and fail_below is not None:
        raise click.UsageError("--fail-below needs more than XLA's verdicts: leave out --xla")
    program = read_program(file)
    if click.get_current_context().get_parameter_source("device") is ParameterSource.DEFAULT:
        device = device_of_dump(program.dump)
    blocks = None if launch is None else launch[0]
    of_block = launch[1] if launch else threads
    given = None if thread_map is None else thread_map_of(thread_map, tile)
    model = Model(as_if or device, of_block, blocks, vector, given, tile, verdicts_only)
    if as_if is None:
        refuse_other_targets(program, device, is_named=name is not None)
    found, invalid = _asked(program, name, model)
    if as_json or form == "json":
        print_json(found.to_json(by))
    elif form == "svg":
        click.echo(found.to_svg(), nl=False)
    elif form == "html":
        click.echo(found.to_html(top), nl=False)
    elif name is not None or verdicts_only:
        print_long(found.to_text())
    else:
        _print_table(found, by, top)
    if fail_below is not None and found.lowest < fail_below:
        click.echo(f"the lowest share is {found.lowest:.3g}, below {fail_below:g}", err=True)
        click.get_current_context().exit(FAILED)
    end_if_invalid(invalid)


def _execute(file: str, name: str, inputs: str | None, device: str, *, as_json: bool) -> None:
    """Execute the kernel NAME; exit with 1 if its outputs differ from those of the HLO."""
    found = execute_named(file, name, inputs=inputs, device=device)
    if as_json:
        print_json(found.to_json())
    else:
        print_long(str(found))
    if found.is_wrong:
        click.get_current_context().exit(FAILED)


def _asked(
    program: Program, name: str | None, model: Model
) -> tuple[ProgramCoalescing, Invalid | None]:
    """The results for all kernels, or for those of a name; with findings if kernels are left out.

    The whole program is verified only if a result fails, or if a kernel without one is invalid.
    """
    memory = model.memory(program.analysis, program.dump)
    if name is None:
        every = with_progress(kernels_of(program.module), "kernels", printed=False)
        try:
            found = coalescing_of_all(program, memory, every)
            found.check_refused()
            return found, None
        except Exception:  # of an invalid kernel, whose rules fail in any way
            invalid = print_findings(program)
            if not invalid.findings:
                raise
        memory = model.memory(program.analysis, program.dump)
        return coalescing_of_all(program, memory, kernels_of(program.module), invalid), invalid
    places = find_all(program.module, name)
    found = coalescing_of_all(program, memory, places)
    if not found.kernels and found.refused:
        raise UnsupportedError(found.refused[0].reason)
    return found, None


def _print_table(found: ProgramCoalescing, by: str, top: int) -> None:
    unknown = [(k, array) for k in found.kernels for array in k.arrays if array.is_unknown]
    if found.wasted:
        print_table(found.table(top, by))
    else:
        which = "known access" if unknown else "access"
        click.echo(f"no {which} transfers unused bytes", err=True)
    count, others = len(found.kernels), len(found.refused)
    kernels = f"{count:,} kernel{'' if count == 1 else 's'}"
    if others:
        makers = ", ".join(f"{count:,} {maker}" for maker, count in found.refused_by_maker.items())
        kernels += f"; {others:,} more without a known thread map: {makers}"
    click.echo(kernels, err=True)
    print_differences(found.cost.findings)
    if unknown:
        kernel, array = unknown[0]
        first = f"{kernel.name}, {array.name}{f': {array.reason}' if array.reason else ''}"
        click.echo(f"accesses of unknown transfers: {len(unknown):,} ({first})", err=True)
