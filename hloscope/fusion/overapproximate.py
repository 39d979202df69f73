"""Supersets of maps that are too large: fewer and simpler maps that cover all elements."""

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
from hloscope.indexing import Access, Accesses, Constraint, IndexingMap, Precision, Variable
from hloscope.ir import TensorType, Type

if TYPE_CHECKING:
    from hloscope.indexing import Route

MAX_SIZE: Final = 24
"""Maximum number of range variables, runtime variables and constraints of a map, together."""
MAX_ROUTES: Final = 8
"""Maximum number of routes between devices in one result; with more the result is unknown."""
TOO_MANY: Final = f"more than {MAX_SIZE} conditions on the way"


def join_reasons(*reasons: str) -> str:
    """Return the distinct reasons, in order, separated by `; `."""
    parts = dict.fromkeys(part for reason in reasons for part in reason.split("; ") if part)
    return "; ".join(parts)


def is_large(access: Access) -> bool:
    """Does the map have more than `MAX_SIZE` range and runtime variables and constraints?"""
    map = access.map
    return map is not None and len(map.ranges) + len(map.runtime) + len(map.constraints) > MAX_SIZE


def simpler(access: Access, type: Type) -> Access:
    """Return the access itself, or a superset if its map is large (see `is_large`).

    The superset has the map that `relaxed` returns. A result of the map that depends on dimensions
    only, or is one range variable, stays. Any other result takes every value within its bounds.
    `type` is the type of the accessed tensor.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> window = IndexingMap.parse("(d0, d1)[s0] -> (d0, d1 * 2 + s0), domain: d0 in [0, 3], "
    ...                            "d1 in [0, 4], s0 in [0, 2], d1 * 2 + s0 in [1, 9]")
    >>> print(relaxed(window, (4, 10)))
    (d0, d1)[s0] -> (d0, s0), domain: d0 in [0, 3], d1 in [0, 4], s0 in [1, 9]
    """
    map = access.map
    if map is None or not is_large(access) or access.replica is not None:
        return access
    if not isinstance(type, TensorType) or not type.is_static:
        return access
    smaller = relaxed(map, type.shape)
    if _keeps_relation(map):
        return replace(access, map=smaller)
    return Access(smaller, Precision.OVER, join_reasons(access.reason, TOO_MANY))


def _keeps_relation(map: IndexingMap) -> bool:
    """Does `relaxed` keep the relation: all results, and every constraint that restricts it?

    >>> conditions = ", ".join(f"d0 mod {k} in [0, {k - 2}]" for k in range(9, 40))
    >>> text = f"(d0)[s0] -> (d0, s0), domain: d0 in [0, 99], s0 in [0, 4], {conditions}"
    >>> _keeps_relation(IndexingMap.parse(text))
    True
    """
    dims: set[Var] = {Dim(i) for i in range(len(map.dims))}
    free: set[Var] = {e for e in map.results if isinstance(e, Range)}
    kept = dims | free
    if not all(e in free or variables(e) <= dims for e in map.results):
        return False
    others = [v.interval for i, v in enumerate(map.ranges) if Range(i) not in kept]
    # A dropped variable restricts nothing if it is in no constraint or result and has a value.
    return (
        all(variables(e) <= kept for e, _ in map.constraints)
        and all(interval.size for interval in others)
        and all(v.interval == v.values for v in map.runtime)
    )


def relaxed(map: IndexingMap, sizes: tuple[int, ...]) -> IndexingMap:
    """Return a superset of `map` with at most one range variable per result.

    A result that depends on dimensions only stays. Any other result takes every value within its
    bounds and below the size in `sizes`.
    """
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
    # Constraints over variables that no longer exist are dropped, which only enlarges the map.
    kept = {*new, *[Dim(i) for i in range(len(map.dims))]}
    constraints = [
        (substitute(e, new), interval) for e, interval in map.constraints if variables(e) <= kept
    ]
    return IndexingMap(map.dims, ranges, (), results, constraints)


def covering_all(accesses: Iterable[Access], type: Type) -> Accesses | None:
    """Return an access to the whole tensor, and the accesses that it does not include.

    These have no map, or lead to other devices.  The result is `None` if no access covers the whole
    tensor.
    """
    if not isinstance(type, TensorType) or not type.is_static:
        return None
    kept = tuple(accesses)
    for access in kept:
        if access.map is None or access.replica is not None:
            continue
        if not covers_everything(access.map, type.shape):
            continue
        # The access has to cover the tensor from every index from which another access starts.
        if access.map.dims == dims_hull([a.map for a in kept if a.map is not None]):
            return (access, *[a for a in kept if a.map is None or a.replica is not None])
    return None


def without_contained(accesses: Sequence[Access], type: Type) -> list[Access]:
    """Return the accesses without those that are contained in another one.

    The union stays the same. An exact access inside an overapproximated one is dropped too.
    Containment is recognised in maps whose results are unconstrained range variables over complete
    dimensions, or the same expressions of dimensions: rows, slices, whole tensors.

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
    wide = [
        (a, fixed)
        for a in accesses
        if a.map is not None and a.replica is None
        if (fixed := _fixed_results(a.map, type.shape)) is not None
    ]
    wide.sort(key=lambda pair: (len(pair[1]), pair[0].precision is not Precision.EXACT))
    kept: ByFixedResults = {}
    covers: set[int] = set()
    # Larger accesses first, because an access can only be inside one with fewer fixed results; of
    # equal ones the exact first, so that the exact one stays.
    for access, fixed in wide:
        if not _is_inside_one(access, kept):
            alike = kept.setdefault(tuple(fixed), {})
            alike.setdefault(tuple(fixed.values()), []).append(access)
            covers.add(id(access))
    return [a for a in accesses if id(a) in covers or not _is_inside_one(a, kept)]


ByFixedResults: TypeAlias = dict[tuple[int, ...], dict[tuple[Expr, ...], list[Access]]]
"""Accesses by the numbers and the expressions of their fixed results.

A fixed result is a function of the dimensions; in all other results they cover the dimension
completely.
"""


def _fixed_results(map: IndexingMap, sizes: tuple[int, ...]) -> Mapping[int, Expr] | None:
    """Return the results that are functions of the dimensions, by result number.

    All other results are distinct, unconstrained range variables over whole dimensions, of the
    sizes `sizes`. The result is `None` for other maps.
    """
    if map.constraints or map.runtime:
        return None
    fixed: dict[int, Expr] = {}
    seen: set[Expr] = set()
    for k, (result, size) in enumerate(zip(map.results, sizes, strict=True)):
        # The only index is covered by any result.
        if size == 1:
            continue
        # A range variable used twice ties two results together, so they are not free.
        if isinstance(result, Range) and result not in seen:
            if map.ranges[result.index].interval != Interval(0, size - 1):
                return None
            seen.add(result)
        elif all(isinstance(v, Dim) for v in variables(result)):
            fixed[k] = result
        else:
            return None
    return fixed


def _is_inside_one(access: Access, known: ByFixedResults) -> bool:
    """Is the access contained in one of the accesses of `known`?

    Only maps whose results are fixed or complete dimensions are recognised, see `ByFixedResults`.
    """
    map = access.map
    if map is None or access.replica is not None:
        return False
    for places, alike in known.items():
        others = alike.get(tuple([map.results[k] for k in places]), ())
        if any([other.map is not None and _is_domain_of(other.map, map) for other in others]):
            return True
    return False


def _is_domain_of(around: IndexingMap, map: IndexingMap) -> bool:
    """Do the intervals of the dimensions of `around` contain those of `map`?

    Results are not compared.
    """
    pairs = zip(around.dims, map.dims, strict=True)
    return all([theirs.interval.contains(mine.interval) for theirs, mine in pairs])


def with_runs(accesses: Sequence[Access]) -> list[Access]:
    """Return the accesses, with maps merged that differ by consecutive constants in one result.

    The union is the same. Chains of shifted slices read `d0`, `d0 + 1`, …: one range variable
    covers them.

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
    """Return a pair that describes result `k` as a constant added to other terms, or `None`.

    The first item is a key: the access without these constants. The second item is the interval of
    the constants. The result is `None` if result `k` is not a sum of dimensions and a free range
    variable.
    """
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
    """Return result `k` of a map in three items, or `None`.

    They are a map with the other results; the terms of result `k` that are dimensions; and the
    interval of the values added to these terms. The result is `None` if result `k` has another
    form.
    """
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
        # With a stride the values are not an interval; a variable shared with other results is not
        # free.
        if factor != 1 or mine in variables(*others):
            return None
        side = ranges[number].interval
        values = Interval(side.lo + const, side.hi + const)
        ranges = (*ranges[:number], *ranges[number + 1 :])
        new = {Range(i): Range(i - 1) for i in range(number + 1, len(map.ranges))}
    rest = IndexingMap(map.dims, ranges, (), [substitute(e, new) for e in others], ())
    return rest, from_terms(base, 0), values


def _joined_runs(some: list[tuple[Interval, Access]], k: int) -> Iterator[Access]:
    """Yield one access for each run of consecutive values added in result `k`.

    `some` has pairs: the interval of the values that an access adds in result `k`, and the access.
    It is sorted in place.
    """
    some.sort(key=lambda pair: (pair[0].lo, pair[0].hi))
    values, first = some[0]
    count = 1
    # The sentinel at the end closes the last run.
    for side, access in [*some[1:], (None, first)]:
        if side is not None and side.lo <= values.hi + 1:
            values = Interval(values.lo, max(values.hi, side.hi))
            count += 1
            continue
        yield first if count == 1 else _with_values(first, k, values)
        if side is not None:
            values, first, count = side, access, 1


def _with_values(access: Access, k: int, values: Interval) -> Access:
    """Return the access with result `k` replaced by its dimensions plus a variable over `values`.

    Result `k` of the given access is a sum of dimensions and a free range variable or a constant.
    """
    assert access.map is not None
    parts = _split(access.map, k)
    assert parts is not None
    rest, base, _ = parts
    results = list(rest.results)
    results.insert(k, base + Range(len(rest.ranges)))
    map = IndexingMap(rest.dims, (*rest.ranges, Variable(values)), (), results, ())
    return replace(access, map=map.simplify())


def dims_hull(maps: Sequence[IndexingMap]) -> tuple[Variable, ...]:
    """Return, for each dimension, the smallest interval that contains those of all maps."""
    if not maps:
        return ()
    columns = zip(*[m.dims for m in maps], strict=True)
    return tuple([Variable(reduce(or_, [v.interval for v in column])) for column in columns])


def hull(accesses: Iterable[Access], type: Type, reason: str) -> Accesses:
    """Return one superset of the accesses for each route, and the accesses without a map.

    A route is a sequence of collectives that leads to other devices. A result that is the same
    function of the dimensions in all maps stays.  Other results take every value between their
    bounds over all maps.  `reason` is added to the reasons.
    """
    kept = tuple(accesses)
    reasons = join_reasons(*[a.reason for a in kept], reason)
    # Maps to different devices cannot be one map; each route gets its own superset.
    by_device: dict[Route, list[Access]] = {}
    for access in kept:
        if access.map is not None:
            shorter = indexing.shortest(access)
            by_device.setdefault(shorter.via, []).append(shorter)
    if len(by_device) > MAX_ROUTES:
        return (Access.unknown(join_reasons(reasons, f"in more than {MAX_ROUTES} groups")),)
    if not isinstance(type, TensorType) or not type.is_static or not by_device:
        return (Access.unknown(reasons),)
    found = [
        indexing.with_joined(
            Access(None, Precision.OVER, reasons), _box(some, type.shape), type.rank, via
        )
        for via, some in by_device.items()
    ]
    return (*found, *[a for a in kept if a.map is None])


def _box(accesses: Sequence[Access], shape: tuple[int, ...]) -> IndexingMap:
    """Return one map, to elements and positions of devices, that contains those of all accesses.

    `shape` has the sizes of the accessed tensor.
    """
    maps = [indexing.joined(access) for access in accesses]
    ranges: list[Variable] = []
    results: list[Expr] = []
    inside: list[Constraint] = []
    for k in range(len(maps[0].results)):
        limit = Interval(0, shape[k] - 1) if k < len(shape) else Interval.EVERYTHING
        column = {m.results[k] for m in maps}
        # A common result is kept exactly; it is bounded by the tensor's size, because the union of
        # the dimensions may be larger than the domain of each map.
        if len(column) == 1 and all(isinstance(v, Dim) for e in column for v in variables(e)):
            results += column
            inside += [(e, limit) for e in column]
        else:
            bounds = reduce(or_, [m.range_of(m.results[k]) for m in maps])
            results.append(Range(len(ranges)))
            ranges.append(Variable(bounds & limit))
    return IndexingMap(dims_hull(maps), ranges, (), results, inside).simplify()


def covers_everything(map: IndexingMap, sizes: tuple[int, ...]) -> bool:
    """Does every index lead to all elements of a tensor of these sizes?

    The result is `False` if that is not decided.

    >>> row = IndexingMap.parse("(d0)[s0] -> (d0, s0), domain: d0 in [0, 3], s0 in [0, 4]")
    >>> covers_everything(row, (4, 5)), covers_everything(row.sub_map([1]), (5,))
    (False, True)
    """
    return len(map.results) == len(sizes) and _fixed_results(map, sizes) == {}
