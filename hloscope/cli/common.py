"""What the commands share: options, writing JSON and tables, progress."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final, TypeVar

import click

from hloscope.cli.streams import styled_errors, styled_output
from hloscope.display.table import columns
from hloscope.visible import visible

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

DEBUG: Final = "hloscope.debug"
"""Key of `click.Context.meta`: was `--debug` given, before or after the command's name?"""


def _set_debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[DEBUG] = True


def debug_option(function: F) -> F:
    """Add `--debug`."""
    return click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=_set_debug,
        help="Show a traceback when hloscope itself fails.",
    )(function)


def json_option(function: F) -> F:
    """Add `--json`, passed to the function as `as_json`."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print JSON, with its schema's name and version."
    )(function)


file_argument = click.argument("file", metavar="FILE")


def print_json(value: Mapping[str, Any], *, lines: bool = False) -> None:
    """Print one object; on one line, at once, where a stream of them is printed."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=None if lines else 1))


def print_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()
) -> None:
    """A ruled table on a terminal; plain aligned columns for a pipe or a file."""
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        _print_ruled(header, rows, right)
    else:
        click.echo(columns([header, *rows], right=right))


def _print_ruled(
    header: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int]
) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for i, title in enumerate(header):
        table.add_column(
            title,
            justify="right" if i in right else "left",
            style="bold" if i == 0 else "",
            overflow="fold",
        )
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    Console(file=styled_output()).print(table)


def with_progress(items: Sequence[T], label: str) -> Iterator[T]:
    """Yield the items; show how far it is on a terminal's standard error."""
    bar: Any = nullcontext(items)
    if sys.stderr.isatty() and not sys.stdout.isatty():
        bar = click.progressbar(items, label=label, file=styled_errors(), show_pos=True)
    with bar as each:
        yield from each
