"""Accesses, each kept once, and their compositions, each computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from msgspec.structs import replace

from hloscope import indexing
from hloscope.affine import Dim, Expr, Mod, Range, Runtime, Var, variables
from hloscope.errors import UnsupportedError
from hloscope.fusion.straight import Step, is_exact, put_into, step_of
from hloscope.fusion.widen import MAX_SIZE, join_reasons, size
from hloscope.indexing import (
    Access,
    Accesses,
    Constraint,
    IndexingMap,
    Precision,
    Variable,
    bounds_not_kept,
    compose_deep,
    compose_inside,
    everything_map,
    identity_map,
    is_deep,
    merge_runtime,
    renamed,
    sizes,
    substituted,
)
from hloscope.ir import Type

AccessSet: TypeAlias = dict[int, Access]
"""Distinct accesses of one pool by their identity, in the order found."""

Change: TypeAlias = Callable[[Access, Type], Access]
"""Makes another access to a value of a type, of the access and the type alone."""

_RANK: Final = {Precision.EXACT: 0, Precision.OVER: 1, Precision.UNKNOWN: 2}


class Pool:
    """Composes accesses; equal work is done once.

    Every access that takes part is first passed through `keep`, so that an identity stands for an
    equality, and compositions are remembered by a pair of identities.
    """

    def __init__(self) -> None:
        self.small: Final[set[int]] = set()
        """Identities of the accesses kept whose maps are not too large to be carried along."""
        self._known: dict[Access, Access] = {}
        self._exact: dict[IndexingMap, Access] = {}
        self._composed: dict[tuple[int, int, bool], Access | None] = {}
        self._steps: dict[int, tuple[Access, Step | None]] = {}
        self._changed: dict[tuple[int, int, Change], tuple[Access, Type, Access]] = {}
        self._identities: set[int] = set()
        self._identity_of: dict[int, tuple[Type, Access]] = {}
        self._identity_on: dict[tuple[int, ...], Access] = {}

    @property
    def number_of_compositions(self) -> int:
        """How many maps were composed; asking again for the same does not count."""
        return len(self._composed)

    def keep(self, access: Access) -> Access:
        """The one access of this pool that equals `access`, without its leaf."""
        map = access.map
        if access.leaf:
            access = replace(access, leaf=0)
        if map is not None and is_exact(access):  # a map has its hash, and most are like that
            exact = self._exact
            count = len(exact)
            kept = exact.setdefault(map, access)
            if len(exact) > count:
                kept = self._entered(access)
                if kept is not access:
                    exact[map] = kept
                elif map.is_identity:
                    self._identities.add(id(kept))
            return kept
        known = self._known.get(access)
        if known is None:
            known = self._known[access] = self._entered(access)
        return known

    def _entered(self, access: Access) -> Access:
        """The access, which is new, as it is kept."""
        map = access.map
        if map is not None and map.is_undefined:
            return self.keep(Access.unknown(access.reason or "the map is undefined"))
        if map is None or size(map) <= MAX_SIZE:
            self.small.add(id(access))
        return access

    def keep_all(self, accesses: Iterable[Access]) -> Accesses:
        """`keep` for each, without empty maps and duplicates."""
        found: AccessSet = {}
        for access in accesses:
            if access.map is None or not access.map.is_known_empty:
                kept = self.keep(access)
                found[id(kept)] = kept
        return tuple(found.values())

    def changed(self, access: Access, type: Type, change: Change) -> Access:
        """The access to a value of this type with a change, which is found once.

        Both stand for themselves, and are kept so that no others get their identities: types of a
        module are shared and hashing them is slow.
        """
        key = (id(access), id(type), change)
        known = self._changed.get(key)
        if known is None:
            known = self._changed[key] = (access, type, self.keep(change(access, type)))
        return known[2]

    def identity(self, type: Type) -> Access:
        """Every element of a value of this type touches itself."""
        known = self._identity_of.get(id(type))
        if known is None:
            known = self._identity_of[id(type)] = type, self._new_identity(type)
        return known[1]

    def is_identity(self, accesses: Accesses, type: Type) -> bool:
        """Are the accesses just `identity(type)`?  Most are found not to be without making it."""
        if len(accesses) != 1 or (accesses[0].map and id(accesses[0]) not in self._identities):
            return False
        return accesses[0] is self.identity(type)

    def _new_identity(self, type: Type) -> Access:
        try:
            shape = sizes(type)
        except UnsupportedError as error:
            return self.keep(Access.unknown(error.message))
        known = self._identity_on.get(shape)
        if known is None:
            known = self._identity_on[shape] = self.keep(Access(identity_map(shape)))
        return known

    def whole(self, here: Type, there: Type) -> Access:
        """Every element of one value touches all elements of another."""
        try:
            return self.keep(Access(everything_map(sizes(here), sizes(there))))
        except UnsupportedError as error:
            return self.keep(Access.unknown(error.message))

    def compose(self, first: Access, second: Access, *, forward: bool = False) -> Access | None:
        """Apply `first`, then `second`; `None` if nothing is touched.

        Both come from this pool.  The result is exact if both are, and unknown if one is; reasons
        of both are kept.

        Args:
            first: From a tensor.
            second: From the tensor that the first one touches.
            forward: They lead to the outputs, not from them.
        """
        if id(first) in self._identities and first.map and second.map:  # noqa: SIM102
            if first.map.dims == second.map.dims:  # else the domain of `first` is smaller
                return second
        key = (id(first), id(second), forward)
        try:
            return self._composed[key]
        except KeyError:
            found = self._composed[key] = self._new_composition(first, second, forward)
            return found

    def _new_composition(self, first: Access, second: Access, forward: bool) -> Access | None:
        map = self._narrowed(first, second) or self._stepped(first, second)
        if map is not None:
            map = normal(map)
            if map.is_known_empty:
                return None
            return self._exact.get(map) or self.keep(Access(map))
        found = self._as_it_is(first, second) if id(second) in self._identities else None
        found = found or compose(first, second, forward=forward)
        return None if found is None else self.keep(found)

    def _narrowed(self, first: Access, second: Access) -> IndexingMap | None:
        """The map of `second`, not simplified, where `first` maps each of its indices to itself."""
        map, same = second.map, first.map
        if map is None or same is None or id(first) not in self._identities:
            return None
        if not is_exact(second) or len(map.dims) != len(same.dims):
            return None
        for v, w in zip(map.dims, same.dims, strict=True):
            if v.name != w.name or not w.interval.contains(v.interval):
                return None
        return map

    def _stepped(self, first: Access, second: Access) -> IndexingMap | None:
        """Both, not simplified, where the second is a step and no more is to be looked at."""
        known = self._steps.get(id(second))
        if known is None:
            known = self._steps[id(second)] = second, step_of(second)
        step = known[1]
        if step is None or first.map is None or not is_exact(first):
            return None
        return put_into(first.map, step)

    def _as_it_is(self, first: Access, second: Access) -> Access | None:
        """`first`, if `second` touches what it is asked about and nothing of it is out of bounds.

        Only where `first` has no variables but dimensions, so that none are named anew.
        """
        map, same = first.map, second.map
        if map is None or same is None or not same.dims:
            return None
        if map.ranges or map.runtime or first.replica is not None or is_deep(map):
            return None
        if same.ranges or len(map.results) != len(same.dims):
            return None
        values = zip(same.dims, map.result_bounds, strict=True)
        if not all([v.interval.contains(bounds) for v, bounds in values]):
            return None
        map = normal(map)
        if map is first.map:
            return first
        return None if map.is_known_empty else replace(first, map=map)


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
