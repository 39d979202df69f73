"""Devices of a test program: the smallest grid that its collectives fit, and routes.

Groups are computed as in the interpreter, independently of the indexing rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod
from typing import Final, NamedTuple

from hloscope.arrays import Ints, np
from hloscope.errors import HloscopeError
from hloscope.fusion import leaf_types
from hloscope.indexing import (
    UNKNOWN_COUNTS,
    Axis,
    DeviceCounts,
    Groups,
    groups_of as read_groups,
)
from hloscope.interpreter import Grid, Group, World, groups_of
from hloscope.ir import Dims, Instruction, TensorType, Type
from hloscope.ops import (
    AllGather,
    AllToAll,
    AsyncStart,
    Collective,
    CollectivePermute,
    CrossReplicaSum,
    PartitionId,
    ReduceScatter,
    ReplicaId,
)
from hloscope.proof.size_rules import as_begun, shape_of
from hloscope.simplifier import UndecidedError

MOST_DEVICES: Final = 1 << 12
"""Maximum number of devices of a grid."""


class GridError(Exception):
    """No small grid of devices fits the collectives; the message is the reason."""


def collective_of(ins: Instruction) -> Collective | CrossReplicaSum | None:
    """Return the collective op of an instruction, also of an asynchronous start; else `None`."""
    op = ins.op.wrapped if isinstance(ins.op, AsyncStart) else ins.op
    return op if isinstance(op, Collective | CrossReplicaSum) else None


class Devices:
    """A grid of replicas × partitions; devices are numbered replica by replica.

    Attributes:
        replicas: Number of replicas.
        partitions: Number of partitions of each replica.
        count: Number of devices.
    """

    def __init__(self, replicas: int = 1, partitions: int = 1, world: World | None = None) -> None:
        """Take the counts, and the context that defines the meshes named by groups."""
        self._world: Final = World() if world is None else world
        self.replicas: Final = replicas
        self.partitions: Final = partitions
        self.count: Final = replicas * partitions
        self._grid = Grid(replicas, partitions)
        self._ids = [*self._grid.processes]
        # Asked for every access along a route, and for every device.
        self._tables: dict[Instruction, tuple[Ints, Ints]] = {}

    def tables(self, ins: Instruction) -> tuple[Ints, Ints]:
        """Return the groups of a collective as two arrays; -1 stands for no device.

        Returns:
            `[device, position]`: the member at a position of the device's group; `[device]`: the
            position of the device itself.

        Raises:
            UndecidedError: The groups are not known.
        """
        if ins not in self._tables:
            members = np.full((self.count, self.count), -1)
            own = np.full(self.count, -1)
            for group in self._groups(ins):
                if any(member not in self._grid.processes for member in group):
                    raise UndecidedError(f"`{ins.name}` names devices that the grid does not have")
                # Interpreter ids are (replica, partition); numbers count replica by replica.
                row = [self._ids.index(member) for member in group]
                for place, device in enumerate(row):
                    members[device, : len(row)] = row
                    own[device] = place
            self._tables[ins] = members, own
        return self._tables[ins]

    def _groups(self, ins: Instruction) -> Sequence[Group]:
        """Return the groups of a collective, as tuples of device identifiers."""
        op = collective_of(ins)
        if op is None:
            raise UndecidedError("positions in the groups of what is not a collective")
        if isinstance(op, CollectivePermute):  # pairs of replicas or partitions
            side = int(op.has_channel)
            others = dict.fromkeys(id[1 - side] for id in self._ids)
            return [tuple([id for id in self._ids if id[1 - side] == k]) for k in others]
        try:
            return groups_of(op, self._grid.processes[self._ids[0]], self._world)
        except HloscopeError as error:
            raise UndecidedError(error.message) from None

    def reached(self, device: int, via: Sequence[Instruction], positions: Sequence[Ints]) -> Ints:
        """Return the devices at the end of a route; -1 where a group has no such member.

        Args:
            device: Where the route starts.
            via: The collectives.
            positions: For each collective the position in the group of the device reached so far.
        """
        at = np.full(np.broadcast_shapes((1,), *[np.shape(p) for p in positions]), device)
        for ins, position in zip(via, positions, strict=True):
            members, _ = self.tables(ins)
            inside = (at >= 0) & (position >= 0) & (position < self.count)
            at = np.where(inside, members[at, np.clip(position, 0, self.count - 1)], -1)
        return at


ONE: Final = Devices()
"""A single device."""


class Counts(NamedTuple):
    """Numbers of replicas, and of partitions of each replica."""

    replicas: int
    partitions: int

    @property
    def total(self) -> int:
        """Number of devices."""
        return self.replicas * self.partitions

    @property
    def devices(self) -> Devices:
        """The grid of all devices."""
        return Devices(*self) if self.total > 1 else ONE

    def along(self, axis: Axis) -> int:
        """Return the number of replicas, partitions or devices that groups of this kind number."""
        match axis:
            case Axis.PARTITION:
                return self.partitions
            case Axis.DEVICE:
                return self.total
            case _:
                return self.replicas


def counts_of(involved: Iterable[Instruction], said: DeviceCounts = UNKNOWN_COUNTS) -> Counts:
    """Return the smallest grid that fits the groups of all collectives.

    Args:
        involved: Instructions.
        said: Counts of the program's header, for an all-to-all without groups.

    Raises:
        GridError: No grid fits, or it is too large.
    """
    replicas, partitions, devices = _Number(), _Number(), _Number()
    by_axis = {Axis.REPLICA: replicas, Axis.PARTITION: partitions, Axis.DEVICE: devices}
    for ins in involved:
        if isinstance(ins.op, ReplicaId | PartitionId):
            (replicas if isinstance(ins.op, ReplicaId) else partitions).is_asked = True
        op = collective_of(ins)
        if op is None:
            continue
        groups = known_groups(ins)
        size = written_size(ins)
        if isinstance(op, AllToAll) and not groups.rows and size < 2:
            size = said.along(groups.axis) or 0  # equal types do not tell the size
        # Groups name replicas; each stands for the replica in all partitions, so the size counts
        # both.
        if groups.axis is Axis.REPLICAS_OF_ALL_PARTITIONS:
            replicas.is_asked = partitions.is_asked = True
            replicas.is_exactly(_largest(groups.rows))
            if size and groups.rows and size % len(groups.rows[0]) == 0:
                partitions.is_exactly(size // len(groups.rows[0]))
            elif size and not groups.rows:
                devices.is_exactly(size)
            continue
        number = by_axis[groups.axis]
        number.is_asked = True
        if isinstance(op, CollectivePermute):
            number.is_at_least(_largest(op.pairs))
        else:
            number.is_exactly(_largest(groups.rows) if groups.rows else size)
    return _grid(replicas, partitions, devices)


class _Number:
    """Constraints on the number of replicas, partitions or devices.

    Attributes:
        known: The exact number, if groups name all of them; 0 if not known.
        least: Lower bound.
        is_asked: Does an instruction depend on it?
    """

    def __init__(self) -> None:
        self.known = 0
        self.least = 1
        self.is_asked = False

    def is_exactly(self, count: int) -> None:
        """Add an exact number; 0 adds nothing."""
        self.known = max(self.known, count)

    def is_at_least(self, count: int) -> None:
        """Add a lower bound."""
        self.least = max(self.least, count)

    def may_be(self, count: int, where_it_matters: int) -> bool:
        """Is the number possible?

        Args:
            count: The number.
            where_it_matters: Lower bound if an instruction depends on the number.
        """
        if self.known:
            return count == self.known >= self.least
        return count >= max(self.least, where_it_matters if self.is_asked else 1)

    def candidates(self, whole: int) -> set[int]:
        """Return possible numbers; divisors of `whole`, the number of devices, if it is known."""
        if self.known:
            return {self.known}
        divisors = {n for n in range(1, whole + 1) if whole % n == 0}
        return {max(self.least, 1), max(self.least, 2)} | divisors


def _grid(replicas: _Number, partitions: _Number, devices: _Number) -> Counts:
    """Return the smallest grid within the constraints.

    Raises:
        GridError: There is none.
    """
    rows, columns = (max(n.known, n.least) for n in (replicas, partitions))
    needed = max(devices.known, devices.least, rows * columns)
    if needed > MOST_DEVICES:
        raise GridError(f"it runs on {needed} devices, more than {MOST_DEVICES} are not tried")
    candidates = [number.candidates(devices.known) for number in (replicas, partitions)]
    # At least two where an instruction depends on the number: with one, all devices would have
    # equal numbers and a wrong route would not be noticed.
    for where_it_matters in (2, 1):
        found = [
            (rows * columns, rows, columns)
            for rows, columns in product(*candidates)
            if replicas.may_be(rows, where_it_matters)
            and partitions.may_be(columns, where_it_matters)
            and devices.may_be(rows * columns, where_it_matters)
        ]
        if found:
            return Counts(*min(found)[1:])
    raise GridError("its groups are of no one grid of devices")


def known_groups(ins: Instruction) -> Groups:
    """Return the groups of a collective.

    Raises:
        GridError: The instruction does not state them.
    """
    try:
        groups = read_groups(ins)
    except HloscopeError as error:
        raise GridError(error.message) from None
    if groups.mesh:
        raise GridError("its groups are axes of a mesh whose sizes stand elsewhere")
    return groups


def _largest(rows: Iterable[Dims]) -> int:
    """Return the least number of devices that has all these numbers."""
    return 1 + max([n for row in rows for n in row], default=-1)


def written_size(collective: Instruction) -> int:
    """Return the group size that follows from the types; 0 if they do not determine it."""
    ins, op = as_begun(collective), collective_of(collective)
    if isinstance(op, AllToAll) and op.split_dimension is None:
        return len(ins.operands)
    if isinstance(op, AllToAll) and op.split_count:
        return op.split_count
    if not isinstance(op, AllGather | ReduceScatter | AllToAll) or not ins.operands:
        return 0
    shapes = [_shape(ins.operands[0].type), _shape(ins.type)]
    if isinstance(op, AllToAll):
        sizes = [shape[op.split_dimension or 0] for shape in shapes if shape]
    else:
        sizes = [*map(prod, shapes)]
    small, large = min(sizes, default=0), max(sizes, default=0)
    return large // small if small else 0


def _shape(type: Type) -> tuple[int, ...]:
    """Return the shape of the first tensor of a type."""
    first = next((t for t in leaf_types(type) if isinstance(t, TensorType)), None)
    return shape_of(first) if first is not None else ()
