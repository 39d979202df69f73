"""Groups of collectives: their members, and the position of a device after steps between devices.

Groups hold numbers of replicas, of partitions, or flattened device ids; the op's channel decides
which. Source: StableHLO spec, "Collective ops".
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from hloscope.affine import Const, Expr
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

_BETWEEN_PARTITIONS: Final = (AllToAll, CollectiveBroadcast, CollectivePermute)
_MAX_DEVICES: Final = 1 << 12
"""Largest number of devices of groups that are compared device by device."""


class Axis(StrEnum):
    """Meaning of the numbers in groups."""

    REPLICA = "replica"
    PARTITION = "partition"
    DEVICE = "device"
    REPLICAS_OF_ALL_PARTITIONS = "replicas of all partitions"


class DeviceCounts(NamedTuple):
    """Numbers of replicas and partitions of a program; `None` if the header does not state it."""

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


UNKNOWN_COUNTS: Final = DeviceCounts()
_MOST_COUNT: Final = 1 << 31
"""Largest number of replicas or partitions that a header can state."""


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
    """Parse a count of a header, `4` or `4 : i32`; `None` if it is not valid."""
    digits = (text or "").partition(":")[0].strip()
    if not digits.isdecimal() or len(digits) > len(str(_MOST_COUNT)):
        return None
    return int(digits) if 0 < int(digits) <= _MOST_COUNT else None


class Groups(NamedTuple):
    """The groups of devices that exchange values in a collective.

    Attributes:
        axis: Meaning of the numbers.
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
"""A path between devices, from that of an output.

To a member of the group of each collective in turn.
"""


def needed(steps: Route) -> tuple[int, ...]:
    """Return the numbers of the steps that decide which device is reached.

    A step does not matter if a later one moves within the same groups, and all steps in between
    lead members of one group to members of one group.
    """
    return _needed(tuple([groups_of(ins) for ins in steps]))


# Asked for every composition across collectives, while a program has few different groups.
@lru_cache(maxsize=4096)
def _needed(tables: tuple[Groups, ...]) -> tuple[int, ...]:
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
    """Does the step lead members of one group to members of one group?"""
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
    """Does one step move between replicas and the other between partitions?"""
    return {one.axis, other.axis} == {Axis.REPLICA, Axis.PARTITION}


def _is_table(groups: Groups) -> bool:
    if groups.mesh or groups.axis is Axis.REPLICAS_OF_ALL_PARTITIONS or not groups.rows:
        return False
    return sum(map(len, groups.rows)) <= _MAX_DEVICES


def _positions_by_device(groups: Groups) -> dict[int, tuple[int, int]]:
    """Return, for each device, the number of its group and its position there."""
    return {d: (k, p) for k, row in enumerate(groups.rows) for p, d in enumerate(row)}


def position(
    collective: Instruction, steps: Route, positions: Sequence[Expr]
) -> Expr | tuple[Route, tuple[Expr, ...]]:
    """Return the position in a collective's group of the device that the steps lead to.

    Returns:
        The position if the last steps determine it; else the steps that it depends on and
        their positions.
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
        found = _fitted(columns, at)
        if found is not None:
            return found
        if any(len(set(column)) != 1 for column in columns):
            break
        count -= 1  # within a group of the last step all have the same position
    kept = needed(steps[:count])
    return tuple(steps[i] for i in kept), tuple(positions[i] for i in kept)


def _is_all(groups: Groups) -> bool:
    return (
        not groups.rows and not groups.mesh and groups.axis is not Axis.REPLICAS_OF_ALL_PARTITIONS
    )


def _columns(groups: Groups, last: Groups) -> tuple[Dims, ...] | None:
    """Return, for each group of `last`, the positions of its members in `groups`."""
    if _is_all(groups):
        return last.rows if _is_table(last) else None
    seats = _positions_by_device(groups)
    rows = (tuple(range(max(seats) + 1)),) if _is_all(last) else last.rows
    if not _is_table(last._replace(rows=rows)):
        return None
    if any(device not in seats for row in rows for device in row):
        return None
    return tuple(tuple(seats[device][1] for device in row) for row in rows)


def _fitted(columns: tuple[Dims, ...], at: Expr) -> Expr | None:
    """Return an expression for entry `at` of each column, if it is the same for all columns."""
    column = max(columns, key=len)
    if any(other != column[: len(other)] for other in columns):
        return None
    if isinstance(at, Const):
        return Const(column[at.value]) if 0 <= at.value < len(column) else None
    if len(column) == 1:
        return Const(column[0])
    first, step = column[0], column[1] - column[0]
    # An affine sequence, or a repeated or stretched one: the patterns of regular device meshes.
    if all(n == first + step * i for i, n in enumerate(column)):
        return at * step + first
    for m in range(1, len(column)):
        if all(n == i % m for i, n in enumerate(column)):
            return at % m
        if all(n == i // m for i, n in enumerate(column)):
            return at // m
    return None
