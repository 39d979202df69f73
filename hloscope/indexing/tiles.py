"""Exact accesses of every tile of the output to an operand, and of all tiles together."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from math import gcd, prod
from typing import NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import Dim, Expr, Interval, Range, Var, as_sum
from hloscope.indexing.base import M, MapBase
from hloscope.indexing.compose import compose
from hloscope.indexing.evaluate import integers
from hloscope.indexing.sets import Side, interval_of
from hloscope.indexing.simplify import simplify
from hloscope.indexing.tile_enumeration import BUDGET, enumerated, periodic
from hloscope.indexing.tile_images import (
    NEEDS_VALUES,
    Element,
    Images,
    Missing,
    Part,
    Shape,
    Shared,
    Tile,
    have_equal_offsets,
    of_progression,
    parts_of,
    sums_of,
)
from hloscope.indexing.variables import below, substituted, substituted_constraints

# --------------------------------------------------------------------------------------------------
# Exact accesses of every tile of the output to an operand, and of all tiles together.
#
# A tile reads the image of its box under the map. The results say whether that is a strided box for
# every tile, which elements of the box around it are not read, and which elements several tiles
# read.


class TileVerdict(StrEnum):
    """Form of the images of all tiles: the sets of elements that each tile reads."""

    BOX = "box"
    """All tiles of full size have the same strided box as image, up to a shift."""
    VARYING = "varying"
    """Strided boxes whose sizes or strides depend on the tile."""
    HOLES = "holes"
    """The smallest strided box around some tile's image has elements that are not read."""
    EMPTY = "empty"
    """No tile reads any element."""
    UNDECIDED = "undecided"
    """The form was not found within the budget, or depends on values read at run time."""


class Ragged(Struct, frozen=True):
    """A dimension whose size is not a multiple of the tile size.

    Attributes:
        dim: Number of the dimension.
        size: Size of the dimension.
        tile: Size of a tile that the end of the dimension does not cut.
    """

    dim: int
    size: int
    tile: int

    @property
    def last(self) -> int:
        """The size of the last tile, which is cut by the end of the dimension."""
        return self.size % self.tile


class ExactTiles(Struct, frozen=True):
    """The elements of one operand that the tiles of an output read: form, counts and examples.

    Attributes:
        sizes: Size of a tile of the output.
        verdict: Form of the images of the tiles.
        reason: Why the verdict is `UNDECIDED`; empty for others.
        tiles: Number of tiles that read any element.
        least: Number of elements of the smallest image.
        most: Number of elements of the largest image.
        shape: Most frequent sizes and strides, along each dimension of the operand, of the images
            of tiles that no end of a dimension cuts.
        total: Number of elements read, counted once for each tile that reads it.
        union: Number of different elements read.
        holes: Number of elements in boxes around images that are not in the images.
        shared: Number of elements that more than one tile reads; `None` if not counted.
        missing: An example of a hole.
        overlap: An example of an element that two tiles read.
        ragged: Dimensions of the output that tiles do not divide.
        method: Name of the method that counted.
        is_moved: Whether values read at run time shift all images. Examples are for the smallest
            values.
    """

    sizes: tuple[int, ...]
    verdict: TileVerdict
    reason: str = ""
    tiles: int = 0
    least: int = 0
    most: int = 0
    shape: Shape | None = None
    total: int = 0
    union: int = 0
    holes: int = 0
    shared: int | None = 0
    missing: Missing | None = None
    overlap: Shared | None = None
    ragged: tuple[Ragged, ...] = ()
    method: str = ""
    is_moved: bool = False

    @property
    def is_decided(self) -> bool:
        """Is the verdict other than `UNDECIDED`?"""
        return self.verdict is not TileVerdict.UNDECIDED

    @property
    def is_box(self) -> bool:
        """Is the image of every tile a strided box?"""
        return self.verdict in (TileVerdict.BOX, TileVerdict.VARYING)

    @property
    def reuse(self) -> float:
        """Average number of tiles that read an element, over all elements read.

        0 if there are none.
        """
        return self.total / self.union if self.union else 0.0


def exact_tiles(
    maps: Sequence[MapBase],
    sizes: Sequence[int],
    *,
    shape: Sequence[int] | None = None,
    budget: int = BUDGET,
) -> ExactTiles:
    """Return what the tiles of the output read of an operand, under a union of maps.

    Args:
        maps: Maps from the elements of the output to those of the operand.
        sizes: The tile size along each dimension of the output.
        shape: Shape of the output; the default ends where the maps do.
        budget: Largest number of elements that are enumerated; beyond it the result is undecided.

    Raises:
        TypeError: A size is not an integer.
        ValueError: The sizes are not one positive number for each dimension.

    >>> from hloscope.indexing import IndexingMap
    >>> window = IndexingMap.parse("(d0)[s0] -> (d0 * 2 + s0), domain: d0 in [0, 9], s0 in [0, 2]")
    >>> found = exact_tiles([window], (4,))
    >>> print(found.verdict, found.shape.sizes, found.total, found.union, found.overlap)
    box (9,) 23 21 Shared(tiles=((0,), (1,)), element=(8,))
    """
    sizes = tuple(integers(sizes, "tile sizes"))
    if not maps:
        return ExactTiles(sizes, TileVerdict.EMPTY)
    rank = len(maps[0].dims)
    if len(sizes) != rank or min(sizes, default=1) < 1:
        raise ValueError(f"tile sizes {sizes}: {rank} positive numbers are needed")
    if shape is None:
        shape = [max([m.dims[d].interval.hi + 1 for m in maps]) for d in range(rank)]
    taken = ["the map is undefined" if m.is_undefined else parts_of(m, sizes, shape) for m in maps]
    for parts in taken:
        if isinstance(parts, str):
            return ExactTiles(sizes, TileVerdict.UNDECIDED, parts)
    # Examples and counts hold for one shift of all images; different shifts would need values.
    if len(maps) > 1 and not have_equal_offsets(maps):
        return ExactTiles(sizes, TileVerdict.UNDECIDED, NEEDS_VALUES)
    apart = [parts for parts in taken if not isinstance(parts, str)]
    found = _of_parts(apart[0], budget) if len(apart) == 1 else _of_union(apart, budget)
    if found is None:
        reason = f"more than {budget:,} elements would have to be enumerated"
        return ExactTiles(sizes, TileVerdict.UNDECIDED, reason)
    return replace(_result_of(sizes, found, shape), is_moved=any([m.runtime for m in maps]))


def image_of(m: M, box: Sequence[Side]) -> ExactTiles:
    """Return what one box of indices reads, as a single tile; both ends are included.

    Raises:
        ValueError: The box has another number of sides than the map has dimensions.

    >>> from hloscope.indexing import IndexingMap
    >>> window = IndexingMap.parse("(d0)[s0] -> (d0 * 5 + s0), domain: d0 in [0, 9], s0 in [0, 2]")
    >>> print(image_of(window, [(2, 3)]).missing)
    Missing(tile=(0,), element=(13,))
    """
    if len(box) != len(m.dims):
        raise ValueError(f"{len(box)} sides for {len(m.dims)} dimensions")
    sides = [v.interval & interval_of(side) for side, v in zip(box, m.dims, strict=True)]
    here = type(m)(
        [below(side.size) for side in sides],
        results=[Dim(i) + side.lo for i, side in enumerate(sides)],
    )
    sizes = [max(side.size, 1) for side in sides]
    return exact_tiles([simplify(compose(here, m))], sizes)


# ------------------------------------------------------------------------------------ counts


class _Combined(Struct, frozen=True):
    """Counts of all parts of a map together, in the order of its dimensions and results.

    `uniform` says whether all tiles that no end of a dimension cuts have the same shape.
    """

    images: Images
    uniform: bool


def _images(part: Part, budget: int) -> Images | None:
    """Return the counts of the images of tiles under one part, by the first method that gives them.

    The result is `None` if none does within `budget` enumerated points.
    """
    found = of_progression(part)
    if found is None or found.once is None:
        found = enumerated([part], budget) or found
    return found if found is not None else periodic(part, budget)


def _of_parts(parts: Sequence[Part], budget: int, *more: tuple[Part, Images]) -> _Combined | None:
    """Return the counts of independent parts; `None` if one is undecided.

    The counts of the parts multiply. `more` has further parts, whose counts are known.
    """
    each: list[tuple[Part, Images]] = []
    for part in parts:
        found = _images(part, budget)
        if found is None:
            return None
        each.append((part, found))
    return _product([*each, *more])


def _product(parts: Sequence[tuple[Part, Images]]) -> _Combined:
    """Return the counts of the products of independent images, one factor for each part.

    `parts` has each part with the counts of its images.
    """
    every = [i for _, i in parts]
    tiles = prod([i.tiles for i in every])
    if not tiles:
        return _Combined(Images(0, 0, 0, 0, 0, 0, 0, 0, (), (), None), True)
    # An element of the product is read once only if each of its parts is; unknown factors make it
    # unknown.
    once: int | None = 1
    for i in every:
        once = None if once is None or i.once is None else once * i.once
    # Parts share no variable, so images are products and all counts multiply.
    numbers = [n for part, _ in parts for n in part.numbers]
    shape = _shape(numbers, [i.shape for i in every])
    whole = Images(
        tiles=tiles,
        whole=prod([i.whole for i in every]),
        total=prod([i.total for i in every]),
        hull=prod([i.hull for i in every]),
        union=prod([i.union for i in every]),
        once=once,
        least=prod([i.least for i in every]),
        most=prod([i.most for i in every]),
        shapes=((shape, tiles),),
        inner=((shape, tiles),),
        some=_example_of(parts),
        missing=_first_missing(parts),
        shared=_first_shared(parts),
        method=", ".join(sorted({i.method for i in every})),
    )
    return _Combined(whole, all([i.is_uniform for i in every]))


def _shape(numbers: Sequence[int], shapes: Sequence[Shape]) -> Shape:
    """Return the shape of the parts together, in the order of the map's results.

    `numbers` has the number of the result for each entry of the shapes in sequence.
    """
    sizes = [n for shape in shapes for n in shape.sizes]
    strides = [n for shape in shapes for n in shape.strides]
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    return Shape(tuple([sizes[k] for k in order]), tuple([strides[k] for k in order]))


def _example_of(
    parts: Sequence[tuple[Part, Images]], number: int = -1, example: tuple[Tile, Element] = ((), ())
) -> tuple[Tile, Element]:
    """Return a tile of the output, and an element of the operand that it reads.

    They are put together from the examples of all parts; part `number` has the example `example`
    instead of its own.
    """
    tile: dict[int, int] = {}
    element: dict[int, int] = {}
    for k, (part, images) in enumerate(parts):
        assert images.some is not None
        some = example if k == number else images.some
        tile |= dict(zip(part.dims, some[0], strict=True))
        element |= dict(zip(part.numbers, some[1], strict=True))
    return tuple([tile[d] for d in sorted(tile)]), tuple([element[n] for n in sorted(element)])


def _first_missing(parts: Sequence[tuple[Part, Images]]) -> Missing | None:
    """Return an element that is not read, by the first part that has one, or `None`."""
    for k, (_, i) in enumerate(parts):
        if i.missing is not None:
            return Missing(*_example_of(parts, k, i.missing))
    return None


def _first_shared(parts: Sequence[tuple[Part, Images]]) -> Shared | None:
    """Return an element that two tiles read, by the first part that has one, or `None`."""
    for k, (_, i) in enumerate(parts):
        if i.shared is not None:
            (a, b), element = i.shared
            first, whole = _example_of(parts, k, (a, element))
            second, _ = _example_of(parts, k, (b, element))
            return Shared((first, second), whole)
    return None


def _of_union(maps: Sequence[Sequence[Part]], budget: int) -> _Combined | None:
    """Return the counts of a union of maps, each given by its parts.

    Equal and nested images count once, and the remaining maps are enumerated. The result is `None`
    if these have more than `budget` points.
    """
    different = without_nested(maps)
    if len(different) == 1:
        return _of_parts(different[0], budget)
    shared, rest = factored(different)
    found = enumerated(rest, budget)
    return None if found is None else _of_parts(shared, budget, (rest[0], found))


def _result_of(sizes: tuple[int, ...], found: _Combined, shape: Sequence[int]) -> ExactTiles:
    i = found.images
    if not i.tiles:
        return ExactTiles(sizes, TileVerdict.EMPTY, method=i.method)
    if i.whole < i.tiles:
        verdict = TileVerdict.HOLES
    else:
        verdict = TileVerdict.BOX if found.uniform else TileVerdict.VARYING
    ragged = []
    for dim, tile in enumerate(sizes):
        if shape[dim] % tile:
            ragged.append(Ragged(dim, shape[dim], tile))
    return ExactTiles(
        sizes,
        verdict,
        "",
        i.tiles,
        i.least,
        i.most,
        i.shape,
        i.total,
        i.union,
        i.hull - i.total,
        None if i.once is None else i.union - i.once,
        i.missing,
        i.shared,
        tuple(ragged),
        i.method,
    )


# --------------------------------------------------------------------------------------------------
# Unions of images: equal and nested images are detected before anything is enumerated.
#
# Maps are compared part by part (`parts`). The image of a tile is the product of its parts' images,
# so an image lies in another one if each part's does. Maps that add nothing are dropped. Parts in
# which all remaining maps agree factor out of the union: (X x Y1) + (X x Y2) = X x (Y1 + Y2). The
# rest is one part to enumerate.


Parts: TypeAlias = Sequence[Part]


def without_nested(maps: Sequence[Parts]) -> list[Parts]:
    """Return the maps that remain after dropping those whose images lie in another map's.

    Each map is given by its parts, all with the same tile sizes.
    """
    kept: list[Parts] = []
    for parts in maps:
        if any([lies_in(parts, other) for other in kept]):
            continue
        kept = [other for other in kept if not lies_in(other, parts)]
        kept.append(parts)
    return kept


def lies_in(inner: Parts, outer: Parts) -> bool:
    """Is the image of each tile under `inner` proved to be a subset of that under `outer`?"""
    sides = {v: i for part in inner for v, i in part.intervals.items() if isinstance(v, Dim)}
    known = {part.numbers: part for part in inner if part.numbers}
    for part in outer:
        if not part.numbers:  # a part without results restricts the indices that read anything
            is_free = all([i.lo <= sides[v].lo and sides[v].hi <= i.hi
                           for v, i in part.intervals.items() if isinstance(v, Dim)])  # fmt: skip
            if part.constraints or not is_free:
                return False
            continue
        other = known.get(part.numbers)
        if other is None:
            return False
        if _key(other) != _key(part) and not _is_within(other, part, sides):
            return False
    return True


def _key(part: Part) -> object:
    """Return a key of a part that is equal for parts with equal images.

    Names of ranges are not compared.
    """
    ranges = [v for v in part.intervals if isinstance(v, Range)]
    names: dict[Var, Expr] = {v: Range(k) for k, v in enumerate(ranges)}
    return (
        tuple(substituted(part.results, names)),
        tuple(substituted_constraints(part.constraints, names)),
        tuple(part.intervals.values()),
        part.numbers, part.dims, part.tiles,
    )  # fmt: skip


class _Sum(NamedTuple):
    """The values of a linear result for one tile: a sum of dimensions plus a progression.

    Attributes:
        moving: Factor and interval of each dimension with several tiles.
        least: Smallest value of the progression.
        most: Largest value of the progression.
        stride: Greatest common divisor of its steps; 0 for a single value.
        is_dense: Whether it has every multiple of the stride in between.
    """

    moving: dict[Dim, tuple[int, Interval]]
    least: int
    most: int
    stride: int
    is_dense: bool


def _sum(part: Part, fixed: Sequence[Dim] | None = None) -> _Sum | None:
    """Return the values of a part as a sum, or `None`.

    Dimensions that are not in `fixed` count as part of the progression, with all their tiles
    together. The result is `None` if the part is not one linear result without constraints.
    """
    if len(part.results) != 1 or part.constraints:
        return None
    terms, constant = as_sum(part.results[0])
    if any([not isinstance(t, Dim | Range) for t, _ in terms]):
        return None
    several = {Dim(d) for d, (_, count) in zip(part.dims, part.grid, strict=True) if count > 1}
    if fixed is not None:
        several &= {*fixed}
    moving: dict[Dim, tuple[int, Interval]] = {}
    least = most = constant
    steps: list[tuple[int, int]] = []
    for t, factor in terms:
        assert isinstance(t, Dim | Range)
        interval = part.intervals[t]
        if isinstance(t, Dim) and t in several:
            moving[t] = factor, interval
            continue
        ends = factor * interval.lo, factor * interval.hi
        least, most = least + min(ends), most + max(ends)
        if interval.size > 1:
            steps.append((abs(factor), interval.size))
    sums = sums_of(steps)
    is_dense = sums is not None and sums.number == sums.size
    return _Sum(moving, least, most, gcd(*[c for c, _ in steps]), is_dense)


def _is_within(inner: Part, outer: Part, sides: dict[Dim, Interval]) -> bool:
    """Is the image of each tile under `inner` a subset of that under `outer`?

    Each of the two is a part with one linear result. `sides` has the interval of each dimension.
    """
    wide = _sum(outer)
    if wide is None or not wide.is_dense:
        return False
    for d, interval in outer.intervals.items():
        # A tile at which the outer map reads nothing, or less, is not covered.
        if isinstance(d, Dim) and not (interval.lo <= sides[d].lo and sides[d].hi <= interval.hi):
            return False
        if isinstance(d, Dim) and d not in wide.moving and interval != sides[d]:
            return False
    narrow = _sum(inner, [*wide.moving])
    if narrow is None or narrow.moving != wide.moving:
        return False
    if narrow.least < wide.least or narrow.most > wide.most:
        return False
    # A dense progression contains another one whose start and stride fit its own.
    step = wide.stride or 1
    return not ((narrow.least - wide.least) % step or narrow.stride % step)


def factored(maps: Sequence[Parts]) -> tuple[list[Part], list[Part]]:
    """Return the parts that all maps have, and for each map its other parts joined to one part."""
    first, *others = maps
    shared = [
        part
        for part in first
        if all([any([_key(part) == _key(other) for other in parts]) for parts in others])
    ]
    keys = [_key(part) for part in shared]
    rest = [_as_one_part([part for part in parts if _key(part) not in keys]) for parts in maps]
    return shared, rest


def _as_one_part(parts: Parts) -> Part:
    """Return one part with the results, variables and constraints of all parts."""
    numbers = [n for part in parts for n in part.numbers]
    results = [e for part in parts for e in part.results]
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    dims = sorted(d for part in parts for d in part.dims)
    tile_of = {d: t for part in parts for d, t in zip(part.dims, part.tiles, strict=True)}
    whole_of = {d: n for part in parts for d, n in zip(part.dims, part.whole, strict=True)}
    return Part(
        tuple([results[k] for k in order]),
        tuple([numbers[k] for k in order]),
        tuple(dims),
        {v: i for part in parts for v, i in part.intervals.items()},
        tuple([tile_of[d] for d in dims]),
        tuple([c for part in parts for c in part.constraints]),
        tuple([whole_of[d] for d in dims]),
    )
