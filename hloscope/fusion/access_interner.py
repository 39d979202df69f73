"""Interning of accesses: equal accesses are one object, and each composition is computed once."""

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
"""Distinct accesses of one `AccessInterner`, keyed by `id`, in the order found."""

Change: TypeAlias = Callable[[Access, Type], Access]
"""A function of an access and the type of its target that returns a changed access."""

_RANK: Final = {Precision.EXACT: 0, Precision.OVER: 1, Precision.UNKNOWN: 2}


class AccessInterner:
    """Intern accesses and memoize their compositions.

    Every access is passed through `keep` before it is composed.  Equal accesses are then one
    object, so a pair of `id`s is a valid key of a composition.
    """

    def __init__(self) -> None:
        self.small: Final[set[int]] = set()
        """`id`s of the interned accesses whose maps have at most `MAX_SIZE` conditions."""
        # The paths of a graph share most of their compositions, so each is computed once. Keys are
        # `id`s, because hashing a map or type is slow.
        self._known: dict[Access, Access] = {}
        self._exact: dict[IndexingMap, Access] = {}
        self._composed: dict[tuple[int, int, bool], Access | None] = {}
        self._changed: dict[tuple[int, int, Change], tuple[Access, Type, Access]] = {}
        self._identities: set[int] = set()
        self._identity_of: dict[int, tuple[Type, Access]] = {}
        self._identity_on: dict[tuple[int, ...], Access] = {}

    @property
    def number_of_compositions(self) -> int:
        """Number of distinct compositions computed so far."""
        return len(self._composed)

    def keep(self, access: Access) -> Access:
        """Return the interned access that equals `access` with `leaf=0`."""
        map = access.map
        if access.leaf:
            access = replace(access, leaf=0)
        # An exact access is determined by its map, so the map is the key. Most accesses are exact,
        # and a map stores its hash, while `Access` hashes all its fields.
        if map is not None and is_exact(access):
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
        """Return the access to store for a new one: unknown if its map is undefined."""
        map = access.map
        if map is not None and map.is_undefined:
            return self.keep(Access.unknown(access.reason or "the map is undefined"))
        if map is None or size(map) <= MAX_SIZE:
            self.small.add(id(access))
        return access

    def keep_all(self, accesses: Iterable[Access]) -> Accesses:
        """Intern each access; drop accesses with empty maps and duplicates."""
        found: AccessSet = {}
        for access in accesses:
            if access.map is None or not access.map.is_known_empty:
                kept = self.keep(access)
                found[id(kept)] = kept
        return tuple(found.values())

    def changed(self, access: Access, type: Type, change: Change) -> Access:
        """Return `change(access, type)`, interned and memoized.

        The key has the `id`s of both arguments because hashing a type is slow.  The entry holds
        both objects, so that their `id`s are not reused.
        """
        key = (id(access), id(type), change)
        known = self._changed.get(key)
        if known is None:
            known = self._changed[key] = (access, type, self.keep(change(access, type)))
        return known[2]

    def identity(self, type: Type) -> Access:
        """Return the access from every element of a value of `type` to itself."""
        known = self._identity_of.get(id(type))
        if known is None:
            known = self._identity_of[id(type)] = type, self._new_identity(type)
        return known[1]

    def is_identity(self, accesses: Accesses, type: Type) -> bool:
        """Is `identity(type)` the only access?

        Most other accesses are rejected without creating the identity.
        """
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
        """Return the access from every element of type `here` to all elements of type `there`."""
        try:
            return self.keep(Access(everything_map(sizes(here), sizes(there))))
        except UnsupportedError as error:
            return self.keep(Access.unknown(error.message))

    def compose(self, first: Access, second: Access, *, forward: bool = False) -> Access | None:
        """Apply `first`, then `second`; return `None` if the composition is empty.

        Both accesses are interned here.  The precision is the weaker of the two, and the
        reasons of both are joined.

        Args:
            first: Access from a tensor.
            second: Access from the tensor that `first` leads to.
            forward: The accesses lead to the outputs instead of to the operands.
        """
        # An identity on the whole domain of `second` is neutral. With a smaller domain it
        # restricts `second`, and the composition has to be computed.
        if id(first) in self._identities and first.map and second.map:  # noqa: SIM102
            if first.map.dims == second.map.dims:
                return second
        key = (id(first), id(second), forward)
        try:
            return self._composed[key]
        except KeyError:
            both = compose(first, second, forward=forward)
            found = self._composed[key] = None if both is None else self.keep(both)
            return found


def is_exact(access: Access) -> bool:
    """Is the access an exact map without reason, replica map or collectives?"""
    return (
        access.precision is Precision.EXACT
        and access.replica is None
        and access.map is not None
        and not (access.via or access.reason)
    )


def compose(first: Access, second: Access, *, forward: bool = False) -> Access | None:
    """Apply `first`, then `second`; return `None` if the composition is empty.

    Both accesses are interned in this interner.  The precision is the weaker of the two, and the
    reasons of both are joined.

    Args:
        first: Access from a tensor.
        second: Access from the tensor that `first` leads to.
        forward: The accesses lead to the outputs instead of to the operands.

    >>> half = Access(IndexingMap.parse("(d0) -> (d0 / 2), domain: d0 in [0, 7]"))
    >>> turn = Access(IndexingMap.parse("(d0) -> (3 - d0), domain: d0 in [0, 3]"))
    >>> print(compose(half, turn).map)
    (d0) -> (-(d0 / 2) + 3), domain: d0 in [0, 7]
    """
    precision, reason = first.precision, first.reason
    if second.precision is not Precision.EXACT or second.reason:
        precision = max(precision, second.precision, key=_RANK.__getitem__)
        reason = join_reasons(reason, second.reason)
    # Precision and reasons are combined before the maps, since an unknown result keeps both
    # reasons.
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
    """Return the normal form of `second` after `first`, with the constraints `bounds` added."""
    if is_deep(first):
        return normal(compose_deep(first, second))
    return normal(compose_inside(first, second, bounds))


def normal(map: IndexingMap) -> IndexingMap:
    """Return the simplified map without the range and runtime variables that it does not need."""
    if map.is_known_empty:
        return map
    if not map.is_simplified:
        map = map.simplify()
    if (map.ranges or map.runtime) and not _all_are_needed(map):
        # Elimination of a variable can expose others as unused, so the map is simplified again
        # only if `project_out` changed it.
        map = map.rescale_symbols().remove_unused_symbols()
        fewer = indexing.project_out(map)
        if fewer is not map:
            map = fewer.simplify().remove_unused_symbols()
    return map


def _all_are_needed(map: IndexingMap) -> bool:
    """Do the results depend on every range and runtime variable, with no `mod` constraint?

    Then no variable can be eliminated or rescaled.
    """
    if any([type(e) is Mod for e, _ in map.constraints]):
        return False
    used = {e for e in map.results if type(e) is Range or type(e) is Runtime}
    count = len(map.ranges) + len(map.runtime)
    if len(used) < count:
        used = {v for v in variables(*map.results) if type(v) is not Dim}
    return len(used) == count
