"""The standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import BinaryIO, Final

from hloscope import api
from hloscope.errors import InputError

STDIN: Final = "<stdin>"
MOST_OF_A_MAP: Final = 1 << 24
"""Bytes of a map, or of a line: a stream may have no end, and a line none either."""


def read_stdin() -> bytes:
    """Return the bytes of the standard input, decompressed.

    Raises:
        InputError: It is closed, has too much, or is no text.
    """
    return api.read_stream(_stream(), "the standard input")


def read_map() -> bytes:
    """Return the bytes of the standard input, which hold the text of a map.

    Raises:
        InputError: It is closed, or has too much.
    """
    data = _stream().read(MOST_OF_A_MAP + 1)
    if len(data) > MOST_OF_A_MAP:
        raise InputError(f"the standard input has more than {MOST_OF_A_MAP:,} bytes, and no map")
    return data


def stdin_lines() -> Iterator[tuple[int, bytes]]:
    """Yield the lines of the standard input as they arrive, counted from 1; empty ones are skipped.

    Raises:
        InputError: It is closed, or a line is too long.
    """
    stream = _stream()
    number = 0
    while line := stream.readline(MOST_OF_A_MAP + 1):
        number += 1
        if len(line) > MOST_OF_A_MAP:
            most = f"{MOST_OF_A_MAP:,} bytes"
            raise InputError(f"the standard input: line {number} has more than {most}")
        if line.strip():
            yield number, line


def _stream() -> BinaryIO:
    if sys.stdin is None:
        raise InputError("cannot read the standard input: it is closed")
    return sys.stdin.buffer
