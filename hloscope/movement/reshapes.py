"""Decomposition of a reshape into minimal reshapes of adjacent dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from math import prod

from msgspec import Struct

from hloscope.indexing import minimal_groups
from hloscope.ir import Dims


class ReshapeCategory(StrEnum):
    """Effect of a reshape on the dimensions that are not of size 1; names of XLA."""

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
        source: Operand dimensions; empty only for added dimensions of size 1.
        target: Result dimensions.
        category: Effect on them.
    """

    source: range
    target: range
    category: ReshapeCategory


def minimal_reshapes(source: Sequence[int], target: Sequence[int]) -> tuple[MinimalReshape, ...]:
    """Return the minimal reshapes that together are the reshape from `source` to `target`.

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
    """Yield the source and target dimensions of each minimal reshape."""
    if here == there:
        yield from ((range(k, k + 1), range(k, k + 1)) for k in range(len(here)))
    elif 0 in here:
        yield range(len(here)), range(len(there))
    else:
        for from_, to in minimal_groups(here, there):
            yield range(from_.start, from_.stop), range(to.start, to.stop)


def _category(here: Dims, there: Dims) -> ReshapeCategory:
    """Return the effect of one minimal reshape."""
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
