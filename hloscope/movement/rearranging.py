"""Sequences of reshapes and transposes, and the shortest sequence that equals a map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from hloscope.affine import Dim, Expr
from hloscope.fusion import linear
from hloscope.indexing import Access, IndexingMap, reshape_map
from hloscope.ir import ELEMENT_TYPES, Dims, TensorType
from hloscope.layouts import Strided

_ANY: Final = ELEMENT_TYPES["u8"]
"""Positions are counted in elements, so the element type does not matter."""


class Rearrangement(Struct, frozen=True):
    """One reshape, or one transpose, of logical indices.

    Attributes:
        sizes: Sizes of the result.
        permutation: In a transpose, the operand dimension of each result dimension; `None` in a
            reshape.
    """

    sizes: Dims
    permutation: Dims | None = None

    def __str__(self) -> str:
        if self.permutation is None:
            return f"reshape to {list(self.sizes)}"
        return f"transpose by {list(self.permutation)} to {list(self.sizes)}"

    def to_map(self, operand: Dims) -> IndexingMap:
        """Return the map from an index of the result to the same element of the operand.

        Args:
            operand: Sizes of the operand.

        >>> print(Rearrangement((8, 4), (1, 0)).to_map((4, 8)))
        (d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, 3]
        """
        if self.permutation is None:
            return reshape_map(self.sizes, operand)
        results: list[Expr] = [Dim(self.permutation.index(k)) for k in range(len(operand))]
        return IndexingMap.of_sizes(self.sizes, (), results)


def reshape_to(sizes: Dims, operand: Dims) -> list[Rearrangement]:
    """Return the reshape of an operand to other sizes, in a list; empty for equal sizes."""
    return [] if sizes == operand else [Rearrangement(sizes)]


def transpose_by(permutation: Dims, operand: Dims) -> list[Rearrangement]:
    """Return the transpose of an operand, in a list; empty if no dimension moves."""
    if permutation == tuple(range(len(operand))):
        return []
    return [Rearrangement(tuple(operand[k] for k in permutation), permutation)]


def combined(steps: Sequence[Rearrangement], source: Dims) -> IndexingMap:
    """Return the map from the last result to the source.

    >>> steps = [Rearrangement((8, 4), (1, 0)), Rearrangement((32,))]
    >>> print(combined(steps, (4, 8)))
    (d0) -> (d0 mod 4, d0 / 4), domain: d0 in [0, 31]
    """
    sizes = source
    maps = []
    for step in steps:
        maps.append(step.to_map(sizes))
        sizes = step.sizes
    found = IndexingMap.identity(sizes)
    for m in reversed(maps):
        found = found.compose(m).simplify()
    return found


def flat(m: IndexingMap, here: Dims, there: Dims) -> IndexingMap:
    """Return a map between indices as a map between row-major positions.

    >>> turn = IndexingMap.parse("(d0, d1) -> (d1, d0), domain: d0 in [0, 3], d1 in [0, 7]")
    >>> [flat(turn, (4, 8), (8, 4)).evaluate((position,)) for position in (0, 1, 8)]
    [(0,), (4,), (1,)]
    """
    placed = linear((Access(m),), TensorType(_ANY, here), TensorType(_ANY, there))
    if not placed or placed[0].map is None:
        return IndexingMap.undefined()
    return placed[0].map


def split_transposed(form: Strided, source: Dims, target: Dims) -> list[Rearrangement]:
    """Return a reshape, transpose and reshape that equal a permutation of digits.

    Args:
        form: From the row-major position in the target to that in the source; a permutation.
        source: Sizes of the source.
        target: Sizes of the target.

    >>> from hloscope.layouts import Mode
    >>> form = Strided((Mode(4, 8), Mode(8, 1)))
    >>> print(*split_transposed(form, (4, 8), (2, 4, 4)), sep="; ")
    transpose by [1, 0] to [8, 4]; reshape to [2, 4, 4]
    """
    modes = form.merged().modes[::-1]
    if len(modes) <= 1:
        return reshape_to(target, source)
    # In the source the digits are in order of descending stride; the reshape to them is free.
    order = sorted(range(len(modes)), key=lambda k: -modes[k].stride)
    split = tuple(modes[k].size for k in order)
    steps = reshape_to(split, source)
    steps += transpose_by(tuple(order.index(k) for k in range(len(modes))), split)
    return steps + reshape_to(target, tuple(mode.size for mode in modes))
