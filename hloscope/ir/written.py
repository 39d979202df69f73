"""Attributes whose text has a value, which the front end that wrote it reads on demand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

_CONFIGS: Final = ("mhlo.backend_config", "backend_config")
_FRONTEND: Final = ("mhlo.frontend_attributes", "frontend_attributes")


class Written(str):
    """Text of an attribute, as its language writes it."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        """Value of the attribute as a Python object; `None` if it is not known."""
        return None


def value_of(texts: Iterable[tuple[str, str]], name: str) -> Any:
    """Return the value of an attribute in settings or extras; `None` if it is absent."""
    text = dict(texts).get(name)
    return text.value if isinstance(text, Written) else None


def backend_config(*texts: Iterable[tuple[str, str]]) -> Mapping[str, Any]:
    """Return the entries of a backend config; empty if there is none.

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
    """Return the entries of frontend attributes, in the spelling of either language; may be empty.

    Args:
        texts: Settings and extras of an instruction, or extras of a module.
    """
    found: dict[str, Any] = {}
    for name, text in (pair for group in texts for pair in group):
        if name in _FRONTEND and isinstance(text, Written) and isinstance(text.value, Mapping):
            found |= text.value
    return found


__all__ = ["Written", "backend_config", "frontend_attributes", "value_of"]
