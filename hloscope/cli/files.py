"""Read the program that FILE names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from hloscope.api import Program, read, read_source
from hloscope.source import Source

STDIN: Final = "<stdin>"


def read_program(file: str) -> Program:
    """The program in a file, or in the standard input for `-`.

    Raises:
        InputError: There is no such file, or it holds no text.
        ParseError: The text is not HLO.
    """
    if file == "-":
        return read(sys.stdin.buffer.read(), name=STDIN)
    return read(Path(file))


def read_text(file: str) -> Source:
    """The text of a file, or of the standard input for `-`.

    Raises:
        InputError: There is no such file, or it holds no text.
    """
    if file == "-":
        return read_source(sys.stdin.buffer.read(), name=STDIN)
    return read_source(Path(file))
