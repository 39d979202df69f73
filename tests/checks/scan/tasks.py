"""What workers are given in the tests: a module that they can load."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import NamedTuple


class Task(NamedTuple):
    """A number to square.

    Attributes:
        number: The number.
        deadly: The one whose worker dies.
        flag: A file that says it did; without one it dies every time.
        home: The process that gives the tasks, which does not die.
    """

    number: int
    deadly: int
    flag: Path | None
    home: int


def square(task: Task) -> int:
    """The square, if the process lives to tell."""
    if task.number == task.deadly and os.getpid() != task.home:
        has_died = task.flag is not None and task.flag.exists()
        if task.flag is not None:
            task.flag.touch()
        if not has_died:
            os.kill(os.getpid(), signal.SIGKILL)
    if task.number < 0:
        raise ValueError("no number")
    return task.number**2
