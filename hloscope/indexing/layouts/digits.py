"""Maps whose results are sums of digits of variables, or of digits times strides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import gcd, prod
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from hloscope.affine import Const, Dim, Expr, FloorDiv, Mod, Sum, Var, linear, postorder
from hloscope.indexing import IndexingMap, below, prove_equal
from hloscope.ir import Dims

# --------------------------------------------------------------------------------------------------
# Functions of one index that are an offset plus digits times strides, in mixed radix.
#
# `f(x) = offset + sum of ((x / (s_0 * ... * s_{i-1})) mod s_i) * d_i`. Reshapes and transposes have
# this form, with slices, reverses and broadcasts (offsets, negative strides, strides of 0), and so
# has every flat CuTe layout. With adjacent digits merged where possible, the form is unique except
# for digits of size 1, so the number of digits is a property of the function.


_MOST_TRIED: Final = 1 << 16
"""Largest trial divisor of a size; a cofactor without a smaller factor counts as prime."""
_MOST_DIVISORS: Final = 1 << 13
"""Maximum number of divisors that are tried as digit boundaries."""


class Mode(NamedTuple):
    """One digit of an index: the number of its values, and the distance between their results."""

    size: int
    stride: int


class Strided(Struct, frozen=True):
    """The function `offset + sum of digit * stride` of an index; the first digit varies fastest.

    Attributes:
        modes: Size and stride of each digit, from the fastest to the slowest.
        offset: The value at 0.

    >>> turn = Strided((Mode(4, 8), Mode(8, 1)))
    >>> [turn(x) for x in (0, 1, 2, 4, 5)]
    [0, 8, 16, 1, 9]
    """

    modes: tuple[Mode, ...]
    offset: int = 0

    @property
    def size(self) -> int:
        """Return the number of indices: the product of the digit sizes."""
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
        """Is the function a permutation of `0 .. size - 1`?"""
        below_ = 1
        for size, stride in sorted(self.merged().modes, key=lambda mode: mode.stride):
            # In a permutation the digits, sorted by stride, are again a mixed-radix number.
            if stride != below_:
                return False
            below_ *= size
        return not self.offset

    def merged(self) -> Strided:
        """Return the same function without digits of size 1, with adjacent digits joined.

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
    """Return the only `Strided` that can equal `f`, from some values of `f`.

    That it equals `f` is not proved.

    Args:
        f: A function of `0 .. size - 1`.
        size: Number of indices; at least 1.
        ends: The divisors of the size in ascending order: the possible digit boundaries.
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
    """Return the divisors of the product of `factors` in ascending order.

    If there are more than `_MOST_DIVISORS`, some are left out.

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
    """Return the prime factors of a number with multiplicity.

    A cofactor without prime factors up to `_MOST_TRIED` is returned as one factor, which may be
    composite.
    """
    primes: list[int] = []
    p = 2
    while p * p <= number and p < _MOST_TRIED:
        while number % p == 0:
            primes.append(p)
            number //= p
        p += 1
    return primes if number <= 1 else [*primes, number]


# --------------------------------------------------------------------------------------------------
# Maps whose results are sums of digits of variables, derived from the expressions alone.
#
# A reshape, a transpose and their compositions divide indices only where digits end, so every
# quotient and remainder is again a sum of digits. Nothing is guessed, so nothing needs a proof. An
# expression that is not certainly such a sum is not converted.


_MOST_DIGITS: Final = 1 << 10
"""Maximum number of digits in a sum; longer sums are not converted."""
_TESTED_POINTS: Final = 17
"""Number of indices at which a guessed form is compared with the map before isl proves it."""


class Digits(NamedTuple):
    """One result of a map: an offset, and a function of each variable that is 0 at 0."""

    offset: int
    forms: tuple[Strided, ...]


class _Digit(NamedTuple):
    """The term `((variable / lower) mod (upper / lower)) * stride` of a sum."""

    variable: Var
    lower: int
    upper: int
    stride: int

    @property
    def last(self) -> int:
        """Return the term's value at the highest value of the digit."""
        return (self.upper // self.lower - 1) * self.stride


_Sum: TypeAlias = "tuple[int, tuple[_Digit, ...]]"
"""A sum of digits: a constant, and digits that do not overlap in a variable.

So the values of the digits are independent.
"""


def digits_of(m: IndexingMap) -> tuple[Digits, ...] | None:
    """Return each result as a sum of digits of single variables; `None` if that is not possible.

    Each `Digits` has the functions of the dimension variables, then those of the range variables. A
    function is merged (`Strided.merged`) and has the size of its variable. Constraints that always
    hold are ignored. Maps that exclude an index, have no index or depend on run-time values are not
    converted.

    >>> m = IndexingMap.parse("(d0) -> (d0 * 8 - (d0 / 4) * 31), domain: d0 in [0, 31]")
    >>> [(found.offset, *found.forms) for found in digits_of(m)]
    [(0, Strided(modes=(Mode(size=4, stride=8), Mode(size=8, stride=1)), offset=0))]
    """
    box = m.box
    if (
        m.is_undefined
        or m.runtime
        or any(i.lo or not i.is_finite or not i.size for i in box.values())
    ):
        return None
    sizes = {v: i.size for v, i in box.items()}
    read = _sums_of_digits([*m.results, *[e for e, _ in m.constraints]], sizes)
    if read is None:
        return None
    results, conditions = read[: len(m.results)], read[len(m.results) :]
    for found, (_, allowed) in zip(conditions, m.constraints, strict=True):
        least, most = _bounds(found)
        if not (allowed.lo <= least and most <= allowed.hi):
            return None
    return tuple([Digits(offset, _forms(digits, sizes)) for offset, digits in results])


def _forms(digits: Iterable[_Digit], sizes: Mapping[Var, int]) -> tuple[Strided, ...]:
    """Return the function that each variable contributes; gaps between its digits get stride 0.

    Args:
        digits: The digits of a sum.
        sizes: Size of each variable.
    """
    modes: dict[Var, list[Mode]] = {v: [] for v in sizes}
    ends = dict.fromkeys(sizes, 1)
    for v, lower, upper, stride in sorted(digits, key=lambda digit: digit.lower):
        modes[v] += [Mode(lower // ends[v], 0), Mode(upper // lower, stride)]
        ends[v] = upper
    for v, size in sizes.items():
        modes[v].append(Mode(size // ends[v], 0))
    return tuple([Strided(tuple(found)).merged() for found in modes.values()])


def _sums_of_digits(roots: Sequence[Expr], sizes: Mapping[Var, int]) -> list[_Sum] | None:
    """Return the expressions `roots` as sums of digits; `None` if one is not such a sum.

    `sizes` has the number of values of each variable.
    """
    known: dict[Expr, _Sum] = {}
    for x in postorder(*roots):
        found = _read_node(x, known, sizes)
        if found is None or len(found[1]) > _MOST_DIGITS:
            return None
        known[x] = found
    return [known[root] for root in roots]


def _read_node(x: Expr, known: Mapping[Expr, _Sum], sizes: Mapping[Var, int]) -> _Sum | None:
    """Return an expression as a sum of digits; `None` if it is not one.

    Args:
        x: The expression.
        known: The operands of `x` as sums of digits.
        sizes: Number of values of each variable.
    """
    match x:
        case Const(value):
            return value, ()
        case Sum(terms, const):
            digits = _added([(known[term], by) for term, by in terms])
            offset = const + sum([known[term][0] * by for term, by in terms])
            return None if digits is None else (offset, digits)
        case FloorDiv(num, Const(by)) if by > 0:
            parts = _divided(known[num], by)
            return parts and parts[0]
        case Mod(num, Const(by)) if by > 0:
            parts = _divided(known[num], by)
            return parts and parts[1]
    if not isinstance(x, Var) or x not in sizes:
        return None
    return 0, (_Digit(x, 1, sizes[x], 1),) if sizes[x] > 1 else ()


def _added(parts: Sequence[tuple[_Sum, int]]) -> tuple[_Digit, ...] | None:
    """Return the digits of a sum of multiples; `None` if digit boundaries do not nest.

    Each item of `parts` is a sum of digits and the factor that multiplies it.
    """
    of: dict[Var, list[_Digit]] = {}
    for (_, digits), by in parts:
        for digit in digits:
            of.setdefault(digit.variable, []).append(digit._replace(stride=digit.stride * by))
    found: list[_Digit] = []
    for v, digits_of_v in of.items():
        # All digits of a variable are cut at all boundaries, so that overlapping digits add up
        # piece by piece.
        ends = sorted({end for d in digits_of_v for end in (d.lower, d.upper)})
        if any(b % a for a, b in pairwise(ends)):
            return None
        place = {end: k for k, end in enumerate(ends)}
        strides = [0] * len(ends)
        for _, lower, upper, stride in digits_of_v:
            for k in range(place[lower], place[upper]):
                strides[k] += ends[k] // lower * stride
        found += [_Digit(v, ends[k], ends[k + 1], by) for k, by in enumerate(strides) if by]
    return tuple(found)


def _divided(e: _Sum, divisor: int) -> tuple[_Sum, _Sum] | None:
    """Return quotient and remainder of a sum of digits `e` divided by a positive `divisor`.

    The result is `None` if they are not recognised as sums of digits. `e == divisor * high + low`,
    where `high` has the digits whose strides `divisor` divides, and `low` the remaining digits. If
    `0 <= low < divisor` for all values, these are the quotient and the remainder.
    """
    offset, digits = e
    high: list[_Digit] = []
    low: list[_Digit] = []
    for v, lower, upper, stride in digits:
        steps = divisor // gcd(
            divisor, stride
        )  # this many steps of the digit are a multiple of `divisor`
        if steps == 1:
            high.append(_Digit(v, lower, upper, stride // divisor))
        elif steps < upper // lower and (upper // lower) % steps == 0:
            low.append(_Digit(v, lower, lower * steps, stride))
            high.append(_Digit(v, lower * steps, upper, stride * steps // divisor))
        else:
            low.append(_Digit(v, lower, upper, stride))
    least, most = _bounds((offset, low))
    whole = least // divisor
    if most // divisor != whole:
        return _carried(offset, high, low, divisor)
    return (whole, tuple(high)), (offset - whole * divisor, tuple(low))


def _carried(
    offset: int, high: list[_Digit], low: list[_Digit], divisor: int
) -> tuple[_Sum, _Sum] | None:
    """Return quotient and remainder of a sum of digits, if one digit of `low` carries over.

    More precisely, the upper half of that digit moves to the quotient, as in `(x + 4) / 8 = x / 8 +
    (x / 4) mod 2`. The result is `None` for other sums.

    Args:
        offset: Constant of the dividend.
        high: Digits of the dividend whose strides are multiples of `divisor`, with strides divided
            by it.
        low: The other digits of the dividend.
        divisor: The divisor.
    """
    widest = max(low, key=lambda digit: abs(digit.last))
    v, lower, upper, stride = widest
    half, odd = divmod(upper // lower, 2)
    if odd:
        return None
    rest = [digit for digit in low if digit is not widest]
    if half > 1:
        rest.append(_Digit(v, lower, lower * half, stride))
    least, most = _bounds((offset, rest))
    step = stride * half
    # With the lower half and with the upper half, all values must have one quotient each.
    first, second = least // divisor, (least + step) // divisor
    if most // divisor != first or (most + step) // divisor != second:
        return None
    carry = second - first
    high.append(_Digit(v, lower * half, upper, carry))
    rest.append(_Digit(v, lower * half, upper, step - carry * divisor))
    return (first, tuple(high)), (offset - first * divisor, tuple(rest))


def _bounds(e: tuple[int, Sequence[_Digit]]) -> tuple[int, int]:
    """Return the lowest and the highest value of a sum of digits; both are attained."""
    offset, digits = e
    ends = [digit.last for digit in digits]
    return offset + sum([n for n in ends if n < 0]), offset + sum([n for n in ends if n > 0])


def form_of(m: IndexingMap, factors: Sequence[int] = ()) -> Strided | None:
    """Return a map from one index to one number as a sum of digits; `None` if it is no such sum.

    If the expression does not show the digits, they are guessed from values at a few indices,
    tested at others, and proved.

    Args:
        m: A map of one dimension that begins at 0, with one result and no other variables.
        factors: Sizes whose product is the number of indices, if they are known; digits end at
            their divisors.

    >>> m = IndexingMap.parse("(d0) -> (d0 mod 4 * 8 + d0 / 4), domain: d0 in [0, 31]")
    >>> form_of(m).modes
    (Mode(size=4, stride=8), Mode(size=8, stride=1))
    >>> form_of(IndexingMap.parse("(d0) -> (d0 mod 5), domain: d0 in [0, 11]")) is None
    True
    """
    if len(m.dims) != 1 or len(m.results) != 1 or m.ranges or m.runtime or m.is_undefined:
        return None
    if (read := digits_of(m)) is not None:
        return Strided(read[0].forms[0].modes, read[0].offset)
    form = _only_form(m, factors)
    if form is None or not form.size:
        return form
    last = form.size - 1
    for k in range(_TESTED_POINTS):
        x = last * k // (_TESTED_POINTS - 1)
        if not m.satisfies((x,)) or m.evaluate((x,))[0] != form(x):
            return None
    return form if prove_equal([m], [form.to_map()]).is_proved else None


def _only_form(m: IndexingMap, factors: Sequence[int]) -> Strided | None:
    """Return the only sum of digits that can equal the map, not proved; `None` if there is none.

    `factors` are sizes whose product is the number of indices; digits end at their divisors.
    """
    interval = m.dims[0].interval
    if m.is_known_empty or interval.lo > interval.hi:
        return Strided((Mode(0, 0),))
    if interval.lo != 0:
        return None
    size = interval.hi + 1
    ends = divisors(factors if prod(factors) == size else (size,))
    return supposed(lambda x: m.evaluate((x,))[0], size, ends)
