"""Maps with runtime variables as sets over tables, for proofs that hold for every value read.

A runtime variable is a function of the index at which it is read: a table in `isl_tables`. Two
variables read the same table if they have the same origin. Without an origin they must have the
same name, or the same position and no name. They are equal where their indices are equal. A value
is clamped to the variable's `values`, and the map holds where the value lies in its `interval`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeAlias

from hloscope.affine import Const, Expr, Interval, Range, Runtime, Var, bounds, variables
from hloscope.indexing.base import MapBase
from hloscope.indexing.variables import (
    Constraint,
    RuntimeVariable,
    substituted,
    substituted_constraints,
)
from hloscope.ir import Instruction, TensorType
from hloscope.simplifier import Body, Read, clamped

Identity: TypeAlias = Callable[[int, RuntimeVariable], Hashable]
"""Function of the position and the variable that identifies variables without origin."""


def by_name(i: int, v: RuntimeVariable) -> Hashable:
    """Return the identity of variable `i` without origin: its name, or its position."""
    return v.name or i


def running(maps: Iterable[MapBase], *, also_dims: bool = False) -> str:
    """Return the names of the runtime variables whose index depends on range variables.

    With `also_dims`, dimensions count too.
    """
    return ", ".join(
        m.names[Runtime(i)]
        for m in maps
        for i in range(len(m.runtime))
        if any(isinstance(x, Range) or also_dims for x in index_variables(m, i))
    )


def index_variables(m: MapBase, i: int) -> set[Var]:
    """Return the variables of several values that decide where runtime variable `i` is read.

    Variables of nested indices count: for `t[i[s0]]`, `s0`.
    """
    found: set[Var] = set()
    todo = [*m.runtime[i].arguments]
    seen: set[Var] = set()
    while todo:
        for v in variables(todo.pop()) - seen:
            seen.add(v)
            if isinstance(v, Runtime):
                todo += m.runtime[v.index].arguments
            elif not m.box[v].is_point:
                found.add(v)
    return found


class Tables:
    """The tables that the runtime variables of some maps read."""

    def __init__(self, *groups: tuple[Iterable[MapBase], Identity]) -> None:
        self._values: dict[Hashable, set[Interval]] = {}
        for maps, identity in groups:
            for m in maps:
                for i, v in enumerate(m.runtime):
                    self._values.setdefault(self.key(i, v, identity), set()).add(v.values)

    def key(self, i: int, v: RuntimeVariable, identity: Identity) -> Hashable:
        """Return the key of the table that a variable reads: its origin and rank."""
        return (identity(i, v) if v.source is None else v.source), len(v.arguments)

    def body(
        self, m: MapBase, point: Sequence[Expr], identity: Identity, *constraints: Constraint
    ) -> Body:
        """Return the set of `point` over all variables of the map.

        Values are clamped when they are read.
        """
        place: dict[Var, Expr] = {
            v: Const(side.lo) if side.is_point else Range(i)
            for i, (v, side) in enumerate(m.box.items())
        }
        box = [*m.box.values()]
        first = len(m.dims) + len(m.ranges)
        held: list[Constraint] = [
            (e, i) for e, i in (*m.constraints, *constraints) if not i.contains(bounds(e, m.box))
        ]
        for i, v in enumerate(m.runtime):
            box[first + i], value, possible = self._read(i, v, identity, Range(first + i))
            place[Runtime(i)] = value
            if not v.interval.contains(possible):
                held.append((Runtime(i), v.interval))
        held = substituted_constraints(held, place)
        point = substituted(point, place)
        reads = [
            Read(self.key(i, v, identity), substituted(v.arguments, place), Range(first + i))
            for i, v in enumerate(m.runtime)
        ]
        used = variables(*point, *[e for e, _ in held])
        # Only reads that matter are kept: those in the point or in constraints, and those in their
        # indices.
        kept: dict[int, Read] = {}
        while more := {i: r for i, r in enumerate(reads) if i not in kept and r.value in used}:
            kept |= more
            used = used.union(*[variables(*r.index) for r in more.values()])
        return Body(tuple(box), tuple(held), point, tuple([kept[i] for i in sorted(kept)]))

    def _read(
        self, i: int, v: RuntimeVariable, identity: Identity, what: Range
    ) -> tuple[Interval, Expr, Interval]:
        """Return three properties of a read.

        Returns:
            The interval of the table's value, the clamped value, and the interval of that.
        """
        found = self._values[self.key(i, v, identity)]
        # Variables that clamp one table differently share a table with the union of their
        # intervals.
        hull = Interval.EMPTY
        for values in found:
            hull = hull | values
        if v.origin is not None:
            hull = _attainable(v.origin, hull)
        if hull.is_point:
            value = hull.lo if v.origin is None else min(max(hull.lo, v.values.lo), v.values.hi)
            return hull, Const(value), Interval.point(value)
        if v.origin is None or len(found) == 1:
            return hull, what, hull
        return hull, clamped(what, v.values), v.values


def _attainable(origin: Instruction, values: Interval) -> Interval:
    """Return the part of `values` that an element of the origin's type, clamped to it, can have."""
    if not isinstance(origin.type, TensorType):
        return values
    kind, bits = origin.type.element.kind, origin.type.element.bits
    if kind == "signed":
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    elif kind in ("unsigned", "pred"):
        low, high = 0, (1 << bits) - 1 if kind == "unsigned" else 1
    else:
        return values
    return Interval(min(max(low, values.lo), values.hi), min(max(high, values.lo), values.hi))
