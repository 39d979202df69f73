"""Images of tiles under one linear result, as arithmetic progressions without enumeration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import gcd, prod
from typing import NamedTuple

from hloscope.affine import Const, Dim, Sum, Var, as_sum
from hloscope.indexing.tiles.images import Images, Missing, Shape, Shared, Tile, most_frequent
from hloscope.indexing.tiles.parts import Part


class _Reach(NamedTuple):
    """A sum of progressions that begin at 0.

    Its number of values, and the size and stride of its hull.
    """

    number: int
    size: int
    stride: int


def _reach(terms: Sequence[tuple[int, int]]) -> _Reach | None:
    """Return the set of all `sum(c * k)`, `0 <= k < size`, for terms `(c, size)`.

    `None` if undecided.

    The set is a progression if and only if no larger stride leaves a gap beyond the smaller ones.
    The sums are all different if and only if every stride exceeds the reach of the smaller ones.
    """
    moving = sorted([(abs(c), size) for c, size in terms if size > 1 and c])
    if not moving:
        return _Reach(1, 1, 0)
    stride = gcd(*[c for c, _ in moving])
    reach, count, is_dense, is_distinct = 0, 1, True, True
    for c, size in moving:
        is_dense &= c <= reach + stride
        is_distinct &= c > reach
        reach += c * (size - 1)
        count *= size
    size = reach // stride + 1
    if is_dense:
        return _Reach(size, size, stride)
    return _Reach(count, size, stride) if is_distinct else None


def _linear(part: Part) -> list[tuple[Var, int]] | None:
    if len(part.results) > 1 or part.constraints:
        return None
    (e,) = part.results or (Const(0),)
    terms, _ = as_sum(e)
    found = {t: c for t, c in terms if t in part.intervals}
    if len(found) != len(terms):
        return None
    return [(v, found.get(v, 0)) for v in part.intervals]


class _TilesOfLength(NamedTuple):
    """Tiles of one length along one dimension: their number and the first one.

    Whole tiles lie wholly in the output, even if less of it is read.

    Whole ones lie wholly in the output, even if less of it is read.
    """

    length: int
    is_whole: bool
    number: int
    first: int


def _lengths(part: Part, dim: int, tile: int, whole: int) -> list[_TilesOfLength]:
    """Return the tiles along a dimension by length: whole ones, and those cut by the ends."""
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
    """Count the images under one linear result without constraints.

    `None` if that does not apply.
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
    union = _reach([(c, part.intervals[v].size) for v, c in linear])
    if union is None:
        return None
    counts: list[_Kind] = []
    for kind in product(*along):
        terms = [(factor[Dim(d)], k.length) for d, k in zip(part.dims, kind, strict=True)]
        reach = _reach(terms + ranges)
        if reach is None:
            return None
        number, first = prod([k.number for k in kind]), tuple([k.first for k in kind])
        counts.append(_Kind(reach, number, first, all([k.is_whole for k in kind])))
    return _images_of_kinds(part, linear, counts, union.number)


class _Kind(NamedTuple):
    """Tiles with the same reach: their number, the first one, and whether they are whole."""

    reach: _Reach
    number: int
    first: Tile
    is_whole: bool


def _images_of_kinds(
    part: Part,
    linear: Sequence[tuple[Var, int]],
    kinds: Sequence[_Kind],
    union: int,
) -> Images | None:
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
    """Yield, for each variable, its factor and its first and last value in a tile."""
    at = dict(zip(part.dims, zip(tile, part.tiles, strict=True), strict=True))
    for v, c in linear:
        lo, hi = part.intervals[v].lo, part.intervals[v].hi
        if isinstance(v, Dim):
            number, size = at[v.index]
            lo, hi = max(lo, number * size), min(hi, number * size + size - 1)
        yield c, lo, hi


def _const(part: Part) -> int:
    e = part.results[0] if part.results else Const(0)
    return e.const if isinstance(e, Sum) else e.value if isinstance(e, Const) else 0


def _lowest(part: Part, linear: Sequence[tuple[Var, int]], tile: Tile) -> int:
    return _const(part) + sum(min(c * lo, c * hi) for c, lo, hi in _spans(part, linear, tile))


def _missing_of(
    part: Part, linear: Sequence[tuple[Var, int]], tile: Tile, reach: _Reach
) -> Missing:
    """Return the first element of the hull after the gap-free run from its beginning."""
    lowest, dense = _lowest(part, linear, tile), 0
    # Strides in ascending order: up to the first one that leaves a gap, all sums are present.
    spans = sorted((abs(c), hi - lo) for c, lo, hi in _spans(part, linear, tile) if c and hi > lo)
    for c, steps in spans:
        if c > dense + reach.stride:
            break
        dense += c * steps
    return Missing(tile, (lowest + dense + reach.stride,))


def _shared_of(part: Part, linear: Sequence[tuple[Var, int]]) -> Shared | None:
    """Return two nearby tiles that share an element, searched at the first tile.

    `None` if not found.
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
    """Return elements of a tile; all of them if it is small."""
    found = {_const(part)}
    for c, lo, hi in sorted(_spans(part, linear, tile), key=lambda s: abs(s[0])):
        values = range(lo, hi + 1)
        if not c:
            continue
        if len(found) * len(values) > 1 << 14:
            values = range(lo, lo + max((1 << 14) // len(found), 1))
        found = {x + c * v for x in found for v in values}
    return found
