"""What is different between two programs, by structure."""

from __future__ import annotations

from hloscope.api.program import Program
from hloscope.api.reading import Readable, program_from
from hloscope.compare import (
    Differences,
    differences,
    differences_of_languages,
    in_two_languages,
)
from hloscope.ir import Module


def diff(a: Program | Module | Readable, b: Program | Module | Readable) -> Differences:
    """What is different between two programs of HLO or StableHLO, by structure.

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
    one, other = program_from(a).module, program_from(b).module
    if in_two_languages(one, other):
        return differences_of_languages(one, other)
    return differences(one, other)
