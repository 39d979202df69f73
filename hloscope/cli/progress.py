"""Progress of long runs, on the standard error if it is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import Timer
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar

import click

from hloscope.cli.paging import is_tty
from hloscope.cli.streams import styled_errors
from hloscope.lazy import lazy

if TYPE_CHECKING:
    from rich import console, progress
else:
    console = lazy("rich.console")
    progress = lazy("rich.progress")

T = TypeVar("T")

DELAY: Final = 1.0
"""Seconds before progress is shown: shorter runs show none."""


def with_progress(items: Sequence[T], label: str, *, printed: bool = True) -> Iterator[T]:
    """Yield the items; after `DELAY` seconds, show a bar with the estimated time left.

    Args:
        items: The items that are processed.
        label: The text before the bar.
        printed: Results are printed meanwhile: if they go to a terminal too, no bar is shown.
    """
    if not is_tty(sys.stderr) or (printed and is_tty(sys.stdout)):
        yield from items
        return
    bar = click.progressbar(length=len(items), label=label, file=styled_errors(), show_pos=True)
    start, done, is_shown = monotonic(), 0, False
    with ExitStack() as shown:
        for item in items:
            yield item
            done += 1
            if not is_shown and monotonic() - start >= DELAY:
                shown.enter_context(bar)
                is_shown = True
            if is_shown:
                bar.update(done)
                done = 0


@contextmanager
def steps_shown(most: int | None = None) -> Iterator[Callable[[int], None] | None]:
    """Yield a function that displays the number of steps done; `None` without a terminal.

    Args:
        most: Steps after which the run ends, if it is limited.
    """
    if not is_tty(sys.stderr):
        yield None
        return
    of = "" if most is None else f" of {most:,} at most"
    text = progress.TextColumn("{task.completed:,} steps" + of)
    display = progress.Progress(
        progress.SpinnerColumn(), text, progress.TimeElapsedColumn(),
        console=console.Console(file=styled_errors()), transient=True,
        redirect_stdout=False, redirect_stderr=False,
    )  # fmt: skip
    task = display.add_task("run", total=None)
    timer = Timer(DELAY, display.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda steps: display.update(task, completed=steps)
    finally:
        timer.cancel()
        timer.join()
        display.stop()
