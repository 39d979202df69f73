"""Interning of accesses: equal accesses are one object, and compositions are memoized."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from hloscope import indexing
from hloscope.affine import Dim, Mod, Range, Runtime, variables
from hloscope.errors import UnsupportedError
from hloscope.fusion.overapproximate import join_reasons
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
from hloscope.ir import Dims, Type

AccessSet: TypeAlias = dict[Access, None]
"""A set of distinct accesses, in the order in which they were found."""

_RANK: Final = {Precision.EXACT: 0, Precision.OVER: 1, Precision.UNKNOWN: 2}


class AccessInterner:
    """Intern accesses and memoize their compositions.

    Equal accesses are one object here, so that comparing them compares no maps.
    """

    def __init__(self) -> None:
        # Without it, 128 sums of shifted slices take 1.2 times as long; if identities are not found
        # by their sizes, all maps of a GPT of 48 layers take 1.8 times as long.
        self._known: dict[Access | Dims, Access] = {}
        """Interned accesses; an identity is also found by the sizes of its tensor."""
        # Without it, all maps of a cartpole rollout take 1.3 times as long.
        self._composed: dict[tuple[Access, Access, bool], Access | None] = {}

    @property
    def number_of_compositions(self) -> int:
        """Number of distinct compositions computed so far."""
        return len(self._composed)

    def keep(self, access: Access) -> Access:
        """Return the one object for all accesses equal to `access`; its `leaf` is 0.

        An access with an undefined map becomes unknown.
        """
        known = self._known.get(access)
        if known is None:
            kept = replace(access, leaf=0) if access.leaf else access
            if kept.map is not None and kept.map.is_undefined:
                kept = Access.unknown(kept.reason or "the map is undefined")
            known = self._known[access] = self._known.setdefault(kept, kept)
        return known

    def keep_all(self, accesses: Iterable[Access]) -> Accesses:
        """Return the interned accesses, without duplicates and without those with empty maps."""
        known = [a for a in accesses if a.map is None or not a.map.is_known_empty]
        return tuple(dict.fromkeys(map(self.keep, known)))

    def identity(self, type: Type) -> Access:
        """Return the access from every element of a value of `type` to itself."""
        try:
            shape = sizes(type)
        except UnsupportedError as error:
            return self.keep(Access.unknown(error.message))
        known = self._known.get(shape)
        if known is None:
            known = self._known[shape] = self.keep(Access(identity_map(shape)))
        return known

    def whole(self, here: Type, there: Type) -> Access:
        """Return the access from every element of type `here` to all elements of type `there`."""
        try:
            return self.keep(Access(everything_map(sizes(here), sizes(there))))
        except UnsupportedError as error:
            return self.keep(Access.unknown(error.message))

    def compose(self, first: Access, second: Access, *, forward: bool = False) -> Access | None:
        """Return the composition of `first`, then `second`; `None` if it is empty.

        Both accesses must be interned here.  The precision is the weaker of the two, and the
        reasons of both are joined.

        Args:
            first: Access from a tensor.
            second: Access from the tensor that `first` leads to.
            forward: Whether the accesses lead towards users, from operand to output elements.
        """
        key = first, second, forward
        try:
            return self._composed[key]
        except KeyError:
            both = second if _is_neutral(first, second) else compose(first, second, forward=forward)
            found = self._composed[key] = None if both is None else self.keep(both)
            return found


def _is_neutral(first: Access, second: Access) -> bool:
    """Is `first` the exact identity, with the dimension bounds of `second`?

    With a smaller domain it restricts `second`, and the composition has to be computed.
    """
    if first.map is None or second.map is None or first.map.dims != second.map.dims:
        return False
    return first == Access(first.map) and first.map.is_identity


def compose(first: Access, second: Access, *, forward: bool = False) -> Access | None:
    """Return the composition of `first`, then `second`; `None` if it is empty.

    The precision is the weaker of the two, and the reasons of both are joined.

    Args:
        first: Access from a tensor.
        second: Access from the tensor that `first` leads to.
        forward: Whether the accesses lead towards users, from operand to output elements.

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
    """Return the normal form of the composition: `first`, then `second`, restricted by `bounds`."""
    if is_deep(first):
        return normal(compose_deep(first, second))
    return normal(compose_inside(first, second, bounds))


def normal(map: IndexingMap) -> IndexingMap:
    """Return the simplified map, without range and runtime variables that do not matter."""
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
    """Does every range and runtime variable occur in the results, and no constraint have `mod`?

    Then no variable can be eliminated or rescaled.
    """
    if any([type(e) is Mod for e, _ in map.constraints]):
        return False
    used = {e for e in map.results if type(e) is Range or type(e) is Runtime}
    count = len(map.ranges) + len(map.runtime)
    if len(used) < count:
        used = {v for v in variables(*map.results) if type(v) is not Dim}
    return len(used) == count
