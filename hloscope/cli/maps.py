"""`simplify` and `compose`: commands on the text of maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from hloscope.api import MAP_SCHEMA, IndexingMap, simplified, simplified_line
from hloscope.cli.printing import command, debug_option, json_option, print_json
from hloscope.cli.streams import read_map, stdin_lines
from hloscope.errors import HloscopeError, InputError, ParseError

COMPOSE_SCHEMA: Final = "hloscope.compose/1"
MAX_ELEMENTS_PRINTED: Final = 200_000
"""Maximum number of characters of a trace."""


@command()
@click.argument("map", metavar="MAP|-", required=False)
@click.option(
    "--lines",
    is_flag=True,
    help='Read JSON lines {"map": ..} from the standard input, and print one line for each.',
)
@click.option("--trace", is_flag=True, help="Print each step with its law on the standard error.")
@click.option("--keep-points", is_flag=True, help="Keep variables that have only one value.")
@click.option("--exact", is_flag=True, help="Search for shorter forms, and prove them equal.")
@json_option
@debug_option
def simplify(
    map: str | None, lines: bool, trace: bool, keep_points: bool, exact: bool, as_json: bool
) -> None:
    """Simplify an indexing map, given as text or read from the standard input (`-`).

    An example: hloscope simplify '(d0) -> (d0 * 8 / 4), domain: d0 in [0, 9]'
    """
    if lines:
        if trace:
            raise click.UsageError("--trace explains one map; it can't go with --lines")
        if map not in (None, "-"):
            raise click.UsageError("--lines reads the standard input: leave MAP out, or give `-`")
        _simplify_lines(keep_points, exact)
        return
    if map is None:
        raise click.UsageError("missing argument 'MAP|-': the text of a map, or `-`")
    steps: list[Any] | None = [] if trace else None
    given = read_text(map)
    after = IndexingMap.parse(given).simplify(
        replace_points=not keep_points, exact=exact, trace=steps
    )
    _print_steps(steps or ())
    if as_json:
        print_json(simplified(given, after))
    else:
        click.echo(str(after))


def _print_steps(steps: Sequence[Any]) -> None:
    """Print the steps of a simplification, up to `MAX_ELEMENTS_PRINTED` characters."""
    told = 0
    for number, step in enumerate(steps):
        if told > MAX_ELEMENTS_PRINTED:
            click.echo(f"… and {len(steps) - number:,} more steps", err=True)
            return
        text = str(step)
        told += len(text)
        click.echo(text, err=True)


@command()
@click.argument("first", metavar="MAP")
@click.argument("second", metavar="MAP")
@json_option
@debug_option
def compose(first: str, second: str, as_json: bool) -> None:
    """Compose two maps: apply the first MAP, then the second to its results, and simplify.

    One of the two may be `-`, the standard input.
    """
    if first == second == "-":
        raise click.UsageError("only one of the two maps can come from the standard input")
    other = IndexingMap.parse(read_text(second))
    try:
        composed = IndexingMap.parse(read_text(first)).compose(other).simplify()
    except ValueError as error:  # the one has more results than the other dimensions
        raise click.UsageError(str(error)) from None
    if as_json:
        print_json({"schema": COMPOSE_SCHEMA, "map": str(composed)})
    else:
        click.echo(str(composed))


def read_text(map: str) -> str:
    """Return the text of a map: a command's argument, or the standard input for `-`."""
    text = _decoded(read_map()) if map == "-" else map
    if not text.strip():
        raise InputError("the text is empty; expected an indexing map")
    return text.strip()


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"the standard input is not UTF-8 text: {error}") from None


def _simplify_lines(keep_points: bool, exact: bool) -> None:
    """Simplify the map in each line of the standard input; print a line of JSON for each.

    A line that cannot be read gives an error as JSON, and the exit code is 3 then.

    Args:
        keep_points: Keep variables that have only one value.
        exact: Also search for shorter forms, which are proved equal.
    """
    failed = False
    for number, line in stdin_lines():
        try:
            print_json(
                simplified_line(
                    line.decode(errors="replace"), keep_points=keep_points, exact=exact
                ),
                lines=True,
            )
        except HloscopeError as error:
            failed = True
            print_json({"schema": MAP_SCHEMA, "line": number, "error": str(error)}, lines=True)
    if failed:
        click.get_current_context().exit(ParseError.exit_code)
