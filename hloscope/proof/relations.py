"""Relations of isl carried through a program, without our composition or simplification."""

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
"""From output elements to elements, by the collectives whose positions follow the index."""


class Relating:
    """A follower: `through` is `apply_range`, `join` is `union`."""

    def __init__(self, isl: Any, values: Values) -> None:
        self._isl = isl
        self._values = values
        self.parameters = Parameters({}, {})
        self._known: dict[IndexingMap, Any] = {}

    def identity(self, sizes: Sequence[int]) -> Relations:
        """Every element of a tensor to itself."""
        box = self.relation(IndexingMap.of_sizes(sizes), AS_THEY_ARE).domain()
        return {(): self._isl.Map.identity(box.get_space().map_from_set()).intersect_domain(box)}

    def through(self, reached: Relations, access: Access, names: Names) -> Relations | None:
        """What an access touches of what is reached."""
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
        """The relation the other way; as many last results as there are steps stay results."""
        back = relation.reverse()
        if not count:
            return back
        into, out = self._isl.dim_type.in_, self._isl.dim_type.out
        return back.move_dims(out, back.dim(out), into, back.dim(into) - count, count)

    def _bounds(self, relation: Any, place: int) -> Interval:
        """The values of a result, as far as they are written."""
        value = relation.plain_get_val_if_fixed(self._isl.dim_type.out, place)
        return Interval.EVERYTHING if value.is_nan() else Interval.point(int(value.to_python()))

    def _shortest(self, relation: Any, via: Route, rank: int) -> Relations:
        """The relation without the steps that do not matter for the device they lead to."""
        if relation.is_empty():
            return {}
        kept = needed(via)
        for k in reversed(range(len(via))):
            if k not in kept:
                relation = relation.project_out(self._isl.dim_type.out, rank + k, 1)
        return {tuple([via[k] for k in kept]): relation.coalesce()}

    def join(self, one: Relations, other: Relations) -> Relations:
        """Both together."""
        found = dict(one)
        for steps, relation in other.items():
            known = found.get(steps)
            found[steps] = relation if known is None else known.union(relation).coalesce()
        return found

    def key(self, reached: Relations) -> Hashable:
        """The relations as isl writes them."""
        return tuple([(steps, str(relation)) for steps, relation in reached.items()])

    def weight(self, reached: Relations) -> None:
        """Relations belong to one question: they speak of its parameters."""
        return

    def relation(self, m: IndexingMap, names: Names) -> Any:
        """A map as isl has it."""
        if not m.runtime and m in self._known:
            return self._known[m]
        keys = [self._key(m, v, names) for v in m.runtime]
        for key in keys:
            self.parameters.number.setdefault(key, len(self.parameters.number))
            self.parameters.facts.setdefault(key, key[3])
        system = replace(system_of(m), runtime=keys)
        relation = Builder(self._isl, isl_context(), system, self.parameters).relation()
        if not m.runtime:
            self._known[m] = relation
        return relation

    def union(self, accesses: Sequence[Access]) -> Relations:
        """The relations that maps of an answer say."""
        found: Relations = {}
        for access in accesses:
            if access.map is not None and not access.map.is_known_empty:
                access = shortest(access)
                found = self.join(found, {access.via: self.relation(joined(access), AS_THEY_ARE)})
        return found

    def _key(
        self, m: IndexingMap, variable: RuntimeVariable, names: Names
    ) -> tuple[Hashable, Interval, tuple[int, ...], Interval]:
        """What tells the variable's value: it is the same for all indices, or it is undecided."""
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
        bounds = m.range_of(e)
        if not bounds.is_point:
            raise UndecidedError("runtime variables are read at indices that run")
        return bounds.lo
