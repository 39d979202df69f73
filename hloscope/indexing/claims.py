"""Proofs about maps with runtime variables: proved for every table, or refuted by one.

This module serves `exact` and `proofs`. Maps without runtime variables are given to isl directly.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import combinations, combinations_with_replacement
from time import perf_counter
from typing import Final, cast

from msgspec.structs import replace

from hloscope.affine import NEG_INF, POS_INF, Dim, Expr, Interval, Range, Runtime
from hloscope.indexing.base import MapBase
from hloscope.indexing.independence import are_related
from hloscope.indexing.reads import Identity, Tables, by_name
from hloscope.indexing.variables import Constraint, RuntimeVariable
from hloscope.ir import Instruction
from hloscope.simplifier import (
    PROVED,
    Body,
    CounterExample,
    Proof,
    Refutation,
    Table,
    UndecidedError,
    Verdict,
    Witness,
    as_tuple,
    budgeted,
    extent,
    included,
    refutations,
    some_point,
)

SECONDS: Final = 1.0
"""Seconds after which no more tables are tried as counter-examples."""
OPEN: Final = "it is proved for no and refuted by no values that were tried"


def any_reads(*groups: Iterable[MapBase]) -> bool:
    """Has one of the maps a runtime variable?"""
    return any(m.runtime for maps in groups for m in maps)


def subset(first: Sequence[MapBase], second: Sequence[MapBase], budget: int) -> Proof:
    """Prove that the second union has every pair of the first."""
    a, b, n = _bodies_of_both(first, second)
    return _timed(lambda: _included(a, b, n, budget))


def equal(first: Sequence[MapBase], second: Sequence[MapBase], budget: int) -> Proof:
    """Prove that two unions are the same relation."""
    a, b, n = _bodies_of_both(first, second)
    return _timed(lambda: _same(a, b, n, budget))


def _bodies_of_both(
    first: Sequence[MapBase], second: Sequence[MapBase]
) -> tuple[list[Body], list[Body], int]:
    shapes = {(len(m.dims), len(m.results)) for m in (*first, *second)}
    if len(shapes) > 1:
        listed = ", ".join(f"{n} -> {k}" for n, k in sorted(shapes))
        raise ValueError(f"numbers of variables and results differ: {listed}")
    tables = Tables(([*first, *second], by_name))
    a, b = (_pairs(tables, side) for side in (first, second))
    return a, b, min(shapes)[0] if shapes else 0


def inverse(first: Sequence[MapBase], second: Sequence[MapBase], budget: int) -> Proof:
    """Prove that the second union is the inverse of the first."""
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
    """Prove that `whole` is the composition of `first` and then `second`.

    Runtime variables without origin of `first` differ from those of `second`. In `whole` they are
    identified by their position, as `compose` numbers them. If that is not possible, a refutation
    is reported as undecided.
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
    """Return which variable of `second` or `first` each runtime variable of `whole` is.

    `None` if unknown.
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
    """Return the relation from the dimensions of one body to the results of another."""
    next_ = other.shifted(len(one.box))
    same: list[Constraint] = [
        (a - b, Interval.point(0))
        for a, b in zip(one.point[num_dims:], next_.point[:middle], strict=True)
    ]
    return one.joined(next_, same, (*one.point[:num_dims], *next_.point[middle:]))


def empty(maps: Sequence[MapBase], budget: int) -> Proof:
    """Prove that the union is empty."""
    tables = Tables((maps, by_name))
    num_dims = len(maps[0].dims) if maps else 0
    return _timed(lambda: _no_point(_pairs(tables, maps), num_dims, budget))


def within(m: MapBase, expr: Expr, interval: Interval, budget: int) -> Proof:
    """Prove that an expression stays in the interval on the whole domain."""
    tables = Tables(([m], by_name))
    # Its values outside of the interval must be impossible, on both sides.
    outside = [Interval(NEG_INF, interval.lo - 1), Interval(interval.hi + 1, POS_INF)]
    point = [*[v for v in m.box if not isinstance(v, Runtime)], expr]
    bodies = [tables.body(m, point, by_name, (expr, side)) for side in outside if side.size]
    return _timed(lambda: _no_point(bodies, len(point) - 1, budget))


def tight_bounds(m: MapBase, expr: Expr, budget: int) -> Interval | None:
    """Return the smallest interval around the values of an expression; `None` if undecided."""
    body = Tables(([m], by_name)).body(m, [expr], by_name)
    try:
        with budgeted(budget) as isl:
            return extent(isl, body)
    except UndecidedError:
        return None


def one_to_one(maps: Sequence[MapBase], budget: int, *, reverse: bool) -> Proof:
    """Prove that every result has one index; with `reverse`, that every index has one result."""
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
    """Yield the sets of two points with equal right sides and different left sides."""
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
    """Prove that the domain and the range of the map are exactly two boxes."""
    return _timed(lambda: _onto(m, boxes, budget))


def _onto(m: MapBase, boxes: Sequence[Sequence[Interval]], budget: int) -> Proof:
    tables = Tables(([m], by_name))
    undecided: Proof | None = None
    for number, box in enumerate(boxes):
        side = m.results if number else [Dim(i) for i in range(len(m.dims))]
        mine = [tables.body(m, side, by_name)]
        whole = [_box_body(box)]
        # Equal sets include each other, and each inclusion has its own message.
        for first, second, text in (
            (whole, mine, ("index {} has no result", "nothing leads to {}")),
            (mine, whole, ("index {} is outside", "result {} is outside")),
        ):
            proof = _included(first, second, len(box), budget)
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


def _box_body(box: Sequence[Interval]) -> Body:
    return Body(tuple(box), (), tuple([Range(i) for i in range(len(box))]))


# ------------------------------------------------------------------------------------- decisions


def _pairs(tables: Tables, maps: Iterable[MapBase], *, swapped: bool = False) -> list[Body]:
    return [_body(tables, m, by_name, swapped=swapped) for m in maps]


def _body(tables: Tables, m: MapBase, identity: Identity, *, swapped: bool = False) -> Body:
    dims: list[Expr] = [Dim(i) for i in range(len(m.dims))]
    return tables.body(m, [*m.results, *dims] if swapped else [*dims, *m.results], identity)


def _timed(ask: Callable[[], Proof]) -> Proof:
    """Run a proof and add its time.

    A refutation by tables that depend on each other becomes undecided.
    """
    start = perf_counter()
    proof = ask()
    if (reason := _why_not_independent(proof)) is not None:
        proof = Proof(Verdict.UNDECIDED, reason=reason)
    return replace(proof, seconds=perf_counter() - start)


def _why_not_independent(proof: Proof) -> str | None:
    """Return why a refutation proves nothing, if two of its tables are computed from each other."""
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
    """Return the instruction whose value the table is; `None` for a position in a group."""
    match of_table:
        case Instruction():
            return of_table
        case (Instruction() as origin, "element", _):
            return origin
    return None


def _same(first: Sequence[Body], second: Sequence[Body], num_dims: int, budget: int) -> Proof:
    there = _included(first, second, num_dims, budget)
    if there.is_refuted:
        return there
    back = _included(second, first, num_dims, budget)
    if back.is_refuted:
        assert back.counter_example is not None
        return replace(back, counter_example=replace(back.counter_example, only_in=1))
    return back if there.is_proved else there


def _no_point(bodies: Sequence[Body], num_dims: int, budget: int) -> Proof:
    try:
        with budgeted(budget) as isl:
            found = some_point(isl, bodies)
    except UndecidedError as error:
        return Proof(Verdict.UNDECIDED, reason=str(error))
    return PROVED if found is None else Proof(Verdict.REFUTED, _example(found, num_dims))


def _included(first: Sequence[Body], second: Sequence[Body], num_dims: int, budget: int) -> Proof:
    start = perf_counter()
    reason, found = OPEN, None
    try:
        with budgeted(budget) as isl:
            found, is_exact = included(isl, first, second)
        if found is None:
            return PROVED
        if is_exact:
            return Proof(Verdict.REFUTED, _example(found, num_dims))
    # Without a proof, inclusion may still be refuted by one table of a known family.
    except UndecidedError as error:
        reason = str(error)
    try:
        with budgeted(budget) as isl:
            for refutation in refutations(isl, first, second, found):
                if refutation is not None:
                    return Proof(Verdict.REFUTED, _by_formulas(refutation, num_dims))
                if perf_counter() - start > SECONDS:
                    break
    except UndecidedError:
        pass
    return Proof(Verdict.UNDECIDED, reason=reason)


def _example(witness: Witness, num_dims: int) -> CounterExample:
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
