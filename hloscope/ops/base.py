"""Registration of op classes by name, and value types of their parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from hloscope.ir import Callee, Dims, Op, Type

OPS: Final[dict[str, type[Op]]] = {}
"""Op classes by name."""

_O = TypeVar("_O", bound=type[Op])


def op(name: str) -> Callable[[_O], _O]:
    """Return a class decorator that registers an op class under `name`; it comes outermost."""

    def register(cls: _O) -> _O:
        assert name not in OPS, name
        cls.name = name
        OPS[name] = cls
        return cls

    return register


Pairs = tuple[tuple[int, int], ...]
"""Pairs of integers, such as (low, high) for each dimension or (source, target)."""

__all__ = ["OPS", "Callee", "Dims", "Op", "Pairs", "Type", "op"]
