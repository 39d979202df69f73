"""Time limits of proofs, and child processes for computations that may have to be killed."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import struct
import time
from collections.abc import Callable, Sequence
from math import inf
from time import perf_counter, process_time
from typing import Any, Final, TypeAlias
from weakref import finalize

from msgspec import Struct

from hloscope.errors import HloscopeError, UnsupportedError
from hloscope.simplifier import UndecidedError
from hloscope.support.system import CAN_FORK, forked

# --------------------------------------------------------------------------------------------------
# Time budgets of proofs: for one output, and for all queries to one prover.


SECONDS: Final = 3.0
"""Time limit of isl for all operands of one output, in seconds."""
SECONDS_MORE: Final = 0.4
"""Time limit of isl, in seconds, for an output all of whose elements are enumerated as well."""
SECONDS_EVERYWHERE: Final = 10.0
"""Time limit to enumerate all elements of one output, in seconds."""
SECONDS_EQUAL: Final = 5.0
"""Time limit to compare two programs, in seconds."""
SECONDS_ALL: Final = 24.0
"""Time limit of isl for all queries to one prover together, in seconds."""


def cpu_seconds() -> float:
    """Return the processor time, in seconds, of this process and of its finished children."""
    children = os.times()
    return process_time() + children.children_user + children.children_system


class TimeOverError(HloscopeError):
    """The time limit for running test programs is exceeded."""


class Deadline:
    """The time limit for executing test programs in one query; long computations check it."""

    def __init__(self, seconds: float = inf) -> None:
        """Start to measure processor time.

        Args:
            seconds: Limit of the processor time, in seconds.

        >>> Deadline(0).check()
        Traceback (most recent call last):
        hloscope.proof.allowance.TimeOverError: error: the 0 s for running it are over
        """
        self._seconds: Final = seconds
        self._until: Final = process_time() + seconds

    def is_over(self) -> bool:
        """Is the time limit exceeded?"""
        return process_time() >= self._until

    def check(self, _: int = 0) -> None:
        """Check that there is time left.

        The argument is ignored, so that the method can be a callback.

        Raises:
            TimeOverError: The time limit is exceeded.
        """
        if self.is_over():
            raise TimeOverError(f"the {self._seconds:.2g} s for running it are over")


class TimeLimits(Struct):
    """Time limits of a child process, in seconds of processor time.

    `seconds` is the limit for each output, `left` the time that remains for all outputs together.
    """

    seconds: float
    left: float


class Allowance:
    """The time limits of one prover. The total time is measured from the first call of `left`.

    Attributes:
        total: Processor time of all queries, in seconds; afterwards every query is undecided.
        first: Limits of isl if no elements are enumerated.
        shortly: Limits of isl before all elements of an output are enumerated.
        again: Limits of isl after all elements were enumerated, for a second proof.
        everywhere: Limits to enumerate all elements of an output.
    """

    def __init__(self, seconds: float, of_isl: float = SECONDS_ALL, total: float = inf) -> None:
        """Set the limits; `seconds` is that of isl for one output without enumeration.

        Args:
            seconds: Processor time of isl for one output, in seconds.
            of_isl: Processor time of isl for all outputs together.
            total: Processor time of all queries together.
        """
        self.total: Final = total
        self._begin: float | None = None
        self._is_over = False
        self.first: Final = TimeLimits(seconds, of_isl)
        self.shortly: Final = TimeLimits(min(seconds, SECONDS_MORE), of_isl / 2)
        self.again: Final = TimeLimits(min(seconds, SECONDS_MORE), of_isl / 8)
        self.everywhere: Final = TimeLimits(SECONDS_EVERYWHERE, inf)

    def left(self) -> float:
        """Return the seconds that are left of the total time; infinity if there is no limit."""
        if self.total == inf:
            return inf
        if self._is_over:
            return 0.0  # final, so many outputs need no reading of the clock
        if self._begin is None:
            self._begin = cpu_seconds()
        left = max(0.0, self.total - (cpu_seconds() - self._begin))
        self._is_over = left <= 0
        return left

    def ready(self, limits: TimeLimits) -> float:
        """Return the time limit of the next output, in seconds.

        It is the least of `limits.seconds`, `limits.left` and the rest of the total time; never
        negative.
        """
        return max(0.0, min(limits.seconds, limits.left, self.left()))

    @property
    def is_spent(self) -> bool:
        """Is the total time used up?"""
        return self.left() <= 0

    @property
    def reason(self) -> str:
        """Text that says why a query is undecided after the total time is used up."""
        return f"the {self.total:g} s for all proofs are over"


# --------------------------------------------------------------------------------------------------
# A child process for computations that may have to be killed.
#
# isl counts its steps, but a single step may take long, and isl does not react to signals.  So it
# runs in a forked child process, which has all data of its parent.  The child answers one query
# after another.  It is killed when a query takes too long, or when the parent no longer needs it.


Question: TypeAlias = Callable[[], Any]
"""A query: a function that returns JSON data, or raises an `UndecidedError`."""

MAX_MEMORY: Final = 2 << 30
"""Limit of the bytes that a child process may allocate in addition to its parent's."""
NO_TIME: Final = "no time is left"
PATIENCE: Final = 20
"""Limit of a child process's wall time, as a multiple of its processor time limit."""
SHORTEST: Final = 0.002
"""Least number of seconds between two readings of a child's clock."""
_LENGTH: Final = struct.Struct("<I")


class Isolated:
    """Runs queries in a child process, one at a time, so that a slow one can be killed.

    Attributes:
        questions: The queries; their indices are the numbers that `ask` takes.
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
        """Run a query in the child process and return its result.

        Args:
            number: Index of the query in `questions`.
            seconds: Limit of the processor time in seconds.

        Raises:
            UndecidedError: The query raises it, or exceeds the time limit.
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
        """Kill the child process, if there is one."""
        if self._end is not None:
            self._end()
        self._child = self._end = None

    def _start(self) -> None:
        """Start the child process, by a fork."""
        request = os.pipe()
        answer = os.pipe()
        pid = forked(lambda: _serve(self.questions, request, answer), MAX_MEMORY)
        os.close(request[0])
        os.close(answer[1])
        self._child = pid, request[1], answer[0]
        self._end = finalize(self, _stop, pid, request[1], answer[0])


def _stop(pid: int, *pipes: int) -> None:
    """Close the pipes, kill a child process and wait for it."""
    for pipe in pipes:
        os.close(pipe)
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _clock_of(pid: int) -> float:
    """Return the processor time of a process in seconds.

    If the system has no such clock, return the wall time.

    Source: Linux's `include/linux/posix-timers.h`: the clock of a process is `~pid << 3 | 2`.
    """
    try:
        return time.clock_gettime(~pid << 3 | 2)
    except (AttributeError, OSError):
        return perf_counter()


def _received(pipe: int, pid: int, begin: float, seconds: float) -> Any:
    """Return the next message of a child process.

    Args:
        pipe: File descriptor from which the message is read.
        pid: The process identifier of the child.
        begin: The child's clock when the query was sent, in seconds.
        seconds: Limit of the processor time of the query.

    Raises:
        TimeoutError: The time limit is exceeded.
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
    """Run queries in the child process until the parent closes the request pipe.

    `request` and `answer` are pipes, as pairs of file descriptors.
    """
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
