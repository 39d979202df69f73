"""`equal`: do two maps, instructions or programs read the same elements, or return the same?"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Final

import click

from hloscope.api import (
    SECONDS_EQUAL,
    Comparable,
    Compared,
    IndexingMap,
    InstructionView,
    Program,
    Verdict,
    comparisons,
    verdict_of,
)
from hloscope.cli.common import command, debug_option, json_option, print_json
from hloscope.cli.completing import complete_places
from hloscope.cli.files import read_verified_program
from hloscope.display import SAME_ELEMENTS, compared_json, comparison_text

SCHEMA: Final = "hloscope.equal/1"
DIFFERENT: Final = 1
UNDECIDED: Final = 4


@command()
@click.argument("first", metavar="A", shell_complete=complete_places)
@click.argument("second", metavar="B", shell_complete=complete_places)
@click.option(
    "--seconds",
    metavar="S",
    type=click.FloatRange(0, min_open=True),
    default=SECONDS_EQUAL,
    help="Processor time for comparing programs, by default 5.",
)
@json_option
@debug_option
def equal(first: str, second: str, seconds: float, as_json: bool) -> None:
    """Tell whether A and B touch the same elements: two maps, instructions or programs.

    A and B are maps as text; instructions as FILE:NAME; or FILE, a program, or FILE:NAME of a
    computation, of which is compared what each output reads of each parameter.  Programs are
    verified first; what has the same structure up to names is equal, the rest is composed, for
    --seconds.  The exit code is 0 if they are proved equal, 1 if they are different, 4 if it is
    undecided.
    """
    a, b = sides_of(first, second)
    if isinstance(a, InstructionView) is not isinstance(b, InstructionView):
        raise click.UsageError("A and B are two maps, two instructions or two programs")
    found = list(comparisons(a, b, seconds=seconds))
    end_compared(found, SCHEMA if as_json else "", maps=isinstance(a, IndexingMap))


def sides_of(first: str, second: str) -> tuple[Comparable, Comparable]:
    """What two arguments mean: two maps, or none."""
    read = cache(read_verified_program)
    a, b = side_of(first, read), side_of(second, read)
    if isinstance(a, IndexingMap) is not isinstance(b, IndexingMap):
        raise click.UsageError("A and B are two maps, two instructions or two programs")
    return a, b


def end_compared(found: list[Compared], schema: str, *, maps: bool) -> None:
    """Print comparisons, as JSON if a schema is given, and end with the exit code of the verdict.

    Args:
        found: The comparisons.
        schema: Name of the JSON schema; empty for text.
        maps: Are two maps compared?  Of programs, the verdict says that values are not compared.
    """
    verdict = verdict_of(found)
    if schema:
        compared = list(map(compared_json, found))
        head = {"schema": schema, "what": "elements", "verdict": str(verdict)}
        print_json({**head, "compared": compared})
    else:
        for line in comparison_text(found, verdict, "equal" if maps else SAME_ELEMENTS):
            click.echo(line)
    ends = {Verdict.PROVED: 0, Verdict.REFUTED: DIFFERENT, Verdict.UNDECIDED: UNDECIDED}
    click.get_current_context().exit(ends[verdict])


def side_of(text: str, read: Callable[[str], Program]) -> Comparable:
    """What an argument means."""
    if is_map(text):
        return IndexingMap.parse(text)
    file, colon, name = text.rpartition(":")
    if not colon or os.path.exists(text):
        return read(text)
    program = read(file)
    named = {c.name: c for c in program.computations}
    return named[name] if name in named and name not in program else program[name]


def is_map(text: str) -> bool:
    """Is a map meant, a broken one perhaps, and no file?"""
    if "->" in text or text.strip() == "KNOWN EMPTY":
        return True
    return text.lstrip().startswith("(") and not os.path.exists(text.rpartition(":")[0] or text)
