"""`show`: one instruction with its neighbourhood."""

from __future__ import annotations

from typing import Final

import click

from hloscope.api import find_all
from hloscope.cli.files import complete_instructions, read_program
from hloscope.cli.printing import command, debug_option, file_argument, json_option, print_json
from hloscope.cli.streams import print_long
from hloscope.display import (
    computation_json,
    computation_text,
    founds,
    line_printer,
    neighbourhood,
    neighbourhood_json,
    neighbourhood_text,
)

SCHEMA: Final = "hloscope.show/1"


@command()
@file_argument
@click.argument("name", shell_complete=complete_instructions)
@click.option(
    "--around",
    metavar="K",
    type=click.IntRange(0),
    default=0,
    help="Also show instructions up to K steps away along operands and users.",
)
@click.option(
    "--full",
    is_flag=True,
    help="Print whole tuples, backend configs and source traces.",
)
@json_option
@debug_option
def show(file: str, name: str, around: int, full: bool, as_json: bool) -> None:
    """Print the instruction NAME of FILE and the computations it calls, or a computation.

    Write NAME as `computation/instruction` if several computations have that instruction.  In NAME,
    * matches any text and ? any character.
    """
    module = read_program(file).module
    plain = name.removeprefix("%")
    printed = line_printer("default" if as_json else "short" if full else "brief")
    if plain in module.computations and "/" not in plain:
        computation = module.computations[plain]
        if as_json:
            print_json({"schema": SCHEMA, "file": file, **computation_json(computation, printed)})
        else:
            print_long("\n".join(computation_text(computation, full, printed)))
        return
    every = founds(module, find_all(module, name), printed)
    texts: list[str] = []
    for found in every:
        steps = neighbourhood(found, around)
        if as_json:
            said = {"schema": SCHEMA, "file": file, **neighbourhood_json(found, steps)}
            print_json(said, lines=len(every) > 1)
        else:
            texts.append("\n".join(neighbourhood_text(found, steps, full)))
    if texts:
        print_long("\n\n".join(texts))
