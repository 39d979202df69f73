"""`opt`: a program after passes."""

from __future__ import annotations

import click

from hloscope.api import FOLD_BYTES, FOLD_ELEMENTS, FOLD_STEPS, Program, joined
from hloscope.cli.common import debug_option, file_argument
from hloscope.cli.files import read_text
from hloscope.cli.verified import right_modules_of


@click.command
@file_argument
@click.option(
    "--fold", "folds", is_flag=True, help="Compute what depends on no argument; drop dead code."
)
@click.option(
    "--max-elements",
    metavar="N",
    type=click.IntRange(0),
    default=FOLD_ELEMENTS,
    show_default=True,
    help="Fold: most elements of a constant that is made.",
)
@click.option(
    "--max-bytes",
    metavar="B",
    type=click.IntRange(0),
    default=FOLD_BYTES,
    show_default=True,
    help="Fold: most bytes of an array on the way to one.",
)
@click.option(
    "--max-steps",
    metavar="N",
    type=click.IntRange(0),
    default=FOLD_STEPS,
    show_default=True,
    help="Fold: most instructions to evaluate in all.",
)
@click.option("--split-input-file", is_flag=True, help="FILE is several programs, // ----- apart.")
@debug_option
def opt(
    file: str,
    folds: bool,
    max_elements: int,
    max_bytes: int,
    max_steps: int,
    split_input_file: bool,
) -> None:
    """Print the program of FILE as it is after passes.

    What is wrong in FILE is reported first; the exit code is 3 then.
    """
    if not folds:
        raise click.UsageError("name a pass: --fold")
    texts = [
        Program(module)
        .fold(max_elements=max_elements, max_bytes=max_bytes, max_steps=max_steps)
        .text()
        for module in right_modules_of(read_text(file), split=split_input_file)
    ]
    click.echo(joined(texts), nl=False)
