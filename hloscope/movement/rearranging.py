"""Sequences of reshapes and transposes, and their decomposition into minimal ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from math import prod
from typing import Final

from msgspec import Struct

from hloscope.affine import Dim, Expr
from hloscope.fusion import linear
from hloscope.indexing import (
    Access,
    IndexingMap,
    bitcast_map,
    major_to_minor,
    minimal_groups,
    prove_equal,
    reshape_map,
)
from hloscope.indexing.layouts import Strided, form_of
from hloscope.ir import ELEMENT_TYPES, Dims, TensorType

# --------------------------------------------------------------------------------------------------
# Sequences of reshapes and transposes, and the shortest sequence that equals a map.


_ANY: Final = ELEMENT_TYPES["u8"]
"""Element type of arrays of which only positions count."""


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
    """Return the reshape from sizes `operand` to `sizes` as a list; empty for equal sizes."""
    return [] if sizes == operand else [Rearrangement(sizes)]


def transpose_by(permutation: Dims, operand: Dims) -> list[Rearrangement]:
    """Return the transpose of sizes `operand` as a list; empty if no dimension moves."""
    if permutation == tuple(range(len(operand))):
        return []
    return [Rearrangement(tuple(operand[k] for k in permutation), permutation)]


def combined(steps: Sequence[Rearrangement], source: Dims) -> IndexingMap:
    """Return the map from an index of the last result to an index of the source.

    `source` has the sizes of the source.

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

    Args:
        m: The map.
        here: Sizes of the array that it starts from.
        there: Sizes of the array that it leads to.

    >>> turn = IndexingMap.parse("(d0, d1) -> (d1, d0), domain: d0 in [0, 3], d1 in [0, 7]")
    >>> [flat(turn, (4, 8), (8, 4)).evaluate((position,)) for position in (0, 1, 8)]
    [(0,), (4,), (1,)]
    """
    placed = linear((Access(m),), TensorType(_ANY, here), TensorType(_ANY, there))
    if not placed or placed[0].map is None:
        return IndexingMap.undefined()
    return placed[0].map


def split_transposed(form: Strided, source: Dims, target: Dims) -> list[Rearrangement]:
    """Return a reshape, transpose and reshape that together equal a permutation of digits.

    The digits are those of a row-major position, in a mixed radix. Ops that change nothing are left
    out.

    Args:
        form: Function from the row-major position in the target to that in the source; it permutes
            digits.
        source: Sizes of the source.
        target: Sizes of the target.

    >>> from hloscope.indexing.layouts import Mode
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


# --------------------------------------------------------------------------------------------------
# Decomposition of a reshape into minimal reshapes of adjacent dimensions.


class ReshapeCategory(StrEnum):
    """How a reshape changes the dimensions that are not of size 1; XLA's names."""

    IDENTITY = "Identity"
    INCREASE_RANK = "IncreaseRank"
    """Only dimensions of size 1 are added."""
    DECREASE_RANK = "DecreaseRank"
    """Only dimensions of size 1 are removed."""
    EXPAND = "ExpandShape"
    """One dimension becomes several."""
    COLLAPSE = "CollapseShape"
    """Several dimensions become one."""
    GENERIC = "Generic"
    """Several dimensions become several others."""


class MinimalReshape(Struct, frozen=True):
    """A run of dimensions that is reshaped independently of the others.

    Attributes:
        source: Dimensions of the operand; empty if only dimensions of size 1 are added.
        target: Dimensions of the result.
        category: How they change.
    """

    source: range
    target: range
    category: ReshapeCategory


def minimal_reshapes(source: Sequence[int], target: Sequence[int]) -> tuple[MinimalReshape, ...]:
    """Decompose the reshape from `source` to `target` into minimal ones.

    Together they contain every dimension once, in order, and each keeps its number of elements.
    Different shapes without elements are one reshape, as no decomposition is better than another.

    Args:
        source: Sizes before.
        target: Sizes after.

    Raises:
        ValueError: A size is negative, or the numbers of elements differ.

    Source: XLA `GetMinimalReshapes`.

    >>> for group in minimal_reshapes((2, 4, 8, 1), (8, 4, 2)):
    ...     print(group.category, [*group.source], [*group.target])
    CollapseShape [0, 1] [0]
    ExpandShape [2, 3] [1, 2]
    """
    here, there = tuple(source), tuple(target)
    for size in (*here, *there):
        if size < 0:
            raise ValueError(f"a dimension has size {size}")
    if prod(here) != prod(there):
        raise ValueError(f"{list(here)} has {prod(here)} elements, {list(there)} has {prod(there)}")
    return tuple(
        MinimalReshape(
            from_, to, _category(here[from_.start : from_.stop], there[to.start : to.stop])
        )
        for from_, to in _runs(here, there)
    )


def _runs(here: Dims, there: Dims) -> Iterator[tuple[range, range]]:
    """Yield the source dimensions and the target dimensions of each minimal reshape.

    `here` has the sizes of the source, `there` those of the target.
    """
    if here == there:
        yield from ((range(k, k + 1), range(k, k + 1)) for k in range(len(here)))
    elif 0 in here:
        yield range(len(here)), range(len(there))
    else:
        for from_, to in minimal_groups(here, there):
            yield range(from_.start, from_.stop), range(to.start, to.stop)


def _category(here: Dims, there: Dims) -> ReshapeCategory:
    """Return how one minimal reshape changes dimensions.

    `here` has its sizes before, `there` those after.
    """
    few, many = ([size for size in sizes if size != 1] for sizes in (here, there))
    if few == many:
        if len(here) == len(there):
            return ReshapeCategory.IDENTITY
        grows = len(here) < len(there)
        return ReshapeCategory.INCREASE_RANK if grows else ReshapeCategory.DECREASE_RANK
    if len(few) == 1:
        return ReshapeCategory.EXPAND
    if len(many) == 1:
        return ReshapeCategory.COLLAPSE
    return ReshapeCategory.GENERIC


# --------------------------------------------------------------------------------------------------
# Decomposition of bitcasts into reshapes and transposes of logical arrays.
#
# The layouts decide: a bitcast leaves the bytes in place and reads them as another array.


class BitcastParts(Struct, frozen=True):
    """A bitcast as a sequence of reshapes and transposes.

    Attributes:
        kind: `reshape`, `transpose` or `transpose-reshape-transpose`; for tiled layouts also
            `reshape-transpose-reshape`, or `through memory`, which is two of these; empty without a
            decomposition.
        steps: Reshapes and transposes, in order, that together equal the bitcast.  Steps that
            change nothing are left out.
        reason: Why there is no decomposition.
    """

    kind: str
    steps: tuple[Rearrangement, ...] = ()
    reason: str = ""


def decompose_bitcast(source: TensorType, target: TensorType) -> BitcastParts:
    """Decompose a bitcast into reshapes and transposes of logical arrays.

    Candidates are tried in this order: a reshape; a transpose; a transpose to the source's order in
    memory, a reshape, and a transpose from the target's order.  Dimensions that tiles cut are
    split, transposed and joined.  The steps are proved to keep every element at its address.

    Args:
        source: Type of the operand with its layout; row-major without one.
        target: Type of the result.

    Source: XLA `ShapeUtil::DecomposeBitcast`.

    >>> from hloscope.hlo_parser import parse_type
    >>> found = decompose_bitcast(parse_type("f32[6,8]{0,1}"), parse_type("f32[4,2,6]{2,1,0}"))
    >>> print(found.kind, *found.steps, sep="; ")
    transpose-reshape-transpose; transpose by [1, 0] to [8, 6]; reshape to [4, 2, 6]
    """
    if not (source.is_static and target.is_static):
        return BitcastParts("", reason="sizes that are known at run time only")
    if source.num_elements != target.num_elements:
        counts = f"{source.num_elements} elements as {target.num_elements}"
        return BitcastParts("", reason=f"{counts}: no rearrangement")
    if source.num_elements == 0:
        return BitcastParts("reshape", tuple(reshape_to(target.shape, source.shape)))
    same = bitcast_map(target, source)
    if isinstance(same, str):
        return BitcastParts("", reason=same)
    # The map between arrays at equal addresses is partial exactly if padding is read.
    if same.ranges or same.constraints or same.runtime:
        return BitcastParts("", reason="elements of the one stand in the padding of the other")
    for kind, steps in _candidates(source, target, same):
        sizes = steps[-1].sizes if steps else source.shape
        # Candidates are guesses from the layouts; only a proved one is returned.
        if sizes == target.shape and prove_equal([combined(steps, source.shape)], [same]).is_proved:
            return BitcastParts(kind, tuple(steps))
    return BitcastParts("", reason="no transpose of split dimensions")


def _candidates(
    source: TensorType, target: TensorType, same: IndexingMap
) -> Iterator[tuple[str, list[Rearrangement]]]:
    """Yield possible decompositions of a bitcast with their kinds, the simplest first.

    `same` maps an index of the target to the index of its element in the source.
    """
    shape, goal = source.shape, target.shape
    yield "reshape", reshape_to(goal, shape)
    here, there = major_to_minor(source), major_to_minor(target)
    if source.rank == target.rank:
        yield (
            "transpose",
            transpose_by(tuple(here[there.index(k)] for k in range(len(goal))), shape),
        )
    yield "transpose-reshape-transpose", _through_memory(shape, goal, here, there)
    moved = _digits_moved(same, shape, goal)
    if moved is not None:
        yield "reshape-transpose-reshape", moved
    # Two tiled layouts may need two permutations: to the linear order in memory and from it.
    line = TensorType(source.element, (source.num_elements,))
    out, back = bitcast_map(line, source), bitcast_map(target, line)
    if isinstance(out, IndexingMap) and isinstance(back, IndexingMap):
        first = _digits_moved(out, shape, line.shape)
        second = _digits_moved(back, line.shape, goal)
        if first is not None and second is not None:
            yield "through memory", [*first, *second]


def _digits_moved(m: IndexingMap, source: Dims, target: Dims) -> list[Rearrangement] | None:
    """Return a reshape, transpose and reshape that equal a map from target to source.

    `None` if the map does not permute digits of the row-major position.
    """
    form = form_of(flat(m, target, source), target)
    if form is None or not form.is_permutation:
        return None
    return split_transposed(form, source, target)


def _through_memory(shape: Dims, goal: Dims, here: Dims, there: Dims) -> list[Rearrangement]:
    """Return a transpose to the source's memory order, a reshape, and a transpose to the target.

    Args:
        shape: Sizes of the source.
        goal: Sizes of the target.
        here: Dimensions of the source in memory order, slowest first.
        there: Dimensions of the target in memory order, slowest first.
    """
    before = tuple(shape[k] for k in here)
    after = tuple(goal[k] for k in there)
    return [
        *transpose_by(here, shape),
        *reshape_to(after, before),
        *transpose_by(tuple(there.index(k) for k in range(len(goal))), after),
    ]
