"""Proofs about maps by isl: proved for all values of runtime variables, or refuted by some."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import combinations, combinations_with_replacement
from time import perf_counter
from typing import Final, TypeAlias, cast

from msgspec.structs import replace

from hloscope.affine import (
    NEG_INF,
    POS_INF,
    Const,
    Dim,
    Expr,
    Interval,
    Range,
    Runtime,
    Var,
    bounds,
    variables,
)
from hloscope.indexing.base import MapBase
from hloscope.indexing.variables import (
    Constraint,
    RuntimeVariable,
    are_related,
    substituted,
    substituted_constraints,
)
from hloscope.ir import Instruction, TensorType
from hloscope.simplifier import (
    PROVED,
    Body,
    CounterExample,
    Proof,
    Read,
    Refutation,
    StatementSets,
    Table,
    UndecidedError,
    Verdict,
    Witness,
    as_tuple,
    budgeted,
    clamped,
    extent,
    refutations,
    some_point,
)

# --------------------------------------------------------------------------------------------------
# Proofs about maps by isl, for every value that runtime variables may have.
#
# The tensor that a runtime variable is read from is a table with arbitrary elements. A statement is
# proved for every table, or refuted by one. Without runtime variables it is decided as it is. Every
# statement becomes one of two: a set of points is empty, or it is included in another.


SECONDS: Final = 1.0
"""Seconds after which no more families of tables are tried as counter-examples."""
OPEN: Final = "it is proved for no and refuted by no values that were tried"


def subset(first: Sequence[MapBase], second: Sequence[MapBase], budget: int) -> Proof:
    """Prove that every (index, result) pair of `first` is in `second`, for all runtime values.

    `budget` limits the number of isl's steps.
    """
    a, b, n = _bodies_of_both(first, second)
    return _timed(lambda: _included(StatementSets([*a, *b]), a, b, n, budget))


def equal(first: Sequence[MapBase], second: Sequence[MapBase], budget: int) -> Proof:
    """Prove that two unions of maps are the same relation, for all runtime values.

    `budget` limits the number of isl's steps.
    """
    a, b, n = _bodies_of_both(first, second)
    return _timed(lambda: _same(a, b, n, budget))


def _bodies_of_both(
    first: Sequence[MapBase], second: Sequence[MapBase]
) -> tuple[list[Body], list[Body], int]:
    """Return two unions of maps as sets of points (index, result), and the number of dimensions.

    Raises:
        ValueError: The maps differ in their numbers of dimensions or results.
    """
    shapes = {(len(m.dims), len(m.results)) for m in (*first, *second)}
    if len(shapes) > 1:
        listed = ", ".join(f"{n} -> {k}" for n, k in sorted(shapes))
        raise ValueError(f"numbers of variables and results differ: {listed}")
    tables = Tables(([*first, *second], by_name))
    a, b = (_pairs(tables, side) for side in (first, second))
    return a, b, min(shapes)[0] if shapes else 0


def inverse(first: Sequence[MapBase], second: Sequence[MapBase], budget: int) -> Proof:
    """Prove that the second union of maps is the inverse of the first, for all runtime values.

    `budget` limits the number of isl's steps.

    Raises:
        ValueError: The numbers of dimensions and results do not allow it.
    """
    there, back = ({(len(m.dims), len(m.results)) for m in side} for side in (first, second))
    if any(shape[::-1] not in there for shape in back) and there:
        (n, k), (r, s) = min(there), min(back)
        raise ValueError(f"{n} -> {k} cannot be the inverse of {r} -> {s}")
    tables = Tables(([*first, *second], by_name))
    a, b = _pairs(tables, first), _pairs(tables, second, swapped=True)
    num_dims = min(there)[0] if there else min(back, default=(0, 0))[1]
    return _timed(lambda: _same(a, b, num_dims, budget))


def composed(
    first: Sequence[MapBase], second: Sequence[MapBase], whole: Sequence[MapBase], budget: int
) -> Proof:
    """Prove that `whole` is the composition of `first` and then `second`, for all runtime values.

    Runtime variables without origin of `first` differ from those of `second`. In `whole` they are
    identified by their position, as `compose` numbers them. If that is not possible, a refutation
    is reported as undecided.

    Raises:
        ValueError: The numbers of dimensions and results do not allow it.
    """
    known = _positions(first, second, whole)

    def of_first(i: int, v: RuntimeVariable) -> Hashable:
        return "first", by_name(i, v)

    def of_second(i: int, v: RuntimeVariable) -> Hashable:
        return "second", by_name(i, v)

    def of_whole(i: int, v: RuntimeVariable) -> Hashable:
        return known[i] if known else ("composed", by_name(i, v))

    tables = Tables((first, of_first), (second, of_second), (whole, of_whole))
    inner, outer = ({(len(m.dims), len(m.results)) for m in s} for s in (first, second))
    shapes = {(n, r) for n, _ in inner for _, r in outer}
    if any((len(m.dims), len(m.results)) not in shapes for m in whole) and shapes:
        raise ValueError("the composition has other numbers of variables and results")
    a = [
        _composed_body(
            _body(tables, f, of_first), _body(tables, g, of_second), len(f.dims), len(g.dims)
        )
        for f in first
        for g in second
    ]
    b = [_body(tables, m, of_whole) for m in whole]
    num_dims = min(shapes)[0] if shapes else 0
    proof = _timed(lambda: _same(a, b, num_dims, budget))
    # The counter-example may rest on treating two equal variables as different ones.
    if (
        proof.is_refuted
        and known is None
        and any(v.source is None for m in whole for v in m.runtime)
    ):
        reason = "which runtime variables without origin are the same is not known"
        return Proof(Verdict.UNDECIDED, reason=reason, seconds=proof.seconds)
    return proof


def _positions(
    first: Sequence[MapBase], second: Sequence[MapBase], whole: Sequence[MapBase]
) -> list[Hashable] | None:
    """Return a key for each runtime variable of the composition `whole`, by its number there.

    The key says which variable of `first` or `second` it is. `compose` puts the variables of
    `second` before those of `first`. The result is `None` if the numbers of variables do not agree,
    as some were merged, or if there are several maps.
    """
    if not (len(first) == len(second) == len(whole) == 1):
        return None
    given = [*second[0].runtime, *first[0].runtime]
    if len(given) != len(whole[0].runtime):
        return None
    count = len(second[0].runtime)
    return [
        ("second", by_name(i, v)) if i < count else ("first", by_name(i - count, v))
        for i, v in enumerate(given)
    ]


def _composed_body(one: Body, other: Body, num_dims: int, middle: int) -> Body:
    """Return the relation from the dimensions of `one` to the results of `other`.

    Args:
        one: The relation that is applied first.
        other: The relation that is applied to its results.
        num_dims: Number of dimensions of `one`.
        middle: Number of dimensions of `other`.
    """
    next_ = other.shifted(len(one.box))
    same: list[Constraint] = [
        (a - b, Interval.point(0))
        for a, b in zip(one.point[num_dims:], next_.point[:middle], strict=True)
    ]
    return one.joined(next_, same, (*one.point[:num_dims], *next_.point[middle:]))


def empty(maps: Sequence[MapBase], budget: int) -> Proof:
    """Prove that the union of maps is empty for all runtime values.

    `budget` limits the number of isl's steps.
    """
    tables = Tables((maps, by_name))
    num_dims = len(maps[0].dims) if maps else 0
    return _timed(lambda: _no_point(_pairs(tables, maps), num_dims, budget))


def within(m: MapBase, expr: Expr, interval: Interval, budget: int) -> Proof:
    """Prove that the values of `expr` lie in the interval on the whole domain.

    The proof is for all runtime values. `budget` limits the number of isl's steps.
    """
    tables = Tables(([m], by_name))
    # Its values outside of the interval must be impossible, on both sides.
    outside = [Interval(NEG_INF, interval.lo - 1), Interval(interval.hi + 1, POS_INF)]
    point = [*[v for v in m.box if not isinstance(v, Runtime)], expr]
    bodies = [tables.body(m, point, by_name, (expr, side)) for side in outside if side.size]
    return _timed(lambda: _no_point(bodies, len(point) - 1, budget))


def tight_bounds(m: MapBase, expr: Expr, budget: int) -> Interval | None:
    """Return the smallest interval that contains all values of `expr`.

    The result is `None` if isl does not decide. `budget` limits the number of isl's steps.
    """
    body = Tables(([m], by_name)).body(m, [expr], by_name)
    try:
        with budgeted(budget):
            return extent(body)
    except UndecidedError:
        return None


def one_to_one(maps: Sequence[MapBase], budget: int, *, reverse: bool) -> Proof:
    """Prove that every result has one index; with `reverse`, that every index has one result.

    The proof is for all runtime values. `budget` limits the number of isl's steps.
    """
    tables = Tables((maps, by_name))
    bodies = _pairs(tables, maps, swapped=reverse)
    num_left = (len(maps[0].results) if reverse else len(maps[0].dims)) if maps else 0
    proof = _timed(lambda: _no_point([*_conflicting_pairs(bodies, num_left)], num_left, budget))
    if proof.counter_example is None:
        return proof
    both = f"{as_tuple(proof.counter_example.dims)}, {as_tuple(proof.counter_example.results)}"
    what = "an index has two results" if reverse else "two indices have a result in common"
    return replace(proof, reason=f"{what}: {both}{proof.counter_example.reading}")


def _conflicting_pairs(bodies: Sequence[Body], num_left: int) -> Iterator[Body]:
    """Yield the sets of two pairs (left, right) with equal right and different left sides.

    `num_left` is the number of coordinates of the left side.
    """
    for one, two in combinations_with_replacement(bodies, 2):
        other = two.shifted(len(one.box))
        same = [
            (a - b, Interval.point(0))
            for a, b in zip(one.point[num_left:], other.point[num_left:], strict=True)
        ]
        left = one.point[:num_left], other.point[:num_left]
        for a, b in zip(*left, strict=True):
            # Two points of one body are interchangeable, so one sign suffices.
            signs = (1,) if one is two else (1, -1)
            for sign in signs:
                more = ((a - b) * sign, Interval(1, POS_INF))
                yield one.joined(other, (*same, more), (*left[0], *left[1]))


def onto(m: MapBase, boxes: Sequence[Sequence[Interval]], budget: int) -> Proof:
    """Prove that the domain of the map is exactly `boxes[0]` and its range exactly `boxes[1]`.

    Each box has an interval for each dimension. `budget` limits the number of isl's steps.
    """
    return _timed(lambda: _onto(m, boxes, budget))


def _onto(m: MapBase, boxes: Sequence[Sequence[Interval]], budget: int) -> Proof:
    """Return the result of `onto`, without its elapsed time."""
    tables = Tables(([m], by_name))
    undecided: Proof | None = None
    for number, box in enumerate(boxes):
        side = m.results if number else [Dim(i) for i in range(len(m.dims))]
        mine = [tables.body(m, side, by_name)]
        whole = [Body(tuple(box), (), tuple([Range(i) for i in range(len(box))]))]
        sets = StatementSets([*whole, *mine])
        # Equal sets include each other, and each inclusion has its own message.
        for first, second, text in (
            (whole, mine, ("index {} has no result", "nothing leads to {}")),
            (mine, whole, ("index {} is outside", "result {} is outside")),
        ):
            proof = _included(sets, first, second, len(box), budget)
            if proof.is_refuted:
                assert proof.counter_example is not None
                at, tables_ = proof.counter_example.dims, proof.counter_example.tables
                dims, results = ((), at) if number else (at, ())
                example = CounterExample(dims, results, tables=tables_)
                reason = text[number].format(as_tuple(at)) + example.reading
                return Proof(Verdict.REFUTED, example, reason)
            if not proof.is_proved:
                undecided = proof
    return undecided or PROVED


# ------------------------------------------------------------------------------------- decisions


def _pairs(tables: Tables, maps: Iterable[MapBase], *, swapped: bool = False) -> list[Body]:
    """Return the set of points (index, result) of each map; (result, index) if `swapped`."""
    return [_body(tables, m, by_name, swapped=swapped) for m in maps]


def _body(tables: Tables, m: MapBase, identity: Identity, *, swapped: bool = False) -> Body:
    """Return the set of points (index, result) of a map; (result, index) if `swapped`.

    `identity` returns the keys of runtime variables without origin.
    """
    dims: list[Expr] = [Dim(i) for i in range(len(m.dims))]
    return tables.body(m, [*m.results, *dims] if swapped else [*dims, *m.results], identity)


def _timed(prove: Callable[[], Proof]) -> Proof:
    """Return the proof that `prove` makes, with the elapsed time.

    A refutation by tables that are computed from each other becomes undecided.
    """
    start = perf_counter()
    proof = prove()
    if (reason := _why_not_independent(proof)) is not None:
        proof = Proof(Verdict.UNDECIDED, reason=reason)
    return replace(proof, seconds=perf_counter() - start)


def _why_not_independent(proof: Proof) -> str | None:
    """Return why a refutation is not valid; `None` if it is valid or there is no refutation.

    It is not valid if two of its tables are computed from common values, as they may never have the
    refuting values together.
    """
    example = proof.counter_example
    if not proof.is_refuted or example is None or len(example.tables) < 2:
        return None
    origins = [origin for table in example.tables if (origin := _origin(table.origin)) is not None]
    for one, other in combinations(dict.fromkeys(origins), 2):
        if are_related(one, other):
            names = f"`{one.name}` and `{other.name}`"
            return f"{names} are not independent: they may never have the values that refute it"
    return None


def _origin(of_table: Hashable) -> Instruction | None:
    """Return the instruction whose value a table is; `None` for a position in a group."""
    match of_table:
        case Instruction():
            return of_table
        case (Instruction() as origin, "element", _):
            return origin
    return None


def _same(first: Sequence[Body], second: Sequence[Body], num_dims: int, budget: int) -> Proof:
    """Prove that two unions of bodies are equal, by both inclusions.

    `num_dims` is the number of coordinates of the index, which come first in a point.
    """
    sets = StatementSets([*first, *second])
    there = _included(sets, first, second, num_dims, budget)
    if there.is_refuted:
        return there
    back = _included(sets, second, first, num_dims, budget)
    if back.is_refuted:
        assert back.counter_example is not None
        return replace(back, counter_example=replace(back.counter_example, only_in=1))
    return back if there.is_proved else there


def _no_point(bodies: Sequence[Body], num_dims: int, budget: int) -> Proof:
    """Prove that the union of the bodies is empty.

    `num_dims` is the number of coordinates of the index, which come first in a point.
    """
    try:
        with budgeted(budget):
            found = some_point(bodies)
    except UndecidedError as error:
        return Proof(Verdict.UNDECIDED, reason=str(error))
    return PROVED if found is None else Proof(Verdict.REFUTED, _example(found, num_dims))


def _included(
    sets: StatementSets,
    first: Sequence[Body],
    second: Sequence[Body],
    num_dims: int,
    budget: int,
) -> Proof:
    """Prove that the union of the bodies `first` lies in that of `second`, or refute it.

    Args:
        sets: The isl sets of all bodies.
        first: The bodies that are to be included.
        second: The bodies that are to include them.
        num_dims: Number of coordinates of the index, which come first in a point.
        budget: Limit of the number of isl's steps.
    """
    start = perf_counter()
    reason, found = OPEN, None
    try:
        with budgeted(budget):
            found, is_exact = sets.included(first, second)
        if found is None:
            return PROVED
        if is_exact:
            return Proof(Verdict.REFUTED, _example(found, num_dims))
    # If there is no proof of inclusion, a table of a known family may still refute it.
    except UndecidedError as error:
        reason = str(error)
    try:
        with budgeted(budget):
            for refutation in refutations(first, second, found):
                if refutation is not None:
                    return Proof(Verdict.REFUTED, _by_formulas(refutation, num_dims))
                if perf_counter() - start > SECONDS:
                    break
    except UndecidedError:
        pass
    return Proof(Verdict.UNDECIDED, reason=reason)


def _example(witness: Witness, num_dims: int) -> CounterExample:
    """Return a point and its table entries as a counter-example.

    `num_dims` is the number of coordinates of the index, which come first in the point.
    """
    held: dict[Hashable, list[tuple[tuple[int, ...], int]]] = {}
    for table, index, value in witness.entries:
        held.setdefault(table, []).append((index, value))
    tables = []
    for table, entries in held.items():
        origin, rank = cast("tuple[Hashable, int]", table)
        tables.append(Table(_name(origin), origin, tuple(entries), rank=rank))
    point = witness.point
    return CounterExample(point[:num_dims], point[num_dims:], tables=tuple(tables))


def _by_formulas(refutation: Refutation, num_dims: int) -> CounterExample:
    """Return a refutation by tables as a counter-example.

    `num_dims` is the number of coordinates of the index, which come first in the point.
    """
    tables = []
    for known in refutation.tables:
        origin, rank = cast("tuple[Hashable, int]", known.table)
        tables.append(Table(_name(origin), origin, known.entries, known.formula, rank))
    point = refutation.point
    return CounterExample(point[:num_dims], point[num_dims:], tables=tuple(tables))


def _name(origin: Hashable) -> str:
    match origin:
        case Instruction():
            return origin.name
        case (Instruction() as instruction, *_):
            return instruction.name
        case (_, inner):
            return _name(inner)
        case int():
            return f"rt{origin}"
    return str(origin)


# --------------------------------------------------------------------------------------------------
# Maps with runtime variables as sets over tables, for proofs that hold for every value read.
#
# A runtime variable is a function of the index at which it is read: a table in `isl_tables`. Two
# variables read the same table if they have the same origin. Without an origin they must have the
# same name, or the same position and no name. They are equal where their indices are equal. A value
# is clamped to the variable's `values`, and the map holds where the value lies in its `interval`.


Identity: TypeAlias = Callable[[int, RuntimeVariable], Hashable]
"""Function of the number of a runtime variable without origin and the variable; it returns a key.

Variables with equal keys read the same table.
"""


def by_name(i: int, v: RuntimeVariable) -> Hashable:
    """Return the key of runtime variable `i`, which has no origin: its name, else `i`."""
    return v.name or i


def varying_runtime_names(maps: Iterable[MapBase], *, also_dims: bool = False) -> str:
    """Return the names of the runtime variables whose index depends on range variables.

    The names are separated by commas. With `also_dims`, an index that depends on dimension
    variables counts too.
    """
    return ", ".join(
        m.names[Runtime(i)]
        for m in maps
        for i in range(len(m.runtime))
        if any(isinstance(x, Range) or also_dims for x in index_variables(m, i))
    )


def index_variables(m: MapBase, i: int) -> set[Var]:
    """Return the variables that the index of runtime variable `i` depends on.

    Variables of nested indices count: for `t[i[s0]]`, `s0`. Variables with only one value do not.
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
    """The tables that the runtime variables of some maps read, with intervals of their values."""

    def __init__(self, *groups: tuple[Iterable[MapBase], Identity]) -> None:
        self._values: dict[Hashable, set[Interval]] = {}
        for maps, identity in groups:
            for m in maps:
                for i, v in enumerate(m.runtime):
                    self._values.setdefault(self.key(i, v, identity), set()).add(v.values)

    def key(self, i: int, v: RuntimeVariable, identity: Identity) -> Hashable:
        """Return the key of the table that runtime variable number `i`, `v`, reads.

        It is a pair: the origin, or without one what `identity` returns; and the number of indices.
        """
        return (identity(i, v) if v.source is None else v.source), len(v.arguments)

    def body(
        self, m: MapBase, point: Sequence[Expr], identity: Identity, *constraints: Constraint
    ) -> Body:
        """Return the set of the values of `point` on the domain of the map, as a `Body`.

        All variables of the map become variables of the body. Runtime values are clamped when they
        are read.

        Args:
            m: The map.
            point: Expressions over the variables of the map.
            identity: Function that returns the key of a runtime variable without origin.
            constraints: Further constraints on the domain.
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
        self, i: int, v: RuntimeVariable, identity: Identity, read_variable: Range
    ) -> tuple[Interval, Expr, Interval]:
        """Return the value of runtime variable number `i`, `v`, as an expression.

        `read_variable` is the variable of the body for the value in the table, before clamping.
        `identity` returns the key of a runtime variable without origin.

        Returns:
            The interval of the table's value, the clamped value, and the interval of the clamped
                value.
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
            return hull, read_variable, hull
        return hull, clamped(read_variable, v.values), v.values


def _attainable(origin: Instruction, values: Interval) -> Interval:
    """Return the possible values of an element of the origin's type, clamped to `values`."""
    limits = origin.type.element.integer_limits if isinstance(origin.type, TensorType) else None
    if limits is None:
        return values
    low, high = (min(max(n, values.lo), values.hi) for n in limits)
    return Interval(low, high)
