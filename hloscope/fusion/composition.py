"""How two accesses are one after the other, and the form that every map gets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from hloscope.affine import Dim, Expr, Mod, Range, Runtime, Var, variables
from hloscope.fusion.widen import join_reasons
from hloscope.indexing import (
    Access,
    Constraint,
    IndexingMap,
    Precision,
    Variable,
    bounds_not_kept,
    compose_deep,
    compose_inside,
    is_deep,
    merge_runtime,
    output_to_input,
    renamed,
    substituted,
)
from hloscope.lazy import lazy

if TYPE_CHECKING:
    import hloscope.fusion.values as values
    import hloscope.indexing as indexing
else:
    indexing = lazy("hloscope.indexing")
    values = lazy("hloscope.fusion.values")

_RANK: Final = {Precision.EXACT: 0, Precision.OVER: 1, Precision.UNKNOWN: 2}


def compose(first: Access, second: Access, *, forward: bool = False) -> Access | None:
    """Apply `first`, then `second`; `None` if nothing is touched.

    Args:
        first: From a tensor.
        second: From the tensor that the first one touches.
        forward: They lead to the outputs, not from them.

    >>> half = Access(IndexingMap.parse("(d0) -> (d0 / 2), domain: d0 in [0, 7]"))
    >>> turn = Access(IndexingMap.parse("(d0) -> (3 - d0), domain: d0 in [0, 3]"))
    >>> print(compose(half, turn).map)
    (d0) -> (-(d0 / 2) + 3), domain: d0 in [0, 7]
    """
    precision, reason = first.precision, first.reason
    if second.precision is not Precision.EXACT or second.reason:
        precision = max(precision, second.precision, key=_RANK.__getitem__)
        reason = join_reasons(reason, second.reason)
    if first.map is None or second.map is None:
        return Access.unknown(reason)
    if len(first.map.results) != len(second.map.dims):
        ranks = f"rank {len(first.map.results)} meets rank {len(second.map.dims)}"
        return Access.unknown(join_reasons(reason, f"{ranks}: the program is inconsistent"))
    if first.replica is None and second.replica is None:
        bounds = bounds_not_kept(first.map, second.map)
        if bounds is None:
            return None
        map = _composed(first.map, second.map, bounds)
        return None if map.is_known_empty else Access(map, precision, reason)
    both, via = indexing.compose_across(first, second, forward=forward)
    map = normal(both)
    if map.is_known_empty:
        return None
    return indexing.parted(Access(map, precision, reason), map, len(second.map.results), via)


def _composed(first: IndexingMap, second: IndexingMap, bounds: Sequence[Constraint]) -> IndexingMap:
    """The normal form of `second` after `first`, which may leave these `bounds_not_kept`.

    Simplifying makes no use of names: nothing is left to simplify where `first` only names anew.
    """
    if is_deep(first):
        return normal(compose_deep(first, second))
    if not second.is_simplified and second.simplify() != second:
        return normal(compose_inside(first, second, bounds))
    names_anew = not bounds and _names_anew(first, second)
    if _touches_the_same(second):
        where = first if names_anew else _where_inside(first, second.dims)
        if names_anew or not (where.ranges or where.runtime):
            map = second.with_(dims=where.dims, constraints=where.constraints)
            map.mark_simplified()
            return map
    if not names_anew:
        return normal(compose_inside(first, second, bounds))
    if not second.constraints and _uses_all_runtime(second):
        return _renamed(first, second)
    map = first.compose(second)
    map.mark_simplified()
    return normal(map)


def _uses_all_runtime(map: IndexingMap) -> bool:
    """Does the index touched depend on every runtime variable, and are they different?"""
    every = [Runtime(i) for i in range(len(map.runtime))]
    return not every or (variables(*map.results).issuperset(every) and merge_runtime(map) is map)


def _renamed(first: IndexingMap, second: IndexingMap) -> IndexingMap:
    """`second`, which has no constraints, in the variables of `first`."""
    used = variables(*second.results, *[e for v in second.runtime for e in v.arguments])
    inward = {d: e for i, e in enumerate(first.results) if (d := Dim(i)) in used}
    own = [s for s in map(Range, range(len(second.ranges))) if s in used]
    others = sorted([e for e in inward.values() if isinstance(e, Range)])
    new: dict[Var, Expr] = {s: Range(i) for i, s in enumerate(own)}
    later: dict[Expr, Expr] = {s: Range(i) for i, s in enumerate(others, len(own))}
    new |= {d: later.get(e, e) for d, e in inward.items()}
    again = first.with_(
        ranges=[second.ranges[s.index] for s in own] + [first.ranges[s.index] for s in others],
        runtime=[renamed(v, new) for v in second.runtime],
        results=substituted(second.results, new),
    )
    again.mark_simplified()
    return again


def _touches_the_same(map: IndexingMap) -> bool:
    """Are the same elements touched whatever the index, and is every range variable of use?"""
    if map.constraints or map.runtime or any([type(e) is Dim for e in map.results]):
        return False
    used = variables(*map.results)
    return len(used) == len(map.ranges) and all([isinstance(v, Range) for v in used])


def _where_inside(first: IndexingMap, dims: tuple[Variable, ...]) -> IndexingMap:
    """The indices from which `first` touches something within the bounds, as a map to nothing."""
    if first.runtime:  # the memory of runtime variables would keep programs alive
        return normal(compose_inside(first, IndexingMap(dims)))
    return _remembered_where(first, dims)


@lru_cache(maxsize=1 << 10)
def _remembered_where(first: IndexingMap, dims: tuple[Variable, ...]) -> IndexingMap:
    return normal(compose_inside(first, IndexingMap(dims)))


def _names_anew(first: IndexingMap, second: IndexingMap) -> bool:
    """Is the index that `first` touches made of different variables, with the same bounds?"""
    if first.constraints or first.runtime or len(set(first.results)) < len(first.results):
        return False
    box = first.box
    for e, v in zip(first.results, second.dims, strict=True):
        side, same = box.get(e), v.interval  # type: ignore[arg-type]  # only variables have one
        if side is None or side.lo != same.lo or side.hi != same.hi:
            return False
    return True


def normal(map: IndexingMap) -> IndexingMap:
    """The simplified map, without range and runtime variables that make no difference."""
    if map.is_known_empty:
        return map
    if not map.is_simplified:
        map = map.simplify()
    if (map.ranges or map.runtime) and not _all_are_needed(map):
        map = map.rescale_symbols().remove_unused_symbols()
        fewer = indexing.project_out(map)
        if fewer is not map:
            map = fewer.simplify().remove_unused_symbols()
    return map


def _all_are_needed(map: IndexingMap) -> bool:
    """Do the results depend on all range and runtime variables, and has none a stride?"""
    if any([type(e) is Mod for e, _ in map.constraints]):
        return False
    used = {e for e in map.results if type(e) is Range or type(e) is Runtime}
    count = len(map.ranges) + len(map.runtime)
    if len(used) < count:
        used = {v for v in variables(*map.results) if type(v) is not Dim}
    return len(used) == count


def folded(access: Access) -> Access:
    """The access with runtime variables in place only of values that nobody knows."""
    if access.map is None or not access.map.runtime:
        return access
    both = indexing.joined(access)
    map = merge_runtime(values.fold_runtime(both, lambda i: output_to_input(i, 0)))
    if map is both:
        return access
    return indexing.parted(access, normal(map), len(access.map.results), access.via)


def inverse(access: Access) -> Access:
    """What touches what the access touches; of one that says nothing, itself."""
    return access if access.map is None else indexing.inverted(access)
