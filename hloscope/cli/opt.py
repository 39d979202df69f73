"""`opt`: a program after passes."""

from __future__ import annotations

import click

from hloscope.cli.common import debug_option, file_argument
from hloscope.cli.files import read_text
from hloscope.cli.print import BETWEEN
from hloscope.cli.run_inputs import right_modules_of
from hloscope.hlo_parser import print_hlo
from hloscope.ir import Module
from hloscope.passes import MAX_BYTES, MAX_ELEMENTS, MAX_STEPS, fold
from hloscope.stablehlo import TreeModule, print_stablehlo


@click.command
@file_argument
@click.option(
    "--fold", "folds", is_flag=True, help="Compute what depends on no argument; drop dead code."
)
@click.option(
    "--max-elements",
    metavar="N",
    type=click.IntRange(0),
    default=MAX_ELEMENTS,
    show_default=True,
    help="Fold: most elements of a constant that is made.",
)
@click.option(
    "--max-bytes",
    metavar="B",
    type=click.IntRange(0),
    default=MAX_BYTES,
    show_default=True,
    help="Fold: most bytes of an array on the way to one.",
)
@click.option(
    "--max-steps",
    metavar="N",
    type=click.IntRange(0),
    default=MAX_STEPS,
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
    texts = []
    for module in right_modules_of(read_text(file), split=split_input_file):
        made = fold(module, max_elements=max_elements, max_bytes=max_bytes, max_steps=max_steps)
        texts.append(_text(made))
    click.echo(BETWEEN.join(texts), nl=False)


def _text(module: Module) -> str:
    """The program in its own language."""
    return print_stablehlo(module) if isinstance(module, TreeModule) else print_hlo(module)
