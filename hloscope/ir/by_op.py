"""Tables by op class, in which an entry holds for subclasses too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from hloscope.ir.op import Op

T = TypeVar("T")


class ByOp(Generic[T]):
    """A table with one entry for each op class.

    >>> from hloscope.ops import Reshape, Transpose
    >>> names = ByOp[str]()
    >>> names.add(Op)("any op"), names.add(Reshape, Transpose)("moves")
    ('any op', 'moves')
    >>> names.find(Transpose((0,)))
    'moves'
    """

    def __init__(self) -> None:
        self._known: dict[type[Op], T] = {}

    def add(self, *classes: type[Op]) -> Callable[[T], T]:
        """Return a decorator that enters something for these classes."""

        def register(what: T) -> T:
            self._known.update(dict.fromkeys(classes, what))
            return what

        return register

    def find(self, op: Op) -> T | None:
        """Return the entry of the op's class or of its nearest base class; `None` without one."""
        known = self._known
        return next((known[cls] for cls in type(op).__mro__ if cls in known), None)
