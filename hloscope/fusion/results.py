"""Memoized results of one analysis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")


class Results(dict[tuple[Any, ...], Any]):
    """Results by a key: a question and the subject of the question.

    A subject is compared by value, or is the number of a structure (`structural_ids`): then equal
    instructions and computations share the result.  Other subjects are nodes of the graph, compared
    by identity. The last column tells how much longer all maps of a program take, in both
    directions, if the result is not memoized.

    | question | subject | result | without it |
    |---|---|---|---|
    | a `Direction` | op, types, bodies | dependences by the op's rule | 4 times, GPT of 48 layers |
    | `reads`, `writes` | structure, leaf | dependences through it | exponential in nested calls |
    | `parameters` | structure | uses of all parameters | 2.1 times, cartpole rollout |
    | `first parameter` | structure | the parameter queried first | see `parameter_users` |
    | `body` | structure | dependences of a called body | 2 times, sums of 160 arrays |
    | `source` | computation, leaf | value returned unchanged | it does not end: callees first |
    | `positions` | computation | order of the instructions | 1.6 times, 1,200 outputs |
    | `users` | computation | users of each value | 4 times, 300 outputs |
    | `starts` | instruction | first leaf of each operand | 3.7 times, 1,200 outputs |
    | `offsets` | type | first leaf of each element | 6 times, loop with 640 arrays |
    | `in step` | instruction | do run-time sizes agree? | 1.1 times, 1,200 outputs |
    | `has sizes` | instruction | is there a run-time size? | 1.7 times, 1,200 operands |
    | `is valid` | instruction | its types are checked | 16 times, loop with 640 arrays |
    | `fusion that calls` | computation | its caller | two callers would not be found |
    | `depth`, `… ahead` | computation | nesting of calls | quadratic in nested calls |
    """

    def once(self, key: tuple[Any, ...], find: Callable[[], _T]) -> _T:
        """Return the result for a key; `find` computes it at the first request.

        `find` must not return `None`.

        >>> results = Results()
        >>> [results.once(("square", 3), lambda: 9), results.once(("square", 3), lambda: 0)]
        [9, 9]
        """
        known: _T | None = self.get(key)
        if known is None:
            known = self[key] = find()
        return known
