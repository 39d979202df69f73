"""Time budgets of proofs: for one output, and for all queries to one prover."""

from __future__ import annotations

import os
from math import inf
from time import process_time
from typing import Final

from msgspec import Struct

from hloscope.errors import HloscopeError

SECONDS: Final = 3.0
"""Seconds of isl for all operands of one output."""
SECONDS_MORE: Final = 0.4
"""Seconds of isl for an output all of whose elements are enumerated as well."""
SECONDS_EVERYWHERE: Final = 10.0
"""Seconds to enumerate all elements of one output."""
SECONDS_EQUAL: Final = 5.0
"""Seconds to compare two programs."""
SECONDS_ALL: Final = 24.0
"""Seconds of isl for all queries to one prover."""


def cpu_seconds() -> float:
    """Return the processor time, in seconds, of this process and of its finished children."""
    children = os.times()
    return process_time() + children.children_user + children.children_system


class TimeOverError(HloscopeError):
    """The time budget for running programs is used up."""


class Deadline:
    """The time limit for executing test programs of one query; long computations check it."""

    def __init__(self, seconds: float = inf) -> None:
        """Start the clock.

        Args:
            seconds: Processor time until the deadline.

        >>> Deadline(0).check()
        Traceback (most recent call last):
        hloscope.proof.allowance.TimeOverError: error: the 0 s for running it are over
        """
        self._seconds: Final = seconds
        self._until: Final = process_time() + seconds

    def is_over(self) -> bool:
        """Is the deadline past?"""
        return process_time() >= self._until

    def check(self, _: int = 0) -> None:
        """Return if there is time left; a callback that ignores its argument.

        Raises:
            TimeOverError: The deadline is past.
        """
        if self.is_over():
            raise TimeOverError(f"the {self._seconds:.2g} s for running it are over")


class Purse(Struct):
    """Time limits of a child process in seconds: `seconds` for one output, `left` for all."""

    seconds: float
    left: float


class Allowance:
    """Time budget of one prover; its total runs from the first call of `left`.

    Attributes:
        total: Processor time for everything, in seconds; afterwards every query is undecided.
        first: Budget of isl if only isl decides.
        shortly: Budget of isl before all elements of an output are enumerated.
        again: Budget of isl after all elements were enumerated: it would be a second proof.
        everywhere: Budget to enumerate all elements of an output.
    """

    def __init__(self, seconds: float, of_isl: float = SECONDS_ALL, total: float = inf) -> None:
        self.total: Final = total
        self._begin: float | None = None
        self._is_over = False
        self.first: Final = Purse(seconds, of_isl)
        self.shortly: Final = Purse(min(seconds, SECONDS_MORE), of_isl / 2)
        self.again: Final = Purse(min(seconds, SECONDS_MORE), of_isl / 8)
        self.everywhere: Final = Purse(SECONDS_EVERYWHERE, inf)

    def left(self) -> float:
        """Return the seconds that are left of the total."""
        if self.total == inf:
            return inf
        if self._is_over:
            return 0.0  # final, so many outputs need no reading of the clock
        if self._begin is None:
            self._begin = cpu_seconds()
        left = max(0.0, self.total - (cpu_seconds() - self._begin))
        self._is_over = left <= 0
        return left

    def ready(self, purse: Purse) -> float:
        """Return the seconds that a budget has for the next output."""
        return max(0.0, min(purse.seconds, purse.left, self.left()))

    @property
    def is_spent(self) -> bool:
        """Is the total used up?"""
        return self.left() <= 0

    @property
    def reason(self) -> str:
        """Text of the reason why a query was not decided after the total is used up."""
        return f"the {self.total:g} s for all proofs are over"
