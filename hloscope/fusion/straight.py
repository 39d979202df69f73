"""Compositions with maps that say of each index where it goes, where nothing leaves the bounds.

Most steps are like that: slices, transposes, broadcasts, reshapes.  Nothing is to be decided then:
results are put into results, and simplified where they are.
"""

from __future__ import annotations

from typing import NamedTuple

from hloscope.affine import Dim, Expr, Interval, Var, first_dims
from hloscope.indexing import Access, IndexingMap, Precision, is_deep, substituted


class Step(NamedTuple):
    """A map from each index to one other, as it is composed with maps before it."""

    sides: tuple[Interval, ...]
    """Where it is defined, by dimension."""
    results: tuple[Expr, ...]
    chosen: tuple[int, ...] | None
    """The dimensions that the results are, if they are nothing else."""


def is_exact(access: Access) -> bool:
    """Is the access nothing but an exact map?"""
    return (
        access.precision is Precision.EXACT
        and access.replica is None
        and access.map is not None
        and not (access.via or access.reason)
    )


def step_of(access: Access) -> Step | None:
    """The step that an access is; `None` if it is more than that."""
    map = access.map
    if map is None or not is_exact(access):
        return None
    if map.constraints or map.ranges or map.runtime or map.is_undefined:
        return None
    if not map.is_simplified and map.simplify() != map:
        return None
    results = map.results
    chosen = [e.index for e in results if type(e) is Dim]
    return Step(
        tuple([v.interval for v in map.dims]),
        results,
        tuple(chosen) if len(chosen) == len(results) else None,
    )


def put_into(map: IndexingMap, step: Step) -> IndexingMap | None:
    """A map and a step after it, not simplified; `None` where more is to be looked at.

    >>> turned = IndexingMap.parse("(d0, d1) -> (d1, d0), domain: d0 in [0, 2], d1 in [0, 3]")
    >>> print(put_into(IndexingMap.identity((2, 3)), step_of(Access(turned))))
    (d0, d1) -> (d1, d0), domain: d0 in [0, 1], d1 in [0, 2]
    """
    if map.is_undefined or is_deep(map):
        return None
    sides, images = step.sides, map.result_bounds
    if len(sides) != len(images):
        return None
    for side, image in zip(sides, images, strict=True):
        if image.lo < side.lo or image.hi > side.hi:
            return None
    if step.chosen is not None:
        return map.choosing(step.chosen)
    inward: dict[Var, Expr] = dict(zip(first_dims(len(sides)), map.results, strict=True))
    return map.with_results(substituted(step.results, inward))
