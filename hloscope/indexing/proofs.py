"""Exact proofs about maps: implication, injectivity, equality, emptiness, inverses.

Each statement has one function here. It asks the deciders in the order of their cost: enumeration
of all points, linear pieces of long arrays, and isl (`claims`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Final, NamedTuple, TypeAlias

import hloscope.indexing.claims as claims
import hloscope.indexing.evaluate as enumerated
from hloscope.affine import (
    CeilDiv,
    Const,
    Expr,
    FloorDiv,
    Interval,
    Mod,
    Runtime,
    Sum,
    Var,
    postorder,
    substitute,
    variables,
)
from hloscope.errors import UnsupportedError
from hloscope.indexing.base import MapBase
from hloscope.indexing.claims import by_name
from hloscope.indexing.evaluate import are_many_divisions, evaluate
from hloscope.simplifier import BUDGET, PROVED, CounterExample, Proof, System, Verdict

# --------------------------------------------------------------------------------------------------
# Proofs about one map or two: implication, injectivity, bijectivity.


def prove_implies(
    first: Iterable[MapBase], second: Iterable[MapBase], *, budget: int = BUDGET
) -> Proof:
    """Prove that every (index, result) pair of the first union of maps is in the second.

    `budget` limits the number of isl's steps.

    >>> from hloscope.indexing import IndexingMap
    >>> row = IndexingMap.parse("(d0)[s0] -> (s0), domain: d0 in [0, 3], s0 in [0, 4]")
    >>> here = IndexingMap.parse("(d0) -> (d0), domain: d0 in [0, 3]")
    >>> prove_implies([here], [row]).verdict, prove_implies([row], [here]).verdict
    (<Verdict.PROVED: 'proved'>, <Verdict.REFUTED: 'refuted'>)
    """
    a, b = [*first], [*second]
    if a == b:
        return PROVED
    if undecided := _undecided(a + b):
        return undecided
    a, b = ([m for m in side if not m.is_known_empty] for side in (a, b))
    try:
        return enumerated.subset(a, b) or claims.subset(a, b, budget)
    except ValueError as error:
        return Proof(Verdict.REFUTED, reason=str(error))


def prove_injective(maps: Iterable[MapBase], *, budget: int = BUDGET) -> Proof:
    """Prove that every result of the maps together belongs to only one index.

    The counter-example has two indices with a common result, as `dims` and `results`. `budget`
    limits the number of isl's steps.
    """
    return _one_to_one([*maps], budget, reverse=False)


def prove_single_valued(maps: Iterable[MapBase], *, budget: int = BUDGET) -> Proof:
    """Prove that every index has at most one result in the maps together.

    The counter-example has two results of one index, as `dims` and `results`. `budget` limits the
    number of isl's steps.
    """
    return _one_to_one([*maps], budget, reverse=True)


def _one_to_one(maps: list[MapBase], budget: int, *, reverse: bool) -> Proof:
    if undecided := _undecided(maps):
        return undecided
    maps = [m for m in maps if not m.is_known_empty]
    known = enumerated.one_to_one(maps, reverse=reverse)
    return known or claims.one_to_one(maps, budget, reverse=reverse)


def prove_bijective(m: MapBase, shape: Sequence[int], *, budget: int = BUDGET) -> Proof:
    """Prove that the map is a bijection from its indices in bounds to the indices of `shape`.

    `budget` limits the number of isl's steps.

    >>> from hloscope.indexing import IndexingMap
    >>> turn = IndexingMap.parse("(d0, d1) -> (d1, d0), domain: d0 in [0, 3], d1 in [0, 6]")
    >>> prove_bijective(turn, (7, 4)).verdict, prove_bijective(turn, (7, 5)).reason
    (<Verdict.PROVED: 'proved'>, 'nothing leads to (0, 4)')
    """
    if len(shape) != len(m.results):
        return Proof(Verdict.REFUTED, reason=f"{len(m.results)} results, rank {len(shape)}")
    if undecided := _undecided([m]):
        return undecided
    domain = [v.interval for v in m.dims]
    if not all(side.is_finite for side in domain):
        return Proof(Verdict.UNDECIDED, reason="the map has no bounds")
    if m.is_known_empty:
        if 0 in shape:
            return PROVED
        nothing = CounterExample((), (0,) * len(shape))
        return Proof(Verdict.REFUTED, nothing, "the map is empty, the shape is not")
    boxes = domain, [Interval(0, size - 1) for size in shape]
    whole = enumerated.onto(m, boxes) or claims.onto(m, boxes, budget)
    # The weakest of the three verdicts counts: refuted before undecided before proved.
    proofs = [prove_injective([m], budget=budget), prove_single_valued([m], budget=budget), whole]
    order = Verdict.REFUTED, Verdict.UNDECIDED, Verdict.PROVED
    return min(proofs, key=lambda proof: order.index(proof.verdict))


def _undecided(maps: Sequence[MapBase]) -> Proof | None:
    """Return an undecided proof if one of the maps is undefined; else `None`."""
    if any(m.is_undefined for m in maps):
        return Proof(Verdict.UNDECIDED, reason="an undefined map says nothing")
    return None


def decided(proof: Proof, statement: str) -> bool:
    """Return whether the statement was proved; `statement` is its name in the error message.

    Raises:
        UnsupportedError: The proof is undecided.
    """
    if proof.verdict is Verdict.UNDECIDED:
        raise UnsupportedError(f"{statement} is undecided: {proof.reason}")
    return proof.is_proved


# --------------------------------------------------------------------------------------------------
# Exact proofs about maps: equality of relations, emptiness, inverses, composition.


def system_of(m: MapBase) -> System:
    """Return the relation of a map as a `System` for isl."""
    return System(
        num_dims=len(m.dims),
        num_ranges=len(m.ranges),
        box=m.box,
        constraints=m.constraints,
        results=m.results,
        runtime=runtime_keys(m),
        values=[v.values for v in m.runtime],
    )


def _not_empty(maps: Iterable[MapBase]) -> list[MapBase]:
    return [m for m in maps if not m.is_known_empty]


def runtime_keys(m: MapBase) -> tuple[Hashable, ...]:
    """Return a key for each runtime variable; equal keys of two maps mean equal values.

    Variables with an origin are equal if they read the same element of the same instruction and
    clamp it to the same bounds. Others are equal if they have the same name, or the same position
    and no name.
    """
    return tuple([_key(m, i) for i in range(len(m.runtime))])


def _key(m: MapBase, i: int) -> Hashable:
    """Return the key of runtime variable `i`.

    Runtime variables in its index are identified by what they read, not by position.
    """
    v = m.runtime[i]
    inner = sorted({x for e in v.arguments for x in variables(e) if isinstance(x, Runtime)})
    nested = tuple([(x, _key(m, x.index)) for x in inner])
    place: dict[Var, Expr] = {x: Runtime(k) for k, x in enumerate(inner)}
    index = tuple([substitute(e, place) for e in v.arguments])
    origin = (by_name(i, v),) if v.source is None else (v.source, v.values)
    return (*origin, *index, *[key for _, key in nested])


def prove_equal(
    first: Iterable[MapBase], second: Iterable[MapBase], *, budget: int = BUDGET
) -> Proof:
    """Prove that two unions of maps are the same relation, for all runtime values.

    A counter-example is a pair of indices that is in only one of them. `budget` limits the number
    of isl's steps.
    """
    a, b = [*first], [*second]
    if undecided := _undecided(a + b):
        return PROVED if a == b else undecided
    a, b = (list(dict.fromkeys(m for m in side if not m.is_known_empty)) for side in (a, b))
    if set(a) == set(b):
        return PROVED
    try:
        # Cheap methods come first: constraints alone, straight lines, enumeration, and isl last.
        if len(a) == len(b) == 1:
            if _differ_in_implied_constraints(a[0], b[0], budget):
                return PROVED
            if (known := equal(a[0], b[0])) is not None:
                return known
        if a and b and (known := enumerated.subset(a, b, both=True)) is not None:
            return known
        return claims.equal(a, b, budget)
    # Different numbers of dimensions or results: the relations differ.
    except ValueError as error:
        return Proof(Verdict.REFUTED, reason=str(error))


def _differ_in_implied_constraints(a: MapBase, b: MapBase, budget: int) -> bool:
    """Return whether two maps differ only in constraints that each other's domain implies.

    This is decided on the domain alone, which is much smaller than the relation with results.
    """
    if a.results != b.results or a.box != b.box or a.runtime or b.runtime:
        return False
    pairs = [(x, c) for x, y in ((a, b), (b, a)) for c in y.constraints if c not in x.constraints]
    return all(prove_within(x, e, interval, budget=budget).is_proved for x, (e, interval) in pairs)


def prove_empty(maps: Iterable[MapBase], *, budget: int = BUDGET) -> Proof:
    """Prove that the union of the maps is empty; the counter-example is one of its pairs.

    `budget` limits the number of isl's steps.
    """
    kept = _not_empty(maps)
    return enumerated.empty(kept) or claims.empty(kept, budget)


def prove_within(m: MapBase, expr: Expr, interval: Interval, *, budget: int = BUDGET) -> Proof:
    """Prove that the values of `expr` lie in the interval on the whole domain.

    `budget` limits the number of isl's steps.
    """
    known = within(m, expr, interval) or enumerated.within(m, expr, interval)
    return known or claims.within(m, expr, interval, budget)


def prove_inverse(
    first: Iterable[MapBase], second: Iterable[MapBase], *, budget: int = BUDGET
) -> Proof:
    """Prove that the second union of maps is the inverse of the first.

    `budget` limits the number of isl's steps.
    """
    a, b = _not_empty(first), _not_empty(second)
    return enumerated.inverse(a, b) or claims.inverse(a, b, budget)


def prove_composed(
    first: Iterable[MapBase],
    second: Iterable[MapBase],
    composed: Iterable[MapBase],
    *,
    budget: int = BUDGET,
) -> Proof:
    """Prove that `composed` is the composition of `first` and then `second`, unions of maps.

    Runtime variables without origin in `first` differ from those in `second`. Those of `composed`
    are in the order of `compose`. `budget` limits the number of isl's steps.
    """
    a, b, whole = _not_empty(first), _not_empty(second), _not_empty(composed)
    return claims.composed(a, b, whole, budget)


def tight_bounds(m: MapBase, expr: Expr, *, budget: int = BUDGET) -> Interval | None:
    """Return the smallest interval that contains all values of `expr` over the domain of `m`.

    The result is `None` if isl does not decide within the budget.
    """
    if m.is_known_empty:
        return Interval.EMPTY
    known = enumerated.extent(m, expr)
    return claims.tight_bounds(m, expr, budget) if known is None else known


# --------------------------------------------------------------------------------------------------
# Exact proofs about maps that are piecewise linear in one long variable.
#
# If a large array is repeatedly cut into few long parts, quotients change at few points. Between
# these points every expression is linear, so a list of linear pieces describes it. isl is slow for
# such maps, as their numbers are large and their quotients are nested.


MOST_LINES: Final = 1 << 14
"""Maximum number of linear pieces of all subexpressions together; with more, isl is used."""
MOST_VALUES: Final = 1 << 8
"""Maximum number of combinations of values of the variables other than the longest one."""


class Line(NamedTuple):
    """A linear piece of an expression in one variable; it ends where the next piece begins.

    Attributes:
        start: The first value of the variable in this piece.
        value: The value of the expression at `start`.
        slope: The change of the value per step of the variable.
    """

    start: int
    value: int
    slope: int


Lines: TypeAlias = tuple[Line, ...]
"""An expression over an interval of one variable, as consecutive linear pieces."""


class _TooManyError(Exception):
    """Raised if an expression has too many linear pieces, or is not piecewise linear."""


def within(m: MapBase, expr: Expr, interval: Interval) -> Proof | None:
    """Prove by linear pieces that the values of `expr` lie in the interval.

    The result is `None` if isl should be used.

    >>> from hloscope.indexing import IndexingMap
    >>> cut = "d0"
    >>> for k in range(8):
    ...     cut = f"({cut} + {k}) / 40000000 * 39999999 + ({cut}) mod 39999999"
    >>> m = IndexingMap.parse(f"(d0) -> ({cut}), domain: d0 in [0, 2147483647]")
    >>> within(m, m.results[0], Interval(0, 2147483647)).is_proved
    True
    """
    if not are_many_divisions(postorder(expr)) or m.runtime or m.is_undefined:
        return None
    return _within(m, expr, interval)


def equal(a: MapBase, b: MapBase) -> Proof | None:
    """Prove that two maps are the same relation, by linear pieces; `None` if isl should be used.

    Both must have the same variables with the same bounds, and no range or runtime variables or
    constraints.
    """
    if a.is_undefined or b.is_undefined:
        return None
    if not are_many_divisions(postorder(*a.results, *b.results)):
        return None
    if a.box != b.box or a.ranges or len(a.results) != len(b.results):
        return None
    if any([m.runtime or m.constraints for m in (a, b)]):
        return None
    for mine, other in zip(a.results, b.results, strict=True):
        proof = _within(a, mine - other, Interval.point(0))
        if proof is None:
            return None
        if proof.counter_example is not None:
            index = proof.counter_example.dims
            return Proof(Verdict.REFUTED, CounterExample(index, evaluate(a, index)))
    return PROVED


def _within(m: MapBase, expr: Expr, interval: Interval) -> Proof | None:
    """Prove that the values of `expr` lie in the interval on the domain.

    The result is `None` if isl should be used.

    A counter-example is reported only if the map has no constraints, as a constraint may exclude
    it.
    """
    box = m.box
    if any([i.is_empty or not i.is_finite for i in box.values()]):
        return None
    if not box:
        return None
    # Along the variable with the most values an expression has few pieces; the others are
    # enumerated.
    *others, longest = sorted(variables(expr), key=lambda v: box[v].size) or [*box]
    if prod([box[v].size for v in others]) > MOST_VALUES:
        return None
    left = [MOST_LINES]
    for values in product(*[range(box[v].lo, box[v].hi + 1) for v in others]):
        at = dict(zip(others, values, strict=True))
        lines = lines_of(expr, longest, box[longest], at, left)
        if lines is None:
            return None
        # A linear piece takes its extreme values at its ends.
        for place, value in _ends(lines, box[longest]):
            if not interval.contains(value):
                if m.constraints:
                    return None
                index = [{**at, longest: place}.get(v, i.lo) for v, i in box.items()]
                return Proof(Verdict.REFUTED, CounterExample(tuple(index), (value,)))
    return PROVED


def lines_of(
    expr: Expr,
    v: Var,
    interval: Interval,
    values: Mapping[Var, int],
    remaining: list[int] | None = None,
) -> Lines | None:
    """Return the linear pieces of an expression over an interval of one variable.

    The result is `None` if there are too many pieces, or the expression is not piecewise linear.

    Args:
        expr: The expression.
        v: The variable.
        interval: Its values.
        values: Values of the other variables.
        remaining: Number of pieces that may still be computed, decreased in place; `MOST_LINES` if
            not given.

    >>> from hloscope.affine import Dim
    >>> lines_of(Dim(0) // 10 * 3 - Dim(1), Dim(0), Interval(5, 14), {Dim(1): 1})
    (Line(start=5, value=-1, slope=0), Line(start=10, value=2, slope=0))
    """
    try:
        return _Reader(v, interval, values, [MOST_LINES] if remaining is None else remaining).read(
            expr
        )
    except _TooManyError:
        return None


def _ends(lines: Lines, interval: Interval) -> Iterator[tuple[int, int]]:
    """Yield `(value of the variable, value of the expression)` at both ends of each piece."""
    for k, (start, value, slope) in enumerate(lines):
        last = lines[k + 1].start - 1 if k + 1 < len(lines) else interval.hi
        yield start, value
        yield last, value + slope * (last - start)


class _Reader:
    """Evaluator of expressions as linear pieces over an interval of one variable."""

    def __init__(self, v: Var, interval: Interval, at: Mapping[Var, int], left: list[int]) -> None:
        self._v, self._interval, self._left = v, interval, left
        start = interval.lo
        self._known: dict[Expr, Lines] = {x: (Line(start, n, 0),) for x, n in at.items()}
        self._known[v] = (Line(start, start, 1),)

    def read(self, expr: Expr) -> Lines:
        known = self._known
        for x in postorder(expr):
            if x not in known:
                known[x] = self._node(x)
        return known[expr]

    def _node(self, x: Expr) -> Lines:
        """Return the linear pieces of `x`, given those of its operands.

        Raises:
            _TooManyError: There are too many pieces, or `x` is not piecewise linear.
        """
        known = self._known
        match x:
            case Const(value):
                return (Line(self._interval.lo, value, 0),)
            case Sum(terms, const):
                return self._sum([(known[term], by) for term, by in terms], const)
            case FloorDiv(num, Const(by)) if by > 0:
                return self._quotient(known[num], by)
            case CeilDiv(num, Const(by)) if by > 0:
                opposite = self._sum([(known[num], -1)])
                return self._sum([(self._quotient(opposite, by), -1)])
            case Mod(num, Const(by)) if by > 0:
                return self._sum([(known[num], 1), (self._quotient(known[num], by), -by)])
        raise _TooManyError

    def _take(self, count: int) -> None:
        """Count `count` more pieces.

        Raises:
            _TooManyError: There are more pieces than allowed.
        """
        self._left[0] -= count
        if self._left[0] < 0:
            raise _TooManyError

    def _sum(self, parts: Sequence[tuple[Lines, int]], const: int = 0) -> Lines:
        # Between two consecutive starts of any part, every part is linear, and so is the sum.
        """Return the linear pieces of a sum, given the pieces and the coefficient of each term."""
        starts = sorted({line.start for lines, _ in parts for line in lines})
        self._take(len(starts) * len(parts))
        values, slopes = [const] * len(starts), [0] * len(starts)
        for lines, by in parts:
            at = 0
            for k, start in enumerate(starts):
                if at + 1 < len(lines) and lines[at + 1].start <= start:
                    at += 1
                begin, value, slope = lines[at]
                values[k] += by * (value + slope * (start - begin))
                slopes[k] += by * slope
        if not starts:
            return (Line(self._interval.lo, const, 0),)
        return _merged(map(Line, starts, values, slopes))

    def _quotient(self, lines: Lines, by: int) -> Lines:
        """Return the linear pieces of `x // by`, given those of `x`; `by` is positive."""
        found: list[Line] = []
        for k, (start, value, slope) in enumerate(lines):
            end = lines[k + 1].start if k + 1 < len(lines) else self._interval.hi + 1
            # `(value + slope * x) // divisor` is `whole * x + (value + rest * x) // divisor`, so
            # the pieces change only where the second quotient does. The rest nearest to zero
            # changes it least often.
            whole, rest = divmod(slope, by)
            if 2 * rest > by:
                whole, rest = whole + 1, rest - by
            first, last = value // by, (value + rest * (end - 1 - start)) // by
            self._take(abs(last - first) + 1)
            found.append(Line(start, first, whole))
            step = 1 if rest > 0 else -1
            for n in range(first + step, last + step, step) if first != last else ():
                # The first value of the variable at which `value + rest * place` has the quotient
                # `n`.
                bound = n * by if rest > 0 else (n + 1) * by - 1
                place = -((value - bound) // rest)
                found.append(Line(start + place, whole * place + n, whole))
        return _merged(found)


def _merged(lines: Iterator[Line] | Sequence[Line]) -> Lines:
    """Return the pieces with consecutive ones merged where they are one straight line."""
    found: list[Line] = []
    for line in lines:
        if found:
            start, value, slope = found[-1]
            if line.slope == slope and line.value == value + slope * (line.start - start):
                continue
        found.append(line)
    return tuple(found)
