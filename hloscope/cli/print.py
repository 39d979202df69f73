"""`print`: a program in its own language, as that language's own tools print it."""

from __future__ import annotations

from typing import Literal

import click

from hloscope.api import language_of
from hloscope.cli.common import debug_option, file_argument
from hloscope.cli.files import read_text
from hloscope.cli.paging import print_long
from hloscope.dialects import DIALECTS
from hloscope.hlo_parser import parse_hlo, print_hlo
from hloscope.mlir import parse_mlir, print_mlir, split_input

BETWEEN = "// -----\n"


@click.command
@file_argument
@click.option("--generic", is_flag=True, help="StableHLO: print all ops in the generic form.")
@click.option("--locations", is_flag=True, help="StableHLO: print where ops come from.")
@click.option(
    "--names",
    type=click.Choice(["mlir", "source"]),
    default="mlir",
    help="StableHLO: number values as MLIR does (the default), or keep the names they have.",
)
@click.option(
    "--split-input-file", is_flag=True, help="StableHLO: FILE is several programs, // ----- apart."
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
    if language_of(source) == "hlo":
        if generic or locations or split_input_file or names != "mlir":
            raise click.UsageError(f"`{source.name}` is HLO, which is printed in one way only")
        print_long(print_hlo(parse_hlo(source.text, name=source.name, strict=True)), nl=False)
        return
    pieces = split_input(source.text) if split_input_file else [(1, source.text)]
    # Line feeds in front keep the lines in messages those of the file.
    texts = ["\n" * (line - 1) + piece for line, piece in pieces]
    modules = [parse_mlir(text, source.name, dialects=DIALECTS) for text in texts]
    texts = [
        print_mlir(module, dialects=DIALECTS, generic=generic, locations=locations, names=names)
        for module in modules
    ]
    print_long(BETWEEN.join(texts), nl=False)
