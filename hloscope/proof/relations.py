"""Relations of isl carried through a program, without our composition or simplification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from hloscope.affine import Expr, Interval
from hloscope.fusion.pool import with_replica
from hloscope.indexing import Access, IndexingMap, RuntimeVariable
from hloscope.indexing.exact import system_of
from hloscope.ir.graph import Instruction
from hloscope.proof.graph import Names
from hloscope.proof.reads import Values
from hloscope.simplifier.isl_relations import (
    Builder,
    Parameters,
    UndecidedError,
    context,
)

Relations: TypeAlias = dict[int, Any]
"""From output elements to elements, by how many positions in replica groups follow the index."""


class Relating:
    """A follower: `through` is `apply_range`, `join` is `union`."""

    def __init__(self, isl: Any, values: Values) -> None:
        self._isl = isl
        self._values = values
        self.parameters = Parameters({}, {})
        self._known: dict[IndexingMap, Any] = {}

    def identity(self, sizes: Sequence[int]) -> Relations:
        """Every element of a tensor to itself."""
        box = self.relation(IndexingMap.of_sizes(sizes), {}).domain()
        return {0: self._isl.Map.identity(box.get_space().map_from_set()).intersect_domain(box)}

    def through(self, reached: Relations, access: Access, names: Names) -> Relations | None:
        """What an access touches of what is reached."""
        assert access.map is not None
        step = self.relation(with_replica(access), names)
        own = len(access.replica.results) if access.replica else 0
        found: Relations = {}
        for count, relation in reached.items():
            if relation.dim(self._isl.dim_type.out) - count != len(access.map.dims):
                raise UndecidedError("the program is inconsistent: ranks differ")
            onwards = self._passing(step, own, count) if count else step
            composed = relation.apply_range(onwards)
            if not composed.is_empty():
                found[count + own] = composed.coalesce()
        return found or None

    def join(self, one: Relations, other: Relations) -> Relations:
        """Both together."""
        found = dict(one)
        for count, relation in other.items():
            known = found.get(count)
            found[count] = relation if known is None else known.union(relation).coalesce()
        return found

    def _passing(self, step: Any, own: int, count: int) -> Any:
        """The step with earlier positions in replica groups handed on, before its own."""
        isl = self._isl
        handed = isl.Map.identity(isl.Space.alloc(context(), 0, count, count))
        both = step.flat_product(handed)
        rank = step.dim(isl.dim_type.out) - own
        names = [f"o{i}" for i in range(rank + own + count)]
        index, mine, earlier = names[:rank], names[rank : rank + own], names[rank + own :]
        swap = f"{{ [{', '.join(names)}] -> [{', '.join(index + earlier + mine)}] }}"
        return both.apply_range(isl.Map.read_from_str(context(), swap))

    def relation(self, m: IndexingMap, names: Names) -> Any:
        """A map as isl has it."""
        if not m.runtime and m in self._known:
            return self._known[m]
        keys = [self._key(m, v, names) for v in m.runtime]
        for key in keys:
            self.parameters.number.setdefault(key, len(self.parameters.number))
            self.parameters.facts.setdefault(key, key[3])
        system = replace(system_of(m), runtime=keys)
        relation = Builder(self._isl, context(), system, self.parameters).relation()
        if not m.runtime:
            self._known[m] = relation
        return relation

    def union(self, accesses: Sequence[Access]) -> Relations:
        """The relations that maps of an answer say."""
        found: Relations = {}
        for access in accesses:
            if access.map is not None and not access.map.is_known_empty:
                count = len(access.replica.results) if access.replica else 0
                found = self.join(found, {count: self.relation(with_replica(access), {})})
        return found

    def _key(
        self, m: IndexingMap, variable: RuntimeVariable, names: Names
    ) -> tuple[Instruction | int, Interval, tuple[int, ...], Interval]:
        """What tells the variable's value: it is the same for all indices, or it is undecided."""
        index = tuple([self._fixed(m, e) for e in variable.index])
        origin = variable.origin
        if origin is None:
            raise UndecidedError("a runtime variable without origin")
        origin = names.get(origin, origin)
        can_be = variable.values
        table = self._values.known(origin)
        if table is not None and len(index) == table[0].ndim:
            inside = all(0 <= i < n for i, n in zip(index, table[0].shape, strict=True))
            if inside and table[1][index]:
                value = int(table[0][index])
                can_be = Interval.point(min(max(value, can_be.lo), can_be.hi))
        return origin, variable.values, index, can_be

    def _fixed(self, m: IndexingMap, e: Expr) -> int:
        bounds = m.range_of(e)
        if not bounds.is_point:
            raise UndecidedError("runtime variables are read at indices that run")
        return bounds.lo
