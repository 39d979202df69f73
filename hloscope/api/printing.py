"""Canonical texts of programs."""

from __future__ import annotations

from typing import Literal

from hloscope.api.finding import joined, language_of, pieces_of
from hloscope.hlo_parser import parse_hlo, print_hlo
from hloscope.mlir import parse_mlir, print_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.support.source import Source


def canonical(
    source: Source,
    *,
    generic: bool = False,
    locations: bool = False,
    names: Literal["mlir", "source"] = "mlir",
    split: bool = False,
) -> str:
    """Return a text as the tools of its language print it: HLO as XLA, StableHLO as MLIR.

    Args:
        source: The text; programs of StableHLO need not be valid.
        generic: StableHLO only: print all ops in the generic form.
        locations: StableHLO only: print the locations of ops.
        names: StableHLO only: `mlir` numbers values as MLIR does, `source` keeps the names of the
            text.
        split: StableHLO only: the text has several programs, separated by `// -----`.

    Raises:
        ParseError: The text cannot be parsed.

    >>> print(canonical(Source("one", "ENTRY e { ROOT p = f32[2] parameter(0) }")).strip())
    HloModule module_e
    <BLANKLINE>
    ENTRY %e (p: f32[2]) -> f32[2] {
      ROOT %p = f32[2] parameter(0)
    }
    """
    if language_of(source) == "hlo":
        return print_hlo(parse_hlo(source.text, name=source.name, strict=True))
    pieces = pieces_of(source, split=split)
    modules = [parse_mlir(text, source.name, dialects=DIALECTS) for text in pieces]
    return joined(
        print_mlir(module, dialects=DIALECTS, generic=generic, locations=locations, names=names)
        for module in modules
    )
