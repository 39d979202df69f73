"""Texts of attributes that say a value, which the front end that wrote them reads when asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

_CONFIGS: Final = ("mhlo.backend_config", "backend_config")


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


__all__ = ["Written", "backend_config", "value_of"]
