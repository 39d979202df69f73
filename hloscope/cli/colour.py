"""Colour: the conditions for its use, and printing of styled text.

`--color` decides; with `auto`, the default, a terminal gets colour unless the environment has
`NO_COLOR` (not empty) or `TERM=dumb`. Text of programs must pass `visible` before it is styled.

Source: https://no-color.org.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from hloscope.cli.paging import is_tty
from hloscope.cli.streams import styled_errors, styled_output
from hloscope.visible import visible

F = TypeVar("F", bound=Callable[..., Any])

COLOUR: Final = "hloscope.colour"
"""Key of `click.Context.meta`: the choice of `--color`; `auto` if it is absent."""


def _set_colour(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta[COLOUR] = value


def colour_option(*, hidden: bool = False) -> click.Option:
    """`--color`; every command has it, and only the help of `hloscope` itself lists it."""
    return click.Option(
        ["--color"],
        type=click.Choice(["auto", "always", "never"]),
        metavar="WHEN",
        is_eager=True,  # before --help, which is styled
        expose_value=False,
        callback=_set_colour,
        hidden=hidden,
        help="Use colour: auto (on a terminal without NO_COLOR), always or never.",
    )


def uses_colour(*, err: bool = False) -> bool:
    """Does the standard output (or with `err` the standard error) get colour?"""
    ctx = click.get_current_context(silent=True)
    choice = ctx.meta.get(COLOUR, "auto") if ctx else "auto"
    if choice != "auto":
        return bool(choice == "always")
    stream = styled_errors() if err else styled_output()
    return is_tty(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_styled(text: str, *, err: bool = False) -> None:
    """Print text with terminal styles, or without them if colour is not used."""
    if uses_colour(err=err):
        click.echo(text, styled_errors() if err else styled_output(), color=True)
    else:
        click.echo(click.unstyle(text), err=err)


def styled_heading(text: str) -> str:
    """Style a text as a heading of help."""
    return click.style(text, bold=True)


def styled_name(text: str) -> str:
    """Style a text as a name of a command or option in help."""
    return click.style(text, fg="cyan")


_LABELS: Final = {"error: ": "red", "warning: ": "yellow", "note: ": "cyan"}


def print_message(message: str) -> None:
    """Print a message on the standard error; its label, such as `error:`, gets a colour."""
    if not uses_colour(err=True):
        click.echo(message, err=True)
        return
    message = visible(message)
    found = [(message.index(label), label) for label in _LABELS if label in message]
    if found:
        at, label = min(found)
        styled = click.style(label.rstrip(), fg=_LABELS[label], bold=True)
        message = f"{message[:at]}{styled} {message[at + len(label) :]}"
    print_styled(message, err=True)
