"""Functions of one index that are an offset plus digits times strides, in mixed radix.

`f(x) = offset + sum of ((x / (s_0 * ... * s_{i-1})) mod s_i) * d_i`. Reshapes and transposes have
this form, with slices, reverses and broadcasts (offsets, negative strides, strides of 0), and so
has every flat CuTe layout. With adjacent digits merged where possible, the form is unique except
for digits of size 1, so the number of digits is a property of the function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final, NamedTuple

from msgspec import Struct

from hloscope.affine import Const, Dim, Expr, linear
from hloscope.indexing import IndexingMap, below
from hloscope.ir import Dims

_MOST_TRIED: Final = 1 << 16
"""Bound of the trial divisors of a size; a larger rest counts as prime."""
_MOST_DIVISORS: Final = 1 << 13
"""Maximum number of divisors that are tried as digit boundaries."""


class Mode(NamedTuple):
    """One digit: the number of its values, and the distance between their results."""

    size: int
    stride: int


class Strided(Struct, frozen=True):
    """A function `offset` plus the digits of an index times their strides, the first digit fastest.

    Attributes:
        modes: Sizes and strides, from the fastest to the slowest digit.
        offset: The value at 0.

    >>> turn = Strided((Mode(4, 8), Mode(8, 1)))
    >>> [turn(x) for x in (0, 1, 2, 4, 5)]
    [0, 8, 16, 1, 9]
    """

    modes: tuple[Mode, ...]
    offset: int = 0

    @property
    def size(self) -> int:
        """Return the number of indices."""
        return prod(mode.size for mode in self.modes)

    def __call__(self, x: int) -> int:
        """Return the value at an index."""
        value = self.offset
        for size, stride in self.modes:
            x, digit = divmod(x, size)
            value += digit * stride
        return value

    @property
    def is_identity(self) -> bool:
        """Is every index mapped to itself?"""
        return not self.offset and all(mode.stride == 1 for mode in self.merged().modes)

    @property
    def is_permutation(self) -> bool:
        """Is it a permutation of `0 .. size - 1`?"""
        below_ = 1
        for size, stride in sorted(self.merged().modes, key=lambda mode: mode.stride):
            # In a permutation the digits, sorted by stride, are again a mixed-radix number.
            if stride != below_:
                return False
            below_ *= size
        return not self.offset

    def merged(self) -> Strided:
        """Return the function without digits of size 1, and with adjacent digits joined.

        >>> Strided((Mode(4, 2), Mode(1, 7), Mode(3, 8), Mode(2, 1))).merged().modes
        (Mode(size=12, stride=2), Mode(size=2, stride=1))
        """
        modes: list[Mode] = []
        for size, stride in self.modes:
            if size == 1:
                continue
            if modes and stride == modes[-1].size * modes[-1].stride:
                modes[-1] = Mode(modes[-1].size * size, modes[-1].stride)
            else:
                modes.append(Mode(size, stride))
        return Strided(tuple(modes), self.offset)

    def expression(self, x: Expr) -> Expr:
        """Return the value as an expression of the index `x`, which must be in bounds."""
        terms: list[tuple[Expr, int]] = []
        lower, total = 1, self.size
        for size, stride in self.modes:
            digit = x if lower == 1 else x // lower
            lower *= size
            if size > 1:
                terms.append((digit if lower == total else digit % size, stride))
        return (linear(*terms) if terms else Const(0)) + self.offset

    def to_map(self) -> IndexingMap:
        """Return the function as a map of one dimension.

        >>> print(Strided((Mode(4, 8), Mode(8, 1))).to_map())
        (d0) -> ((d0 mod 4) * 8 + d0 / 4), domain: d0 in [0, 31]
        """
        return IndexingMap((below(self.size),), results=[self.expression(Dim(0))])


def supposed(f: Callable[[int], int], size: int, ends: Dims) -> Strided:
    """Return the only form that `f` can have, from its values at a few indices. It is not proved.

    Args:
        f: A function of `0 .. size - 1`.
        size: Number of indices; at least 1.
        ends: The divisors of the size, in order: the possible digit boundaries.
    """
    offset = f(0)
    modes: list[Mode] = []
    lower = 1
    while lower < size:
        # A digit ends at the first divisor at which the function leaves the line through the first
        # two of its values.
        stride = f(lower) - offset
        rest = size // lower
        end = next(
            (
                r
                for r in ends
                if 1 < r < rest and rest % r == 0 and f(lower * r) != offset + stride * r
            ),
            rest,
        )
        modes.append(Mode(end, stride))
        lower *= end
    return Strided(tuple(modes), offset)


def divisors(factors: Sequence[int]) -> Dims:
    """Return the divisors of a product, in order; not all of them if they are very many.

    >>> divisors((4, 3))
    (1, 2, 3, 4, 6, 12)
    """
    found = {1}
    for factor in factors:
        for prime in _primes(factor):
            if len(found) <= _MOST_DIVISORS:
                found |= {prime * d for d in found}
    return tuple(sorted(found))


def _primes(number: int) -> list[int]:
    """Return the prime factors of a number with multiplicity; a large rest may be composite."""
    primes: list[int] = []
    p = 2
    while p * p <= number and p < _MOST_TRIED:
        while number % p == 0:
            primes.append(p)
            number //= p
        p += 1
    return primes if number <= 1 else [*primes, number]
