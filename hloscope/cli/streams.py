"""The standard streams of the command: escaping for terminals, and errors of writing.

A terminal executes control characters. So text of a program reaches a terminal, or the standard
error, only as visible characters; styled text of hloscope itself (progress) is written to
`styled_errors`. A pipe or file gets results unescaped; input bytes that are not UTF-8 are written
unchanged.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final, TextIO, cast

from hloscope.errors import InputError
from hloscope.visible import visible

CLOSED: Final = "cannot write the standard output: it is closed"
LENIENT: Final = "hloscope.lenient"
"""Name of the error handler for characters that an encoding lacks."""
UNWRITABLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})
"""Error numbers of a stream that accepts no more output."""


class OutputError(InputError):
    """The standard output cannot be written: it is closed, or its disk is full."""


class _VisibleStream(io.TextIOWrapper):
    """A stream for readers: control characters are made visible."""

    def write(self, text: str, /) -> int:
        super().write(visible(text))
        return len(text)


class _StandardError(_VisibleStream):
    """The standard error: text that cannot be written is discarded."""

    def write(self, text: str, /) -> int:
        with self._as_it_takes():
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with self._as_it_takes():
            super().flush()

    @contextmanager
    def _as_it_takes(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno not in UNWRITABLE:
                raise
            discard(self)


def discard(stream: TextIO) -> None:
    """Redirect a stream to the null device, with its buffered output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _occupy_closed() -> None:
    """Occupy closed standard streams, so that no opened file takes their numbers."""
    while (held := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(held)


def _lenient(error: UnicodeError) -> tuple[str | bytes, int]:
    """Encode surrogates as the bytes that were read, and other characters as escapes."""
    if isinstance(error, UnicodeEncodeError):
        try:
            return codecs.lookup_error("surrogateescape")(error)
        except UnicodeEncodeError:
            return codecs.lookup_error("backslashreplace")(error)
    raise error


def guard() -> None:
    """Guard the standard output and the standard error of this process."""
    _occupy_closed()
    codecs.register_error(
        LENIENT, cast(Callable[[UnicodeError], tuple[str | bytes, int]], _lenient)
    )
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, io.TextIOWrapper):
            continue  # the stream is closed, or was replaced by the caller
        if name == "stdout" and not stream.isatty():
            stream.reconfigure(errors=LENIENT)
            continue
        stream.flush()
        is_ascii = codecs.lookup(stream.encoding).name == "ascii"
        encoding = "utf-8" if is_ascii else stream.encoding
        made = _StandardError if name == "stderr" else _VisibleStream
        setattr(sys, name, made(stream.buffer, encoding, "backslashreplace", line_buffering=True))


def styled_errors() -> TextIO | None:
    """The standard error without the guard, for styles; text of programs must pass `visible`."""
    return sys.__stderr__ if isinstance(sys.stderr, _VisibleStream) else sys.stderr


def styled_output() -> TextIO | None:
    """The standard output without the guard, for styles; text of programs must pass `visible`."""
    return sys.__stdout__ if isinstance(sys.stdout, _VisibleStream) else sys.stdout


def binary_output() -> BinaryIO:
    """The standard output for bytes.

    Raises:
        OutputError: The process has no standard output.
    """
    if sys.stdout is None:
        raise OutputError(CLOSED)
    return sys.stdout.buffer


def finish() -> None:
    """Flush the standard output.

    Raises:
        OutputError: There is no standard output.
    """
    if sys.stdout is None:
        raise OutputError(CLOSED)
    sys.stdout.flush()
