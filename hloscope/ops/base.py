"""What all op classes share: registration by name, small value types of their parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from hloscope.ir import Callee, Dims, Op, Type

OPS: Final[dict[str, type[Op]]] = {}
"""Every op class by its name."""

_O = TypeVar("_O", bound=type[Op])


def op(name: str) -> Callable[[_O], _O]:
    """Register a class as the op called `name` (class decorator, outermost)."""

    def register(cls: _O) -> _O:
        assert name not in OPS, name
        cls.name = name
        OPS[name] = cls
        return cls

    return register


Pairs = tuple[tuple[int, int], ...]
"""(low, high) per dimension, (source, target) pairs and the like."""

__all__ = ["OPS", "Callee", "Dims", "Op", "Pairs", "Type", "op"]
