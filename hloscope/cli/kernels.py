"""The commands `coalesce`, `ptx` and `banks`: memory accesses of kernels."""

from __future__ import annotations

import re
from typing import Final

import click
from click.core import ParameterSource

from hloscope.api import (
    FilePath,
    Invalid,
    Model,
    Program,
    ProgramCoalescing,
    bank_conflicts,
    coalescing_of_all,
    device_of_dump,
    execute_named,
    find_all,
    kernels_of,
    parse_thread_map,
    ptx_arguments,
    read_ptx,
    refuse_other_targets,
    run_ptx,
    save_outputs,
)
from hloscope.cli.files import complete_instructions, end_if_invalid, print_findings, read_program
from hloscope.cli.maps import read_text
from hloscope.cli.options import (
    Sizes,
    as_if_option,
    by_option,
    device_option,
    file_option,
    format_option,
    limit_option,
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
from hloscope.cli.streams import STDIN, print_long, read_stdin, with_progress
from hloscope.display import bank_json, bank_text, banks_svg, page, ptx_json, ptx_text
from hloscope.errors import ParseError, UnsupportedError
from hloscope.support.limits import MOST_MEMORY, MOST_STEPS, MOST_THREADS

# --------------------------------------------------------------------------------------------------
# `coalesce`: sectors that warps transfer, and the causes of unused ones.


FAILED = 1
MAX_THREADS_PER_BLOCK = 1024
"""Threads of a block.  Source: CUDA C++ Programming Guide, "Technical Specifications"."""
MOST_BLOCKS = (1 << 31) - 1
"""Maximum number of blocks of a grid in its first dimension, from the same table."""


def _launch(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """Parse the value of `--launch 256,128`: blocks of the grid, and threads of a block."""
    if value is None:
        return None
    numbers = re.fullmatch(r"\s*(\d{1,18})\s*,\s*(\d{1,18})\s*", value)
    if numbers is None:
        raise click.BadParameter(f"`{value}` is not blocks,threads such as 256,128")
    if not 0 < int(numbers[2]) <= MAX_THREADS_PER_BLOCK:
        raise click.BadParameter(
            f"a block has 1 to {MAX_THREADS_PER_BLOCK} threads, not {numbers[2]}"
        )
    if not 0 < int(numbers[1]) <= MOST_BLOCKS:
        raise click.BadParameter(f"a grid has 1 to {MOST_BLOCKS:,} blocks, not {numbers[1]}")
    return int(numbers[1]), int(numbers[2])


def _map(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Return the value of an option unchanged, if it is a thread map or a layout."""
    if value is not None:
        try:
            parse_thread_map(value)
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
    type=click.IntRange(1, MAX_THREADS_PER_BLOCK),
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
) -> None:
    """Count the sectors that the warps of a kernel transfer, and name the cause of unused ones.

    Without NAME, list groups of accesses of all kernels of FILE, most unused bytes first; loop
    bodies count in every iteration.  In NAME, * matches any text and ? any character.
    """
    if from_ptx or inputs is not None:
        if not from_ptx or name is None or form not in ("text", "json"):
            raise click.UsageError("--from-ptx needs NAME and prints text or JSON; --inputs, it")
        _execute(file, name, inputs, as_if or device, as_json=form == "json")
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
    model = Model(as_if or device, of_block, blocks, vector, thread_map, tile, verdicts_only)
    if as_if is None:
        refuse_other_targets(program, device, is_named=name is not None)
    found, invalid = _results(program, name, model)
    if form == "json":
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
    """Execute a kernel from its PTX and print the result.

    Exit with 1 if its outputs differ from those of the HLO.

    Args:
        file: The dump folder.
        name: Name of the kernel's instruction.
        inputs: File with the arrays of the operands; `None` for random ones.
        device: Name of the GPU of the model that the execution is compared with.
        as_json: Print JSON.
    """
    found = execute_named(file, name, inputs=inputs, device=device)
    if as_json:
        print_json(found.to_json())
    else:
        print_long(str(found))
    if found.is_wrong:
        click.get_current_context().exit(FAILED)


def _results(
    program: Program, name: str | None, model: Model
) -> tuple[ProgramCoalescing, Invalid | None]:
    """Return the coalescing of all kernels, or of those that `name` matches, and the findings.

    The findings are `None` unless kernels are left out. The whole program is verified only if a
    result fails, or if a kernel without one is invalid. `model` has the settings of the launch.
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


# --------------------------------------------------------------------------------------------------
# `ptx`: a kernel executed, with its requests, sectors and bank conflicts.


@command()
@file_argument
@click.option("--kernel", metavar="NAME", help="Name of the kernel, if FILE has several.")
@click.option("--grid", type=Sizes(), required=True, help="Number of blocks in x, y and z.")
@click.option(
    "--block", type=Sizes(), required=True, help="Number of threads per block in x, y and z."
)
@click.option(
    "--args",
    "arguments",
    multiple=True,
    metavar="NAME=VALUE",
    help="Arguments in order, in one option or several: an array x=f32[4,8] of random numbers,"
    " x=f32[4,8]:0 of one number, x=FILE.npy, or a number n=3.",
)
@click.option(
    "--shared",
    metavar="B",
    type=click.IntRange(0, 1 << 20),
    default=0,
    help="Bytes of dynamic shared memory per block.",
)
@click.option(
    "--seed", metavar="N", type=click.IntRange(0), default=0, help="Seed of random arrays."
)
@file_option("-o", "--output", about="Write the arrays to a .npz or .npy file after execution.")
@limit_option("--max-steps", MOST_STEPS, "Limit of executed instructions.", least=1)
@limit_option("--max-threads", MOST_THREADS, "Limit of threads of the launch.", least=1)
@limit_option("--max-bytes", MOST_MEMORY, "Limit of bytes of memory.", metavar="B", least=1)
@json_option
@debug_option
def ptx(
    file: str,
    kernel: str | None,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    arguments: tuple[str, ...],
    shared: int,
    seed: int,
    output: str | None,
    max_steps: int,
    max_threads: int,
    max_bytes: int,
    as_json: bool,
) -> None:
    """Execute a kernel of the PTX text FILE, and count what its warps transfer.

    All threads are executed on numpy arrays, without a GPU.  Matrix instructions, TMA and cp.async
    are not supported.
    """
    for option, sizes in (("--grid", grid), ("--block", block)):
        if not 1 <= len(sizes) <= 3 or not all(sizes):
            raise click.UsageError(f"{option} needs 1 to 3 positive sizes")
    module = read_ptx(read_stdin(), name=STDIN) if file == "-" else read_ptx(FilePath(file))
    try:
        words = " ".join(arguments).split()
        given = ptx_arguments(words, seed=seed, max_bytes=max_bytes)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--args") from None
    run = run_ptx(
        module,
        given,
        grid=grid,
        block=block,
        kernel=kernel,
        shared_bytes=shared,
        max_steps=max_steps,
        max_threads=max_threads,
        max_bytes=max_bytes,
    )
    if output is not None:
        save_outputs(output, run)
    if as_json:
        print_json(ptx_json(run))
    else:
        print_long(ptx_text(run))


# --------------------------------------------------------------------------------------------------
# `banks`: bank conflicts of threads in shared memory.


SCHEMA: Final = "hloscope.banks/1"


@command()
@click.argument("map", metavar="MAP|-")
@click.option(
    "--shape",
    type=Sizes(),
    required=True,
    help="Sizes of the tile in shared memory, padding included.",
)
@click.option(
    "--bits",
    metavar="N",
    type=click.IntRange(1, MAX_THREADS_PER_BLOCK),
    default=32,
    show_default=True,
    help="Bits per element.",
)
@device_option("GPU whose banks are counted")
@format_option()
@debug_option
def banks(map: str, shape: tuple[int, ...], bits: int, device: str, form: str) -> None:
    """Count the words that the busiest bank serves when threads access a tile through MAP.

    MAP leads from threads to an index in the tile, for example '(th_x) -> (th_x, 0), domain: th_x
    in [0, 31]'; `-` is the standard input.
    """
    text = read_text(map)
    found = bank_conflicts(text, shape, bits=bits, device=device)
    model = f"{device}: elements of {bits} bits"
    match form:
        case "json":
            print_json({"schema": SCHEMA, "map": text, "device": device, **bank_json(found)})
        case "svg":
            click.echo(banks_svg(found, model), nl=False)
        case "html":
            click.echo(page("banks", banks_svg(found, model)), nl=False)
        case _:
            click.echo("words that the busiest bank serves in one request:")
            click.echo(bank_text(found))
