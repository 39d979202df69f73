"""A memo table of bounded size."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

MOST: Final = 1 << 22
"""Maximum total weight, in numbers of 8 bytes."""


class Kept:
    """Results by key; when their total weight exceeds the limit, all are discarded.

    >>> kept = Kept(most=3)
    >>> kept.add("a", 1, weight=2)
    >>> kept.get("a")
    1
    >>> kept.add("b", 2, weight=2)
    >>> kept.get("a"), kept.get("b")
    (None, 2)
    """

    def __init__(self, most: int = MOST) -> None:
        self._most: Final = most
        self._weight = 0
        self._answers: dict[Hashable, Any] = {}

    def get(self, question: Hashable) -> Any:
        """Return the result; `None` if it is not stored."""
        return self._answers.get(question)

    def add(self, question: Hashable, answer: Any, weight: int) -> None:
        """Store a result, unless it exceeds the limit by itself."""
        if weight > self._most:
            return
        self._weight += weight
        if self._weight > self._most:
            self._answers, self._weight = {}, weight
        self._answers[question] = answer
