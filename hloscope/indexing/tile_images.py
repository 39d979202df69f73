"""Images of tiles under the independent parts of a map, as arithmetic progressions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import gcd, prod
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from hloscope.affine import (
    Const,
    Dim,
    Expr,
    Interval,
    Runtime,
    Var,
    as_sum,
    depends_on_runtime,
    first_dims,
    variables,
)
from hloscope.indexing.base import MapBase
from hloscope.indexing.transform import connected
from hloscope.indexing.variables import Constraint, RuntimeVariable, substituted

# --------------------------------------------------------------------------------------------------
# Counts and examples of the images of all tiles of one part of a map.


MAX_SHAPES: Final = 64
"""Maximum number of different shapes that are listed."""

Tile: TypeAlias = tuple[int, ...]
Element: TypeAlias = tuple[int, ...]


class Shape(NamedTuple):
    """Sizes and strides of the hull of a tile's image.

    The hull is the smallest strided box that contains the image; there is one entry per result of a
    part.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]


class Missing(NamedTuple):
    """An element that is in the hull of a tile's image and not in the image."""

    tile: Tile
    element: Element


class Shared(NamedTuple):
    """An element that two tiles read."""

    tiles: tuple[Tile, Tile]
    element: Element


class Images(Struct, frozen=True):
    """Counts and examples of the elements that the tiles of one part read.

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
        inner: Like `shapes`, for tiles that the end of no dimension cuts.
        some: A tile and an element that it reads.
        missing: An example of a hull larger than its image.
        shared: An example of an element that two tiles read.
        method: Name of the method that counted.
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
        """Do all tiles that lie wholly in the output have the same shape?"""
        return len(self.inner or self.shapes) == 1


def most_frequent(shapes: dict[Shape, int]) -> tuple[tuple[Shape, int], ...]:
    return tuple(sorted(shapes.items(), key=lambda item: (-item[1], item[0])))[:MAX_SHAPES]


# --------------------------------------------------------------------------------------------------
# Decomposition of a map into parts whose results share no variable.
#
# Their images are independent: the image of a tile is the product of the images of the parts, and
# so are its counts.


class Part(Struct, frozen=True):
    """Some results of a map, with all variables and constraints connected to them.

    Results of different parts share no variable.

    Attributes:
        results: Their expressions.
        numbers: Their positions among the results of the map.
        dims: Positions of the dimensions among the variables.
        intervals: The interval of each variable.
        tiles: The tile size along each of `dims`.
        constraints: The constraints on these variables.
        whole: Number of tiles that lie wholly in the output, along each of `dims`.
    """

    results: tuple[Expr, ...]
    numbers: tuple[int, ...]
    dims: tuple[int, ...]
    intervals: dict[Var, Interval]
    tiles: tuple[int, ...]
    constraints: tuple[Constraint, ...]
    whole: tuple[int, ...]

    @property
    def points(self) -> int:
        """Number of points: combinations of values of the variables."""
        return prod([interval.size for interval in self.intervals.values()])

    @property
    def grid(self) -> tuple[tuple[int, int], ...]:
        """The first tile and the number of tiles, for each of `dims`."""
        found = []
        for dim, size in zip(self.dims, self.tiles, strict=True):
            interval = self.intervals[Dim(dim)]
            first = interval.lo // size
            found.append((first, interval.hi // size - first + 1))
        return tuple(found)


NEEDS_VALUES: Final = "what is read depends on values that are read at run time"


def parts_of(
    m: MapBase, tiles: Sequence[int], shape: Sequence[int] | None = None
) -> list[Part] | str:
    """Return the parts of a map that share no variable, or the reason why there are none.

    A value that runtime variables add to a result, equal for all elements, shifts the image as a
    whole. Such variables get their smallest values.

    Args:
        m: A map from the elements of the output.
        tiles: The tile size along each dimension, at least 1.
        shape: Shape of the output, if the map covers only a part of it.

    >>> from hloscope.indexing import IndexingMap
    >>> m = IndexingMap.parse("(d0, d1) -> (d0 / 2, d1, d0 mod 2), domain: d0 in [0, 9], "
    ...                       "d1 in [0, 3]")
    >>> [part.numbers for part in parts_of(m, (4, 4))]
    [(0, 2), (1,)]
    """
    results = _results_at_least_values(m)
    if results is None:
        return NEEDS_VALUES
    extents = [v.interval.hi + 1 for v in m.dims] if shape is None else shape
    if any([not interval.is_finite for interval in m.box.values()]):
        return "a variable has no bounds"
    # Results and constraints are grouped by the variables they share; a dimension without any is a
    # part too.
    items: list[tuple[Expr, int | Interval | None]] = [(e, k) for k, e in enumerate(results)]
    items += [*m.constraints, *[(v, None) for v in first_dims(len(m.dims))]]
    found = []
    for used, members in connected(items, lambda item: variables(item[0])):
        numbers = sorted([k for _, k in members if isinstance(k, int)])
        dims = sorted(v.index for v in used if isinstance(v, Dim))
        box = {v: m.box[v] for v in sorted(used)}
        found.append(
            Part(
                tuple([results[k] for k in numbers]),
                tuple(numbers),
                tuple(dims),
                box,
                tuple([tiles[d] for d in dims]),
                tuple([(e, i) for e, i in members if isinstance(i, Interval)]),
                tuple([extents[d] // tiles[d] for d in dims]),
            )
        )
    return found


Moves: TypeAlias = "tuple[tuple[tuple[RuntimeVariable, int], ...], ...]"


def runtime_shifts(m: MapBase) -> Moves | None:
    """Return the runtime variables that are added to each result, as pairs (variable, factor).

    The result is `None` if runtime variables have any other effect.

    >>> from hloscope.indexing import IndexingMap
    >>> moved = IndexingMap.parse("(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 3], rt0 in [1, 5]")
    >>> [len(added) for added in runtime_shifts(moved)]
    [1]
    """
    if not m.runtime:
        return ((),) * len(m.results)
    for variable in m.runtime:
        if variables(*variable.arguments) or variable.is_condition or variable.is_every:
            return None
    if any([depends_on_runtime(e) for e, _ in m.constraints]):
        return None
    found = []
    for e in m.results:
        terms, _ = as_sum(e)
        added = [(m.runtime[t.index], factor) for t, factor in terms if isinstance(t, Runtime)]
        if any([depends_on_runtime(t) for t, _ in terms if not isinstance(t, Runtime)]):
            return None
        found.append(tuple(added))
    return tuple(found)


def have_equal_offsets(maps: Sequence[MapBase]) -> bool:
    """Do values read at run time shift the images of all maps by the same amounts?"""
    every = [runtime_shifts(m) for m in maps]
    known = [v.source is not None for moves in every for added in moves or () for v, _ in added]
    return all(known) and all([moves == every[0] for moves in every])


def _results_at_least_values(m: MapBase) -> list[Expr] | None:
    """Return the results with each runtime variable replaced by its smallest value.

    The result is `None` if runtime variables do more than shift results.
    """
    if runtime_shifts(m) is None:
        return None
    least: dict[Var, Expr] = {
        Runtime(i): Const(v.interval.lo) for i, v in enumerate(m.runtime) if v.interval.is_finite
    }
    return [*substituted(m.results, least)]


# --------------------------------------------------------------------------------------------------
# Images of tiles under one linear result, as arithmetic progressions without enumeration.


class _Sums(NamedTuple):
    """The set of the sums of some progressions.

    Attributes:
        number: Number of different sums.
        size: Size of the hull: number of multiples of `stride` between the smallest and the largest
            sum.
        stride: Greatest common divisor of the steps.
    """

    number: int
    size: int
    stride: int


def sums_of(terms: Sequence[tuple[int, int]]) -> _Sums | None:
    """Return the set of all `sum(c * k)`, `0 <= k < size`, for terms `(c, size)`, or `None`.

    The set is a progression if and only if no larger `c` leaves a gap beyond the sums of the terms
    with smaller `c`. The sums are all different if every `c` exceeds the sums of the terms with
    smaller `c`. Otherwise the result is `None`.
    """
    moving = sorted([(abs(c), size) for c, size in terms if size > 1 and c])
    if not moving:
        return _Sums(1, 1, 0)
    stride = gcd(*[c for c, _ in moving])
    reach, count, is_dense, is_distinct = 0, 1, True, True
    for c, size in moving:
        is_dense &= c <= reach + stride
        is_distinct &= c > reach
        reach += c * (size - 1)
        count *= size
    size = reach // stride + 1
    if is_dense:
        return _Sums(size, size, stride)
    return _Sums(count, size, stride) if is_distinct else None


def _linear(part: Part) -> list[tuple[Var, int]] | None:
    """Return the factor of each variable in the only result; `None` if the part has another form.

    The other forms have several results, constraints, or a result that is not linear.
    """
    if len(part.results) > 1 or part.constraints:
        return None
    (e,) = part.results or (Const(0),)
    terms, _ = as_sum(e)
    found = {t: c for t, c in terms if t in part.intervals}
    if len(found) != len(terms):
        return None
    return [(v, found.get(v, 0)) for v in part.intervals]


class _TilesOfLength(NamedTuple):
    """Tiles along one dimension from which equally many indices are read.

    Attributes:
        length: Number of indices that are read from each of these tiles.
        is_whole: Whether the end of the dimension does not cut the tiles.
        number: Number of these tiles.
        first: Number of the first of them.
    """

    length: int
    is_whole: bool
    number: int
    first: int


def _lengths(part: Part, dim: int, tile: int, whole: int) -> list[_TilesOfLength]:
    """Return the tiles along a dimension, grouped by length: whole ones and cut ones.

    Args:
        part: The part.
        dim: Number of the dimension.
        tile: Tile size.
        whole: Number of tiles that lie wholly in the output.
    """
    interval = part.intervals[Dim(dim)]
    first, last = interval.lo // tile, interval.hi // tile
    found: dict[tuple[int, bool], _TilesOfLength] = {}
    ends = dict.fromkeys([first, last])
    if last - first > 1:
        found[tile, True] = _TilesOfLength(tile, True, last - first - 1, first + 1)
    for at in ends:
        length = min(interval.hi, at * tile + tile - 1) - max(interval.lo, at * tile) + 1
        key = length, at < whole
        known = found.get(key, _TilesOfLength(*key, 0, at))
        found[key] = _TilesOfLength(*key, known.number + 1, min(known.first, at))
    return [*found.values()]


def of_progression(part: Part) -> Images | None:
    """Return the counts of the images under one linear result without constraints.

    The result is `None` if the part has another form, or the numbers of sums are not known from
    their steps.
    """
    linear = _linear(part)
    if linear is None or part.points == 0:
        return None
    factor = dict(linear)
    # All tiles of one length have equal images up to a shift, so one of each combination of lengths
    # is counted.
    sides = zip(part.dims, part.tiles, part.whole, strict=True)
    along = [_lengths(part, *side) for side in sides]
    ranges = [(c, part.intervals[v].size) for v, c in linear if not isinstance(v, Dim)]
    # The union is the image of the whole output, itself a sum of progressions.
    union = sums_of([(c, part.intervals[v].size) for v, c in linear])
    if union is None:
        return None
    counts: list[_Kind] = []
    for kind in product(*along):
        terms = [(factor[Dim(d)], k.length) for d, k in zip(part.dims, kind, strict=True)]
        reach = sums_of(terms + ranges)
        if reach is None:
            return None
        number, first = prod([k.number for k in kind]), tuple([k.first for k in kind])
        counts.append(_Kind(reach, number, first, all([k.is_whole for k in kind])))
    return _images_of_kinds(part, linear, counts, union.number)


class _Kind(NamedTuple):
    """Tiles whose images are equal up to a shift.

    Attributes:
        reach: The image of one tile.
        number: Number of these tiles.
        first: The first of them.
        is_whole: Whether the output contains them completely.
    """

    reach: _Sums
    number: int
    first: Tile
    is_whole: bool


def _images_of_kinds(
    part: Part,
    linear: Sequence[tuple[Var, int]],
    kinds: Sequence[_Kind],
    union: int,
) -> Images | None:
    """Return the counts of the images of tiles, given the tiles by kinds of equal images.

    Args:
        part: A part with one linear result.
        linear: The factor of each variable in the result.
        kinds: The kinds of tiles.
        union: Number of different elements that all tiles read.
    """
    total = sum([reach.number * n for reach, n, *_ in kinds])
    missing = shared = None
    for reach, _, tile, _ in kinds:
        if reach.number < reach.size and missing is None:
            missing = _missing_of(part, linear, tile, reach)
    if total > union:
        shared = _shared_of(part, linear)
    shapes: dict[Shape, int] = {}
    inner: dict[Shape, int] = {}
    for reach, n, _, is_whole in kinds:
        shape = Shape((reach.size,), (reach.stride,)) if part.results else Shape((), ())
        shapes[shape] = shapes.get(shape, 0) + n
        if is_whole:
            inner[shape] = inner.get(shape, 0) + n
    tile, tiles = kinds[0].first, sum([kind.number for kind in kinds])
    # If no element is counted twice, each is read once; otherwise the number is not known from the
    # sums.
    once = union if total == union else None if part.results else 0
    return Images(
        tiles=tiles,
        whole=sum([n for reach, n, *_ in kinds if reach.number == reach.size]),
        total=total,
        hull=sum([reach.size * n for reach, n, *_ in kinds]),
        union=union,
        once=once,
        least=min([kind.reach.number for kind in kinds]),
        most=max([kind.reach.number for kind in kinds]),
        shapes=most_frequent(shapes),
        inner=most_frequent(inner),
        some=(tile, (_lowest(part, linear, tile),) if part.results else ()),
        missing=missing,
        shared=shared,
    )


def _spans(
    part: Part, linear: Sequence[tuple[Var, int]], tile: Tile
) -> Iterator[tuple[int, int, int]]:
    """Yield, for each variable, its factor, and its first and last value in a tile.

    `linear` has the factor of each variable in the result of the part.
    """
    at = dict(zip(part.dims, zip(tile, part.tiles, strict=True), strict=True))
    for v, c in linear:
        lo, hi = part.intervals[v].lo, part.intervals[v].hi
        if isinstance(v, Dim):
            number, size = at[v.index]
            lo, hi = max(lo, number * size), min(hi, number * size + size - 1)
        yield c, lo, hi


def _const(part: Part) -> int:
    return as_sum(part.results[0])[1] if part.results else 0


def _lowest(part: Part, linear: Sequence[tuple[Var, int]], tile: Tile) -> int:
    """Return the smallest element that a tile reads.

    `linear` has the factor of each variable in the result of the part.
    """
    return _const(part) + sum(min(c * lo, c * hi) for c, lo, hi in _spans(part, linear, tile))


def _missing_of(part: Part, linear: Sequence[tuple[Var, int]], tile: Tile, reach: _Sums) -> Missing:
    """Return the smallest element of a tile's hull that is not in its image.

    `linear` has the factor of each variable in the result of the part, and `reach` is the image.
    """
    lowest, dense = _lowest(part, linear, tile), 0
    # Strides in ascending order: up to the first one that leaves a gap, all sums are present.
    spans = sorted((abs(c), hi - lo) for c, lo, hi in _spans(part, linear, tile) if c and hi > lo)
    for c, steps in spans:
        if c > dense + reach.stride:
            break
        dense += c * steps
    return Missing(tile, (lowest + dense + reach.stride,))


def _shared_of(part: Part, linear: Sequence[tuple[Var, int]]) -> Shared | None:
    """Return two nearby tiles and an element that both read; `None` if none is found.

    Only tiles near the first one are searched. `linear` has the factor of each variable in the
    result of the part.
    """
    starts = [first for first, _ in part.grid]
    origin = tuple(starts)
    mine = _elements_of_tile(part, linear, origin)
    for k, (_, count) in enumerate(part.grid):
        for step in range(1, min(count, 4)):
            other = (*origin[:k], origin[k] + step, *origin[k + 1 :])
            both = mine & _elements_of_tile(part, linear, other)
            if both:
                return Shared((origin, other), (min(both),) if part.results else ())
    return None


def _elements_of_tile(part: Part, linear: Sequence[tuple[Var, int]], tile: Tile) -> set[int]:
    """Return the elements that a tile reads, or only some of them if they are many.

    `linear` has the factor of each variable in the result of the part.
    """
    found = {_const(part)}
    for c, lo, hi in sorted(_spans(part, linear, tile), key=lambda s: abs(s[0])):
        values = range(lo, hi + 1)
        if not c:
            continue
        if len(found) * len(values) > 1 << 14:
            values = range(lo, lo + max((1 << 14) // len(found), 1))
        found = {x + c * v for x in found for v in values}
    return found
