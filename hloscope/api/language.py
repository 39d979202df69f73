"""Which language a text is in, the same for every command."""

from __future__ import annotations

from typing import Literal, TypeAlias

from hloscope.mlir import is_mlir
from hloscope.source import Source

Language: TypeAlias = Literal["hlo", "stablehlo"]


def language_of(source: Source) -> Language:
    """The language of a source: by the name of a `.mlir` file, else by how the text begins.

    >>> language_of(Source("a.txt", "HloModule m")), language_of(Source("a.mlir", "func.func @f("))
    ('hlo', 'stablehlo')
    """
    return "stablehlo" if source.name.endswith(".mlir") or is_mlir(source.text) else "hlo"
