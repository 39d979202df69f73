"""Accesses, each kept once, and their compositions, each computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from hloscope import indexing
from hloscope.affine import Dim, Mod, Range, Runtime, variables
from hloscope.errors import UnsupportedError
from hloscope.fusion.overapproximate import MAX_SIZE, join_reasons, size
from hloscope.indexing import (
    Access,
    Accesses,
    Constraint,
    IndexingMap,
    Precision,
    bounds_not_kept,
    compose_deep,
    compose_inside,
    everything_map,
    identity_map,
    is_deep,
    sizes,
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
            both = compose(first, second, forward=forward)
            found = self._composed[key] = None if both is None else self.keep(both)
            return found


def is_exact(access: Access) -> bool:
    """Is the access nothing but an exact map?"""
    return (
        access.precision is Precision.EXACT
        and access.replica is None
        and access.map is not None
        and not (access.via or access.reason)
    )


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
    """The normal form of `second` after `first`, which may leave these `bounds_not_kept`."""
    if is_deep(first):
        return normal(compose_deep(first, second))
    return normal(compose_inside(first, second, bounds))


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
