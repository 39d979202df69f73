"""Indexing maps of programs of unknown sizes, in terms of named sizes.

A map is found by interpolation. The program is refined at several sizes; if the maps differ only in
their numbers, each number is the polynomial of the sizes through its samples. The map is then
compared with those of the refined program at further random sizes, and is unknown if it differs
there. So a result is checked, not proved.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from hloscope import passes
from hloscope.api.artifacts import Serializable, refined, verified_tree
from hloscope.api.passes import program_of
from hloscope.display import Parametric, ParametricMap
from hloscope.errors import HloscopeError, UnknownNameError, UnsupportedError
from hloscope.support.lazy import pattern

if TYPE_CHECKING:
    from hloscope.mlir import Operation

CHECKED: Final = 5
"""Number of random sizes at which a map is compared with that of the refined program."""
_SMALLEST, _LARGEST = 5, 60
_TRIES: Final = 200
_MOST_SIZES: Final = 6
_SUFFIX: Final = pattern(r"\.\d+(?=(#\d+)?$)")
_NUMBER: Final = pattern(r"(?<![A-Za-z_\d])\d+")
_PLACE: Final = pattern(r"\{([A-Za-z_]\w*)\}")

Sizes: TypeAlias = Mapping[str, int]
Monomial: TypeAlias = tuple[str, ...]
Polynomial: TypeAlias = tuple[tuple[Monomial, int], ...]


def parametric(
    program: Serializable, args: Sequence[str] | None = None, *, seed: int = 0
) -> list[Parametric]:
    """Return the maps of the entry of a program of unknown sizes, in terms of named sizes.

    The instructions are those of the refined program that have operands with maps.

    Args:
        program: Any argument that `refine` takes.
        args: Types of the arguments with names in braces for sizes, `"tensor<{b}x4xf32>"`, or
            `"{n}"` for an argument that is a size itself. By default the dimension variables of
            `jax.export`.
        seed: Seed of the random sizes.

    Raises:
        UnknownNameError: The program has no named sizes, or too many.
        UnsupportedError: Refinement succeeds at too few sizes.

    >>> text = '''
    ... func.func @main(%a: tensor<?x4xf32>) -> tensor<4x?xf32> {
    ...   %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<?x4xf32>) -> tensor<4x?xf32>
    ...   return %0 : tensor<4x?xf32>
    ... }'''
    >>> [found, _] = parametric(text, ["tensor<{b}x4xf32>"])
    >>> found.maps[0].text
    '(d0, d1) -> (d1, d0), domain: d0 in [0, 3], d1 in [0, b - 1]'
    """
    tree = verified_tree(program)
    request = _Request(tree, args)
    if not 0 < len(request.names) <= _MOST_SIZES:
        count = len(request.names)
        raise UnknownNameError(f"{count} named sizes, needs 1 to {_MOST_SIZES}: name them in args")
    fit = _Fit(request.names)
    samples = _samples(request, len(fit.monomials) + CHECKED, random.Random(seed))
    if len(samples) < len(fit.monomials) + CHECKED or not fit.take(samples):
        raise UnsupportedError("the program is refined at too few of the sizes that were tried")
    return [*_answers(fit, samples)]


Key: TypeAlias = tuple[str, int]
"""Name of an instruction without its number, and how many instructions before it have that name."""


class Named(NamedTuple):
    """An instruction of the program after refinement at given sizes.

    Each entry of `maps` has the operand number, the map's text and its precision.
    """

    name: str
    maps: list[tuple[int, str, str]]


class _Request:
    """A program with named sizes, which can be refined at given values."""

    def __init__(self, tree: Operation, args: Sequence[str] | None) -> None:
        self.tree: Final = tree
        self.args: Final = args
        if args is None:
            self.names = passes.specification(tree).names
        else:
            self.names = tuple(dict.fromkeys(name for arg in args for name in _PLACE.findall(arg)))

    def maps(self, sizes: Sizes) -> dict[Key, Named]:
        """Return the maps of all instructions of the entry, after refinement at these sizes."""
        if self.args is None:
            tree = refined(self.tree, dims=sizes).tree
        else:
            given = [_PLACE.sub(lambda m: str(sizes[m[1]]), arg) for arg in self.args]
            tree = refined(self.tree, given).tree
        found: dict[Key, Named] = {}
        count: Counter[str] = Counter()
        for instruction in program_of(tree).entry:
            # Equal constants are merged, which depends on the sizes: so the numbers in generated
            # names vary between sizes, and cannot identify an instruction.
            base = _SUFFIX.sub("", instruction.name)
            maps = [
                (number, str(access.map or ""), str(access.precision))
                for number, operand in enumerate(instruction.indexing().operands)
                for access in operand.accesses
            ]
            if maps:
                found[base, count[base]] = Named(instruction.name, maps)
                count[base] += 1
        return found


class _Sample(NamedTuple):
    """The maps of all instructions after refinement at given sizes."""

    sizes: Sizes
    maps: dict[Key, Named]


def _samples(request: _Request, count: int, rng: random.Random) -> list[_Sample]:
    """Return the maps at `count` distinct random sizes; fewer if refinement fails too often."""
    found: list[_Sample] = []
    seen: set[tuple[int, ...]] = set()
    for _ in range(_TRIES):
        if len(found) == count:
            break
        values = tuple([rng.randint(_SMALLEST, _LARGEST) for _ in request.names])
        if values in seen:
            continue
        seen.add(values)
        sizes = dict(zip(request.names, values, strict=True))
        try:
            found.append(_Sample(sizes, request.maps(sizes)))
        except HloscopeError:
            # A program that fails at every size so far will hardly succeed later.
            if not found and len(seen) > _TRIES // 4:
                break
    return found


class _Fit:
    """Interpolates numbers by polynomials of degree two in the sizes called `names`."""

    def __init__(self, names: Sequence[str]) -> None:
        self.monomials: Final[list[Monomial]] = [
            each for degree in range(3) for each in combinations_with_replacement(names, degree)
        ]
        self.chosen: list[int] = []
        self._rows: list[list[Fraction]] = []

    def take(self, samples: Sequence[_Sample]) -> bool:
        """Choose samples that determine every coefficient, and invert their matrix.

        Return `False` if the samples do not suffice.
        """
        # Gaussian elimination: a sample is chosen if its row of monomial values is linearly
        # independent of the chosen ones. With as many rows as monomials, the matrix is invertible.
        echelon: list[list[Fraction]] = []
        for number, sample in enumerate(samples):
            row = self._row(sample.sizes)
            for other in echelon:
                lead = next(k for k, x in enumerate(other) if x)
                row = [x - row[lead] / other[lead] * y for x, y in zip(row, other, strict=True)]
            if any(row):
                echelon.append(row)
                self.chosen.append(number)
        if len(self.chosen) < len(self.monomials):
            return False
        self._rows = _inverse([self._row(samples[k].sizes) for k in self.chosen])
        return True

    def _row(self, sizes: Sizes) -> list[Fraction]:
        return [Fraction(prod(sizes[name] for name in each)) for each in self.monomials]

    def polynomial(self, numbers: Sequence[int]) -> Polynomial | None:
        """Return the polynomial that has the given value at each sample.

        `None` if a coefficient is not an integer.

        Args:
            numbers: The values, one for each sample that was passed to `take`.
        """
        found = []
        for monomial, row in zip(self.monomials, self._rows, strict=True):
            value = sum((x * numbers[k] for x, k in zip(row, self.chosen, strict=True)), Fraction())
            if value.denominator != 1:
                return None
            if value:
                found.append((monomial, int(value)))
        return tuple(found)


def _inverse(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    size = len(matrix)
    rows = [[*row, *[Fraction(k == n) for k in range(size)]] for n, row in enumerate(matrix)]
    for k in range(size):
        # The matrix is invertible, so each column has a pivot at or below the diagonal.
        lead = next(n for n in range(k, size) if rows[n][k])
        rows[k], rows[lead] = rows[lead], rows[k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for n in range(size):
            if n != k and rows[n][k]:
                rows[n] = [x - rows[n][k] * y for x, y in zip(rows[n], rows[k], strict=True)]
    return [row[size:] for row in rows]


def value_of(polynomial: Polynomial, sizes: Sizes) -> int:
    """Return the value of a polynomial at the given sizes.

    >>> value_of(((("b",), 2), ((), -1)), {"b": 4})
    7
    """
    return sum(factor * prod(sizes[name] for name in names) for names, factor in polynomial)


def text_of_polynomial(polynomial: Polynomial) -> str:
    """Return a polynomial as text; terms of the highest degree come first.

    >>> text_of_polynomial((((), -1), (("b",), 1), (("b", "s"), 3)))
    '3 * b * s + b - 1'
    """
    text = ""
    for names, factor in sorted(polynomial, key=lambda term: (-len(term[0]), term[0])):
        parts = [*([] if names and abs(factor) == 1 else [str(abs(factor))]), *names]
        sign = ("-" if factor < 0 else "") if not text else (" - " if factor < 0 else " + ")
        text += sign + " * ".join(parts)
    return text or "0"


def _answers(fit: _Fit, samples: Sequence[_Sample]) -> Iterator[Parametric]:
    checked = tuple([s.sizes for k, s in enumerate(samples) if k not in fit.chosen][:CHECKED])
    for key, first in samples[0].maps.items():
        others = [sample.maps[key].maps for sample in samples if key in sample.maps]
        maps = []
        for k, (operand, _, _) in enumerate(first.maps):
            rows = [each[k] for each in others if len(each) == len(first.maps)]
            maps.append(_map(fit, samples, operand, rows))
        yield Parametric(first.name, tuple(maps), checked)


def _map(
    fit: _Fit, samples: Sequence[_Sample], operand: int, rows: Sequence[tuple[int, str, str]]
) -> ParametricMap:
    """Interpolate one map from the maps at all samples.

    Args:
        fit: The interpolation.
        samples: The samples.
        operand: Number of the operand.
        rows: Operand number, text and precision of the map at each sample.
    """

    def unknown(why: str) -> ParametricMap:
        return ParametricMap(operand, "", "unknown", why)

    if len(rows) < len(samples):
        return unknown("at some sizes the program has other instructions")
    precisions = {precision for _, _, precision in rows}
    if precisions == {"unknown"}:
        return unknown("nothing is known of the map at any size")
    if len(precisions) > 1:
        return unknown("how precise the map is depends on the sizes")
    # Maps that differ only in their numbers have the same form.
    forms = {_NUMBER.sub("#", text) for _, text, _ in rows}
    if len(forms) > 1:
        return unknown("the form of the map depends on the sizes")
    columns = zip(*[[int(n) for n in _NUMBER.findall(text)] for _, text, _ in rows], strict=True)
    found = [fit.polynomial(numbers) for numbers in columns]
    polynomials = [each for each in found if each is not None]
    if len(polynomials) < len(found):
        return unknown("a number in the map is not a polynomial of degree two of the sizes")
    pieces = _NUMBER.split(rows[0][1])
    # The chosen samples agree by construction; the others are the check.
    for sample, (_, text, _) in zip(samples, rows, strict=True):
        numbers = [str(value_of(each, sample.sizes)) for each in polynomials]
        if _joined(pieces, numbers) != text:
            return unknown("a number in the map is not a polynomial of degree two of the sizes")
    texts = [text_of_polynomial(each) for each in polynomials]
    for k, text in enumerate(texts):
        # Inside an interval's bounds a sum needs no parentheses.
        alone = pieces[k].endswith("[") or pieces[k + 1].startswith("]")
        if not alone and re.search(r"[*+-]", text):
            texts[k] = f"({text})"
    return ParametricMap(operand, _joined(pieces, texts), precisions.pop())


def _joined(pieces: Sequence[str], between: Sequence[str]) -> str:
    parts = [pieces[0]]
    for text, piece in zip(between, pieces[1:], strict=True):
        parts += [text, piece]
    return "".join(parts)
