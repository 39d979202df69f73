"""Texts of attributes that say a value, which the front end that wrote them reads when asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

_CONFIGS: Final = ("mhlo.backend_config", "backend_config")
_FRONTEND: Final = ("mhlo.frontend_attributes", "frontend_attributes")


class Written(str):
    """An attribute as its language writes it, and what it says."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        """What it says, as Python has it; `None` where nobody knows."""
        return None


def value_of(texts: Iterable[tuple[str, str]], name: str) -> Any:
    """What an attribute among settings or extras says; `None` if it is not there."""
    text = dict(texts).get(name)
    return text.value if isinstance(text, Written) else None


def backend_config(*texts: Iterable[tuple[str, str]]) -> Mapping[str, Any]:
    """The entries of a backend config; none where there is nothing to read.

    Args:
        texts: Settings and extras of an instruction.
    """
    written = [pair for group in texts for pair in group]
    for name in _CONFIGS:
        found = value_of(written, name)
        if isinstance(found, Mapping) and found:
            return found
    return {}


def frontend_attributes(*texts: Iterable[tuple[str, str]]) -> Mapping[str, Any]:
    """The entries of frontend attributes, in both languages' spelling; none where there are none.

    Args:
        texts: Settings and extras of an instruction, or extras of a module.
    """
    found: dict[str, Any] = {}
    for name, text in (pair for group in texts for pair in group):
        if name in _FRONTEND and isinstance(text, Written) and isinstance(text.value, Mapping):
            found |= text.value
    return found


__all__ = ["Written", "backend_config", "frontend_attributes", "value_of"]
