"""`ptx`: a kernel executed, with its requests, sectors and bank conflicts."""

from __future__ import annotations

import click

from hloscope.api import FilePath, ptx_arguments, read_ptx, run_ptx, save_outputs
from hloscope.cli.options import Sizes, file_option, limit_option
from hloscope.cli.printing import command, debug_option, file_argument, json_option, print_json
from hloscope.cli.streams import STDIN, print_long, read_stdin
from hloscope.display import ptx_json, ptx_text
from hloscope.support.limits import MOST_MEMORY, MOST_STEPS, MOST_THREADS


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
