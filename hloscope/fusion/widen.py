"""Fewer maps for the same or more elements, where there are too many to carry along."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from hloscope.affine import Expr, Interval, Range
from hloscope.fusion.pool import join_reasons
from hloscope.indexing import Access, Accesses, IndexingMap, Precision, Variable
from hloscope.ir.types import TensorType, Type


def contains_all(accesses: Iterable[Access], type: Type) -> Accesses | None:
    """One of the accesses that touches the whole tensor, and those that say nothing, if any."""
    if not isinstance(type, TensorType) or not type.is_static:
        return None
    kept = tuple(accesses)
    hull = dims_hull([a.map for a in kept if a.map is not None])
    for access in kept:
        if access.map is None or access.replica is not None or access.map.dims != hull:
            continue
        if covers_everything(access.map, type.shape):
            return (access, *[a for a in kept if a.map is None or a.replica is not None])
    return None


def dims_hull(maps: Sequence[IndexingMap]) -> tuple[Variable, ...]:
    """For each dimension the smallest interval that holds those of all the maps."""
    if not maps:
        return ()
    columns = zip(*[m.dims for m in maps], strict=True)
    return tuple([Variable(reduce(or_, [v.interval for v in column])) for column in columns])


def everything(accesses: Iterable[Access], type: Type, reason: str) -> Accesses:
    """The whole tensor, claimed as a superset of the accesses."""
    kept = tuple(accesses)
    maps = [a.map for a in kept if a.map is not None]
    reasons = join_reasons(*[a.reason for a in kept], reason)
    if not isinstance(type, TensorType) or not type.is_static or not maps:
        return (Access.unknown(reasons),)
    ranges = tuple([Variable(Interval(0, size - 1)) for size in type.shape])
    results = tuple([Range(i) for i in range(len(ranges))])
    whole = Access(IndexingMap(dims_hull(maps), ranges, (), results), Precision.OVER, reasons)
    return (whole, *[a for a in kept if a.map is None])


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
