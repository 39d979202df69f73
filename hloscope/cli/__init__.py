"""The command `hloscope`.  The only room that imports click and rich."""

from __future__ import annotations

import sys
from importlib import import_module

from hloscope import __version__
from hloscope.cli.interrupts import end, install

__all__ = ["main"]


def main() -> None:
    """Run the command with the arguments of the process, and end the process.

    `--version` is answered before anything is loaded; a prompt may ask for it often.
    """
    install()
    if sys.argv[1:] == ["--version"]:
        print(f"hloscope {__version__}")
        return
    import_module("hloscope.cli.streams").guard()
    app = import_module("hloscope.cli.app").app
    try:
        app(prog_name="hloscope")
    except SystemExit as ended:
        end(ended.code)
