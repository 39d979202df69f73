"""A map taken apart: results that share no variable have images that are independent of each other.

The image of a tile is then the product of the images of the parts, and so are its counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Final

from hloscope.affine import (
    ZERO,
    Dim,
    Expr,
    Interval,
    Runtime,
    Sum,
    Var,
    depends_on_runtime,
    from_terms,
    variables,
)
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.variables import Constraint
from hloscope.lazy import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """Some results of a map, with all variables and constraints that have to do with them.

    Attributes:
        results: Their expressions.
        numbers: Which results of the map they are.
        dims: The dimensions among the variables, by position.
        intervals: Of each variable.
        tiles: The tile size along each of `dims`.
        constraints: Those on these variables.
        whole: How many tiles lie wholly in the output, along each of `dims`.
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
        """How many values the variables have together."""
        return prod([interval.size for interval in self.intervals.values()])

    @property
    def grid(self) -> tuple[tuple[int, int], ...]:
        """For each of `dims` the first tile and the number of tiles."""
        found = []
        for dim, size in zip(self.dims, self.tiles, strict=True):
            interval = self.intervals[Dim(dim)]
            first = interval.lo // size
            found.append((first, interval.hi // size - first + 1))
        return tuple(found)


NEEDS_VALUES: Final = "what is read depends on values that are read at run time"


def parts_of(
    m: IndexingMap, tiles: Sequence[int], shape: Sequence[int] | None = None
) -> list[Part] | str:
    """The parts of a map that share no variable, or why it cannot be looked at.

    What runtime variables add to a result, the same for all elements, moves the image as a whole
    and is left out.

    Args:
        m: From the elements of the output.
        tiles: The tile size along each dimension, at least 1.
        shape: Of the output, where the map is not of all of it.

    >>> m = IndexingMap.parse("(d0, d1) -> (d0 / 2, d1, d0 mod 2), domain: d0 in [0, 9], "
    ...                       "d1 in [0, 3]")
    >>> [part.numbers for part in parts_of(m, (4, 4))]
    [(0, 2), (1,)]
    """
    results = _without_runtime(m)
    if results is None:
        return NEEDS_VALUES
    extents = [v.interval.hi + 1 for v in m.dims] if shape is None else shape
    if any([not interval.is_finite for interval in m.box.values()]):
        return "a variable has no bounds"
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
    """Groups that share variables as one."""
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


def _without_runtime(m: IndexingMap) -> list[Expr] | None:
    """The results without what runtime variables add to them; `None` if they do more than that."""
    if not m.runtime:
        return [*m.results]
    for variable in m.runtime:
        if variables(*variable.arguments) or variable.is_condition or variable.is_every:
            return None
    if any([depends_on_runtime(e) for e, _ in m.constraints]):
        return None
    results = []
    for e in m.results:
        terms = e.terms if isinstance(e, Sum) else ((e, 1),)
        const = e.const if isinstance(e, Sum) else 0
        kept = [(t, c) for t, c in terms if not isinstance(t, Runtime)]
        rest = from_terms(kept, const) if kept else ZERO
        if depends_on_runtime(rest):
            return None
        results.append(rest)
    return results
