"""Representative values of a variable, and how many values each one represents.

A quasi-affine expression is periodic up to a shift in each variable: `e(x + p) = e(x) + s` for all
values of the other variables. Requests repeat if the shift is a multiple of the cache line.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import gcd, lcm
from typing import NamedTuple, assert_never

from msgspec import Struct

from hloscope.affine import (
    Box,
    CeilDiv,
    Const,
    Dim,
    Expr,
    FloorDiv,
    Interval,
    Max,
    Min,
    Mod,
    Product,
    Range,
    Runtime,
    Sum,
    Var,
    bounds,
    postorder,
    variables,
)
from hloscope.indexing import Constraint
from hloscope.support.arrays import Ints, np

LONGEST = 1 << 40


class Period(NamedTuple):
    """A period of an expression in one variable: `e(x + length) = e(x) + shift`."""

    length: int
    shift: int


class Run(NamedTuple):
    """The integers from `start` to before `stop`; each represents `weight` values."""

    start: int
    stop: int
    weight: int


class Values(Struct, frozen=True):
    """Representative values of an integer variable, as runs of consecutive integers.

    Each integer of a run represents `weight` values of the variable. The integers are enumerated
    only when they are requested.

    Attributes:
        runs: The runs, none of them empty.
    """

    runs: tuple[Run, ...]

    @property
    def count(self) -> int:
        """Return the number of representative values in all runs."""
        return sum([run.stop - run.start for run in self.runs])

    @property
    def total(self) -> int:
        """Return the number of values that all runs represent."""
        return sum([(run.stop - run.start) * run.weight for run in self.runs])

    def at(self, places: Ints) -> tuple[Ints, Ints]:
        """Return representative values, and how many values of the variable each represents.

        `places` are positions among the representative values of all runs, counted from 0.

        >>> import numpy as np
        >>> values, weights = Values((Run(0, 4, 10), Run(40, 42, 1))).at(np.array([3, 5]))
        >>> values.tolist(), weights.tolist()
        ([3, 41], [10, 1])
        """
        number, inside, weights = self._located([run.stop - run.start for run in self.runs], places)
        return number + inside, weights

    def drawn(self, draw: np.random.Generator, size: int) -> Ints:
        """Return `size` random values, each with a probability proportional to its weight.

        `draw` is the random number generator.
        """
        sizes = [(run.stop - run.start) * run.weight for run in self.runs]
        start, inside, weights = self._located(sizes, draw.integers(0, self.total, size))
        return start + inside // weights

    def _located(self, sizes: Sequence[int], places: Ints) -> tuple[Ints, Ints, Ints]:
        """Return for each position the first value of its run, the offset there, and the weight.

        A weight is the number of values that a representative value stands for.

        Args:
            sizes: Number of positions of each run.
            places: Positions, counted from 0 over all runs.
        """
        ends = np.cumsum(np.array(sizes, dtype=np.int64))
        run = np.searchsorted(ends, places, "right")
        before = ends - np.array(sizes, dtype=np.int64)
        starts = np.array([run.start for run in self.runs], dtype=np.int64)
        weights = np.array([run.weight for run in self.runs], dtype=np.int64)
        return starts[run], places - before[run], weights[run]


def period(e: Expr, x: Var) -> Period | None:
    """Return a period of an expression in variable `x`; `None` if its form shows none.

    >>> period((Dim(0) * 12 + Dim(1)) // 8 * 100 + Dim(0) % 3, Dim(0))
    Period(length=6, shift=900)
    """
    if x not in variables(e):
        return Period(1, 0)
    # Bottom up, so that the periods of all operands are known.
    known: dict[Expr, Period | None] = {}
    for node in postorder(e):
        known[node] = _of_node(node, x, known)
        found = known[node]
        if found is not None and found.length > LONGEST:
            known[node] = None
    return known[e]


def _of_node(node: Expr, x: Var, known: dict[Expr, Period | None]) -> Period | None:
    match node:
        case Const():
            return Period(1, 0)
        case Dim() | Range() | Runtime():
            return Period(1, int(node is x))
        case Sum(terms, _):
            return _added([(known[t], c) for t, c in terms])
        case FloorDiv(num, Const(den)) | CeilDiv(num, Const(den)) if den:
            found = _repeated(known[num], den)
            return found and Period(found.length, found.shift // den)
        case Mod(num, Const(den)) if den:
            found = _repeated(known[num], den)
            return found and Period(found.length, 0)
        case Min(args) | Max(args):
            parts = [known[a] for a in args]
            if any(part is None for part in parts):
                return None
            length = lcm(*[part.length for part in parts if part])
            shifts = {part.shift * (length // part.length) for part in parts if part}
            # `min(a, b)` repeats only if all arguments move by the same amount.
            return Period(length, shifts.pop()) if len(shifts) == 1 else None
        case FloorDiv() | CeilDiv() | Mod() | Product():
            return None if x in variables(node) else Period(1, 0)
        case _:
            assert_never(node)


def _added(parts: Sequence[tuple[Period | None, int]]) -> Period | None:
    length = 1
    for part, _ in parts:
        if part is None:
            return None
        length = lcm(length, part.length)
    shift = sum([part.shift * c * (length // part.length) for part, c in parts if part])
    return Period(length, shift)


def _repeated(period: Period | None, den: int) -> Period | None:
    """Return the smallest multiple of `period` whose shift is a multiple of `den`."""
    if period is None:
        return None
    times = abs(den) // gcd(period.shift, den)
    return Period(period.length * times, period.shift * times)


def representatives(
    x: Var,
    interval: Interval,
    address: Expr,
    modulus: int,
    domains: Sequence[Sequence[Constraint]],
    others: Sequence[Expr],
    box: Box,
) -> Values:
    """Return representative values of a variable, each with the number of values it represents.

    A value represents another one if both have equal accesses for all values of the other
    variables: the addresses differ by a multiple of `modulus`, and the same constraints hold.

    Args:
        x: The variable.
        interval: Its values.
        address: Address of the access, in elements.
        modulus: Elements after which sectors and lines repeat.
        domains: Conditions of active lanes: all constraints of one of the domains hold.
        others: Further expressions; between a value and its representative they may differ by a
            constant only.
        box: Values of all variables.
    """
    lo, count = interval.lo, interval.size
    every = list(dict.fromkeys([c for domain in domains for c in domain]))
    length = None
    if count > 1:
        length = _common_length(x, address, modulus, [e for e, _ in every], others)
    if length is None or length >= count:
        return Values((Run(lo, lo + count, 1),) if count > 0 else ())
    full = count // length
    block = {**box, x: Interval(lo, lo + length - 1)}
    spans = {c: _spans(c, x, length, block, full) for c in every}
    # Between two cuts each constraint holds in every repetition, in none, or in some. In the first
    # two cases one repetition represents all; in the third every value is kept.
    ends = [end for pair in spans.values() for span in pair for end in (span.start, span.stop)]
    cuts = sorted({0, full, *ends})
    runs: list[Run] = []

    def add(start: int, stop: int, weight: int) -> None:
        if stop > start:
            runs.append(Run(lo + start, lo + stop, weight))

    for first, end in pairwise(cuts):
        holds = {c: first in inside for c, (inside, _) in spans.items()}
        may_hold = {c: first in touched for c, (_, touched) in spans.items()}
        if not any(all(may_hold[c] for c in domain) for domain in domains):
            continue  # no lane is active
        if holds == may_hold:
            add(first * length, (first + 1) * length, end - first)
        else:
            add(first * length, end * length, 1)
    add(full * length, count, 1)
    return Values(tuple(runs))


def _spans(
    constraint: Constraint, x: Var, length: int, block: Box, full: int
) -> tuple[range, range]:
    """Return the repetitions in which a constraint certainly holds, and those in which it may hold.

    Args:
        constraint: The constraint, periodic in `x`.
        x: The variable.
        length: Number of values of `x` in one repetition, a multiple of the constraint's period.
        block: Values of all variables in repetition 0.
        full: Number of repetitions.
    """
    e, wanted = constraint
    found = period(e, x)
    assert found is not None
    step = found.shift * (length // found.length)
    here = bounds(e, block)
    if not step:  # all repetitions have the same values
        return range(full), range(full)
    inside = _steps(wanted.lo - here.lo, wanted.hi - here.hi, step, full)
    return inside, _steps(wanted.lo - here.hi, wanted.hi - here.lo, step, full)


def _common_length(
    x: Var,
    address: Expr,
    modulus: int,
    constraints: Sequence[Expr],
    others: Sequence[Expr],
) -> int | None:
    """Return the number of values of `x` after which addresses and constraints repeat.

    `None` if it is unknown.

    Args:
        x: The variable.
        address: Address in elements, which repeats modulo `modulus`.
        modulus: Elements after which sectors and lines repeat.
        constraints: Expressions of the constraints.
        others: Further expressions that may change by a constant only.
    """
    found = period(address, x)
    if found is None:
        return None
    length = found.length * (modulus // gcd(found.shift, modulus))
    for e in (*constraints, *others):
        part = period(e, x)
        if part is None:
            return None
        length = lcm(length, part.length)
        if length > LONGEST:
            return None
    return length


def _steps(lo: int, hi: int, step: int, full: int) -> range:
    """Return every `k` from 0 to before `full` with `lo <= k * step <= hi`."""
    if step < 0:
        lo, hi, step = -hi, -lo, -step
    first = min(max(-(-lo // step), 0), full)
    return range(first, min(max(hi // step + 1, first), full))
