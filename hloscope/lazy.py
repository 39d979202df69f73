"""Modules of this package that are loaded when they are first used.

A question about HLO needs no MLIR, no interpreter, no verifier and no proofs, and to load them
would take longer than the answer.  Whoever may need them says so at its top:

    if TYPE_CHECKING:
        from hloscope import interpreter
    else:
        interpreter = lazy("hloscope.interpreter")
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _LazyModule:
    """A module that is imported when somebody asks for a name in it."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._path), name)


def lazy(path: str) -> Any:
    """The module at this path; it is imported when something of it is first used.

    >>> decimal = lazy("decimal")
    >>> decimal.Decimal("0.1")
    Decimal('0.1')
    """
    return _LazyModule(path)
