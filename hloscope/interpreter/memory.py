"""The limit of memory while a program is evaluated: what is made on the way counts as values do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from hloscope.interpreter.values import EvaluationError
from hloscope.limits import MAX_BYTES

_MOST: Final[ContextVar[int]] = ContextVar("most bytes of an array", default=MAX_BYTES)


@contextmanager
def limited(most_bytes: int) -> Iterator[None]:
    """Within it, `claim` refuses arrays of more bytes than this."""
    token = _MOST.set(most_bytes)
    try:
        yield
    finally:
        _MOST.reset(token)


def claim(count: int, what: str) -> None:
    """Ask, before it is made, whether an array of so many bytes may be.

    Args:
        count: Bytes.
        what: What the array is, for the message.

    Raises:
        EvaluationError: It is more than the limit.

    >>> with limited(1000):
    ...     claim(1001, "the padded operand")
    Traceback (most recent call last):
    hloscope.interpreter.values.EvaluationError: error: the padded operand needs 1,001 bytes, \
at most 1,000 are allowed
    """
    most = _MOST.get()
    if count > most:
        raise EvaluationError(f"{what} needs {count:,} bytes, at most {most:,} are allowed")
