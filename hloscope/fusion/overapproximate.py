"""Fewer and simpler maps for the same or more elements, where there is too much to carry along."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec.structs import replace

from hloscope import indexing
from hloscope.affine import (
    Dim,
    Expr,
    Interval,
    Range,
    Var,
    as_sum,
    from_terms,
    substitute,
    variables,
)
from hloscope.indexing import (
    Access,
    Accesses,
    Constraint,
    IndexingMap,
    Precision,
    Variable,
)
from hloscope.ir import TensorType, Type

if TYPE_CHECKING:
    from hloscope.indexing import Route

MAX_SIZE: Final = 24
"""A map of more range variables, runtime variables and constraints is made simpler."""
MAX_WAYS: Final = 8
"""On devices reached through more different groups, nothing is said."""
TOO_MANY: Final = f"more than {MAX_SIZE} conditions on the way"


def join_reasons(*reasons: str) -> str:
    """The distinct reasons, in order, in one text."""
    parts = dict.fromkeys(part for reason in reasons for part in reason.split("; ") if part)
    return "; ".join(parts)


def size(map: IndexingMap) -> int:
    """How much there is to know about a map besides its dimensions and results."""
    return len(map.ranges) + len(map.runtime) + len(map.constraints)


def simpler(access: Access, type: Type) -> Access:
    """The access, or a superset of it where its map is too large to be of use.

    Results that are more than a sum of dimensions, or a range variable, run freely then.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> window = IndexingMap.parse("(d0, d1)[s0] -> (d0, d1 * 2 + s0), domain: d0 in [0, 3], "
    ...                            "d1 in [0, 4], s0 in [0, 2], d1 * 2 + s0 in [1, 9]")
    >>> print(relaxed(window, (4, 10)))
    (d0, d1)[s0] -> (d0, s0), domain: d0 in [0, 3], d1 in [0, 4], s0 in [1, 9]
    """
    map = access.map
    if map is None or size(map) <= MAX_SIZE or access.replica is not None:
        return access
    if not isinstance(type, TensorType) or not type.is_static:
        return access
    smaller = relaxed(map, type.shape)
    if _loses_nothing(map):
        return replace(access, map=smaller)
    return Access(smaller, Precision.OVER, join_reasons(access.reason, TOO_MANY))


def _loses_nothing(map: IndexingMap) -> bool:
    """Does `relaxed` keep all results and constraints, and leave out only what decides nothing?

    >>> conditions = ", ".join(f"d0 mod {k} in [0, {k - 2}]" for k in range(9, 40))
    >>> text = f"(d0)[s0] -> (d0, s0), domain: d0 in [0, 99], s0 in [0, 4], {conditions}"
    >>> _loses_nothing(IndexingMap.parse(text))
    True
    """
    dims: set[Var] = {Dim(i) for i in range(len(map.dims))}
    free: set[Var] = {e for e in map.results if isinstance(e, Range)}
    kept = dims | free
    if not all(e in free or variables(e) <= dims for e in map.results):
        return False
    others = [v.interval for i, v in enumerate(map.ranges) if Range(i) not in kept]
    return (
        all(variables(e) <= kept for e, _ in map.constraints)
        and all(interval.size for interval in others)
        and all(v.interval == v.values for v in map.runtime)
    )


def relaxed(map: IndexingMap, sizes: tuple[int, ...]) -> IndexingMap:
    """A map that touches at least what `map` does, with one range variable per result at most."""
    ranges: list[Variable] = []
    new: dict[Var, Expr] = {}
    results: list[Expr] = []
    for e, size in zip(map.results, sizes, strict=True):
        used = variables(e)
        if all(isinstance(v, Dim) for v in used):
            results.append(e)
        elif isinstance(e, Range) and e in new:
            results.append(new[e])
        else:
            results.append(Range(len(ranges)))
            if isinstance(e, Range):
                new[e] = results[-1]
            ranges.append(Variable(map.range_of(e) & Interval(0, size - 1)))
    kept = {*new, *[Dim(i) for i in range(len(map.dims))]}
    constraints = [
        (substitute(e, new), interval) for e, interval in map.constraints if variables(e) <= kept
    ]
    return IndexingMap(map.dims, ranges, (), results, constraints)


def contains_all(accesses: Iterable[Access], type: Type) -> Accesses | None:
    """One of the accesses that touches the whole tensor, and those that say nothing, if any."""
    if not isinstance(type, TensorType) or not type.is_static:
        return None
    kept = tuple(accesses)
    for access in kept:
        if access.map is None or access.replica is not None:
            continue
        if not covers_everything(access.map, type.shape):
            continue
        if access.map.dims == dims_hull([a.map for a in kept if a.map is not None]):
            return (access, *[a for a in kept if a.map is None or a.replica is not None])
    return None


def without_contained(accesses: Sequence[Access], type: Type) -> list[Access]:
    """The accesses without those that touch only what another one touches as well; same union.

    An exact one goes where one that may touch too much contains it: so does the union.

    Found are those inside a map whose results are free range variables over a whole dimension, or
    the same expressions of dimensions: rows, slices, everything.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> texts = ["(d0)[s0] -> (d0, s0), domain: d0 in [0, 3], s0 in [0, 4]",
    ...          "(d0)[s0] -> (d0, s0 * 2), domain: d0 in [0, 3], s0 in [0, 1]",
    ...          "(d0) -> (0, d0), domain: d0 in [0, 3]"]
    >>> maps = [Access(IndexingMap.parse(text)) for text in texts]
    >>> [maps.index(kept) for kept in without_contained(maps, parse_type("f32[4,5]"))]
    [0, 2]
    """
    if not isinstance(type, TensorType) or not type.is_static:
        return list(accesses)
    wide = [(a, fixed) for a in accesses if (fixed := _fixed_results(a, type.shape)) is not None]
    wide.sort(key=lambda pair: (len(pair[1]), pair[0].precision is not Precision.EXACT))
    kept: Kept = {}
    covers: set[int] = set()
    for access, fixed in wide:  # those that touch more come first, of equals the exact
        if not _is_inside_one(access, kept):
            alike = kept.setdefault(tuple(fixed), {})
            alike.setdefault(tuple(fixed.values()), []).append(access)
            covers.add(id(access))
    return [a for a in accesses if id(a) in covers or not _is_inside_one(a, kept)]


Kept: TypeAlias = dict[tuple[int, ...], dict[tuple[Expr, ...], list[Access]]]
"""Accesses that touch all of a tensor but for some results, by which these are and what."""


def _fixed_results(access: Access, sizes: tuple[int, ...]) -> Mapping[int, Expr] | None:
    """The results that are no free range over their dimension; `None` if others are not free."""
    map = access.map
    if map is None or map.constraints or map.runtime or access.replica is not None:
        return None
    fixed: dict[int, Expr] = {}
    seen: set[Expr] = set()
    for k, (result, size) in enumerate(zip(map.results, sizes, strict=True)):
        if size == 1:
            continue
        if isinstance(result, Range) and result not in seen:
            if map.ranges[result.index].interval != Interval(0, size - 1):
                return None
            seen.add(result)
        elif all(isinstance(v, Dim) for v in variables(result)):
            fixed[k] = result
        else:
            return None
    return fixed


def _is_inside_one(access: Access, kept: Kept) -> bool:
    """Does one of those kept touch all that `access` does?"""
    map = access.map
    if map is None or access.replica is not None:
        return False
    for places, alike in kept.items():
        others = alike.get(tuple([map.results[k] for k in places]), ())
        if any([other.map is not None and _is_domain_of(other.map, map) for other in others]):
            return True
    return False


def _is_domain_of(around: IndexingMap, map: IndexingMap) -> bool:
    """Are the indices of `map` among those of the other, as far as bounds say?"""
    for mine, theirs in zip(map.dims, around.dims, strict=True):
        if not theirs.interval.contains(mine.interval):
            return False
    return True


def with_runs(accesses: Sequence[Access]) -> list[Access]:
    """The same union, where maps that differ by consecutive constants of a result become one.

    As `d0`, `d0 + 1`, … that chains of shifted slices read: one range variable says the same.

    >>> texts = [f"(d0) -> (d0 + {k}), domain: d0 in [0, 3]" for k in (2, 0, 1, 9)]
    >>> for access in with_runs([Access(IndexingMap.parse(text)) for text in texts]):
    ...     print(access.map)
    (d0)[s0] -> (d0 + s0), domain: d0 in [0, 3], s0 in [0, 2]
    (d0) -> (d0 + 9), domain: d0 in [0, 3]
    """
    found = list(accesses)
    for k in range(max([len(a.map.results) for a in found if a.map is not None], default=0)):
        runs: dict[object, list[tuple[Interval, Access]]] = {}
        others: list[Access] = []
        for access in found:
            part = _run_of(access, k)
            if part is None:
                others.append(access)
            else:
                runs.setdefault(part[0], []).append((part[1], access))
        found = [x for some in runs.values() for x in _joined_runs(some, k)] + others
    return found


def _run_of(access: Access, k: int) -> tuple[object, Interval] | None:
    """All of an access but what is added to dimensions in result `k`, and the values of that."""
    map = access.map
    if map is None or map.constraints or map.runtime or access.replica is not None:
        return None
    if k >= len(map.results):
        return None
    parts = _split(map, k)
    if parts is None:
        return None
    rest, base, values = parts
    return (access.precision, access.reason, rest, base), values


def _split(map: IndexingMap, k: int) -> tuple[IndexingMap, Expr, Interval] | None:
    """The map without result `k`, the sum of dimensions in that, and the values added to it."""
    terms, const = as_sum(map.results[k])
    own = [(t, c) for t, c in terms if isinstance(t, Range)]
    base = [(t, c) for t, c in terms if not isinstance(t, Range)]
    if len(own) > 1 or any([not isinstance(v, Dim) for t, _ in base for v in variables(t)]):
        return None
    others = [e for i, e in enumerate(map.results) if i != k]
    values = Interval(const, const)
    ranges, new = map.ranges, dict[Var, Expr]()
    if own:
        (mine, factor), number = own[0], own[0][0].index
        if factor != 1 or mine in variables(*others):
            return None
        side = ranges[number].interval
        values = Interval(side.lo + const, side.hi + const)
        ranges = (*ranges[:number], *ranges[number + 1 :])
        new = {Range(i): Range(i - 1) for i in range(number + 1, len(map.ranges))}
    rest = IndexingMap(map.dims, ranges, (), [substitute(e, new) for e in others], ())
    return rest, from_terms(base, 0), values


def _joined_runs(some: list[tuple[Interval, Access]], k: int) -> Iterator[Access]:
    """Accesses that are alike but for the values added in result `k`: one for each run of these."""
    some.sort(key=lambda pair: (pair[0].lo, pair[0].hi))
    values, first = some[0]
    count = 1
    for side, access in [*some[1:], (None, first)]:
        if side is not None and side.lo <= values.hi + 1:
            values = Interval(values.lo, max(values.hi, side.hi))
            count += 1
            continue
        yield first if count == 1 else _with_values(first, k, values)
        if side is not None:
            values, first, count = side, access, 1


def _with_values(access: Access, k: int, values: Interval) -> Access:
    """The access with a range variable for what is added in result `k`."""
    assert access.map is not None
    parts = _split(access.map, k)
    assert parts is not None
    rest, base, _ = parts
    results = list(rest.results)
    results.insert(k, base + Range(len(rest.ranges)))
    map = IndexingMap(rest.dims, (*rest.ranges, Variable(values)), (), results, ())
    return replace(access, map=map.simplify())


def dims_hull(maps: Sequence[IndexingMap]) -> tuple[Variable, ...]:
    """For each dimension the smallest interval that holds those of all the maps."""
    if not maps:
        return ()
    columns = zip(*[m.dims for m in maps], strict=True)
    return tuple([Variable(reduce(or_, [v.interval for v in column])) for column in columns])


def hull(accesses: Iterable[Access], type: Type, reason: str) -> Accesses:
    """One superset of all the accesses on each device, and those that say nothing, if any.

    Where all maps have the same result, a sum of dimensions, it stays; other results run freely
    between the bounds of all the maps.
    """
    kept = tuple(accesses)
    reasons = join_reasons(*[a.reason for a in kept], reason)
    by_device: dict[Route, list[Access]] = {}
    for access in kept:
        if access.map is not None:
            shorter = indexing.shortest(access)
            by_device.setdefault(shorter.via, []).append(shorter)
    if len(by_device) > MAX_WAYS:
        return (Access.unknown(join_reasons(reasons, f"in more than {MAX_WAYS} groups")),)
    if not isinstance(type, TensorType) or not type.is_static or not by_device:
        return (Access.unknown(reasons),)
    found = [
        indexing.parted(
            Access(None, Precision.OVER, reasons), _box(some, type.shape), type.rank, via
        )
        for via, some in by_device.items()
    ]
    return (*found, *[a for a in kept if a.map is None])


def _box(accesses: Sequence[Access], shape: tuple[int, ...]) -> IndexingMap:
    """One map, of elements and devices, that contains those of the accesses."""
    maps = [indexing.joined(access) for access in accesses]
    ranges: list[Variable] = []
    results: list[Expr] = []
    inside: list[Constraint] = []
    for k in range(len(maps[0].results)):
        limit = Interval(0, shape[k] - 1) if k < len(shape) else Interval.EVERYTHING
        column = {m.results[k] for m in maps}
        if len(column) == 1 and all(isinstance(v, Dim) for e in column for v in variables(e)):
            results += column
            inside += [(e, limit) for e in column]
        else:
            bounds = reduce(or_, [m.range_of(m.results[k]) for m in maps])
            results.append(Range(len(ranges)))
            ranges.append(Variable(bounds & limit))
    return IndexingMap(dims_hull(maps), ranges, (), results, inside).simplify()


def covers_everything(map: IndexingMap, sizes: tuple[int, ...]) -> bool:
    """Does every index touch all elements of a tensor of these sizes?  False if not sure.

    >>> row = IndexingMap.parse("(d0)[s0] -> (d0, s0), domain: d0 in [0, 3], s0 in [0, 4]")
    >>> covers_everything(row, (4, 5)), covers_everything(row.sub_map([1]), (5,))
    (False, True)
    """
    if map.constraints or map.runtime or len(map.results) != len(sizes):
        return False
    seen: set[Expr] = set()
    for result, size in zip(map.results, sizes, strict=True):
        if size == 1:
            continue
        if not isinstance(result, Range) or result in seen:
            return False
        seen.add(result)
        if map.ranges[result.index].interval != Interval(0, size - 1):
            return False
    return True
