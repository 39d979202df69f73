"""A function run in a process of its own, which may take so much time and memory and may die."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Self

from hloscope.child_processes import CAN_FORK, end_with_parent, forked

_BLOCK: Final = 1 << 16


class Limits(NamedTuple):
    """What one file may take.

    Attributes:
        seconds: Of wall time; `None` for no limit.
        bytes: Of memory, besides what the process has when it begins; `None` for no limit.
    """

    seconds: float | None = None
    bytes: int | None = None


UNLIMITED: Final = Limits()


class Why(NamedTuple):
    """Why there is no answer.

    Attributes:
        status: `limit` or `failed`; empty if there is one.
        text: In words.
    """

    status: str = ""
    text: str = ""


class Apart:
    """A function that is run in a process of its own while this one goes on.

    A context: at its end a process that is not done is killed.  Where processes cannot be forked
    the function runs in this one, without limits, when its result is wanted.

    >>> with Apart(lambda: [6 * 7]) as work:
    ...     work.result()
    ([42], Why(status='', text=''))
    """

    def __init__(self, function: Callable[[], Any], limits: Limits = UNLIMITED) -> None:
        self._function: Final = function
        self._limits: Final = limits
        self._child: tuple[int, int] | None = None
        if CAN_FORK:
            self._child = _begun(function, limits)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            (pid, read), self._child = self._child, None
            _kill(pid)
            os.close(read)

    def result(self) -> tuple[Any, Why]:
        """What the function returns, or why it returned nothing; to be asked for once."""
        if self._child is None:
            return self._function(), Why()
        pid, read = self._child
        text = _received(read, self._limits.seconds)
        if text is None:
            return None, Why("limit", f"not done within {self._limits.seconds:g} s")
        self._child = None
        os.close(read)
        _, status = os.waitpid(pid, 0)
        return _found(text, status)


def alone(function: Callable[[], Any], limits: Limits) -> tuple[Any, Why]:
    """What a function returns that JSON can say, or why it returned nothing.

    Where processes cannot be forked it runs in this one, without limits.

    >>> alone(lambda: [6 * 7], Limits(10.0))
    ([42], Why(status='', text=''))
    >>> alone(lambda: os.kill(os.getpid(), 9), Limits(10.0))[1].text
    'the process was killed (signal 9)'
    """
    with Apart(function, limits) as work:
        return work.result()


def _begun(function: Callable[[], Any], limits: Limits) -> tuple[int, int]:
    """A child process that runs the function, and where it writes."""
    read, write = os.pipe()
    pid = forked(lambda: _serve(function, write), limits.bytes)
    os.close(write)
    return pid, read


def _found(text: bytes, status: int) -> tuple[Any, Why]:
    if os.WIFSIGNALED(status):
        return None, Why("failed", f"the process was killed (signal {os.WTERMSIG(status)})")
    try:
        found, why = json.loads(text)
    except ValueError:
        return None, Why("failed", "the process ended without an answer")
    return found, Why("limit", why) if why else Why()


def _received(read: int, seconds: float | None) -> bytes | None:
    """All that the child writes; nothing if that takes too long."""
    parts: list[bytes] = []
    end = None if seconds is None else time.monotonic() + seconds
    while True:
        left = None if end is None else max(end - time.monotonic(), 0.0)
        ready, _, _ = select.select([read], [], [], left)
        if not ready:
            return None
        part = os.read(read, _BLOCK)
        if not part:
            return b"".join(parts)
        parts.append(part)


def _kill(pid: int) -> None:
    """End a child, and what it started: it leads a group."""
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except OSError:
            continue
    os.waitpid(pid, 0)


def _serve(function: Callable[[], Any], write: int) -> None:
    """Answer in the child process, which leads a group of those that it begins itself."""
    os.setpgid(0, 0)
    end_with_parent()
    try:
        answer = [function(), ""]
    except MemoryError:
        answer = [None, "more memory than it may take"]
    text = json.dumps(answer).encode("utf-8", "surrogatepass")
    while text:
        text = text[os.write(write, text) :]
