"""Which values of a variable make a difference, and how often each stands for others.

`e(x + p) = e(x) + s`, whatever the other variables: every quasi-affine expression repeats itself in
each of its variables, shifted.  Where the shift is a whole number of cache lines, requests repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, lcm
from typing import NamedTuple, assert_never

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
from hloscope.arrays import Ints, np

LONGEST = 1 << 40


class Period(NamedTuple):
    """After `length` more the value is `shift` more."""

    length: int
    shift: int


class Values(NamedTuple):
    """Values of a variable, and how many values each stands for."""

    values: Ints
    weights: Ints


def period(e: Expr, x: Var) -> Period | None:
    """The shortest period of an expression in a variable that its form shows.

    >>> period((Dim(0) * 12 + Dim(1)) // 8 * 100 + Dim(0) % 3, Dim(0))
    Period(length=6, shift=900)
    """
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


def _repeated(found: Period | None, den: int) -> Period | None:
    """As many periods as make the shift a multiple of `den`."""
    if found is None:
        return None
    times = abs(den) // gcd(found.shift, den)
    return Period(found.length * times, found.shift * times)


def representatives(
    x: Var,
    interval: Interval,
    address: Expr,
    modulus: int,
    constraints: Sequence[tuple[Expr, Interval]],
    others: Sequence[Expr],
    box: Box,
) -> Values:
    """Values of a variable such that all others behave as one of them.

    Two values behave alike if, at whatever values of the other variables, addresses differ by a
    multiple of `modulus` and the same constraints hold.

    Args:
        x: The variable.
        interval: Its values.
        address: What is touched, in elements.
        modulus: Elements after which sectors and lines repeat.
        constraints: Who takes part.
        others: Expressions that need to repeat only up to any shift.
        box: Values of all variables.
    """
    lo, count = interval.lo, interval.hi - interval.lo + 1
    length = _common_length(x, address, modulus, constraints, others)
    if length is None or length >= count:
        values = np.arange(lo, lo + count, dtype=np.int64)
        return Values(values, np.ones_like(values))
    full = count // length
    first, last, kept = 0, full - 1, (0, full - 1)
    block = {**box, x: Interval(lo, lo + length - 1)}
    for e, wanted in constraints:
        found = period(e, x)
        assert found is not None
        step = found.shift * (length // found.length)
        if not step:
            continue
        here = bounds(e, block)
        inside = _steps(wanted.lo - here.lo, wanted.hi - here.hi, step)
        first, last = max(first, inside[0]), min(last, inside[1])
        touched = _steps(wanted.lo - here.hi, wanted.hi - here.lo, step)
        kept = max(kept[0], touched[0]), min(kept[1], touched[1])
    if first > last:
        first, last = 0, -1
    pieces: list[Ints] = []
    weights: list[Ints] = []

    def add(start: int, stop: int, weight: int) -> None:
        if stop > start:
            pieces.append(np.arange(lo + start, lo + stop, dtype=np.int64))
            weights.append(np.full(stop - start, weight, dtype=np.int64))

    if last >= first:
        add(first * length, (first + 1) * length, last - first + 1)
        add(max(kept[0], 0) * length, first * length, 1)
        add((last + 1) * length, (min(kept[1], full - 1) + 1) * length, 1)
    else:
        add(max(kept[0], 0) * length, (min(kept[1], full - 1) + 1) * length, 1)
    add(full * length, count, 1)
    if not pieces:
        nothing = np.zeros(0, dtype=np.int64)
        return Values(nothing, nothing)
    return Values(np.concatenate(pieces), np.concatenate(weights))


def _common_length(
    x: Var,
    address: Expr,
    modulus: int,
    constraints: Sequence[tuple[Expr, Interval]],
    others: Sequence[Expr],
) -> int | None:
    """After how many values everything repeats; `None` if nobody knows."""
    found = period(address, x)
    if found is None:
        return None
    length = found.length * (modulus // gcd(found.shift, modulus))
    for e in (*[e for e, _ in constraints], *others):
        part = period(e, x)
        if part is None:
            return None
        length = lcm(length, part.length)
        if length > LONGEST:
            return None
    return length


def _steps(lo: int, hi: int, step: int) -> tuple[int, int]:
    """The first and the last `k` with `lo <= k * step <= hi`."""
    if step < 0:
        lo, hi, step = -hi, -lo, -step
    return -(-lo // step), hi // step
