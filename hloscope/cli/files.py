"""Read the program that FILE names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from hloscope.api import Program, read

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
