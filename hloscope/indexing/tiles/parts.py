"""Decomposition of a map into parts whose results share no variable.

Their images are independent: the image of a tile is the product of the images of the parts, and so
are its counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Final, TypeAlias

from msgspec import Struct

from hloscope.affine import (
    Const,
    Dim,
    Expr,
    Interval,
    Runtime,
    Sum,
    Var,
    depends_on_runtime,
    variables,
)
from hloscope.indexing.base import MapBase
from hloscope.indexing.variables import Constraint, RuntimeVariable, substituted


class Part(Struct, frozen=True):
    """Some results of a map, with all variables and constraints connected to them.

    Attributes:
        results: Their expressions.
        numbers: Their positions among the results of the map.
        dims: Positions of the dimensions among the variables.
        intervals: The interval of each variable.
        tiles: The tile size along each of `dims`.
        constraints: The constraints on these variables.
        whole: Number of tiles that lie wholly in the output, along each of `dims`.
    """

    results: tuple[Expr, ...]
    numbers: tuple[int, ...]
    dims: tuple[int, ...]
    intervals: dict[Var, Interval]
    tiles: tuple[int, ...]
    constraints: tuple[Constraint, ...]
    whole: tuple[int, ...]

    @property
    def points(self) -> int:
        """Number of combinations of values of the variables."""
        return prod([interval.size for interval in self.intervals.values()])

    @property
    def grid(self) -> tuple[tuple[int, int], ...]:
        """The first tile and the number of tiles, for each of `dims`."""
        found = []
        for dim, size in zip(self.dims, self.tiles, strict=True):
            interval = self.intervals[Dim(dim)]
            first = interval.lo // size
            found.append((first, interval.hi // size - first + 1))
        return tuple(found)


NEEDS_VALUES: Final = "what is read depends on values that are read at run time"


def parts_of(
    m: MapBase, tiles: Sequence[int], shape: Sequence[int] | None = None
) -> list[Part] | str:
    """Return the parts of a map that share no variable, or the reason why that is not possible.

    A value that runtime variables add to a result, equal for all elements, shifts the image as a
    whole. Such variables get their smallest values.

    Args:
        m: A map from the elements of the output.
        tiles: The tile size along each dimension, at least 1.
        shape: Shape of the output, if the map covers only a part of it.

    >>> from hloscope.indexing import IndexingMap
    >>> m = IndexingMap.parse("(d0, d1) -> (d0 / 2, d1, d0 mod 2), domain: d0 in [0, 9], "
    ...                       "d1 in [0, 3]")
    >>> [part.numbers for part in parts_of(m, (4, 4))]
    [(0, 2), (1,)]
    """
    results = _results_at_least_values(m)
    if results is None:
        return NEEDS_VALUES
    extents = [v.interval.hi + 1 for v in m.dims] if shape is None else shape
    if any([not interval.is_finite for interval in m.box.values()]):
        return "a variable has no bounds"
    # Results and constraints are grouped by the variables they share; a dimension without any is a
    # part too.
    groups: list[tuple[set[Var], list[int], list[Constraint]]] = []
    for number, e in enumerate(results):
        groups.append(({*variables(e)}, [number], []))
    for constraint in m.constraints:
        groups.append(({*variables(constraint[0])}, [], [constraint]))
    groups += [({v}, [], []) for v in map(Dim, range(len(m.dims)))]
    merged = _merged(groups)
    found = []
    for used, numbers, constraints in merged:
        dims = sorted(v.index for v in used if isinstance(v, Dim))
        box = {v: m.box[v] for v in sorted(used)}
        found.append(
            Part(
                tuple([results[k] for k in sorted(numbers)]),
                tuple(sorted(numbers)),
                tuple(dims),
                box,
                tuple([tiles[d] for d in dims]),
                tuple(constraints),
                tuple([extents[d] // tiles[d] for d in dims]),
            )
        )
    return found


def _merged(
    groups: Iterable[tuple[set[Var], list[int], list[Constraint]]],
) -> list[tuple[set[Var], list[int], list[Constraint]]]:
    """Merge groups that share variables, directly or indirectly."""
    merged: list[tuple[set[Var], list[int], list[Constraint]]] = []
    for used, numbers, constraints in groups:
        apart = []
        for other in merged:
            if other[0] & used:
                used, numbers = used | other[0], numbers + other[1]
                constraints = constraints + other[2]
            else:
                apart.append(other)
        merged = [*apart, (used, numbers, constraints)]
    return merged


Moves: TypeAlias = "tuple[tuple[tuple[RuntimeVariable, int], ...], ...]"


def moves_of(m: MapBase) -> Moves | None:
    """Return what runtime variables add to each result; `None` if they have any other effect.

    >>> from hloscope.indexing import IndexingMap
    >>> moved = IndexingMap.parse("(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 3], rt0 in [1, 5]")
    >>> [len(added) for added in moves_of(moved)]
    [1]
    """
    if not m.runtime:
        return ((),) * len(m.results)
    for variable in m.runtime:
        if variables(*variable.arguments) or variable.is_condition or variable.is_every:
            return None
    if any([depends_on_runtime(e) for e, _ in m.constraints]):
        return None
    found = []
    for e in m.results:
        terms = e.terms if isinstance(e, Sum) else ((e, 1),)
        added = [(m.runtime[t.index], factor) for t, factor in terms if isinstance(t, Runtime)]
        if any([depends_on_runtime(t) for t, _ in terms if not isinstance(t, Runtime)]):
            return None
        found.append(tuple(added))
    return tuple(found)


def move_alike(maps: Sequence[MapBase]) -> bool:
    """Do values read at run time shift the images of all maps in the same way?"""
    every = [moves_of(m) for m in maps]
    known = [v.source is not None for moves in every for added in moves or () for v, _ in added]
    return all(known) and all([moves == every[0] for moves in every])


def _results_at_least_values(m: MapBase) -> list[Expr] | None:
    """Return the results for the smallest runtime values.

    `None` if these do more than shift them.
    """
    if moves_of(m) is None:
        return None
    least: dict[Var, Expr] = {
        Runtime(i): Const(v.interval.lo) for i, v in enumerate(m.runtime) if v.interval.is_finite
    }
    return [*substituted(m.results, least)]
