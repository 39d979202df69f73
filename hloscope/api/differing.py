"""What is different between two programs, by structure."""

from __future__ import annotations

from hloscope.api.program import Program
from hloscope.compare import (
    Differences,
    differences,
    differences_of_languages,
    in_two_languages,
)


def diff(a: Program, b: Program) -> Differences:
    """What is different between two programs of HLO or StableHLO, by structure.

    Names, the order of instructions, metadata and places in the source do not count; types with
    their layouts, attributes, shardings, configurations and the values of constants do.

    Args:
        a: A program, as `read` gives it.
        b: Another one.

    >>> from hloscope.api.reading import read
    >>> a = read("ENTRY e { p = f32[2] parameter(0) ROOT r = f32[2] tan(p) }")
    >>> b = read("ENTRY g { x = f32[2] parameter(0) ROOT y = f32[2] tan(x) }")
    >>> diff(a, b).none
    True
    """
    if in_two_languages(a.module, b.module):
        return differences_of_languages(a.module, b.module)
    return differences(a.module, b.module)
