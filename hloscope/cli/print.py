"""`print`: a program in the canonical format of its language."""

from __future__ import annotations

from typing import Literal

import click

from hloscope.api import canonical, language_of
from hloscope.cli.files import read_text
from hloscope.cli.printing import command, debug_option, file_argument
from hloscope.cli.streams import print_long


@command()
@file_argument
@click.option("--generic", is_flag=True, help="StableHLO: print all ops in the generic form.")
@click.option("--locations", is_flag=True, help="StableHLO: print the locations of ops.")
@click.option(
    "--names",
    type=click.Choice(["mlir", "source"]),
    default="mlir",
    help="StableHLO: number values as MLIR does (the default), or keep their names in FILE.",
)
@click.option(
    "--split-input-file",
    is_flag=True,
    help="StableHLO: FILE is several programs, separated by // -----.",
)
@debug_option
def print(
    file: str,
    generic: bool,
    locations: bool,
    names: Literal["mlir", "source"],
    split_input_file: bool,
) -> None:
    """Print the program of FILE canonically: StableHLO as MLIR does, HLO as XLA does."""
    source = read_text(file)
    asks = generic or locations or split_input_file or names != "mlir"
    if asks and language_of(source) == "hlo":
        raise click.UsageError(f"`{source.name}` is HLO, which is printed in one way only")
    text = canonical(
        source, generic=generic, locations=locations, names=names, split=split_input_file
    )
    print_long(text, nl=False)
