"""Counts and examples of the images of all tiles of one part of a map."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

MAX_SHAPES: Final = 64
"""Largest number of different shapes that are kept."""

Tile: TypeAlias = tuple[int, ...]
Element: TypeAlias = tuple[int, ...]


class Shape(NamedTuple):
    """Size and stride of a tile's hull along each result of a part."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]


class Missing(NamedTuple):
    """An element in the hull of a tile's image that is not in the image."""

    tile: Tile
    element: Element


class Shared(NamedTuple):
    """An element that two tiles read."""

    tiles: tuple[Tile, Tile]
    element: Element


class Images(Struct, frozen=True):
    """The elements that the tiles of one part read.

    Attributes:
        tiles: Number of tiles that read any element.
        whole: Number of tiles whose image equals its hull, the smallest strided box around it.
        total: Number of elements read, counted once for each tile that reads it.
        hull: Number of elements in the hulls of all tiles.
        union: Number of different elements read.
        once: Number of elements that only one tile reads; `None` if not counted.
        least: Number of elements of the smallest image.
        most: Number of elements of the largest image.
        shapes: Sizes and strides of hulls, most frequent first, with their numbers of tiles.
        inner: The same table for tiles that lie wholly in the output.
        some: A tile and an element that it reads.
        missing: An example of a hull larger than its image.
        shared: An example of an element that two tiles read.
        method: Name of the method.
    """

    tiles: int
    whole: int
    total: int
    hull: int
    union: int
    once: int | None
    least: int
    most: int
    shapes: tuple[tuple[Shape, int], ...]
    inner: tuple[tuple[Shape, int], ...]
    some: tuple[Tile, Element] | None
    missing: Missing | None = None
    shared: Shared | None = None
    method: str = "progressions"

    @property
    def shape(self) -> Shape:
        """The most frequent shape of tiles wholly in the output; of all tiles if there are none."""
        return (self.inner or self.shapes)[0][0]

    @property
    def is_uniform(self) -> bool:
        """Have all tiles that lie wholly in the output the same shape?"""
        return len(self.inner or self.shapes) == 1


def most_frequent(shapes: dict[Shape, int]) -> tuple[tuple[Shape, int], ...]:
    return tuple(sorted(shapes.items(), key=lambda item: (-item[1], item[0])))[:MAX_SHAPES]
