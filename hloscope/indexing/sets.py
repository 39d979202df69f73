"""Maps as sets: images of boxes, numbers of elements, unions, intersections, differences.

A set of elements is a union of maps without dimensions. A difference is a list of disjoint maps.
All results are exact, or an error says that they are undecided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, prod
from typing import Any, Generic, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import Const, Dim, Expr, Interval, Mod, Range, Runtime, Var, as_sum, variables
from hloscope.errors import UnsupportedError
from hloscope.indexing.base import M
from hloscope.indexing.claims import varying_runtime_names
from hloscope.indexing.counts import card, card_bounds
from hloscope.indexing.evaluate import CHUNK, Index, Point, points
from hloscope.indexing.proofs import prove_empty, prove_implies, system_of
from hloscope.indexing.simplify import simplify
from hloscope.indexing.transform import dims_to_ranges, remove_unused, with_values
from hloscope.indexing.variables import (
    Constraint,
    RuntimeVariable,
    Variable,
    renamed,
    replace_interval,
    substituted,
    substituted_constraints,
)
from hloscope.simplifier import (
    BUDGET,
    Piece,
    UndecidedError,
    budgeted,
    combine,
    isl_context,
    pieces_of,
    to_isl as relation_of,
)

Side: TypeAlias = Interval | range | tuple[int, int] | int
"""The integers of one coordinate: an interval, `(lo, hi)`, a range, or one integer.

Both ends of `(lo, hi)` are included.
"""


class IndexSet(Struct, Generic[M], frozen=True):
    """A set of elements of a tensor: the union of the results of maps without dimensions.

    >>> from hloscope.indexing import IndexingMap
    >>> m = IndexingMap.parse("(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 9], s0 in [0, 1]")
    >>> rows = m.image([(2, 5)])
    >>> rows.card(), (9,) in rows, (10,) in rows, rows.hull
    (8, True, False, (Interval(lo=8, hi=21),))
    """

    maps: tuple[M, ...]
    rank: int

    @property
    def hull(self) -> tuple[Interval, ...]:
        """For each coordinate an interval that contains all its values; it may be too large."""
        sides = [Interval.EMPTY] * self.rank
        for m in self.maps:
            sides = [a | m.domain.bounds(e) for a, e in zip(sides, m.results, strict=True)]
        return tuple(sides)

    def at_runtime(self, values: Index) -> IndexSet[M]:
        """Return the set for given values of the runtime variables."""
        return IndexSet(tuple([_at_runtime(m, values) for m in self.maps]), self.rank)

    def card(self, runtime: Index = ()) -> int:
        """Return the exact number of elements.

        Args:
            runtime: Values of the runtime variables, if they matter.

        Raises:
            UnsupportedError: The number is undecided or depends on runtime values; the message
                says why, or has bounds.
        """
        if runtime:
            return self.at_runtime(runtime).card()
        return card(self.maps)

    def card_bounds(self) -> tuple[int, int]:
        """Return a lower and an upper bound of the number of elements, for all runtime values.

        Raises:
            UnsupportedError: The number is infinite.
        """
        return card_bounds(self.maps)

    def __contains__(self, point: Index) -> bool:
        return len(point) == self.rank and _contains(self.maps, point)

    def __iter__(self) -> Iterator[Point]:
        """Yield each element once, sorted.

        Raises:
            ValueError: The range variables have more than 16 million combinations of values.
        """
        return iter(sorted(set().union(*(points(m, ()) for m in self.maps))))

    def __str__(self) -> str:
        return " or ".join(map(str, self.maps)) or "nothing"


def image(m: M, box: Sequence[Side] | None = None) -> IndexSet[M]:
    """Return the set of all results of the indices in a box, or in the whole domain.

    Raises:
        UnsupportedError: The map is undefined.
        ValueError: The box has another number of sides than the map has dimensions.
    """
    sides = _sides(box, len(m.dims), "dimensions")
    if m.is_undefined:
        raise UnsupportedError("an undefined map says nothing")
    if sides is not None:
        bounded = [
            replace_interval(v, v.interval & side) for v, side in zip(m.dims, sides, strict=True)
        ]
        m = m.with_(dims=bounded)
    return _set_of(m, m.results)


def preimage(m: M, box: Sequence[Side] | None = None) -> IndexSet[M]:
    """Return the set of all indices that have a result in a box, or any result.

    Raises:
        UnsupportedError: The map is undefined.
        ValueError: The box has another number of sides than the map has results.
    """
    sides = _sides(box, len(m.results), "results")
    if m.is_undefined:
        raise UnsupportedError("an undefined map says nothing")
    if sides is not None:
        inside = [*zip(m.results, sides, strict=True)]
        m = m.with_(constraints=(*m.constraints, *inside))
    return _set_of(m, [Dim(i) for i in range(len(m.dims))])


def _sides(box: Sequence[Side] | None, count: int, what: str) -> list[Interval] | None:
    """Return the sides of a box as intervals; `None` for no box.

    Raises:
        ValueError: The box does not have `count` sides; `what` is the noun for them in the message.
    """
    if box is None:
        return None
    if len(box) != count:
        raise ValueError(f"a box of {len(box)} intervals for {count} {what}")
    return [interval_of(side) for side in box]


def interval_of(side: Side) -> Interval:
    """Return the integers of a coordinate as an interval."""
    match side:
        case Interval():
            return side
        case int():
            return Interval.point(side)
        case range():
            if abs(side.step) != 1 and len(side) > 1:
                raise ValueError(f"{side} leaves out integers; a box has none of that")
            return Interval(min(side), max(side)) if side else Interval.EMPTY
    lo, hi = side
    return Interval(lo, hi)


def _set_of(m: M, results: Sequence[Expr]) -> IndexSet[M]:
    """Return the set of the values that the expressions `results` have on the domain of the map."""
    if m.is_known_empty:
        return IndexSet((), len(results))
    found = remove_unused(simplify(dims_to_ranges(m, results)), dims=False)
    return IndexSet(() if found.is_known_empty else (found,), len(results))


def _at_runtime(m: M, values: Index) -> M:
    if len(values) != len(m.runtime):
        raise ValueError(f"{len(values)} values for {len(m.runtime)} runtime variables")
    if several := varying_runtime_names([m]):
        raise UnsupportedError(f"one value for {several}, read at several indices, says too little")
    return with_values(m, values)


def _contains(maps: Sequence[M], point: Index) -> bool:
    """Is the point a result of one of the maps, which have no dimensions?

    Raises:
        UnsupportedError: That depends on values read at run time.
    """
    free = [m for m in maps if not m.runtime]
    if any(_has_result(m, point) for m in free):
        return True
    reading = [m for m in maps if m.runtime]
    if not reading:
        return False
    # Without runtime values there is an answer only if the point is in the set for all tables, or
    # for none.
    here = type(reading[0])(results=[int(k) for k in point])
    if prove_implies([here], maps).is_proved:
        return True
    never = [_with_result(m, point).with_(results=()) for m in reading]
    if prove_empty(never).is_proved:
        return False
    raise UnsupportedError("membership depends on runtime variables: give them values")


def _with_result(m: M, point: Index) -> M:
    """Return the map restricted to pairs with the result `point`."""
    there = [(e, Interval.point(int(k))) for e, k in zip(m.results, point, strict=True)]
    return simplify(m.with_(constraints=(*m.constraints, *there)))


def _has_result(m: M, point: Index) -> bool:
    m = _with_result(m, point)
    if m.is_known_empty:
        return False
    if not m.constraints:
        return True
    if prod(i.size for i in m.box.values()) <= CHUNK:
        return bool(points(m, ()))
    proof = prove_empty([m])
    if not proof.is_proved and not proof.is_refuted:
        raise UnsupportedError(f"membership is undecided: {proof.reason}")
    return proof.is_refuted


# ---------------------------------------------------------------------------------- pairs of maps


def union(first: M, second: M) -> list[M]:
    """Return the pairs of either map as disjoint maps; the first one is `first`.

    Raises:
        UnsupportedError: The result is undecided.
    """
    if first.is_known_empty or second.is_known_empty:
        return [m for m in (first, second) if not m.is_known_empty]
    return [first, *subtract(second, first)]


def intersect(first: M, second: M) -> list[M]:
    """Return the pairs that both maps have, as disjoint maps.

    If isl cannot decide, the result is one map with unsolved constraints.
    """
    if first.is_known_empty or second.is_known_empty:
        return []
    try:
        return _combined("intersect", first, second)
    except UnsupportedError:
        return _intersection_by_constraints(first, second)


def subtract(first: M, second: M) -> list[M]:
    """Return the pairs that only the first map has, as disjoint maps.

    Raises:
        UnsupportedError: The result is undecided.
    """
    if first.is_known_empty:
        return []
    if second.is_known_empty:
        return [first]
    return _combined("subtract", first, second)


def _check(first: M, second: M) -> None:
    """Raise an error if two maps are not relations between the same spaces.

    Raises:
        UnsupportedError: A map is undefined.
        ValueError: The numbers of dimensions or results differ.
    """
    if first.is_undefined or second.is_undefined:
        raise UnsupportedError("an undefined map says nothing")
    shapes = [(len(m.dims), len(m.results)) for m in (first, second)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"{shapes[0][0]} -> {shapes[0][1]} and {shapes[1][0]} -> {shapes[1][1]}")


def _combined(operation: str, first: M, second: M) -> list[M]:
    """Return the union, intersection or difference of two maps as disjoint maps.

    `operation` is isl's name of it, such as `subtract`.

    Raises:
        UnsupportedError: The result is undecided.
        ValueError: The numbers of dimensions or results differ.
    """
    _check(first, second)
    # isl's parameters are single integers: a variable read at varying indices is a table.
    if reads := varying_runtime_names([first, second]):
        raise UnsupportedError(f"undecided: runtime variables {reads} are read at indices that run")
    systems = system_of(first), system_of(second)
    try:
        pieces, parameters = combine(operation, [systems[0]], [systems[1]])
    except UndecidedError as error:
        raise UnsupportedError(f"undecided: {error}") from None
    known = {
        key: v
        for m, s in zip((first, second), systems, strict=True)
        for key, v in zip(s.runtime, m.runtime, strict=True)
    }
    owners = [known[key] for key in parameters.number]
    # A piece cannot express an index that depends on another value read at run time.
    if any(isinstance(u, Runtime) for v in owners for e in v.arguments for u in variables(e)):
        raise UnsupportedError("undecided: the index of a runtime variable is read at run time")
    runtime = [replace_interval(v, v.values) for v in owners]
    return [found for p in pieces if not (found := _map_of_piece(first, p, runtime)).is_known_empty]


def _map_of_piece(dims_of: M, piece: Piece, runtime: Sequence[RuntimeVariable]) -> M:
    """Return an isl piece as a map with the names of the dimensions of `dims_of`.

    `runtime` has the runtime variables that the piece's parameters stand for.
    """
    dims = [Variable(Interval.EVERYTHING, v.name) for v in dims_of.dims]
    ranges = [Variable(Interval.EVERYTHING)] * piece.num_ranges
    found = dims_of.with_(
        dims=dims,
        ranges=ranges,
        runtime=runtime,
        results=piece.results,
        constraints=piece.constraints,
    )
    found = simplify(found, replace_points=False)
    # isl writes strided solutions as constraints on remainders; solving them gives plain strides.
    while (solved := _solve_remainder(found)) is not None:
        found = simplify(solved, replace_points=False)
    return remove_unused(found, dims=False)


def _solve_remainder(m: M) -> M | None:
    """Solve one constraint `(a * x + rest) mod c = r` for a range variable `x`.

    `x` becomes its lowest value plus the distance to the first solution plus `c` times a new
    variable. The result is `None` if there is no such constraint.
    """
    for k, (e, interval) in enumerate(m.constraints):
        if not isinstance(e, Mod) or not isinstance(e.den, Const) or not interval.is_point:
            continue
        c, inner = e.den.value, e.num
        for x, a in as_sum(inner)[0]:
            rest = inner - x * a
            if not isinstance(x, Range) or c < 2 or gcd(a, c) > 1 or x in variables(rest):
                continue
            box = m.box[x]
            if not box.is_finite:
                continue
            # `a` is invertible modulo `c`, so the solutions are one residue class; the inverse
            # nearest to zero keeps numbers small.
            inverse = pow(a, -1, c)
            inverse = min(inverse, inverse - c, key=abs)
            first = ((interval.lo - rest) * inverse - box.lo) % c + box.lo
            steps = Interval(0, (box.size - 1) // c)
            new: dict[Var, Expr] = {x: first + x * c}
            ranges = [*m.ranges]
            ranges[x.index] = Variable(steps, ranges[x.index].name)
            left = [*m.constraints[:k], *m.constraints[k + 1 :], (x, box)]
            return m.with_(
                ranges=ranges,
                results=substituted(m.results, new),
                constraints=substituted_constraints(left, new),
            )
    return None


def _intersection_by_constraints(first: M, second: M) -> list[M]:
    """Return the intersection as one map with the constraint that the results are equal."""
    _check(first, second)
    # The variables of both maps are independent, so those of `second` are renumbered.
    n, r = len(first.ranges), len(first.runtime)
    shift: dict[Var, Expr] = {Range(i): Range(n + i) for i in range(len(second.ranges))}
    shift |= {Runtime(i): Runtime(r + i) for i in range(len(second.runtime))}
    others = substituted(second.results, shift)
    same: list[Constraint] = [
        (a - b, Interval.point(0)) for a, b in zip(first.results, others, strict=True)
    ]
    found = first.with_(
        dims=[
            replace_interval(a, a.interval & b.interval)
            for a, b in zip(first.dims, second.dims, strict=True)
        ],
        ranges=first.ranges + second.ranges,
        runtime=[*first.runtime, *[renamed(v, shift) for v in second.runtime]],
        constraints=[
            *first.constraints,
            *substituted_constraints(second.constraints, shift),
            *same,
        ],
    )
    found = remove_unused(simplify(found), dims=False)
    return [] if found.is_known_empty else [found]


def to_isl(m: M) -> Any:
    """Return the relation as an `islpy.Map`; runtime variables are parameters.

    Raises:
        UnsupportedError: The map is not affine, or the index of a runtime variable varies.
    """
    if reads := varying_runtime_names([m], also_dims=True):
        raise UnsupportedError(f"runtime variables {reads} are read at indices that run")
    try:
        return relation_of(system_of(m))
    except ValueError as error:
        raise UnsupportedError(str(error)) from None


def from_isl(like: type[M], relation: Any) -> list[M]:
    """Convert an `islpy.Map`, or isl's text of one, to disjoint maps of type `like`.

    Parameters must be named `p0`, `p1`, … and become runtime variables without origin.

    Raises:
        UnsupportedError: isl finds no quotients for its unknowns within the budget.
    """
    try:
        with budgeted(BUDGET) as isl:
            found = relation
            if isinstance(relation, str):
                found = isl.Map.read_from_str(isl_context(), relation)
            num_dims = found.dim(isl.dim_type.in_)
            names = [
                found.get_dim_name(isl.dim_type.param, i)
                for i in range(found.dim(isl.dim_type.param))
            ]
            pieces = pieces_of(isl, found, num_dims)
    except UndecidedError as error:
        raise UnsupportedError(f"undecided: {error}") from None
    numbers = [int(name.removeprefix("p")) for name in names]
    runtime = [RuntimeVariable(Interval.EVERYTHING)] * (max(numbers, default=-1) + 1)
    template = like(dims=[Variable(Interval.EVERYTHING)] * num_dims)
    found_maps = [_map_of_piece(template, piece, runtime) for piece in pieces]
    return [
        m.with_(runtime=[replace(v, clamp=None) for v in m.runtime])
        for m in found_maps
        if not m.is_known_empty
    ]
