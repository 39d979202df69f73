"""A child process for computations that may have to be killed.

isl counts its steps, but a single step may take long, and isl does not react to signals.  So it
runs in a forked child process, which has all data of its parent.  The child answers one query after
another.  It is killed when a query takes too long, or when the parent no longer needs it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import struct
import time
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Final, TypeAlias
from weakref import finalize

from hloscope.child_processes import CAN_FORK, forked
from hloscope.errors import UnsupportedError
from hloscope.simplifier import UndecidedError

Question: TypeAlias = Callable[[], Any]
"""Returns JSON data, or raises an `UndecidedError`."""

MAX_MEMORY: Final = 2 << 30
"""Bytes that a child may allocate in addition to its parent's."""
NO_TIME: Final = "no time is left"
PATIENCE: Final = 20
"""Wall time limit of a child, as a multiple of its processor time limit."""
SHORTEST: Final = 0.002
"""Minimum seconds between two readings of the clock."""
_LENGTH: Final = struct.Struct("<I")


class Isolated:
    """Queries that a child process answers, one at a time.

    Attributes:
        questions: The queries, by number.
        taken: Processor time of the last query, in seconds.

    >>> apart = Isolated([lambda: 6 * 7, lambda: 1 // 0])
    >>> apart.ask(0, 10.0)
    42
    """

    def __init__(self, questions: Sequence[Question]) -> None:
        self.questions: Final = questions
        self.taken = 0.0
        self._child: tuple[int, int, int] | None = None
        self._end: Any = None

    def ask(self, number: int, seconds: float) -> Any:
        """Return the result of a query.

        Args:
            number: Number of the query.
            seconds: Processor time.

        Raises:
            UndecidedError: The query is undecided, or takes too long.
        """
        if not CAN_FORK:
            return self.questions[number]()
        if seconds <= 0:
            raise UndecidedError(NO_TIME)
        self.taken = 0.0
        try:
            if self._child is None:
                self._start()
            assert self._child is not None
            pid, requests, answers = self._child
            begin = _clock_of(pid)
            os.write(requests, _LENGTH.pack(number))
            try:
                found = _received(answers, pid, begin, seconds)
            finally:
                self.taken = _clock_of(pid) - begin
        except TimeoutError:
            self.stop()
            raise UndecidedError(f"not decided within {seconds:.1f} s") from None
        except OSError:
            self.stop()
            raise UndecidedError("out of memory") from None
        # An interrupted request leaves a message in the pipe, so the child cannot be used again.
        except BaseException:
            self.stop()
            raise
        if "undecided" in found:
            raise UndecidedError(found["undecided"])
        return found["answer"]

    def stop(self) -> None:
        """Kill the child process."""
        if self._end is not None:
            self._end()
        self._child = self._end = None

    def _start(self) -> None:
        """Fork the child process."""
        request = os.pipe()
        answer = os.pipe()
        pid = forked(lambda: _serve(self.questions, request, answer), MAX_MEMORY)
        os.close(request[0])
        os.close(answer[1])
        self._child = pid, request[1], answer[0]
        self._end = finalize(self, _stop, pid, request[1], answer[0])


def _stop(pid: int, *pipes: int) -> None:
    """Close the pipes, and kill and reap a child process."""
    for pipe in pipes:
        os.close(pipe)
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _clock_of(pid: int) -> float:
    """Return the processor time of a process in seconds, or wall time without such a clock.

    Source: Linux's `include/linux/posix-timers.h`: the clock of a process is `~pid << 3 | 2`.
    """
    try:
        return time.clock_gettime(~pid << 3 | 2)
    except (AttributeError, OSError):
        return perf_counter()


def _received(pipe: int, pid: int, begin: float, seconds: float) -> Any:
    """Return a message of a process.

    Args:
        pipe: Where the message arrives.
        pid: The process.
        begin: Its clock when the query was sent.
        seconds: Processor time of the query.

    Raises:
        TimeoutError: The time is over.
        OSError: The process has ended.
    """
    until = perf_counter() + seconds * PATIENCE
    data = b""
    needed = _LENGTH.size
    while len(data) < needed:
        # The processor time decides; the wall clock only ends a child that others keep from
        # running.
        left = min(begin + seconds - _clock_of(pid), until - perf_counter())
        if left <= 0:
            raise TimeoutError
        if not select.select([pipe], [], [], max(left, SHORTEST))[0]:
            continue
        part = os.read(pipe, 1 << 16)
        if not part:
            raise OSError("the child process has ended")
        data += part
        if len(data) >= _LENGTH.size:
            needed = _LENGTH.size + _LENGTH.unpack_from(data)[0]
    return json.loads(data[_LENGTH.size :])


def _serve(
    questions: Sequence[Question], request: tuple[int, int], answer: tuple[int, int]
) -> None:
    """Answer queries in the child process until the request pipe is closed."""
    os.close(request[1])
    os.close(answer[0])
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # isl prints its errors
    while data := os.read(request[0], _LENGTH.size):
        number = _LENGTH.unpack(data)[0]
        try:
            found = {"answer": questions[number]()}
        except UnsupportedError as error:
            found = {"undecided": error.message}
        except (UndecidedError, ArithmeticError, LookupError, MemoryError, ValueError) as error:
            found = {"undecided": str(error)}
        text = json.dumps(found).encode()
        os.write(answer[1], _LENGTH.pack(len(text)) + text)
