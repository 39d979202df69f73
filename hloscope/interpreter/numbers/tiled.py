"""Order of elements in tiled memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hloscope.errors import UnsupportedError
from hloscope.interpreter.values import claim
from hloscope.ir import Dims

NOTHING = -1
"""Element number of padding."""


def elements_in_memory(sizes: Dims, order: Dims, tiles: Sequence[Dims]) -> NDArray[np.int64]:
    """Return the element number at each place in memory, `NOTHING` in the padding of tiles.

    A tile of k sizes divides the k minor dimensions; the next tile divides that tile.

    Args:
        sizes: Shape of the array; elements are numbered in row-major order.
        order: Its dimensions from the slowest to the fastest varying.
        tiles: Sizes of tiles, the outermost first.

    Raises:
        UnsupportedError: A tile merges dimensions (`*`).

    >>> elements_in_memory((3, 4), (0, 1), [(2, 2)]).tolist()
    [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, -1, -1, 10, 11, -1, -1]

    Source: XLA, `docs/tiled_layout.md`.
    """
    claim(8 * prod(sizes), "the order of elements in memory")
    found: NDArray[np.int64] = np.arange(prod(sizes)).reshape(sizes).transpose(order)
    for tile in tiles:
        if any(t <= 0 for t in tile):
            raise UnsupportedError("tiles that take dimensions together are not evaluated")
        found = _cut_into_tiles(found, tile)
    return found.reshape(-1)


def _cut_into_tiles(array: NDArray[np.int64], tile: Dims) -> NDArray[np.int64]:
    """Cut the minor dimensions into tiles; numbers of tiles come first, sizes of the tile last."""
    if array.ndim < len(tile):
        array = array.reshape((1,) * (len(tile) - array.ndim) + array.shape)
    first = array.ndim - len(tile)
    minor = array.shape[first:]
    counts = [-(-n // t) for n, t in zip(minor, tile, strict=True)]
    whole = [c * t for c, t in zip(counts, tile, strict=True)]
    claim(8 * prod([*array.shape[:first], *whole]), "an array in tiles")
    edges = [(0, 0)] * first + [(0, w - n) for n, w in zip(minor, whole, strict=True)]
    padded = np.pad(array, edges, constant_values=NOTHING)
    split = padded.reshape(*array.shape[:first], *[n for pair in zip(counts, tile, strict=True)
                                                   for n in pair])  # fmt: skip
    outer = [first + 2 * k for k in range(len(tile))]
    return split.transpose(*range(first), *outer, *[k + 1 for k in outer])


def moved_in_memory(before: NDArray[np.int64], after: NDArray[np.int64]) -> Any:
    """Return a function from the elements of one array to those of another at the same addresses.

    Args:
        before: Element of the first array at each place, from `elements_in_memory`.
        after: Element of the second array at each place.

    An element that lies in the padding of the first array is zero.
    """
    places = min(len(before), len(after))
    there = (after[:places] != NOTHING) & (before[:places] != NOTHING)
    source, target = before[:places][there], after[:places][there]
    count = int(after.max(initial=NOTHING)) + 1

    def move(x: NDArray[Any]) -> NDArray[Any]:
        found = np.zeros(count, x.dtype)
        found[target] = x.reshape(-1)[source]
        return found

    return move
