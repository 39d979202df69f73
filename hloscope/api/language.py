"""Which language a text is in, the same for every command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from hloscope.lazy import lazy
from hloscope.source import Source

if TYPE_CHECKING:
    import hloscope.mlir as mlir
else:
    mlir = lazy("hloscope.mlir")

Language: TypeAlias = Literal["hlo", "stablehlo"]
_HLO: Final = "HloModule"
"""What begins so needs nothing of MLIR to be known."""


def language_of(source: Source) -> Language:
    """The language of a source: by the name of a `.mlir` file, else by how the text begins.

    >>> language_of(Source("a.txt", "HloModule m")), language_of(Source("a.mlir", "func.func @f("))
    ('hlo', 'stablehlo')
    """
    if source.name.endswith(".mlir"):
        return "stablehlo"
    return "hlo" if source.text.startswith(_HLO) or not mlir.is_mlir(source.text) else "stablehlo"
