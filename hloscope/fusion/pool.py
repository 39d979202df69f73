"""Accesses, each kept once, and their compositions, each computed once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeAlias

from hloscope.affine import Dim
from hloscope.errors import UnsupportedError
from hloscope.fusion.widen import join_reasons
from hloscope.indexing import Access, Accesses, IndexingMap, Precision, Variable
from hloscope.indexing.rules.build import everything_map, identity_map, sizes
from hloscope.ir.types import Type

AccessSet: TypeAlias = dict[int, Access]
"""Distinct accesses of one pool by their identity, in the order found."""

_RANK: Final = {Precision.EXACT: 0, Precision.OVER: 1, Precision.UNKNOWN: 2}


class Pool:
    """Composes accesses; equal work is done once.

    Every access that takes part is first passed through `keep`, so that an identity stands for an
    equality, and compositions are remembered by a pair of identities.
    """

    def __init__(self) -> None:
        self._known: dict[Access, Access] = {}
        self._composed: dict[tuple[int, int], Access | None] = {}
        self._identities: set[int] = set()
        self._identity_of: dict[tuple[int, ...], Access] = {}

    @property
    def number_of_compositions(self) -> int:
        """How many maps were composed; asking again for the same does not count."""
        return len(self._composed)

    def keep(self, access: Access) -> Access:
        """The one access of this pool that equals `access`, without its leaf."""
        if access.leaf:
            access = replace(access, leaf=0)
        known = self._known.get(access)
        if known is None:
            if access.map is not None and access.map.is_undefined:
                return self.keep(Access.unknown(access.reason or "the map is undefined"))
            known = self._known[access] = access
            if access == Access(access.map) and access.map and access.map.is_identity:
                self._identities.add(id(known))
        return known

    def keep_all(self, accesses: Iterable[Access]) -> Accesses:
        """`keep` for each, without empty maps and duplicates."""
        found: AccessSet = {}
        for access in accesses:
            if access.map is None or not access.map.is_known_empty:
                kept = self.keep(access)
                found[id(kept)] = kept
        return tuple(found.values())

    def identity(self, type: Type) -> Access:
        """Every element of a value of this type touches itself."""
        try:
            shape = sizes(type)
        except UnsupportedError as error:
            return self.keep(Access.unknown(error.message))
        known = self._identity_of.get(shape)
        if known is None:
            known = self._identity_of[shape] = self.keep(Access(identity_map(shape)))
        return known

    def whole(self, here: Type, there: Type) -> Access:
        """Every element of one value touches all elements of another."""
        try:
            return self.keep(Access(everything_map(sizes(here), sizes(there))))
        except UnsupportedError as error:
            return self.keep(Access.unknown(error.message))

    def compose(self, first: Access, second: Access) -> Access | None:
        """Apply `first`, then `second`; `None` if nothing is touched.

        Both come from this pool.  The result is exact if both are, and unknown if one is; reasons
        of both are kept.
        """
        if id(first) in self._identities and first.map and second.map:  # noqa: SIM102
            if first.map.dims == second.map.dims:  # else the domain of `first` is smaller
                return second
        key = (id(first), id(second))
        try:
            return self._composed[key]
        except KeyError:
            found = compose(first, second)
            if found is not None:
                found = self.keep(found)
            self._composed[key] = found
            return found


def compose(first: Access, second: Access) -> Access | None:
    """Apply `first`, then `second`; `None` if nothing is touched.

    >>> half = Access(IndexingMap.parse("(d0) -> (d0 / 2), domain: d0 in [0, 7]"))
    >>> turn = Access(IndexingMap.parse("(d0) -> (3 - d0), domain: d0 in [0, 3]"))
    >>> print(compose(half, turn).map)
    (d0) -> (-(d0 / 2) + 3), domain: d0 in [0, 7]
    """
    precision = max(first.precision, second.precision, key=_RANK.__getitem__)
    reason = join_reasons(first.reason, second.reason)
    if first.map is None or second.map is None:
        return Access.unknown(reason)
    if len(first.map.results) != len(second.map.dims):
        ranks = f"rank {len(first.map.results)} meets rank {len(second.map.dims)}"
        return Access.unknown(join_reasons(reason, f"{ranks}: the program is inconsistent"))
    if first.replica is None and second.replica is None:
        map = normal(first.map.compose(second.map))
        return None if map.is_known_empty else Access(map, precision, reason)
    # The position in the replica group is carried along as further results.
    joined = with_replica(first)
    rank = len(second.map.results)
    onwards = _passing(with_replica(second), rank, joined, len(first.map.results))
    map = normal(joined.compose(onwards))
    if map.is_known_empty:
        return None
    replica = map.with_(results=map.results[rank:])
    return Access(map.with_(results=map.results[:rank]), precision, reason, replica)


def normal(map: IndexingMap) -> IndexingMap:
    """The simplified map, without unused range and runtime variables."""
    if map.is_known_empty:
        return map
    map = map.simplify()
    if map.ranges or map.runtime:
        map = map.rescale_symbols().remove_unused_symbols()
    return map


def with_replica(access: Access) -> IndexingMap:
    """The map with the positions in replica groups as further results."""
    assert access.map is not None
    if access.replica is None:
        return access.map
    return access.map.with_(
        results=access.map.results + access.replica.results,
        constraints=(*access.map.constraints, *access.replica.constraints),
    )


def _passing(map: IndexingMap, rank: int, before: IndexingMap, taken: int) -> IndexingMap:
    """`map` with more dimensions for what `before` has beyond the results `taken`.

    They are handed on after the first `rank` results: of several collectives on a way, the one
    nearest to the output comes first.
    """
    more = before.results[taken:]
    dims = [Variable(before.range_of(e)) for e in more]
    handed = [Dim(len(map.dims) + i) for i in range(len(more))]
    results = (*map.results[:rank], *handed, *map.results[rank:])
    return map.with_(dims=(*map.dims, *dims), results=results)
