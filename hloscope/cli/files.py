"""Read the program that FILE names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from hloscope.api import Program, read, read_source
from hloscope.api.compressed import read_stream
from hloscope.errors import InputError
from hloscope.source import Source

STDIN: Final = "<stdin>"


def read_stdin() -> bytes:
    """The bytes of the standard input, decompressed.

    Raises:
        InputError: It is closed, has too much, or is no text.
    """
    if sys.stdin is None:
        raise InputError("cannot read the standard input: it is closed")
    return read_stream(sys.stdin.buffer, "the standard input")


def read_program(file: str) -> Program:
    """The program in a file, or in the standard input for `-`.

    Raises:
        InputError: There is no such file, or it holds no text.
        ParseError: The text is not HLO.
    """
    if file == "-":
        return read(read_stdin(), name=STDIN)
    return read(Path(file))


def read_text(file: str) -> Source:
    """The text of a file, or of the standard input for `-`.

    Raises:
        InputError: There is no such file, or it holds no text.
    """
    if file == "-":
        return read_source(read_stdin(), name=STDIN)
    return read_source(Path(file))
