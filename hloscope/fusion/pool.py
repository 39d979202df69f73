"""Accesses, each kept once, and their compositions, each computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from hloscope.errors import UnsupportedError
from hloscope.fusion.composition import compose, normal
from hloscope.fusion.straight import Step, is_exact, put_into, step_of
from hloscope.fusion.widen import MAX_SIZE, size
from hloscope.indexing import (
    Access,
    Accesses,
    IndexingMap,
    everything_map,
    identity_map,
    is_deep,
    sizes,
)
from hloscope.ir import Type
from hloscope.lazy import replace

AccessSet: TypeAlias = dict[int, Access]
"""Distinct accesses of one pool by their identity, in the order found."""

Change: TypeAlias = Callable[[Access, Type], Access]
"""Makes another access to a value of a type, of the access and the type alone."""


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
