"""Exact proofs about maps that are piecewise linear in one long variable.

If a large array is repeatedly cut into few long parts, quotients change at few points. Between
these points every expression is linear, so a list of linear pieces describes it. isl is slow for
such maps, as their numbers are large and their quotients are nested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Final, NamedTuple, TypeAlias

from hloscope.affine import (
    CeilDiv,
    Const,
    Expr,
    FloorDiv,
    Interval,
    Mod,
    Sum,
    Var,
    postorder,
    variables,
)
from hloscope.indexing.base import MapBase
from hloscope.indexing.enumerated import are_many_divisions
from hloscope.indexing.evaluate import evaluate
from hloscope.simplifier import PROVED, CounterExample, Proof, Verdict

MOST_LINES: Final = 1 << 14
"""Largest number of linear pieces of all subexpressions together; isl gets the rest."""
MOST_VALUES: Final = 1 << 8
"""Largest number of values of the variables other than the longest one."""


class Line(NamedTuple):
    """A linear piece, which ends where the next one begins.

    Attributes:
        start: The value of the variable at its begin.
        value: The value of the expression there.
        slope: The change of the value per step of the variable.
    """

    start: int
    value: int
    slope: int


Lines: TypeAlias = tuple[Line, ...]
"""An expression over an interval, as consecutive linear pieces."""


class _TooManyError(Exception):
    """The expression has more linear pieces than the limit, or is not piecewise linear."""


def within(m: MapBase, expr: Expr, interval: Interval) -> Proof | None:
    """Prove that an expression stays in the interval on the domain; `None` if isl should be used.

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
    """Prove that two maps of the same index are equal; `None` if isl should be used."""
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
    """Prove that `expr` stays in the interval on the domain; `None` if isl should be used.

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
    expr: Expr, v: Var, interval: Interval, at: Mapping[Var, int], left: list[int] | None = None
) -> Lines | None:
    """Return the linear pieces of an expression over an interval of one variable.

    `None` if there are too many pieces, or the expression is not piecewise linear.

    Args:
        expr: The expression.
        v: The variable.
        interval: Its values.
        at: Values of the other variables.
        left: Number of pieces that may still be computed, decreased in place; `MOST_LINES` if
            not given.

    >>> from hloscope.affine import Dim
    >>> lines_of(Dim(0) // 10 * 3 - Dim(1), Dim(0), Interval(5, 14), {Dim(1): 1})
    (Line(start=5, value=-1, slope=0), Line(start=10, value=2, slope=0))
    """
    try:
        return _Reader(v, interval, at, [MOST_LINES] if left is None else left).read(expr)
    except _TooManyError:
        return None


def _ends(lines: Lines, interval: Interval) -> Iterator[tuple[int, int]]:
    """Yield both ends of each piece, with the values there."""
    for k, (start, value, slope) in enumerate(lines):
        last = lines[k + 1].start - 1 if k + 1 < len(lines) else interval.hi
        yield start, value
        yield last, value + slope * (last - start)


class _Reader:
    """Computes the linear pieces of expressions over an interval of one variable."""

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
        self._left[0] -= count
        if self._left[0] < 0:
            raise _TooManyError

    def _sum(self, parts: Sequence[tuple[Lines, int]], const: int = 0) -> Lines:
        # Between two consecutive starts of any part, every part is linear, and so is the sum.
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
        found: list[Line] = []
        for k, (start, value, slope) in enumerate(lines):
            end = lines[k + 1].start if k + 1 < len(lines) else self._interval.hi + 1
            # `(value + slope * x) // by` is `whole * x + (value + rest * x) // by`, so the pieces
            # change only where the second quotient does. The rest nearest to zero changes it least
            # often.
            whole, rest = divmod(slope, by)
            if 2 * rest > by:
                whole, rest = whole + 1, rest - by
            first, last = value // by, (value + rest * (end - 1 - start)) // by
            self._take(abs(last - first) + 1)
            found.append(Line(start, first, whole))
            step = 1 if rest > 0 else -1
            for n in range(first + step, last + step, step) if first != last else ():
                # the first place at which `value + rest * place` has the quotient `n`
                bound = n * by if rest > 0 else (n + 1) * by - 1
                place = -((value - bound) // rest)
                found.append(Line(start + place, whole * place + n, whole))
        return _merged(found)


def _merged(lines: Iterator[Line] | Sequence[Line]) -> Lines:
    """Merge consecutive pieces that continue each other."""
    found: list[Line] = []
    for line in lines:
        if found:
            start, value, slope = found[-1]
            if line.slope == slope and line.value == value + slope * (line.start - start):
                continue
        found.append(line)
    return tuple(found)
