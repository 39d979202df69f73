"""Accesses on other devices: element and device as one map, and composition of such accesses.

Steps from the device of the output lead to the device: each goes to a member of the group of one
collective.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from hloscope.affine import POS_INF, Dim, Expr, Interval, Range, Runtime, Var, variables
from hloscope.indexing.access import Access
from hloscope.indexing.compose import merge_runtime
from hloscope.indexing.groups import Route, needed, position
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.transform import replaced, without
from hloscope.indexing.variables import RuntimeVariable, Variable, substituted

MAX_STEPS: Final = 8
"""Number of steps above which those that do not affect the reached device are removed."""


def joined(access: Access) -> IndexingMap:
    """Return one map with the index and the positions in the groups as results."""
    assert access.map is not None
    if access.replica is None:
        return access.map
    return access.map.with_(
        results=access.map.results + access.replica.results,
        constraints=(*access.map.constraints, *access.replica.constraints),
    )


def parted(access: Access, both: IndexingMap, rank: int, via: Route) -> Access:
    """Return the access whose map and positions are the results of `both`, split after `rank`."""
    if not via:
        return replace(access, map=both, replica=None, via=())
    both = _with_every_position(both, rank, via)
    replica = both.with_(results=both.results[rank:])
    return replace(access, map=both.with_(results=both.results[:rank]), replica=replica, via=via)


def _with_every_position(m: IndexingMap, rank: int, via: Route) -> IndexingMap:
    """Replace positions without an upper bound by runtime variables that are every position."""
    new: dict[Var, Expr] = {}
    runtime = list(m.runtime)
    for k, e in enumerate(m.results[rank:]):
        # An inverse leaves positions of groups without a written size as unbounded ranges.
        if isinstance(e, Range) and e not in new and m.ranges[e.index].interval.hi == POS_INF:
            before = substituted(m.results[rank : rank + k], new)
            new[e] = Runtime(len(runtime))
            every = Interval(0, POS_INF)
            runtime.append(
                RuntimeVariable(
                    every, collective=via[k], is_every=True, via=via[:k], positions=before
                )
            )
    if not new:
        return m
    kept = replaced(m, new, dims=m.dims, ranges=m.ranges, runtime=runtime)
    return without(kept, list(new))


def inverted(access: Access) -> Access:
    """Return the access from the elements back to the indices, on the same devices."""
    assert access.map is not None
    if access.replica is None:
        return replace(access, map=access.map.inverse())
    rank, count = len(access.map.results), len(access.via)
    back = joined(access).inverse()
    first = len(back.ranges)
    # The positions of the inverse are range variables: every device whose element is accessed.
    new: dict[Var, Expr] = {Dim(rank + k): Range(first + k) for k in range(count)}
    both = without(
        replaced(
            back.with_(results=(*back.results, *[Dim(rank + k) for k in range(count)])),
            new,
            dims=back.dims,
            ranges=(*back.ranges, *back.dims[rank:]),
            runtime=back.runtime,
        ),
        list(new),
    )
    return parted(access, both, len(access.map.dims), access.via)


def shortest(access: Access) -> Access:
    """Return the access without the steps that do not affect the reached device."""
    if access.map is None or len(kept := needed(access.via)) == len(access.via):
        return access
    rank, both = len(access.map.results), joined(access)
    results = (*both.results[:rank], *[both.results[rank + k] for k in kept])
    fewer = both.with_(results=results).remove_unused_symbols()
    return parted(access, fewer, rank, tuple([access.via[k] for k in kept]))


def behind(access: Access, steps: Route, bounds: Sequence[Interval]) -> IndexingMap:
    """Return the joined map of an access that runs on the device that `steps` lead to.

    Its dimensions are the index and the positions of the steps. Runtime variables are read on that
    device. Its results are the accessed index, the positions of the steps, and the access's own
    positions.
    """
    both = joined(access)
    if not steps:
        return both
    rank = len(both.results) - len(access.via)
    first = len(both.dims)
    positions = tuple([Dim(first + k) for k in range(len(steps))])
    wider = both.with_(
        dims=(*both.dims, *[Variable(interval) for interval in bounds]),
        results=(*both.results[:rank], *positions, *both.results[rank:]),
    )
    return _read_on_device(wider, steps, positions)


def _read_on_device(m: IndexingMap, steps: Route, positions: tuple[Expr, ...]) -> IndexingMap:
    """Return the map with its runtime variables read on the device that the steps lead to."""
    if not m.runtime:
        return m
    runtime: list[RuntimeVariable] = []
    known: dict[Var, Expr] = {}
    for i, v in enumerate(m.runtime):
        runtime.append(v)
        if v.source is None:
            continue
        every, at = steps + v.via, positions + v.positions
        # A device position that the steps determine is an expression and no runtime variable any
        # more.
        if v.collective is not None and not v.is_every:
            found = position(v.collective, every, at)
            if isinstance(found, Expr):
                known[Runtime(i)] = found
                continue
            via, at = found
        else:
            kept = needed(every)
            via, at = tuple([every[k] for k in kept]), tuple([at[k] for k in kept])
        runtime[-1] = replace(v, via=via, positions=at)
    moved = m.with_(runtime=runtime)
    return _with_known(moved, known) if known else moved


def _with_known(m: IndexingMap, known: dict[Var, Expr]) -> IndexingMap:
    """Replace runtime variables by known expressions; their intervals become constraints."""
    conditions = [(e, m.runtime[v.index].interval) for v, e in known.items()]
    left = [i for i in range(len(m.runtime)) if Runtime(i) not in known]
    new: dict[Var, Expr] = known | {Runtime(i): Runtime(k) for k, i in enumerate(left)}
    held = m.with_(constraints=(*m.constraints, *conditions))
    runtime = [held.runtime[i] for i in left]
    return replaced(held, new, dims=held.dims, ranges=held.ranges, runtime=runtime)


def compose_across(first: Access, second: Access, *, forward: bool) -> tuple[IndexingMap, Route]:
    """Return the joined map of two accesses in sequence, and the steps of both.

    Args:
        first: Applied first.
        second: Applied to the elements of the first.
        forward: Both lead towards the outputs, so that the second is nearer to them.
    """
    assert first.map is not None
    assert second.map is not None
    if forward:
        both = _compose_forward(first, second)
        steps = second.via + first.via
    else:
        # The second access starts on the device of the first, so its map gets the first's
        # positions.
        front = joined(first)
        rank = len(first.map.results)
        bounds = [front.range_of(e) for e in front.results[rank:]]
        both = front.compose(behind(second, first.via, bounds))
        steps = first.via + second.via
    rank = len(second.map.results)
    # Only needed for long paths, which would otherwise grow with each collective.
    if len(steps) > MAX_STEPS:
        kept = needed(steps)
        if len(kept) < len(steps):
            results = both.results
            both = both.with_(results=(*results[:rank], *[results[rank + k] for k in kept]))
            steps = tuple([steps[k] for k in kept])
    return both, steps


def _compose_forward(first: Access, second: Access) -> IndexingMap:
    """Compose two accesses towards the outputs.

    The device of the first depends on the second's positions.
    """
    assert first.map is not None
    assert second.map is not None
    near = joined(second)
    rank, count = len(second.map.results), len(second.via)
    bounds = [near.range_of(e) for e in near.results[rank:]]
    far = behind(first, second.via, bounds)
    passed = len(far.results) - len(first.map.results)
    taken = len(near.dims)
    dims = [Variable(far.range_of(e)) for e in far.results[taken:]]
    handed = [Dim(taken + k) for k in range(passed)]
    onwards = near.with_(
        dims=(*near.dims, *dims),
        results=(*near.results[:rank], *handed, *near.results[rank:]),
    )
    both = far.compose(onwards)
    # The second's positions become dimensions of the first map, and are then identified with the
    # second's own results.
    if not count or both.is_known_empty:
        return both
    results = both.results
    ends = results[len(results) - count :]  # the second's positions, in terms of the variables
    both = both.with_(results=(*results[:rank], *ends, *results[rank + count : -count]))
    return _with_positions(both, len(first.map.dims), ends)


def _with_positions(m: IndexingMap, start: int, ends: tuple[Expr, ...]) -> IndexingMap:
    """Return the map with its dimensions from `start` on replaced by expressions."""
    gone = [Dim(start + k) for k in range(len(ends))]
    inside = [(e, v.interval) for e, v in zip(ends, m.dims[start:], strict=True)]
    held = m.with_(constraints=(*m.constraints, *inside))
    new: dict[Var, Expr] = dict(zip(gone, ends, strict=True))
    ranges = held.ranges
    if any(set(gone) & variables(e) for e in ends):
        tied = [(v - e, Interval(0, 0)) for v, e in zip(gone, ends, strict=True)]
        held = held.with_(constraints=(*held.constraints, *tied))
        new = {v: Range(len(held.ranges) + k) for k, v in enumerate(gone)}
        ranges = (*held.ranges, *held.dims[start:])
    kept = replaced(held, new, dims=held.dims, ranges=ranges, runtime=held.runtime)
    return merge_runtime(without(kept, gone))
