"""Thread maps given as layouts of a tile: Triton's blocked and linear layouts, and CuTe's.

The tensor's sizes decide which of its elements they represent: blocks take its tiles one after
another, in row-major order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from msgspec import Struct

from hloscope.affine import Dim, Expr, Interval, Range, substitute
from hloscope.errors import ParseError, UnsupportedError
from hloscope.indexing import IndexingMap, Variable
from hloscope.layouts import (
    Blocked,
    CuteLayout,
    LinearLayout,
    neighbours,
    over_tiles,
    parse_layout,
    thread_map,
)

FORMS: Final = (
    "a map `(th_x, bl_x)[s0] -> (…), domain: …`, Triton's `#ttg.blocked<{…}>` or the text of a "
    "linear layout, or CuTe's `(threads,values):(strides)`"
)
"""Description of the accepted forms of a thread map."""
MOST_THREADS: Final = 1024


class ThreadLayout(Struct, frozen=True):
    """A layout of a tile over the threads of a block.

    Attributes:
        layout: Map from registers, lanes and warps, or from threads and values, to the tile.
        tile: Sizes of the tile; `None` if the layout determines them.
    """

    layout: Blocked | LinearLayout | CuteLayout
    tile: tuple[int, ...] | None = None

    def over(self, shape: Sequence[int], warp: int) -> tuple[IndexingMap, int]:
        """Return the map from threads and blocks to a tensor's elements, with the vector size.

        Args:
            shape: Sizes of the tensor.
            warp: Lanes of a warp.

        Raises:
            UnsupportedError: The layout does not fit the tensor or the device.

        >>> layout = parse_thread_map("#ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], "
        ...                           "warpsPerCTA = [1], order = [0]}>")
        >>> print(layout.over((256,), 32)[0].results[0])
        d0 * 2 + d1 * 64 + s0
        """
        match self.layout:
            case CuteLayout():
                return _over_cute(self.layout, self._tile_of_cute(shape), shape)
            case Blocked():
                linear = self.layout.to_linear(self.tile or _unit_tile(self.layout))
            case _:
                linear = self.layout
                if self.tile is not None and self.tile != tuple([n for _, n in linear.outs]):
                    raise UnsupportedError("a linear layout has a tile of its own")
        lanes = dict(linear.size_of).get("lane", 1)
        if lanes > warp or (lanes < warp and dict(linear.size_of).get("warp", 1) > 1):
            raise UnsupportedError(f"a layout of {lanes} lanes, and warps of {warp}")
        _check_threads(lanes * dict(linear.size_of).get("warp", 1))
        return thread_map(linear, shape), neighbours(linear)

    def _tile_of_cute(self, shape: Sequence[int]) -> tuple[int, ...]:
        assert isinstance(self.layout, CuteLayout)
        if self.tile is not None:
            return self.tile
        if len(shape) == 1:
            return (self.layout.cosize,)
        raise UnsupportedError("a CuTe layout of threads and values needs the sizes of its tile")


def parse_thread_map(text: str, tile: tuple[int, ...] | None = None) -> IndexingMap | ThreadLayout:
    """Return the thread map that a text describes, in any of the accepted forms.

    Raises:
        ParseError: The text has none of the accepted forms.

    >>> type(parse_thread_map("((4,8),2):((32,1),16)", (16, 8))).__name__
    'ThreadLayout'
    """
    plain = text.strip()
    if "blocked" in plain and "<" in plain:
        return ThreadLayout(
            Blocked.parse(plain[plain.index("#") :] if "#" in plain else plain), tile
        )
    if "where out dims are" in plain:
        return ThreadLayout(parse_layout(text), tile)
    if "->" in plain or plain == "KNOWN EMPTY":
        return IndexingMap.parse(text, name="<thread map>")
    if ":" in plain:
        return ThreadLayout(CuteLayout.parse(plain), tile)
    raise ParseError(f"expected {FORMS}, found `{plain[:60]}`")


def _unit_tile(layout: Blocked) -> tuple[int, ...]:
    sides = layout.size_per_thread, layout.threads_per_warp, layout.warps_per_block
    return tuple([prod(sizes) for sizes in zip(*sides, strict=True)])


def _over_cute(
    layout: CuteLayout, tile: tuple[int, ...], shape: Sequence[int]
) -> tuple[IndexingMap, int]:
    """Return the map of a CuTe layout over a tensor, and a thread's vector size.

    CuTe numbers the positions of a tile with the first size fastest.
    """
    if len(tile) != len(shape):
        raise UnsupportedError(f"the tile has rank {len(tile)}, the tensor {len(shape)}")
    reach = layout.cosize if layout.swizzle is None else 1 << (layout.cosize - 1).bit_length()
    if reach > prod(tile):
        raise UnsupportedError(f"the layout leads to place {reach - 1} of a tile of {prod(tile)}")
    map = layout.to_map(by_mode=True)
    if len(map.dims) > 2:
        raise UnsupportedError(f"{len(map.dims)} modes: a layout of threads and values has two")
    threads = map.dims[0].interval.hi + 1
    _check_threads(threads)
    value, ranges = map.results[0], list[Variable]()
    near = 1
    if len(map.dims) == 2:
        sizes = _value_sizes(layout)
        near = sizes[0] if sizes else 1
        ranges = [Variable(Interval(0, n - 1), f"v{k}") for k, n in enumerate(sizes)]
        value = substitute(value, {Dim(1): _joined(sizes)})
    inside, below = [], 1
    for k, size in enumerate(tile):
        part: Expr = value // below if below > 1 else value
        inside.append(part % size if k + 1 < len(tile) else part)
        below *= size
    return over_tiles(inside, tile, shape, threads, ranges), near


def _check_threads(threads: int) -> None:
    if threads > MOST_THREADS:
        raise UnsupportedError(f"{threads:,} threads are more than the {MOST_THREADS} of a block")


def _value_sizes(layout: CuteLayout) -> list[int]:
    """Return the sizes of the value modes, the fastest first. Each is a loop of a thread."""
    assert isinstance(layout.shape, tuple)
    assert isinstance(layout.stride, tuple)
    values = CuteLayout(layout.shape[1], layout.stride[1])
    return [mode.size for mode in values.modes if mode.size > 1]


def _joined(sizes: Sequence[int]) -> Expr:
    found: Expr = Dim(1) * 0
    below = 1
    for k, size in enumerate(sizes):
        found = found + Range(k) * below
        below *= size
    return found
