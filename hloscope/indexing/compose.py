"""Composition of maps: apply one map, then another."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from hloscope.affine import Dim, Expr, Range, Runtime, Var, first_dims
from hloscope.indexing.base import NEVER, M, MapBase
from hloscope.indexing.variables import (
    Constraint,
    RuntimeVariable,
    renamed,
    substituted,
    substituted_constraints,
)


def compose(first: M, second: M) -> M:
    """Return the composition of `first` and then `second`.

    The result has the dimensions of `first` and the results of `second`. Range variables of
    `second` come before those of `first`, and so do runtime variables. The bounds of the dimensions
    of `second` become constraints on the results of `first`.

    Source: XLA `ComposeIndexingMaps` (order of variables).

    Raises:
        ValueError: `first` has another number of results than `second` has dimensions.
    """
    bounds = [(e, v.interval) for e, v in zip(first.results, second.dims, strict=False)]
    return _composed(first, second, bounds)


def bounds_not_kept(first: MapBase, second: MapBase) -> list[Constraint] | None:
    """Return the bounds of `second`'s dimensions that results of `first` may violate.

    `None` if a result of `first` lies outside of its bounds for every index.

    `None`: plainly none of the results lies within one of them.
    """
    found: list[Constraint] = []
    for e, v, image in zip(first.results, second.dims, first.result_bounds, strict=False):
        side = v.interval
        if image.lo < side.lo or image.hi > side.hi:
            if image.lo > side.hi or image.hi < side.lo:
                return None
            found.append((e, side))
    return found


def compose_inside(first: M, second: M, bounds: Sequence[Constraint] | None = None) -> M:
    """Compose like `compose`, but leave out bounds that all results of `first` satisfy.

    Args:
        first: The map that is applied first.
        second: The map that is applied to its results.
        bounds: The result of `bounds_not_kept`, if it is known.

    >>> from hloscope.indexing import IndexingMap
    >>> halves = IndexingMap.parse("(d0) -> (d0 / 2), domain: d0 in [0, 9]")
    >>> print(compose_inside(halves, halves))
    (d0) -> (d0 / 2 / 2), domain: d0 in [0, 9]
    """
    if bounds is None:
        bounds = bounds_not_kept(first, second)
    if bounds is None:
        sides = zip(first.results, second.dims, strict=False)
        return _composed(first, second, [(e, v.interval) for e, v in sides])
    if (
        bounds
        or second.constraints
        or second.ranges
        or second.runtime
        or first.is_undefined
        or first.is_known_empty
        or len(first.results) != len(second.dims)
    ):
        return _composed(first, second, bounds)
    # `second` only selects results of `first`, which are simplified already.
    chosen = [e.index for e in second.results if type(e) is Dim]
    if len(chosen) == len(second.results):
        return first.choosing(chosen)
    return first.with_results(substituted(second.results, _results_by_dim(first.results)))


def _results_by_dim(results: Sequence[Expr]) -> dict[Var, Expr]:
    """Return the results of the first map as values of the dimensions of the second."""
    return dict(zip(first_dims(len(results)), results, strict=True))


def _composed(first: M, second: M, bounds: Sequence[Constraint]) -> M:
    """Return the composition, with constraints that keep the results of `first` in `bounds`."""
    if first.is_undefined or second.is_undefined:
        return type(first)(is_undefined=True)
    if len(first.results) != len(second.dims):
        raise ValueError(
            f"cannot compose: the first map has {len(first.results)} results, "
            f"the second {len(second.dims)} dimensions"
        )
    if first.is_identity and first.dims == second.dims and not first.ranges + first.runtime:
        return second
    n_ranges, n_runtime = len(second.ranges), len(second.runtime)
    # Variables of `second` come first, so those of `first` are renumbered.
    shift: dict[Var, Expr] = {}
    if n_ranges:
        shift |= {Range(i): Range(i + n_ranges) for i in range(len(first.ranges))}
    if n_runtime:
        shift |= {Runtime(i): Runtime(i + n_runtime) for i in range(len(first.runtime))}
    middle = substituted(first.results, shift)
    inward = _results_by_dim(middle)

    runtime = [renamed(v, inward) for v in second.runtime]
    runtime += [renamed(v, shift) for v in first.runtime]
    if first.is_known_empty or second.is_known_empty:
        constraints: list[Constraint] = [*NEVER]
    else:
        constraints = substituted_constraints(second.constraints, inward)
        constraints += substituted_constraints(first.constraints, shift)
        constraints += substituted_constraints(bounds, shift)
    composed = first.with_(
        ranges=second.ranges + first.ranges,
        runtime=runtime,
        results=substituted(second.results, inward),
        constraints=constraints,
    )
    return merge_runtime(composed) if runtime else composed


def merge_runtime(m: M) -> M:
    """Merge runtime variables that are equal.

    Two are equal if they read the same element of the same instruction and clamp it to the same
    bounds. A value that is clamped to other bounds is another value.
    """
    # Merging two variables may make the indices of others equal, so repeat until nothing changes.
    while len(m.runtime) > 1:
        first_of: dict[RuntimeVariable, int] = {}
        same: dict[int, int] = {}
        for i, variable in enumerate(m.runtime):
            if variable.source is not None:
                key = variable
                if variable.name or variable.clamp is not None:
                    key = replace(variable, interval=variable.values, name="", clamp=None)
                if (k := first_of.setdefault(key, i)) != i:
                    same[i] = k
        if not same:
            break
        m = drop_runtime(m, same)
    return m


def drop_runtime(m: M, same: dict[int, int]) -> M:
    """Remove the runtime variables in `same`, each replaced by the one that it equals."""
    kept = [i for i in range(len(m.runtime)) if i not in same]
    position = {old: new for new, old in enumerate(kept)}
    new: dict[Var, Expr] = {
        Runtime(i): Runtime(position[same.get(i, i)]) for i in range(len(m.runtime))
    }
    # The interval of a removed variable may be a condition, which must still hold.
    conditions = [(new[Runtime(i)], v.interval) for i, v in enumerate(m.runtime) if v.is_condition]
    return m.with_(
        runtime=[renamed(m.runtime[i], new) for i in kept],
        results=substituted(m.results, new),
        constraints=substituted_constraints(m.constraints, new) + conditions,
    )
