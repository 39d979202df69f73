"""The parts that all commands share: their class, printing of JSON and tables, byte amounts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from re import IGNORECASE
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from hloscope.cli.streams import (
    colour_option,
    is_terminal,
    print_long,
    print_styled,
    styled_heading,
    styled_name,
    uses_colour,
    width,
)
from hloscope.display import Table, columns, fitted, json_line, json_text
from hloscope.support.lazy import lazy, pattern
from hloscope.support.source import visible

if TYPE_CHECKING:
    from click import shell_completion
else:
    shell_completion = lazy("click.shell_completion")


# --------------------------------------------------------------------------------------------------
# Options, output of JSON and tables, and progress bars, shared by the commands.


F = TypeVar("F", bound=Callable[..., Any])

DEBUG: Final = "hloscope.debug"
"""Key of `click.Context.meta`: was `--debug` given, before or after the command's name?"""

REFUSALS: Final = "hloscope.refusals"
"""Key of `click.Context.meta`: functions that raise an error if a read program is invalid."""


def _set_debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[DEBUG] = True


def debug_option(function: F) -> F:
    """Add `--debug` to a command: print a traceback of unexpected exceptions."""
    return click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=_set_debug,
        help="Show a traceback when hloscope itself fails.",
    )(function)


def _show_help(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        print_styled(ctx.get_help())
        ctx.exit()


HELP: Final = click.Option(
    ["-h", "--help"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_help,
    help="Show this message and exit.",
)
"""The option has the texts of click's own option, without the slow search for translations."""


class Formatter(click.HelpFormatter):
    """Writes help with styled headings and names; `print_styled` removes styles if needed."""

    def write_heading(self, heading: str) -> None:
        """Write a heading of a section."""
        super().write_heading(styled_heading(heading))

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        """Write names with their descriptions, in two columns.

        Args:
            rows: Pairs of a name and its description.
            col_max: Maximum width of the first column.
            col_spacing: Number of spaces between the columns.
        """
        super().write_dl([(styled_name(a), b) for a, b in rows], col_max, col_spacing)


class Context(click.Context):
    """A context whose help is written by `Formatter`."""

    formatter_class = Formatter


class Command(click.Command):
    """A command that has the options `--help` and `--color`, as all commands do."""

    context_class = Context

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.params.append(colour_option(hidden=True))

    def get_help_option(self, ctx: click.Context) -> click.Option:
        """Return the option `--help`, the same for all commands."""
        return HELP


command: Final = partial(click.command, cls=Command)
"""Decorator that makes a `Command` of a function, as `click.command` does."""


def json_option(function: F) -> F:
    """Add `--json`, passed to the function as `as_json`."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print JSON, with its schema's name and version."
    )(function)


def complete_files(
    _: click.Context, __: click.Parameter, incomplete: str
) -> list[shell_completion.CompletionItem]:
    """Let the shell complete the name of a file."""
    return [shell_completion.CompletionItem(incomplete, type="file")]


def print_notes(notes: Iterable[str]) -> None:
    """Print notes on the standard error, each on a line of its own."""
    for note in notes:
        click.echo(f"note: {note}", err=True)


MOST_FINDINGS = 5
"""Maximum number of findings that are printed below a table."""


def print_differences(findings: Sequence[str]) -> None:
    """Print the differences between a dump folder and the model, on the standard error.

    At most `MOST_FINDINGS` of the `findings` are printed, then the number of all others.
    """
    for finding in findings[:MOST_FINDINGS]:
        click.echo(f"finding: {visible(finding)}", err=True)
    if len(findings) > MOST_FINDINGS:
        click.echo(f"{len(findings) - MOST_FINDINGS:,} more findings: see --json", err=True)


file_argument = click.argument("file", metavar="FILE", shell_complete=complete_files)


def print_json(value: Mapping[str, Any], *, lines: bool = False, compact: bool = False) -> None:
    """Print an object as JSON: indented, or on one line.

    Args:
        value: The object.
        lines: Print it on one line.
        compact: Print it on one line without spaces, and do not flush: for tens of thousands of
            objects.
    """
    if compact:
        if sys.stdout is not None:  # else it was closed when the process started
            sys.stdout.write(json_line(value) + "\n")
    else:
        click.echo(json_text(value, indent=None if lines else 1))


WIDEST: Final = 48
"""Maximum width of a column if the output is not a terminal.

A longer cell only shifts the rest of its line.
"""


def print_table(table: Table) -> None:
    """Print a table; on a terminal with rules, and cut to its width.

    To a pipe or a file, aligned columns without rules are printed.
    """
    if is_terminal():
        text, is_styled = fitted(table, width()), uses_colour()
        if is_styled:
            header, line_end, below = visible(text).partition("\n")
            text = f"{styled_heading(header)}{line_end}{below}"
        print_long(text, is_styled=is_styled)
    else:
        rows = [table.header, *table.rows]
        click.echo(columns(rows, right=table.right, widest=WIDEST))


# --------------------------------------------------------------------------------------------------
# Numbers of bytes as option values.


_BYTES: Final = pattern(r"(\d{1,18}(?:\.\d{1,18})?)\s*([KMGT]?)(?:i?B)?", IGNORECASE)


class Bytes(click.ParamType[int]):
    """A number of bytes, `4G` or `500 MiB`."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes that a text such as `4G` states; units are powers of 1024."""
        found = _BYTES.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"`{value}` is not a size such as 4G or 500M", param, ctx)
        unit = 1 << 10 * " KMGT".index(found[2].upper() or " ")
        whole, _, part = found[1].partition(".")
        scale: int = 10 ** len(part)
        return int(whole) * unit + int(part or 0) * unit // scale
