"""Tiles of a Triton kernel: the sizes in which its tile program reads and writes arrays.

Source: XLA `xla/codegen/xtile/ir/xtile_ops.td` (`xtile.extract`, `xtile.insert`).
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from hloscope.errors import ParseError
from hloscope.lazy import pattern
from hloscope.source import Source, Span

_LIST: Final = r"\[((?:\d{1,18}(?:, \d{1,18})*)?)\]"
_ACCESS: Final = pattern(
    r"xtile\.(?:(extract)|insert %[\w#]+ into) %arg(\d{1,6})\s*\[[^\]]*\]"
    rf"(?: {_LIST} {_LIST} :)?"
)


class ProgramTile(Struct, frozen=True):
    """One read or write of a tile program.

    Attributes:
        argument: Number of the kernel's parameter.
        is_store: Is the tile written?
        sizes: Elements along each dimension of the array, padded to powers of two.
        strides: Distances between consecutive elements of the tile.
    """

    argument: int
    is_store: bool
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


def parse_tiles(source: Source) -> tuple[ProgramTile, ...]:
    """Return the tile accesses in a `*.ttir.txt`. Other lines are skipped.

    Raises:
        ParseError: A read or write has no sizes, or the program is cut.

    >>> text = "module { xtile.extract %arg0[%0, %c0] [2, 1024] [1, 1] : memref<8x1000xf32> }"
    >>> parse_tiles(Source("t", text))[0].sizes
    (2, 1024)
    """
    text = source.text
    if not text.rstrip().endswith("}"):
        span = Span(source, max(len(text.rstrip()) - 1, 0), max(len(text), 1))
        raise ParseError("the tile program is cut: expected `}` at its end", span=span)
    found = []
    for access in _ACCESS.finditer(text):
        if access[3] is None:
            span = Span(source, access.start(), access.end())
            raise ParseError("expected `[SIZES] [STRIDES]` after the offsets of a tile", span=span)
        sizes, strides = [
            tuple([int(n) for n in list.split(",") if n.strip()]) for list in (access[3], access[4])
        ]
        found.append(ProgramTile(int(access[2]), access[1] is None, sizes, strides))
    return tuple(found)
