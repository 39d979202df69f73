"""The commands `diff` and `equal`: two programs compared by structure, maps or values."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import click

from hloscope.api import (
    RUNS,
    SECONDS_EQUAL,
    Comparable,
    Compared,
    ComputationView,
    IndexingMap,
    InstructionView,
    Program,
    ValueRuns,
    Verdict,
    comparisons,
    diff as differences_of,
    value_runs,
    verdict_of,
)
from hloscope.cli.files import complete_places, read_program, read_verified_program
from hloscope.cli.options import top_option
from hloscope.cli.printing import command, complete_files, debug_option, json_option, print_json
from hloscope.cli.streams import print_long
from hloscope.display import (
    SAME_ELEMENTS,
    compared_json,
    comparison_text,
    differences_text,
    value_runs_json,
    value_runs_text,
)

# --------------------------------------------------------------------------------------------------
# `diff`: structural differences between two programs.


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


# --------------------------------------------------------------------------------------------------
# `equal`: proofs that maps, instructions or programs read the same elements, or equal results.


SCHEMA: Final = "hloscope.equal/1"
UNDECIDED: Final = 4
Runnable: Final = (Program, ComputationView)


@command()
@click.argument("first", metavar="A", shell_complete=complete_places)
@click.argument("second", metavar="B", shell_complete=complete_places)
@click.option(
    "--seconds",
    metavar="S",
    type=click.FloatRange(0, min_open=True),
    default=SECONDS_EQUAL,
    help="CPU seconds for comparing programs; default: 5.",
)
@click.option(
    "--values",
    "by_values",
    is_flag=True,
    help="Run both programs on equal arguments, and compare their results.",
)
@click.option(
    "--runs",
    metavar="N",
    type=click.IntRange(1, 1_000_000),
    help=f"With --values: most runs, else {RUNS}.",
)
@click.option(
    "--replicas",
    metavar="R",
    type=click.IntRange(1, 4096),
    help="With --values: number of replicas; by default from the header or the groups.",
)
@click.option(
    "--partitions",
    metavar="P",
    type=click.IntRange(1, 4096),
    help="With --values: partitions per replica; one of the programs may be partitioned.",
)
@click.option(
    "--tolerance",
    metavar="T",
    type=float,
    help="With --values: largest allowed difference of floats, default 0.0001; relative for "
    "values above 1.",
)
@click.option(
    "--ulps",
    metavar="N",
    type=click.IntRange(0),
    help="Largest allowed difference in units in the last place, instead of --tolerance.",
)
@json_option
@debug_option
def equal(
    first: str, second: str, seconds: float, by_values: bool, as_json: bool, **options: Any
) -> None:
    """Prove that A and B read the same elements; with --values, compare their results.

    A and B are maps as text, instructions (FILE:NAME), programs (FILE) or computations (FILE:NAME).
    Of programs and computations, the elements of each parameter that each output reads are
    compared, on every device; types must be equal.  What is computed from the elements is not
    compared: an `add` and a `subtract` read the same.  The exit code is 0 if equality is proved, 1
    if A and B differ, 4 if it is undecided after --seconds.

    With --values, both programs run on the same arguments: distinct numbers, edge values, and
    starts of slices inside and outside their bounds.  The exit code is 1 if a result differs, which
    is printed; 0 if no difference was found, which is not a proof; 4 if a program cannot run.  A
    program for several devices may be compared with its partitioned form, whose arguments are cut
    by the shardings.
    """
    a, b = sides_of(first, second)
    if isinstance(a, InstructionView) is not isinstance(b, InstructionView):
        raise click.UsageError("A and B are two maps, two instructions or two programs")
    given = {name: value for name, value in options.items() if value is not None}
    if by_values:
        if not (isinstance(a, Runnable) and isinstance(b, Runnable)):
            raise click.UsageError("--values runs programs or computations")
        _end_runs(value_runs(a, b, seconds=seconds, **given), as_json=as_json)
    if given:
        raise click.UsageError(f"--{next(iter(given))} is about runs: give --values")
    found = list(comparisons(a, b, seconds=seconds))
    end_compared(found, SCHEMA if as_json else "", maps=isinstance(a, IndexingMap))


def _end_runs(found: ValueRuns, *, as_json: bool) -> None:
    """Print the comparison of results, and exit with its exit code.

    `found` are the runs of two programs on the same arguments.
    """
    if as_json:
        print_json({"schema": SCHEMA, **value_runs_json(found)})
    else:
        for line in value_runs_text(found):
            click.echo(line)
    is_different = found.difference is not None or bool(found.types)
    click.get_current_context().exit(
        DIFFERENT if is_different else UNDECIDED if found.reason else 0
    )


def sides_of(first: str, second: str) -> tuple[Comparable, Comparable]:
    """Parse the arguments A and B of `equal`, as `side_of` does; each file is read once.

    Raises:
        click.UsageError: Only one of them is a map.
    """
    read = cache(read_verified_program)  # A and B may be instructions of one file
    a, b = side_of(first, read), side_of(second, read)
    if isinstance(a, IndexingMap) is not isinstance(b, IndexingMap):
        raise click.UsageError("A and B are two maps, two instructions or two programs")
    return a, b


def end_compared(found: list[Compared], schema: str, *, maps: bool) -> None:
    """Print comparisons, as JSON if a schema is given, and exit with the code of the verdict.

    Args:
        found: The comparisons.
        schema: Name of the JSON schema; empty for text.
        maps: Are two maps compared? For programs, the verdict says that values are not compared.
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
    """Parse an argument of `equal`: a map, `FILE`, or `FILE:NAME` of a computation or instruction.

    `read` reads a program from a file.
    """
    if is_map(text):
        return IndexingMap.parse(text)
    file, colon, name = text.rpartition(":")
    if not colon or os.path.exists(text):
        return read(text)
    program = read(file)
    named = {c.name: c for c in program.computations}
    return named[name] if name in named and name not in program else program[name]


def is_map(text: str) -> bool:
    """Is the argument meant as a map, possibly a malformed one, rather than a file?"""
    if "->" in text or text.strip() == "KNOWN EMPTY":
        return True
    return text.lstrip().startswith("(") and not os.path.exists(text.rpartition(":")[0] or text)
