"""Long results: a pager on a terminal, as `git log` has one; all at once anywhere else."""

from __future__ import annotations

import os
import shutil
import sys

import click

from hloscope.visible import visible


def is_terminal() -> bool:
    """Do people read the standard output, on a terminal that can place text?"""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def width() -> int:
    """Columns of the terminal."""
    return shutil.get_terminal_size().columns


def print_long(text: str) -> None:
    """Print a text; in a pager where it is longer than the terminal.

    `PAGER` names the pager, `cat` is none; it is not used where nobody could end it.
    """
    if not is_terminal() or not sys.stdin.isatty() or _fits(text):
        click.echo(text)
        return
    os.environ.setdefault("LESS", "FRSX")
    click.echo_via_pager(visible(text))


def _fits(text: str) -> bool:
    return text.count("\n") + 1 < shutil.get_terminal_size().lines
