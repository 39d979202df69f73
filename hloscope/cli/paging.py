"""Long results: a pager on a terminal, as `git log` has one; all at once anywhere else."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

import click

from hloscope.lazy import lazy
from hloscope.visible import visible

if TYPE_CHECKING:
    import shutil
else:
    shutil = lazy("shutil")


def is_terminal() -> bool:
    """Do people read the standard output, on a terminal that can place text?"""
    return is_tty(sys.stdout) and os.environ.get("TERM") != "dumb"


def is_tty(stream: TextIO | None) -> bool:
    """Is it a terminal?  A stream that is closed when the process starts is `None`."""
    return stream is not None and stream.isatty()


def width() -> int:
    """Columns of the terminal."""
    return shutil.get_terminal_size().columns


def print_long(text: str, *, nl: bool = True) -> None:
    """Print a text, and a line feed if `nl`; in a pager where it is longer than the terminal.

    `PAGER` names the pager, `cat` is none; it is not used where nobody could end it.
    """
    if not is_terminal() or not is_tty(sys.stdin) or _fits(text):
        click.echo(text, nl=nl)
        return
    os.environ.setdefault("LESS", "FRSX")
    click.echo_via_pager(visible(text))


def _fits(text: str) -> bool:
    return text.count("\n") + 1 < shutil.get_terminal_size().lines
