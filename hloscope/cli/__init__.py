"""The command `hloscope`; the only package that imports click and rich."""

from __future__ import annotations

import gc
import sys
from importlib import import_module

from hloscope import __version__
from hloscope.cli.interrupts import end, install

TYPE_CHECKING = False  # `typing` takes long to load, and until `install` an interrupt is Python's
if TYPE_CHECKING:
    from typing import Any

__all__ = ["command", "guard", "main"]


NEW_OBJECTS = 100_000
"""Number of new objects after which Python's garbage collector runs.

Reading 11 MB of HLO takes a third less time than with the default of 700.
"""


def command() -> Any:
    """Load and return the click command."""
    return import_module("hloscope.cli.app").app


def guard() -> None:
    """Escape control characters in the process's output, and handle closed standard streams."""
    import_module("hloscope.cli.streams").guard()


def main() -> None:
    """Run the command with the arguments of the process, and end the process.

    `--version` is handled before anything is loaded, because a shell prompt may ask for it often.
    """
    install()
    if sys.argv[1:] == ["--version"]:
        print(f"hloscope {__version__}")
        return
    gc.set_threshold(NEW_OBJECTS)  # the command's own process, which `end` ends
    guard()
    app = command()
    try:
        app(prog_name="hloscope")
    except SystemExit as ended:
        end(ended.code)
