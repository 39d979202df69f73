"""How far a long run is, on a terminal's standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, Final

from hloscope.cli.paging import is_tty
from hloscope.cli.streams import styled_errors
from hloscope.lazy import lazy

if TYPE_CHECKING:
    from rich import console, progress
else:
    console = lazy("rich.console")
    progress = lazy("rich.progress")

DELAY: Final = 1.0
"""Seconds before anything is shown."""


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
