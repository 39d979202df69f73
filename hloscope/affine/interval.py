"""Closed integer intervals.  -2^63 and 2^63 - 1 act as infinities, as in XLA."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from msgspec import Struct

NEG_INF: Final = -(2**63)
POS_INF: Final = 2**63 - 1


def _saturate(x: int) -> int:
    """Return `x`, or the infinity on its side if `x` is not between both infinities."""
    return NEG_INF if x <= NEG_INF else POS_INF if x >= POS_INF else x


def _add(x: int, y: int, infinity: int) -> int:
    """Return `x + y`, where an infinity plus a finite number is that infinity.

    `-inf + inf` gives `infinity`, which the caller chooses so that the bound stays safe.
    """
    if x in (NEG_INF, POS_INF) or y in (NEG_INF, POS_INF):
        found = {v for v in (x, y) if v in (NEG_INF, POS_INF)}
        return found.pop() if len(found) == 1 else infinity
    return _saturate(x + y)


def _mul(x: int, y: int) -> int:
    """Return `x * y` for two ends of intervals, which may be infinities.

    0 times an infinity is 0.
    """
    if x == 0 or y == 0:
        return 0
    if x in (NEG_INF, POS_INF) or y in (NEG_INF, POS_INF):
        return POS_INF if (x > 0) == (y > 0) else NEG_INF
    return _saturate(x * y)


def _div(x: int, y: int) -> int:
    """Return `floor(x / y)` for two ends of intervals, which may be infinities; `y` is not zero."""
    if x in (NEG_INF, POS_INF):
        return x if y > 0 else -1 - x
    if y in (NEG_INF, POS_INF):
        return 0 if x == 0 or (x > 0) == (y > 0) else -1
    return _saturate(x // y)


class Interval(Struct, frozen=True):
    """The integers `lo..hi`, both included; empty if `lo > hi`.

    `x < y` and the other comparisons (`lt`, `le`, `gt`, `ge`, `eq`, `ne`) have three values:
    true or false for all pairs of values, or `None` if pairs differ.

    >>> Interval(0, 9) + Interval(1, 1), Interval(0, 9) & Interval(5, 20)
    (Interval(lo=1, hi=10), Interval(lo=5, hi=9))
    >>> Interval(0, 3).lt(Interval(4, 9)), Interval(0, 3).lt(Interval(2, 9))
    (True, None)
    """

    lo: int
    hi: int
    EMPTY: ClassVar[Interval]
    EVERYTHING: ClassVar[Interval]

    @classmethod
    def point(cls, value: int) -> Interval:
        """Return the interval that contains only `value`."""
        return cls(value, value)

    @classmethod
    def of_size(cls, size: int) -> Interval:
        """Return `[0, size - 1]`, the indices of a dimension of that size."""
        return cls(0, size - 1)

    @property
    def is_empty(self) -> bool:
        return self.lo > self.hi

    @property
    def is_point(self) -> bool:
        return self.lo == self.hi

    @property
    def is_finite(self) -> bool:
        return self.lo > NEG_INF and self.hi < POS_INF

    @property
    def size(self) -> int:
        """Number of values; an unbounded interval counts as if it ended at the limits of int64."""
        return max(0, self.hi - self.lo + 1)

    def __contains__(self, value: int) -> bool:
        return self.lo <= value <= self.hi

    def contains(self, other: Interval | int) -> bool:
        """Does the interval contain the integer, or every value of the other interval?"""
        if isinstance(other, Interval):
            return other.is_empty or (self.lo <= other.lo and other.hi <= self.hi)
        return self.lo <= other <= self.hi

    def within(self, start: int, stop: int) -> bool:
        """Does every value lie in the half-open `[start, stop)`?"""
        return start <= self.lo and self.hi < stop

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.lo, self.hi + 1))

    def __str__(self) -> str:
        return f"[{self.lo}, {self.hi}]"

    def __add__(self, other: Interval | int) -> Interval:
        b = _interval(other)
        if self.is_empty or b.is_empty:
            return Interval.EMPTY
        return Interval(_add(self.lo, b.lo, NEG_INF), _add(self.hi, b.hi, POS_INF))

    __radd__ = __add__

    def __neg__(self) -> Interval:
        return self * -1

    def __sub__(self, other: Interval | int) -> Interval:
        return self + -_interval(other)

    def __mul__(self, other: Interval | int) -> Interval:
        b = _interval(other)
        if self.is_empty or b.is_empty:
            return Interval.EMPTY
        ends = [_mul(x, y) for x in (self.lo, self.hi) for y in (b.lo, b.hi)]
        return Interval(min(ends), max(ends))

    __rmul__ = __mul__

    def __and__(self, other: Interval) -> Interval:
        """Return the intersection of both intervals."""
        lo, hi = max(self.lo, other.lo), min(self.hi, other.hi)
        return Interval(lo, hi) if lo <= hi else Interval.EMPTY

    def __or__(self, other: Interval) -> Interval:
        """Return the smallest interval that contains both."""
        if self.is_empty or other.is_empty:
            return self if other.is_empty else other
        return Interval(min(self.lo, other.lo), max(self.hi, other.hi))

    def floordiv(self, other: Interval | int) -> Interval:
        """Return the smallest interval that contains `floor(x / y)` for all `x` and all `y != 0`.

        It is empty if there is no such pair. An interval `[+inf, +inf]` stands for all large
        values, whose quotients may be finite. So `2^63 - 2` counts as an `x` too; likewise for
        `[-inf, -inf]`.

        >>> Interval(0, 2**90).floordiv(2**80)
        Interval(lo=0, hi=1024)
        """
        b = _interval(other)
        # `floor(x / y)` is monotonic in each argument where `y` keeps its sign. So the extremes are
        # at the ends of `x` and at the ends of the negative and of the positive part of `y`.
        own = [self.lo, self.hi]
        own += [POS_INF - 1] if self.lo == POS_INF else []
        own += [NEG_INF + 1] if self.hi == NEG_INF else []
        ends = [
            _div(x, y)
            for least, most in ((b.lo, min(b.hi, -1)), (max(b.lo, 1), b.hi))
            if least <= most and not self.is_empty
            for x in own
            for y in (least, most)
        ]
        return Interval(min(ends), max(ends)) if ends else Interval.EMPTY

    def ceildiv(self, other: Interval | int) -> Interval:
        """Return an interval that contains `ceil(x / y)`, for `x` in `self` and `y` in `other`."""
        return -(-self).floordiv(other)

    def mod(self, other: Interval | int) -> Interval:
        """Return an interval that contains `x mod |y|` for all `x` and all `y != 0`.

        It is the smallest one if `y` is a constant and no multiple of `y` lies between two values
        of `x`.
        """
        b = _interval(other)
        if self.is_empty or b.is_empty or (b.lo == b.hi == 0):
            return Interval.EMPTY
        largest = max(abs(b.lo), abs(b.hi))
        # Both ends have the same quotient, so the remainder grows by 1 with each step of `x`.
        if b.is_point and self.is_finite and self.lo // largest == self.hi // largest:
            return Interval(self.lo % largest, self.hi % largest)
        smallest = min(abs(b.lo), abs(b.hi)) if (b.lo > 0 or b.hi < 0) else 1
        # A value in `[0, y)` is its own remainder.
        if self.lo >= 0 and self.hi < smallest:
            return self
        top = _saturate(largest - 1)
        return Interval(0, min(top, self.hi) if self.lo >= 0 else top)

    def minimum(self, other: Interval | int) -> Interval:
        b = _interval(other)
        if self.is_empty or b.is_empty:
            return Interval.EMPTY
        return Interval(min(self.lo, b.lo), min(self.hi, b.hi))

    def maximum(self, other: Interval | int) -> Interval:
        b = _interval(other)
        if self.is_empty or b.is_empty:
            return Interval.EMPTY
        return Interval(max(self.lo, b.lo), max(self.hi, b.hi))

    def lt(self, other: Interval | int) -> bool | None:
        b = _interval(other)
        return True if self.hi < b.lo else False if self.lo >= b.hi else None

    def gt(self, other: Interval | int) -> bool | None:
        return _interval(other).lt(self)

    def le(self, other: Interval | int) -> bool | None:
        return _not(self.gt(other))

    def ge(self, other: Interval | int) -> bool | None:
        return _not(self.lt(other))

    def eq(self, other: Interval | int) -> bool | None:
        b = _interval(other)
        if self.hi < b.lo or self.lo > b.hi:
            return False
        return True if self.lo == self.hi == b.lo == b.hi else None

    def ne(self, other: Interval | int) -> bool | None:
        return _not(self.eq(other))


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _interval(x: Interval | int) -> Interval:
    return x if isinstance(x, Interval) else Interval(x, x)


Interval.EMPTY = Interval(POS_INF, NEG_INF)
Interval.EVERYTHING = Interval(NEG_INF, POS_INF)
