"""Accesses: the maps by which an instruction reads a tensor, on its own and other devices."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import POS_INF, Const, Dim, Expr, Interval, Range, Runtime, Var, variables
from hloscope.indexing.compose import merge_runtime, replace_runtime
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.transform import replaced, without
from hloscope.indexing.variables import RuntimeVariable, Variable, substituted
from hloscope.ir import Dims, Instruction, Module, Op
from hloscope.ops import (
    AllToAll,
    AsyncStart,
    Collective,
    CollectiveBroadcast,
    CollectivePermute,
    CrossReplicaSum,
    MeshGroups,
    Table,
)

# --------------------------------------------------------------------------------------------------
# Accesses: the maps by which an instruction reads or influences a tensor, with precision.


class Precision(StrEnum):
    """Relation between the elements of a map and the elements that are accessed."""

    EXACT = "exact"
    """The map has precisely the elements that are accessed."""
    OVER = "over"
    """The map has all elements that are accessed and may have more; the reason is stated."""
    UNKNOWN = "unknown"
    """No map is known: any element may be accessed."""


class Access(Struct, frozen=True, cache_hash=True):
    """One map by which a tensor is accessed, with its precision.

    Attributes:
        map: Map from an index of the start tensor to the accessed indices; `None` only if nothing
            is known.
        precision: The precision of the map.
        reason: Why the map is not exact; empty for exact maps.
        replica: Map from the same variables to the device of the access: positions in the groups of
            the collectives `via`, in their order.  `None` means the same device.
        via: The collectives between both devices; in both directions the one nearest to the output
            comes first.
        leaf: Number of the array of a tuple-typed operand, in flattened order.
    """

    map: IndexingMap | None
    precision: Precision = Precision.EXACT
    reason: str = ""
    replica: IndexingMap | None = None
    leaf: int = 0
    via: tuple[Instruction, ...] = ()

    def __repr__(self) -> str:
        said = [str(self.precision), *([str(self.map)] if self.map is not None else [])]
        said += [f"reason: {self.reason}"] if self.reason else []
        said += [f"on replica {self.replica}"] if self.replica is not None else []
        return f"<Access {'; '.join(said)}{f'; leaf {self.leaf}' if self.leaf else ''}>"

    @classmethod
    def unknown(cls, reason: str) -> Access:
        """Return an access without a map, for the given reason.

        >>> Access.unknown("custom-call `f`").precision
        <Precision.UNKNOWN: 'unknown'>
        """
        return cls(None, Precision.UNKNOWN, reason)


Accesses: TypeAlias = tuple[Access, ...]
"""All accesses of one tensor; their union counts. `()` means that no element is accessed."""


# --------------------------------------------------------------------------------------------------
# Accesses on other devices: element and device as one map, and composition of such accesses. A
# route is a sequence of steps from the device of the output to the device of the access. Each step
# goes to a member of the group of one collective.


MAX_STEPS: Final = 8
"""Number of steps of a route above which steps that do not affect the device are removed."""


def joined(access: Access) -> IndexingMap:
    """Return one map of an access: to the accessed index, then the positions in the groups.

    The groups are those of `access.via`.

    The access must have a map.
    """
    assert access.map is not None
    if access.replica is None:
        return access.map
    return access.map.with_(
        results=access.map.results + access.replica.results,
        constraints=(*access.map.constraints, *access.replica.constraints),
    )


def with_joined(access: Access, both: IndexingMap, rank: int, via: Route) -> Access:
    """Return the access whose joined map (see `joined`) is `both`.

    Args:
        access: Gives precision and reason.
        both: Results before number `rank` become the accessed index, the others the positions.
        rank: Number of coordinates of the accessed index.
        via: The collective of each position.
    """
    if not via:
        return replace(access, map=both, replica=None, via=())
    both = _with_every_position(both, rank, via)
    replica = both.with_(results=both.results[rank:])
    return replace(access, map=both.with_(results=both.results[:rank]), replica=replica, via=via)


def _with_every_position(m: IndexingMap, rank: int, via: Route) -> IndexingMap:
    """Replace unbounded positions by runtime variables that take every position.

    The positions are the results from number `rank` on, one for each collective in `via`. A
    position is unbounded if its group has no written size.
    """
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
    """Return the inverse access: from accessed elements to the indices that access them.

    Both accesses relate the same pairs of devices. The access must have a map.
    """
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
    return with_joined(access, both, len(access.map.dims), access.via)


def shortest(access: Access) -> Access:
    """Return the access without the steps of its route that do not affect the reached device."""
    if access.map is None or len(kept := needed_steps(access.via)) == len(access.via):
        return access
    rank, both = len(access.map.results), joined(access)
    results = (*both.results[:rank], *[both.results[rank + k] for k in kept])
    fewer = both.with_(results=results).remove_unused_symbols()
    return with_joined(access, fewer, rank, tuple([access.via[k] for k in kept]))


def joined_after(access: Access, steps: Route, bounds: Sequence[Interval]) -> IndexingMap:
    """Return the map of an access that starts on the device at the end of the route `steps`.

    It is a joined map (see `joined`). Its dimensions are the index, and the positions of the steps
    with the intervals `bounds`. Runtime variables are read on that device. The results are the
    accessed index, the positions of the steps, and the access's own positions.
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
    """Return a map whose runtime variables are read on the device at the end of a route.

    Args:
        m: The map.
        steps: The collectives of the route.
        positions: For each step, the position of the device in the group of that collective.
    """
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
            kept = needed_steps(every)
            via, at = tuple([every[k] for k in kept]), tuple([at[k] for k in kept])
        runtime[-1] = replace(v, via=via, positions=at)
    if not known:
        return m.with_(runtime=runtime)
    inside = [(e, m.runtime[v.index].interval) for v, e in known.items()]
    return replace_runtime(m.with_(runtime=runtime, constraints=[*m.constraints, *inside]), known)


def compose_across(first: Access, second: Access, *, forward: bool) -> tuple[IndexingMap, Route]:
    """Return the joined map (see `joined`) of two accesses in sequence, and the route of both.

    Args:
        first: The access that is applied first.
        second: The access that is applied to the elements that `first` reaches.
        forward: Whether both lead towards users, so that `second` is nearer to the outputs.
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
        both = front.compose(joined_after(second, first.via, bounds))
        steps = first.via + second.via
    rank = len(second.map.results)
    # Only needed for long paths, which would otherwise grow with each collective.
    if len(steps) > MAX_STEPS:
        kept = needed_steps(steps)
        if len(kept) < len(steps):
            results = both.results
            both = both.with_(results=(*results[:rank], *[results[rank + k] for k in kept]))
            steps = tuple([steps[k] for k in kept])
    return both, steps


def _compose_forward(first: Access, second: Access) -> IndexingMap:
    """Return the joined map (see `joined`) of two accesses that lead from operands to users.

    `second` is applied to the elements that `first` reaches. The position in the group of the first
    depends on the positions of the second.
    """
    assert first.map is not None
    assert second.map is not None
    near = joined(second)
    rank, count = len(second.map.results), len(second.via)
    bounds = [near.range_of(e) for e in near.results[rank:]]
    far = joined_after(first, second.via, bounds)
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
    """Return the map with its dimensions from number `start` on replaced by `ends`.

    `ends` has one expression for each of these dimensions.
    """
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


# --------------------------------------------------------------------------------------------------
# Groups of collectives: their members, and the position of a device after steps between devices.
#
# Groups hold numbers of replicas, of partitions, or flattened device ids; the op's channel decides
# which. Source: StableHLO spec, "Collective ops".


_BETWEEN_PARTITIONS: Final = (AllToAll, CollectiveBroadcast, CollectivePermute)
_MAX_DEVICES: Final = 1 << 12
"""Maximum number of devices of groups that are compared device by device."""


class Axis(StrEnum):
    """Meaning of the numbers in the groups of a collective: replicas, partitions or devices."""

    REPLICA = "replica"
    PARTITION = "partition"
    DEVICE = "device"
    REPLICAS_OF_ALL_PARTITIONS = "replicas of all partitions"


class DeviceCounts(NamedTuple):
    """Numbers of replicas and partitions of a program; `None` if the module header states none."""

    replicas: int | None = None
    partitions: int | None = None

    def along(self, axis: Axis) -> int | None:
        """Return the number of replicas, partitions or devices on an axis; `None` if unknown.

        >>> DeviceCounts(2, 4).along(Axis.PARTITION), DeviceCounts(2, 4).along(Axis.DEVICE)
        (4, 8)
        """
        match axis:
            case Axis.REPLICA:
                return self.replicas
            case Axis.PARTITION:
                return self.partitions
            case _:
                if self.replicas is None or self.partitions is None:
                    return None
                return self.replicas * self.partitions


UNKNOWN_COUNTS: Final[DeviceCounts] = DeviceCounts()
_MOST_COUNT: Final = 1 << 31
"""Maximum number of replicas or partitions that is accepted from a module header."""


def counts_of(module: Module) -> DeviceCounts:
    """Return the numbers of replicas and partitions that the header states.

    HLO writes `replica_count` and `num_partitions`, StableHLO `mhlo.num_replicas` and
    `mhlo.num_partitions`.  XLA omits a count of 1, so if one is written the other is 1.
    """
    extras = dict(module.extras)
    found = [
        _count(next((extras[name] for name in names if name in extras), None))
        for names in (
            ("replica_count", "mhlo.num_replicas"),
            ("num_partitions", "mhlo.num_partitions"),
        )
    ]
    if found == [None, None]:
        return DeviceCounts()
    return DeviceCounts(found[0] or 1, found[1] or 1)


def _count(text: str | None) -> int | None:
    """Parse a count of a module header, `4` or `4 : i32`; return `None` if it is not valid."""
    digits = (text or "").partition(":")[0].strip()
    if not digits.isdecimal() or len(digits) > len(str(_MOST_COUNT)):
        return None
    return int(digits) if 0 < int(digits) <= _MOST_COUNT else None


class Groups(NamedTuple):
    """The groups of devices that exchange values in a collective.

    Attributes:
        axis: What the numbers in `rows` count.
        rows: The groups; an empty tuple means one group of all devices, in order.
        mesh: Groups given by axes of a mesh whose sizes are not written, else `None`.
    """

    axis: Axis
    rows: tuple[Dims, ...]
    mesh: MeshGroups | None = None

    @property
    def size(self) -> int | None:
        """Number of members of the largest group; `None` if it is not written."""
        if self.axis is Axis.REPLICAS_OF_ALL_PARTITIONS or self.mesh or not self.rows:
            return None
        return max(map(len, self.rows))


def groups_of(ins: Instruction) -> Groups:
    """Return the groups of a collective, or of the collective that an async start wraps.

    Raises:
        ParseError: The groups are written in an unknown notation.
    """
    op = ins.op
    return _groups(op.wrapped if isinstance(op, AsyncStart) and op.wrapped else op)


def _groups(op: Op) -> Groups:
    assert isinstance(op, Collective | CrossReplicaSum)
    axis = Axis.REPLICA
    if isinstance(op, Collective) and op.has_channel:
        axis = Axis.REPLICAS_OF_ALL_PARTITIONS
        if isinstance(op, _BETWEEN_PARTITIONS):
            axis = Axis.PARTITION
        if op.use_global_device_ids:
            axis = Axis.DEVICE
    if isinstance(op, CollectivePermute):  # its pairs are numbers: one group of all
        return Groups(Axis.REPLICA if axis is Axis.REPLICA else Axis.PARTITION, ())
    written = op.replica_groups
    if isinstance(written, Table):
        return Groups(axis, tuple(row for row in written.rows if row))
    if isinstance(written, MeshGroups):
        return Groups(axis, (), written)
    return Groups(axis, written.rows)


Route: TypeAlias = tuple[Instruction, ...]
"""A path between devices, as the collectives that it passes.

It starts on the device of an output. Each step leads to a member of the group of one collective.
"""


def needed_steps(steps: Route) -> tuple[int, ...]:
    """Return the indices in `steps` of the collectives that decide which device is reached.

    A step does not matter if a later one moves within the same groups, and all steps in between
    lead members of one group to members of one group.
    """
    tables = [groups_of(ins) for ins in steps]
    kept = list(range(len(tables)))
    at = 0
    while at < len(kept):
        here = tables[kept[at]]
        # The later step chooses any member of the group, so the earlier choice within that group is
        # lost.
        for later in kept[at + 1 :]:
            if tables[later] == here:
                del kept[at]
                at = -1
                break
            if not _keeps_together(tables[later], here):
                break
        at += 1
    return tuple(kept)


def _keeps_together(step: Groups, groups: Groups) -> bool:
    """Does `step` lead any two devices that share a group of `groups` to two that share a group?

    Both times a group of `groups` is meant; `step` has the groups of one collective.
    """
    if _on_different_axes(step, groups):
        return True
    if step.axis is not groups.axis:
        return False
    if _is_all(step) or _is_all(groups):
        return True
    if not (_is_table(step) and _is_table(groups)):
        return False
    # By the same step, two members of one group go to equal positions in their step groups. The
    # devices at equal positions must then be in one group again.
    steps, seats = _positions_by_device(step), _positions_by_device(groups)
    if steps.keys() != seats.keys():
        return False
    for first, *others in groups.rows:
        mine = step.rows[steps[first][0]]
        for other in others:
            theirs = step.rows[steps[other][0]]
            if [seats[d][0] for d in mine] != [seats[d][0] for d in theirs]:
                return False
    return True


def _on_different_axes(one: Groups, other: Groups) -> bool:
    """Does one of the arguments group replicas and the other one partitions?"""
    return {one.axis, other.axis} == {Axis.REPLICA, Axis.PARTITION}


def _is_table(groups: Groups) -> bool:
    if groups.mesh or groups.axis is Axis.REPLICAS_OF_ALL_PARTITIONS or not groups.rows:
        return False
    return sum(map(len, groups.rows)) <= _MAX_DEVICES


def _positions_by_device(groups: Groups) -> dict[int, tuple[int, int]]:
    """Return, for each device, the number of its group and its position in that group."""
    return {d: (k, p) for k, row in enumerate(groups.rows) for p, d in enumerate(row)}


def position(
    collective: Instruction, steps: Route, positions: Sequence[Expr]
) -> Expr | tuple[Route, tuple[Expr, ...]]:
    """Return the position, in its group of `collective`, of the device that a route leads to.

    Args:
        collective: The instruction with the groups.
        steps: The collectives of the route.
        positions: For each step, the position in its group of the device that the step leads to.

    Returns:
        The position, as an expression, if the last steps determine it. Otherwise a pair: the steps
            that it depends on, and the positions of these steps.
    """
    groups = groups_of(collective)
    count = len(steps)
    while count:
        last, at = groups_of(steps[count - 1]), positions[count - 1]
        if last == groups:
            return at
        # A step along the other axis does not change the position on this one.
        if _on_different_axes(last, groups):
            count -= 1
            continue
        if last.axis is not groups.axis or not (_is_table(groups) or _is_all(groups)):
            break
        columns = _columns(groups, last)
        if columns is None:
            break
        found = _entry_expression(columns, at)
        if found is not None:
            return found
        if any(len(set(column)) != 1 for column in columns):
            break
        count -= 1  # within a group of the last step all have the same position
    kept = needed_steps(steps[:count])
    return tuple(steps[i] for i in kept), tuple(positions[i] for i in kept)


def _is_all(groups: Groups) -> bool:
    return (
        not groups.rows and not groups.mesh and groups.axis is not Axis.REPLICAS_OF_ALL_PARTITIONS
    )


def _columns(groups: Groups, last: Groups) -> tuple[Dims, ...] | None:
    """Return, for each group of `last`, the positions of its members in the groups of `groups`.

    The result is `None` if the groups are not written, or some member is in no group of `groups`.
    """
    if _is_all(groups):
        return last.rows if _is_table(last) else None
    seats = _positions_by_device(groups)
    rows = (tuple(range(max(seats) + 1)),) if _is_all(last) else last.rows
    if not _is_table(last._replace(rows=rows)):
        return None
    if any(device not in seats for row in rows for device in row):
        return None
    return tuple(tuple(seats[device][1] for device in row) for row in rows)


def _entry_expression(columns: tuple[Dims, ...], index: Expr) -> Expr | None:
    """Return number `index` of a list of numbers as an affine expression, remainder or quotient.

    The result is `None` if the numbers have no such form, or the columns disagree.

    Args:
        columns: Lists of numbers. The shorter ones must be beginnings of the longest one.
        index: The position in the list, as an expression.
    """
    column = max(columns, key=len)
    if any(other != column[: len(other)] for other in columns):
        return None
    if isinstance(index, Const):
        return Const(column[index.value]) if 0 <= index.value < len(column) else None
    if len(column) == 1:
        return Const(column[0])
    first, step = column[0], column[1] - column[0]
    # An affine sequence, or a repeated or stretched one: the patterns of regular device meshes.
    if all(n == first + step * i for i, n in enumerate(column)):
        return index * step + first
    for m in range(1, len(column)):
        if all(n == i % m for i, n in enumerate(column)):
            return index % m
        if all(n == i // m for i, n in enumerate(column)):
            return index // m
    return None
