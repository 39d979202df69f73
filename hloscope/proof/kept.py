"""A table of a bounded size, for what was found out once and may be asked again."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

MOST: Final = 1 << 22
"""Numbers, of 8 bytes each, that are kept."""


class Kept:
    """Answers by their questions; when they become too many, all are forgotten.

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
        """The answer; `None` if there is none."""
        return self._answers.get(question)

    def add(self, question: Hashable, answer: Any, weight: int) -> None:
        """Keep an answer, unless it is too large."""
        if weight > self._most:
            return
        self._weight += weight
        if self._weight > self._most:
            self._answers, self._weight = {}, weight
        self._answers[question] = answer
