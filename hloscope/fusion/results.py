"""What one analysis knows: the result of each question, computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")


class Results(dict[tuple[Any, ...], Any]):
    """Results by question and by the subject of the question.

    A subject is compared by value, or is the number of a structure: then equal instructions and
    computations share the result.  Other subjects are nodes of the graph, compared by identity.
    """

    def once(self, key: tuple[Any, ...], find: Callable[[], _T]) -> _T:
        """Return the result for a key; `find` computes it the first time, and is never `None`.

        >>> results = Results()
        >>> [results.once(("square", 3), lambda: 9), results.once(("square", 3), lambda: 0)]
        [9, 9]
        """
        known: _T | None = self.get(key)
        if known is None:
            known = self[key] = find()
        return known
