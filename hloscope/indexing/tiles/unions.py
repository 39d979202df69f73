"""Unions of images: equal and nested images are detected before anything is enumerated.

Maps are compared part by part (`parts`). The image of a tile is the product of its parts' images,
so an image lies in another one if each part's does. Maps that add nothing are dropped. Parts in
which all remaining maps agree factor out of the union: (X x Y1) + (X x Y2) = X x (Y1 + Y2). The
rest is one part to enumerate.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple, TypeAlias

from hloscope.affine import Dim, Expr, Interval, Range, Var, as_sum
from hloscope.indexing.tiles.parts import Part
from hloscope.indexing.variables import substituted, substituted_constraints

Parts: TypeAlias = Sequence[Part]


def without_nested(every: Sequence[Parts]) -> list[Parts]:
    """Return the maps that remain after dropping those whose images lie in another map's.

    Each map is given by its parts, all with the same tile sizes.
    """
    kept: list[Parts] = []
    for parts in every:
        if any([lies_in(parts, other) for other in kept]):
            continue
        kept = [other for other in kept if not lies_in(other, parts)]
        kept.append(parts)
    return kept


def lies_in(inner: Parts, outer: Parts) -> bool:
    """Is the image of each tile under `inner` proved to lie in its image under `outer`?"""
    sides = {v: i for part in inner for v, i in part.intervals.items() if isinstance(v, Dim)}
    known = {part.numbers: part for part in inner if part.numbers}
    for part in outer:
        if not part.numbers:  # it says for which indices anything is read
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
    """Return a key that parts with equal images share; names of ranges do not count."""
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
    """Return the values of a part as a sum.

    `None` if it is not one linear result without constraints.

    Dimensions that are not in `fixed` count as part of the progression, with all their tiles
    together.
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
    stride, reach, is_dense = gcd(*[c for c, _ in steps]), 0, True
    for c, size in sorted(steps):  # no gap: each larger step begins where the smaller ones end
        is_dense &= c <= reach + stride
        reach += c * (size - 1)
    return _Sum(moving, least, most, stride, is_dense)


def _is_within(inner: Part, outer: Part, sides: dict[Dim, Interval]) -> bool:
    """Is the image of each tile under one linear result inside the image under the other?"""
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


def factored(every: Sequence[Parts]) -> tuple[list[Part], list[Part]]:
    """Return the parts in which all maps agree, and for each map the rest of it as one part."""
    first, *others = every
    shared = [
        part
        for part in first
        if all([any([_key(part) == _key(other) for other in parts]) for parts in others])
    ]
    keys = [_key(part) for part in shared]
    rest = [_as_one_part([part for part in parts if _key(part) not in keys]) for parts in every]
    return shared, rest


def _as_one_part(parts: Parts) -> Part:
    """Return several parts as one part."""
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
