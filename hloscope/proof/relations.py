"""Relations of isl carried through a program, independent of hloscope's composition."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from hloscope.affine import Expr, Interval
from hloscope.indexing import (
    Access,
    IndexingMap,
    Route,
    RuntimeVariable,
    behind,
    joined,
    needed,
    shortest,
    system_of,
)
from hloscope.proof.names import AS_THEY_ARE, Names
from hloscope.proof.reads import Values
from hloscope.simplifier import Builder, Parameters, UndecidedError, isl_context

Relations: TypeAlias = dict[Route, Any]
"""Relations from output elements, by the collectives whose positions follow the index."""


class Relating:
    """A follower: `through` is isl's `apply_range`, `join` is `union`."""

    def __init__(self, isl: Any, values: Values) -> None:
        self._isl = isl
        self._values = values
        self.parameters = Parameters({}, {})
        # Equal ops have equal maps, so relations are built once for each map.
        self._known: dict[IndexingMap, Any] = {}

    def identity(self, sizes: Sequence[int]) -> Relations:
        """Return the identity relation of a tensor."""
        box = self.relation(IndexingMap.of_sizes(sizes), AS_THEY_ARE).domain()
        return {(): self._isl.Map.identity(box.get_space().map_from_set()).intersect_domain(box)}

    def through(self, reached: Relations, access: Access, names: Names) -> Relations | None:
        """Return the elements that an access reads from those reached; `None` if there are none.

        Raises:
            UndecidedError: Ranks differ.
        """
        assert access.map is not None
        out, rank = self._isl.dim_type.out, len(access.map.results)
        found: Relations = {}
        for steps, relation in reached.items():
            width = relation.dim(out) - len(steps)
            if width != len(access.map.dims):
                raise UndecidedError("the program is inconsistent: ranks differ")
            bounds = [self._bounds(relation, width + k) for k in range(len(steps))]
            onwards = self.relation(behind(access, steps, bounds), names)
            more = self._shortest(relation.apply_range(onwards), steps + access.via, rank)
            found = self.join(found, more)
        return found or None

    def reversed(self, relation: Any, count: int) -> Any:
        """Return the inverse relation; the last `count` results, device positions, stay results."""
        back = relation.reverse()
        if not count:
            return back
        into, out = self._isl.dim_type.in_, self._isl.dim_type.out
        return back.move_dims(out, back.dim(out), into, back.dim(into) - count, count)

    def _bounds(self, relation: Any, place: int) -> Interval:
        """Return the value of a result as a point, if isl states it, else an unbounded interval."""
        value = relation.plain_get_val_if_fixed(self._isl.dim_type.out, place)
        return Interval.EVERYTHING if value.is_nan() else Interval.point(int(value.to_python()))

    def _shortest(self, relation: Any, via: Route, rank: int) -> Relations:
        """Return the relation without positions that do not affect the last device of the route."""
        if relation.is_empty():
            return {}
        kept = needed(via)
        for k in reversed(range(len(via))):
            if k not in kept:
                relation = relation.project_out(self._isl.dim_type.out, rank + k, 1)
        return {tuple([via[k] for k in kept]): relation.coalesce()}

    def join(self, one: Relations, other: Relations) -> Relations:
        """Return the union of two states."""
        found = dict(one)
        for steps, relation in other.items():
            known = found.get(steps)
            found[steps] = relation if known is None else known.union(relation).coalesce()
        return found

    def key(self, reached: Relations) -> Hashable:
        """Return isl's text of the relations."""
        return tuple([(steps, str(relation)) for steps, relation in reached.items()])

    def weight(self, reached: Relations) -> None:
        """Return `None`: relations have the parameters of one query."""
        return

    def relation(self, m: IndexingMap, names: Names) -> Any:
        """Return a map as an isl relation."""
        if not m.runtime and m in self._known:
            return self._known[m]
        keys = [self._key(m, v, names) for v in m.runtime]
        for key in keys:
            self.parameters.number.setdefault(key, len(self.parameters.number))
            self.parameters.facts.setdefault(key, key[3])
        # Runtime variables become isl parameters; equal keys share one parameter, so that a value
        # read twice is the same in both relations.
        system = replace(system_of(m), runtime=keys)
        relation = Builder(self._isl, isl_context(), system, self.parameters).relation()
        if not m.runtime:
            self._known[m] = relation
        return relation

    def union(self, accesses: Sequence[Access]) -> Relations:
        """Return the union of the relations of maps."""
        found: Relations = {}
        for access in accesses:
            if access.map is not None and not access.map.is_known_empty:
                access = shortest(access)
                found = self.join(found, {access.via: self.relation(joined(access), AS_THEY_ARE)})
        return found

    def _key(
        self, m: IndexingMap, variable: RuntimeVariable, names: Names
    ) -> tuple[Hashable, Interval, tuple[int, ...], Interval]:
        """Return the key of a variable's value.

        Raises:
            UndecidedError: The value differs between indices, or has no origin.
        """
        index = tuple([self._fixed(m, e) for e in variable.arguments])
        can_be = variable.values
        if variable.origin is None:
            if variable.source is None:
                raise UndecidedError("a runtime variable without origin")
            return variable.source, can_be, index, can_be
        origin = names.of(variable.origin)
        source = replace(variable, origin=origin).source
        value = self._values.known(origin, index[: len(variable.index)])
        if value is not None:
            can_be = Interval.point(min(max(value, can_be.lo), can_be.hi))
        return source, variable.values, index, can_be

    def _fixed(self, m: IndexingMap, e: Expr) -> int:
        """Return the value of a constant expression.

        Raises:
            UndecidedError: It is not constant.
        """
        bounds = m.range_of(e)
        if not bounds.is_point:
            raise UndecidedError("runtime variables are read at indices that run")
        return bounds.lo
