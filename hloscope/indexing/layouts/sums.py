"""Maps whose results are sums of digits of single variables: the form of CuTe and TVM.

`result = base + sum of ((x / lower) mod extent) * scale`, over variables `x` and their digits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from hloscope.affine import Const, Dim, Expr, Interval, Range, Var, linear
from hloscope.errors import ParseError, UnsupportedError
from hloscope.indexing import IndexingMap, Variable, prove_equal
from hloscope.indexing.layouts.digits import Strided, digits_of, divisors, supposed
from hloscope.support.lazy import pattern
from hloscope.support.limits import MOST_DIGITS


class IterSplit(Struct, frozen=True):
    """One digit of a variable, scaled: `((x / lower) mod extent) * scale`.

    Attributes:
        variable: The variable, by its printed name.
        lower: Divisor of the variable.
        extent: Number of values of the digit.
        scale: Distance between the results of consecutive values.
    """

    variable: str
    lower: int
    extent: int
    scale: int

    def __str__(self) -> str:
        return (
            f"IterSplit({self.variable}, lower_factor={self.lower}, extent={self.extent}, "
            f"scale={self.scale})"
        )


class IterSum(Struct, frozen=True):
    """A base plus a sum of scaled digits.

    >>> IterSum.parse("IterSum([IterSplit(d0, lower_factor=4, extent=2, scale=8)], 3)").base
    3
    """

    splits: tuple[IterSplit, ...]
    base: int = 0

    def __str__(self) -> str:
        return f"IterSum([{', '.join(map(str, self.splits))}], {self.base})"

    @classmethod
    def parse(cls, text: str) -> IterSum:
        """Parse a sum from text such as `IterSum([IterSplit(…), …], base)`.

        Raises:
            ParseError: The text is not a sum of this form.
        """
        whole = _SUM.fullmatch(text.strip())
        if whole is None or len(text) > MOST_DIGITS * 64:
            raise ParseError(f"expected `IterSum([IterSplit(…), …], base)`, found `{text[:60]}`")
        splits = [
            IterSplit(found[1], int(found[2]), int(found[3]), int(found[4]))
            for found in _SPLIT.finditer(whole[1])
        ]
        return cls(tuple(splits), int(whole[2]))


_NUMBER: Final = r"(-?\d{1,30})"
_SPLIT: Final = pattern(
    rf"IterSplit\((\w+), lower_factor={_NUMBER}, extent={_NUMBER}, scale={_NUMBER}\)"
)
_SUM: Final = pattern(rf"IterSum\(\[((?:IterSplit\([^()]*\)(?:, )?)*)\], {_NUMBER}\)")


class Iterators(Struct, frozen=True):
    """A map with a sum of digits for each result, and the sizes of its variables.

    Attributes:
        dims: Name and size of each dimension variable.
        ranges: Name and size of each range variable.
        sums: The sum of each result.
    """

    dims: tuple[tuple[str, int], ...]
    ranges: tuple[tuple[str, int], ...]
    sums: tuple[IterSum, ...]

    def to_map(self) -> IndexingMap:
        """Return the map that the sums describe.

        Raises:
            ValueError: A digit has an unknown variable.
        """
        place: dict[str, Var] = {name: Dim(k) for k, (name, _) in enumerate(self.dims)}
        place |= {name: Range(k) for k, (name, _) in enumerate(self.ranges)}
        sizes = dict((*self.dims, *self.ranges))
        results = []
        for whole in self.sums:
            terms: list[tuple[Expr, int]] = []
            for split in whole.splits:
                if split.variable not in place:
                    raise ValueError(f"no variable `{split.variable}`")
                digit: Expr = place[split.variable] // split.lower
                if split.lower * split.extent < sizes[split.variable]:
                    digit = digit % split.extent
                terms.append((digit, split.scale))
            results.append((linear(*terms) if terms else Const(0)) + whole.base)
        dims, ranges = ([_variable(*pair) for pair in side] for side in (self.dims, self.ranges))
        return IndexingMap(dims, ranges, (), results)


def _variable(name: str, size: int) -> Variable:
    plain = re.fullmatch(r"[ds]\d+", name) is not None
    return Variable(Interval(0, size - 1), "" if plain else name)


def iterators_of(m: IndexingMap) -> Iterators:
    """Return a map as sums of digits of single variables; equality is proved.

    Raises:
        UnsupportedError: No such sum equals the map, or `refuse_unbounded` refuses it; the message
            gives the reason.

    >>> m = IndexingMap.parse("(d0) -> (d0 / 4 + (d0 mod 4) * 8), domain: d0 in [0, 31]")
    >>> print(*iterators_of(m).sums)
    IterSum([IterSplit(d0, lower_factor=1, extent=4, scale=8), \
IterSplit(d0, lower_factor=4, extent=8, scale=1)], 0)
    """
    names = m.names
    sums = []
    for base, digits in separated(m):
        splits = []
        for variable, form in digits:
            lower = 1
            for size, stride in form.modes:
                if stride:
                    splits.append(IterSplit(names[variable], lower, size, stride))
                lower *= size
        sums.append(IterSum(tuple(splits), base))
    sides = [
        tuple([(names[kind(k)], v.interval.size) for k, v in enumerate(variables)])
        for kind, variables in ((Dim, m.dims), (Range, m.ranges))
    ]
    return Iterators(sides[0], sides[1], tuple(sums))


def separated(m: IndexingMap) -> list[tuple[int, list[tuple[Var, Strided]]]]:
    """Return each result of a map as a sum of functions, each of a single variable.

    The functions are derived from the expressions if possible, and otherwise guessed and proved.

    Returns:
        For each result, a pair: its value if all variables are 0, and a list of pairs of a variable
            and its function. A function is a `Strided`: a sum of digits of the variable times
            strides. The result is the value plus the values of all functions.

    Raises:
        UnsupportedError: No such sum equals the map, or `refuse_unbounded` refuses it; the message
            gives the reason.
    """
    variables = refuse_unbounded(m)
    if (read := digits_of(m)) is not None:
        return [(one.offset, [*zip(variables, one.forms, strict=True)]) for one in read]
    found = []
    for k in range(len(m.results)):
        base = value_at(m, variables, {})[k]
        digits = []
        for v in variables:
            size = m.box[v].size

            def along(x: int, v: Var = v, k: int = k) -> int:
                return value_at(m, variables, {v: x})[k]

            form = supposed(along, size, divisors((size,)))
            digits.append((v, Strided(form.modes)))
        found.append((base, digits))
    results = [
        linear(*[(form.expression(v), 1) for v, form in digits]) + base if digits else Const(base)
        for base, digits in found
    ]
    proof = prove_equal([m], [m.with_(results=results, constraints=())])
    if not proof.is_proved:
        why = proof.counter_example or proof.reason
        raise UnsupportedError(f"no sum of digits of single variables: {why}")
    return found


def refuse_unbounded(m: IndexingMap) -> list[Var]:
    """Return the variables of a map after checking that all are in `[0, size)`.

    Raises:
        UnsupportedError: A variable does not begin at 0 or is unbounded, or the map depends on
            run-time values.
    """
    if m.is_undefined or m.is_known_empty:
        raise UnsupportedError("a map without any element")
    if m.runtime:
        raise UnsupportedError("it depends on values that are read at run time")
    variables: list[Var] = [Dim(k) for k in range(len(m.dims))]
    variables += [Range(k) for k in range(len(m.ranges))]
    for v in variables:
        interval = m.box[v]
        if interval.lo != 0 or not interval.is_finite:
            raise UnsupportedError(f"`{m.names[v]}` runs over {interval}, not from 0 on")
    return variables


def value_at(
    m: IndexingMap, variables: Sequence[Var], values: Mapping[Var, int]
) -> tuple[int, ...]:
    """Return the results of the map at given values of variables; the other ones are 0."""
    at = [values.get(v, 0) for v in variables]
    return m.evaluate(at[: len(m.dims)], at[len(m.dims) :])
