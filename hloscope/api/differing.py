"""Structural differences between two programs."""

from __future__ import annotations

from typing import Any, Final

from hloscope.api.program import Program
from hloscope.api.sources import Readable
from hloscope.compare import Differences, differences_of_programs
from hloscope.display import Shown, differences_json, differences_text
from hloscope.ir import Module
from hloscope.visible import visible

DIFF_SCHEMA: Final = "hloscope.diff/1"
MOST_CHANGES: Final = 100
"""Changes that a printed answer has."""


class Comparison(Shown, Differences, frozen=True):
    """Structural differences between two programs; its text is that of `hloscope diff`."""

    def to_json(self) -> dict[str, Any]:
        """An object of schema `hloscope.diff/1`."""
        return {"schema": DIFF_SCHEMA, **differences_json(self)}

    def __str__(self) -> str:
        return visible("\n".join(differences_text(self, most=MOST_CHANGES)))

    __repr__ = __str__


def diff(a: Program | Module | Readable, b: Program | Module | Readable) -> Comparison:
    """The structural differences between two programs of HLO or StableHLO.

    Names, the order of instructions, metadata and places in the source do not count; types with
    their layouts, attributes, shardings, configurations and the values of constants do.

    Args:
        a: A program; or whatever `read` takes: a path, text, bytes, an open file, a jax object.
        b: Another one.

    Raises:
        HloscopeError: A source cannot be read.

    >>> a = "ENTRY e { p = f32[2] parameter(0) ROOT r = f32[2] tan(p) }"
    >>> b = "ENTRY g { x = f32[2] parameter(0) ROOT y = f32[2] tan(x) }"
    >>> diff(a, b).none
    True
    """
    found = differences_of_programs(Program.of(a).module, Program.of(b).module)
    return Comparison(*[getattr(found, field) for field in Differences.__struct_fields__])
