"""Recursive generator functions that run without Python's stack, to any depth."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")
Asking: TypeAlias = Generator[Q, Any, A]
"""Generator that yields arguments of recursive calls and receives their results."""


def answered(ask: Callable[[Q], Asking[Q, A]], question: Q) -> A:
    """Return the result of a generator function that yields arguments of recursive calls.

    >>> def depth(tree):
    ...     below = []
    ...     for child in tree:
    ...         below.append((yield child))
    ...     return 1 + max(below, default=0)
    >>> answered(depth, [[], [[]]])
    3
    """
    waiting = [ask(question)]
    answer: Any = None
    while waiting:
        try:
            further = waiting[-1].send(answer)
        except StopIteration as done:
            waiting.pop()
            answer = done.value
        else:
            waiting.append(ask(further))
            answer = None
    found: A = answer
    return found
