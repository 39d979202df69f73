"""The standard input."""

from __future__ import annotations

import sys
from typing import Final

from hloscope.api import read_stream
from hloscope.errors import InputError

STDIN: Final = "<stdin>"


def read_stdin() -> bytes:
    """The bytes of the standard input, decompressed.

    Raises:
        InputError: It is closed, has too much, or is no text.
    """
    if sys.stdin is None:
        raise InputError("cannot read the standard input: it is closed")
    return read_stream(sys.stdin.buffer, "the standard input")
