"""What is said of the images of all tiles of one part of a map."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

MAX_SHAPES: Final = 64
"""So many different shapes are kept."""

Tile: TypeAlias = tuple[int, ...]
Element: TypeAlias = tuple[int, ...]


class Shape(NamedTuple):
    """Size and stride of a tile's hull along each result of a part."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]


class Missing(NamedTuple):
    """An element inside the hull of a tile's image that is not in the image."""

    tile: Tile
    element: Element


class Shared(NamedTuple):
    """An element that two tiles read."""

    tiles: tuple[Tile, Tile]
    element: Element


class Images(Struct, frozen=True):
    """What the tiles of one part read.

    Attributes:
        tiles: How many tiles read anything.
        whole: Tiles whose image is its hull, the smallest strided box around it.
        total: Elements read by all tiles, an element counted for each tile that reads it.
        hull: Elements in the hulls of all tiles.
        union: Different elements read.
        once: Those that one tile reads only; `None` if that was not counted.
        least: Elements of the smallest image.
        most: Elements of the largest image.
        shapes: The hulls' sizes and strides, most frequent first, and how many tiles have each.
        inner: The same of tiles that lie wholly in the output.
        some: A tile and an element that it reads.
        missing: An example where a hull is larger than the image.
        shared: An example of an element that two tiles read.
        method: How this was found.
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
        """That of most tiles that lie wholly in the output, or else of most."""
        return (self.inner or self.shapes)[0][0]

    @property
    def is_uniform(self) -> bool:
        """Have all tiles that lie wholly in the output the same shape?"""
        return len(self.inner or self.shapes) == 1


def most_frequent(shapes: dict[Shape, int]) -> tuple[tuple[Shape, int], ...]:
    return tuple(sorted(shapes.items(), key=lambda item: (-item[1], item[0])))[:MAX_SHAPES]
