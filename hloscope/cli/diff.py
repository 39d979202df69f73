"""`diff`: structural differences between two programs."""

from __future__ import annotations

from typing import Final

import click

from hloscope.api import diff as differences_of
from hloscope.cli.files import read_program
from hloscope.cli.options import top_option
from hloscope.cli.printing import command, complete_files, debug_option, json_option, print_json
from hloscope.cli.streams import print_long
from hloscope.display import differences_text

DIFFERENT: Final = 1


@command()
@click.argument("first", metavar="A", shell_complete=complete_files)
@click.argument("second", metavar="B", shell_complete=complete_files)
@top_option("Number of changes to print.", 100)
@json_option
@debug_option
def diff(first: str, second: str, top: int, as_json: bool) -> None:
    """List what changed between the programs A and B, by structure.

    A and B are HLO, StableHLO or artifacts.  Names, the order of instructions, metadata and
    locations are ignored.  The exit code is 0 if the programs are the same, 1 if they differ.
    """
    if first == second == "-":
        raise click.UsageError("only one of the two can be the standard input")
    found = differences_of(read_program(first), read_program(second))
    if as_json:
        print_json(found.to_json())
    else:
        print_long("\n".join(differences_text(found, most=top)))
    click.get_current_context().exit(0 if found.none else DIFFERENT)
