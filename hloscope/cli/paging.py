"""Output of long results: through a pager on a terminal, directly elsewhere."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

import click

from hloscope.cli.streams import styled_output
from hloscope.lazy import lazy
from hloscope.visible import visible

if TYPE_CHECKING:
    import shutil
else:
    shutil = lazy("shutil")


def is_terminal() -> bool:
    """Is the standard output a terminal that can position text?"""
    return is_tty(sys.stdout) and os.environ.get("TERM") != "dumb"


def is_tty(stream: TextIO | None) -> bool:
    """Is the stream a terminal? It is `None` if it was closed when the process started."""
    return stream is not None and stream.isatty()


def width() -> int:
    """Number of columns of the terminal."""
    return shutil.get_terminal_size().columns


def print_long(text: str, *, nl: bool = True, is_styled: bool = False) -> None:
    """Print a text; if it is longer than the terminal, through the pager that `PAGER` names.

    Args:
        text: The text.
        nl: Print a line feed after it.
        is_styled: The text has terminal styles, and its other characters passed `visible`.
    """
    if not is_terminal() or not is_tty(sys.stdin) or _fits(text):
        click.echo(text, styled_output() if is_styled else None, nl=nl)
        return
    os.environ.setdefault("LESS", "FRSX")
    click.echo_via_pager(text if is_styled else visible(text))


def _fits(text: str) -> bool:
    return text.count("\n") + 1 < shutil.get_terminal_size().lines
