"""Operations of an instruction, by the unit that computes them and by element type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct


class Product(NamedTuple):
    """Element types of a dot or convolution, with its stated precision.

    Attributes:
        lhs: Element type of operand 0.
        rhs: Element type of operand 1.
        result: Element type of the result.
        precision: Precision of each operand as the program states it; empty if it does not.
        algorithm: Algorithm as the program states it; empty if it does not.
    """

    lhs: str
    rhs: str
    result: str
    precision: tuple[str, ...] = ()
    algorithm: str = ""

    @property
    def allows_tf32(self) -> bool:
        """May a device multiply these f32 operands as tf32?

        If an algorithm is stated, its types decide. Otherwise precision `HIGHEST` forbids it.
        """
        if (self.lhs, self.rhs) != ("f32", "f32"):
            return False
        if self.algorithm:
            return "tf32" in self.algorithm.lower()
        return not any(p.upper() == "HIGHEST" for p in self.precision)


class Work(Struct, frozen=True):
    """Operations by unit and element type. Works can be added, and multiplied by numbers of runs.

    Attributes:
        matrix: Operations of dots, convolutions, and library calls of these.
        vector: Operations of element-wise ops, comparisons, reductions.
        transcendentals: Results of exponentials, roots, trigonometric and similar functions.
        converts: Elements that are converted to another type, or to or from complex numbers.
        unknown: Names of ops and targets of custom calls of unknown work, sorted.  Their work is
            not in the figures.
        estimates: Names of the rules by which part of the figures is estimated, sorted.
        at_least: Names of the rules by which part of the figures is a lower bound, sorted.
    """

    matrix: tuple[tuple[Product, int], ...] = ()
    vector: tuple[tuple[str, int], ...] = ()
    transcendentals: tuple[tuple[str, int], ...] = ()
    converts: tuple[tuple[str, int], ...] = ()
    unknown: tuple[str, ...] = ()
    estimates: tuple[str, ...] = ()
    at_least: tuple[str, ...] = ()

    @property
    def matrix_flops(self) -> int:
        """Return the operations of matrix units."""
        return sum([n for _, n in self.matrix])

    @property
    def vector_flops(self) -> int:
        """Return the operations of vector units."""
        return sum([n for _, n in self.vector])

    @property
    def flops(self) -> int:
        """Return the operations of matrix and vector units, without transcendentals or converts."""
        return self.matrix_flops + self.vector_flops

    @property
    def transcendental_count(self) -> int:
        """Return the number of results of transcendental functions."""
        return sum([n for _, n in self.transcendentals])

    @property
    def convert_count(self) -> int:
        """Return the number of converted elements."""
        return sum([n for _, n in self.converts])

    @property
    def is_exact(self) -> bool:
        """Is all work known, and no part estimated or a lower bound?"""
        return not (self.unknown or self.estimates or self.at_least)

    def __add__(self, other: Work) -> Work:
        return total([(self, 1), (other, 1)])

    def __mul__(self, runs: int) -> Work:
        return total([(self, runs)])

    __rmul__ = __mul__


NOTHING: Final = Work()
"""No work."""


def total(parts: Iterable[tuple[Work, int]]) -> Work:
    """Return the sum of works, each times its number of runs. Work with 0 runs adds no names.

    Raises:
        ValueError: A number of runs is negative.
    """
    matrix: dict[Product, int] = {}
    elements: tuple[dict[str, int], ...] = ({}, {}, {})
    names: tuple[set[str], ...] = (set(), set(), set())
    for work, runs in parts:
        if runs < 0:
            raise ValueError(f"a number of runs is {runs}, needs at least 0")
        if runs == 0 or work is NOTHING:
            continue
        for product, n in work.matrix:
            matrix[product] = matrix.get(product, 0) + n * runs
        figures = work.vector, work.transcendentals, work.converts
        for counts, figure in zip(elements, figures, strict=True):
            for element, n in figure:
                counts[element] = counts.get(element, 0) + n * runs
        for found, more in zip(names, (work.unknown, work.estimates, work.at_least), strict=True):
            found.update(more)
    if not (matrix or any(elements) or any(names)):
        return NOTHING
    vector, transcendentals, converts = map(_counted, elements)
    unknown, estimates, at_least = [tuple(sorted(found)) for found in names]
    products = tuple(sorted([(product, n) for product, n in matrix.items() if n]))
    return Work(products, vector, transcendentals, converts, unknown, estimates, at_least)


def _counted(counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted([(element, n) for element, n in counts.items() if n]))


def largest(branches: Sequence[Work]) -> Work:
    """Return the work of the largest branch, for each figure separately.

    Flops are those of the branch with most flops; transcendentals and converts each come from the
    branch with most of them. The names are those of all branches.
    """
    if not branches:
        return NOTHING
    flops = max(branches, key=lambda work: work.flops)
    transcendentals = max(branches, key=lambda work: work.transcendental_count)
    converts = max(branches, key=lambda work: work.convert_count)
    names = total([(work, 1) for work in branches])
    return Work(
        flops.matrix,
        flops.vector,
        transcendentals.transcendentals,
        converts.converts,
        names.unknown,
        names.estimates,
        names.at_least,
    )
