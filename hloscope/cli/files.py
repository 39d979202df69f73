"""Read the program that FILE names."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Final

import click

from hloscope.api import Program, check, read, read_source, read_stream
from hloscope.cli.common import REFUSALS
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
    program = read(read_stdin(), name=STDIN) if file == "-" else read(Path(file))
    ctx = click.get_current_context(silent=True)
    if ctx is not None:
        ctx.meta.setdefault(REFUSALS, []).append(partial(check, program.module))
    return program


def read_right_program(file: str) -> Program:
    """The program in a file, verified: for what claims something of it.

    Raises:
        InputError: There is no such file, or it holds no text.
        ParseError: The text is not HLO.
        VerifyError: The program is wrong.
    """
    program = read_program(file)
    check(program.module)
    return program


def read_text(file: str) -> Source:
    """The text of a file, or of the standard input for `-`.

    Raises:
        InputError: There is no such file, or it holds no text.
    """
    if file == "-":
        return read_source(read_stdin(), name=STDIN)
    return read_source(Path(file))
