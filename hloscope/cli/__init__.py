"""The command `hloscope`.  The only room that imports click and rich."""

from __future__ import annotations

import sys
from importlib import import_module

from hloscope import __version__

__all__ = ["main"]

INTERRUPTED = 130
"""The exit code of an interrupted process, as the shell has it."""


def main() -> None:
    """Run the command with the arguments of the process, and end the process.

    `--version` is answered before anything is loaded; a prompt may ask for it often.
    """
    if sys.argv[1:] == ["--version"]:
        print(f"hloscope {__version__}")
        return
    try:
        import_module("hloscope.cli.streams").guard()
        app = import_module("hloscope.cli.app").app
    except KeyboardInterrupt:  # before there is a command that could say so
        sys.stderr.write("\ninterrupted\n")
        sys.exit(INTERRUPTED)
    app(prog_name="hloscope")
