"""A function run in a child process with limits of time and memory."""

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
    """Limits of the processing of one file.

    Attributes:
        seconds: Wall-clock seconds; `None` for no limit.
        bytes: Memory in addition to that of the process at its start; `None` for no limit.
    """

    seconds: float | None = None
    bytes: int | None = None


UNLIMITED: Final = Limits()


class Why(NamedTuple):
    """The reason why there is no result.

    Attributes:
        status: `limit` or `failed`; empty if there is a result.
        text: The reason, for a message.
    """

    status: str = ""
    text: str = ""


class Apart:
    """A function that runs in a child process while this process goes on.

    It is a context: at its end a process that still runs is killed. Where processes cannot be
    forked, `result` runs the function in this process, without limits.

    >>> with Apart(lambda: [6 * 7]) as work:
    ...     work.result()
    ([42], Why(status='', text=''))
    """

    def __init__(self, function: Callable[[], Any], limits: Limits = UNLIMITED) -> None:
        self._function: Final = function
        self._limits: Final = limits
        self._child: tuple[int, int] | None = None
        if CAN_FORK:
            self._child = _start(function, limits)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            (pid, read), self._child = self._child, None
            _kill(pid)
            os.close(read)

    def result(self) -> tuple[Any, Why]:
        """Wait for the function; return its result, or `None` with the reason. Call it once."""
        if self._child is None:
            return self._function(), Why()
        pid, read = self._child
        text = _read_all(read, self._limits.seconds)
        if text is None:
            return None, Why("limit", f"not done within {self._limits.seconds:g} s")
        self._child = None
        os.close(read)
        _, status = os.waitpid(pid, 0)
        return _found(text, status)


def alone(function: Callable[[], Any], limits: Limits) -> tuple[Any, Why]:
    """Run a function in a child process; return its result, or `None` with the reason.

    The result must be a JSON value. Where processes cannot be forked the function runs in this
    process, without limits.

    >>> alone(lambda: [6 * 7], Limits(10.0))
    ([42], Why(status='', text=''))
    >>> alone(lambda: os.kill(os.getpid(), 9), Limits(10.0))[1].text
    'the process was killed (signal 9)'
    """
    with Apart(function, limits) as work:
        return work.result()


def _start(function: Callable[[], Any], limits: Limits) -> tuple[int, int]:
    """Start a child process that runs the function; return its id and the pipe to read from."""
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


def _read_all(read: int, seconds: float | None) -> bytes | None:
    """Everything that the child writes; `None` if that takes longer than `seconds`."""
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
    """Kill a child and its descendants, whose process group it leads."""
    # The group may not exist yet, if the child has not reached `setpgid`.
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except OSError:
            continue
    os.waitpid(pid, 0)


def _serve(function: Callable[[], Any], write: int) -> None:
    """Run the function in the child process and write its result to the pipe.

    The child leads a process group, so that its own children are killed with it.
    """
    os.setpgid(0, 0)
    end_with_parent()
    try:
        answer = [function(), ""]
    except MemoryError:
        answer = [None, "more memory than it may take"]
    text = json.dumps(answer).encode("utf-8", "surrogatepass")
    while text:
        text = text[os.write(write, text) :]
