"""How long proofs may take: for one output, and for all questions to one prover."""

from __future__ import annotations

import os
from math import inf
from time import process_time
from typing import Final

from msgspec import Struct

from hloscope.errors import HloscopeError

SECONDS: Final = 3.0
"""Time of isl for the questions about one output."""
SECONDS_MORE: Final = 0.4
"""The same where all elements of the output are looked at as well."""
SECONDS_EVERYWHERE: Final = 10.0
"""Time for looking at all elements of one output."""
SECONDS_EQUAL: Final = 5.0
"""Time for the comparison of two programs."""
SECONDS_ALL: Final = 24.0
"""Time of isl for all questions to one prover."""


def cpu_seconds() -> float:
    """The processor time of this process and of those it waited for."""
    children = os.times()
    return process_time() + children.children_user + children.children_system


class TimeOverError(HloscopeError):
    """What was allowed for running programs has been used."""


class Deadline:
    """The time for running instances of one question, which whatever may take long looks at."""

    def __init__(self, seconds: float = inf) -> None:
        """Let it begin now.

        >>> Deadline(0).check()
        Traceback (most recent call last):
        hloscope.proof.allowance.TimeOverError: error: the 0 s for running it are over
        """
        self._seconds: Final = seconds
        self._until: Final = process_time() + seconds

    def is_over(self) -> bool:
        """Is nothing left?"""
        return process_time() >= self._until

    def check(self, _: int = 0) -> None:
        """Go on if there is time left.

        Raises:
            TimeOverError: There is none.
        """
        if self.is_over():
            raise TimeOverError(f"the {self._seconds:.2g} s for running it are over")


class Purse(Struct):
    """Time limits of a child process: for one output, and for all together."""

    seconds: float
    left: float


class Allowance:
    """The time of one prover, which runs from when somebody first asks how much is left.

    Attributes:
        total: Processor time for everything; after it nothing is asked.
        first: Time of isl where nothing else decides.
        shortly: Time of isl before all elements of an output are looked at.
        again: Time of isl where all have been: it would be a second proof.
        everywhere: Time for looking at all elements of an output.
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
        """What is left of the total."""
        if self.total == inf:
            return inf
        if self._is_over:
            return 0.0  # time does not come back: the clock is not asked for each of many outputs
        if self._begin is None:
            self._begin = cpu_seconds()
        left = max(0.0, self.total - (cpu_seconds() - self._begin))
        self._is_over = left <= 0
        return left

    def ready(self, purse: Purse) -> float:
        """The time for the next output."""
        return max(0.0, min(purse.seconds, purse.left, self.left()))

    @property
    def is_spent(self) -> bool:
        """Is nothing left of the total?"""
        return self.left() <= 0

    @property
    def reason(self) -> str:
        """Why nothing more is asked."""
        return f"the {self.total:g} s for all proofs are over"
