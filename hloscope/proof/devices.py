"""The devices of a test program: the smallest grid that fits its collectives, and its routes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from math import prod
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct, field

from hloscope.errors import HloscopeError
from hloscope.fusion import leaf_types
from hloscope.indexing import UNKNOWN_COUNTS, Axis, DeviceCounts, Groups, groups_of as read_groups
from hloscope.interpreter import Grid, Group, World, groups_of
from hloscope.ir import Dims, Instruction, Op, TensorType, Type
from hloscope.ops import (
    AllGather,
    AllToAll,
    AsyncStart,
    Collective,
    CollectiveBroadcast,
    CollectivePermute,
    CrossReplicaSum,
    Pairs,
    PartitionId,
    RaggedAllToAll,
    ReduceScatter,
    ReplicaId,
    Table,
    WrittenGroups,
)
from hloscope.proof.resizing import with_fields
from hloscope.proof.sizes import as_begun, shape_of
from hloscope.simplifier import UndecidedError
from hloscope.support.arrays import Ints, np

# --------------------------------------------------------------------------------------------------
# Devices of a test program: the smallest grid that its collectives fit, and routes.
#
# Groups are computed as in the interpreter, independently of the indexing rules.


MOST_DEVICES: Final = 1 << 12
"""Largest number of devices of a grid; larger ones raise `GridError`."""


class GridError(Exception):
    """No small grid of devices fits the collectives; the message says why."""


def collective_of(ins: Instruction) -> Collective | CrossReplicaSum | None:
    """Return the collective op of an instruction, or that of its asynchronous start.

    `None` for other instructions.
    """
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
        """Create a grid; `world` defines the meshes to which groups refer by name."""
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
            An array `[device, position]` with the member at each position of the device's group,
            and an array `[device]` with the position of the device itself.

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
        """Return the devices at the end of routes through the groups of collectives.

        A route goes from a device to a member of its group, and from there to a member of the next
        collective's group. -1 stands for no device: a group has no member at a position.

        Args:
            device: The device where the routes start.
            via: The collectives on the routes, in order.
            positions: For each collective, the position in the group that each route goes to.
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
    """The number of replicas, and the number of partitions of each replica."""

    replicas: int
    partitions: int

    @property
    def total(self) -> int:
        """Number of devices."""
        return self.replicas * self.partitions

    @property
    def devices(self) -> Devices:
        """The grid of all replicas and partitions."""
        return Devices(*self) if self.total > 1 else ONE

    def along(self, axis: Axis) -> int:
        """Return the number of replicas, partitions or devices, as `axis` selects."""
        match axis:
            case Axis.PARTITION:
                return self.partitions
            case Axis.DEVICE:
                return self.total
            case _:
                return self.replicas


def counts_of(involved: Iterable[Instruction], stated: DeviceCounts = UNKNOWN_COUNTS) -> Counts:
    """Return the smallest grid that fits the groups of all collectives.

    Args:
        involved: All instructions of a program; those that are no collectives are ignored.
        stated: Counts in the program's header, for an all-to-all without groups.

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
            size = stated.along(groups.axis) or 0  # equal types do not tell the size
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
    """What is known of the number of replicas, partitions or devices.

    Attributes:
        known: The number, if groups list all replicas, partitions or devices; 0 if unknown.
        least: Lower bound.
        is_asked: Does the value of an instruction depend on the number?
    """

    def __init__(self) -> None:
        self.known = 0
        self.least = 1
        self.is_asked = False

    def is_exactly(self, count: int) -> None:
        """Record `count`, or 0 for unknown, as the number; a larger earlier record stays."""
        self.known = max(self.known, count)

    def is_at_least(self, count: int) -> None:
        """Raise the lower bound to `count`."""
        self.least = max(self.least, count)

    def can_be(self, count: int, least_if_asked: int) -> bool:
        """Can `count` be the number, given what is known?

        Args:
            count: The number.
            least_if_asked: Lower bound that holds if an instruction depends on the number.
        """
        if self.known:
            return count == self.known >= self.least
        return count >= max(self.least, least_if_asked if self.is_asked else 1)

    def candidates(self, whole: int) -> set[int]:
        """Return numbers to try: only the known one, or else the smallest allowed ones.

        The latter include the divisors of `whole`, the number of all devices, if `whole` is not 0.
        """
        if self.known:
            return {self.known}
        divisors = {n for n in range(1, whole + 1) if whole % n == 0}
        return {max(self.least, 1), max(self.least, 2)} | divisors


def _grid(replicas: _Number, partitions: _Number, devices: _Number) -> Counts:
    """Return the smallest grid that satisfies the conditions on each of three numbers.

    Args:
        replicas: Conditions on the number of replicas.
        partitions: Conditions on the number of partitions of each replica.
        devices: Conditions on the number of all devices.

    Raises:
        GridError: No grid satisfies it.
    """
    rows, columns = (max(n.known, n.least) for n in (replicas, partitions))
    needed = max(devices.known, devices.least, rows * columns)
    if needed > MOST_DEVICES:
        raise GridError(f"it runs on {needed} devices, more than {MOST_DEVICES} are not tried")
    candidates = [number.candidates(devices.known) for number in (replicas, partitions)]
    # At least two where an instruction depends on the number: with one, all devices would have
    # equal numbers and a wrong route would not be noticed.
    for least_if_asked in (2, 1):
        found = [
            (rows * columns, rows, columns)
            for rows, columns in product(*candidates)
            if replicas.can_be(rows, least_if_asked)
            and partitions.can_be(columns, least_if_asked)
            and devices.can_be(rows * columns, least_if_asked)
        ]
        if found:
            return Counts(*min(found)[1:])
    raise GridError("its groups are of no one grid of devices")


def known_groups(ins: Instruction) -> Groups:
    """Return the groups of a collective.

    Raises:
        GridError: The instruction does not state its groups.
    """
    try:
        groups = read_groups(ins)
    except HloscopeError as error:
        raise GridError(error.message) from None
    if groups.mesh:
        raise GridError("its groups are axes of a mesh whose sizes stand elsewhere")
    return groups


def _largest(rows: Iterable[Dims]) -> int:
    """Return 1 more than the largest device number in all groups: that many devices are needed.

    `rows` are the groups of a collective.
    """
    return 1 + max([n for row in rows for n in row], default=-1)


def written_size(collective: Instruction) -> int:
    """Return the group size that the operand and result types determine; 0 if they do not."""
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
    """Return the shape of the first tensor of a type; `()` if there is none."""
    first = next((t for t in leaf_types(type) if isinstance(t, TensorType)), None)
    return shape_of(first) if first is not None else ()


# --------------------------------------------------------------------------------------------------
# Smaller grids of devices for collectives: some replicas and partitions are kept, and renumbered.
#
# Kept members of a group stay members of one group, in order, for every collective, so that chains
# of collectives lead to the same members.  Groups shrink by a common factor.  A permutation of
# devices continues to the next kept device.


FEW: Final = 8
"""Largest number of devices of a grid that is used unchanged; larger ones are reduced."""
MOST: Final = 32
"""Largest number of devices of a grid that is run."""
MOST_CHOICES: Final = 1 << 14

Joint: TypeAlias = Collective | CrossReplicaSum


class Regrouping(Struct, frozen=True):
    """A grid of devices for a test program, with its collectives on this grid.

    Attributes:
        devices: The grid of the test program.
        before: Number of devices of the program.
        ops: Collective ops with groups on this grid, by instruction; only those that changed.
        sizes: Old and new group size of each collective.
    """

    devices: Devices
    before: int
    ops: Mapping[Instruction, Op] = field(default_factory=dict)
    sizes: Mapping[Instruction, tuple[int, int]] = field(default_factory=dict)

    @property
    def is_smaller(self) -> bool:
        """Does the grid have fewer devices than the program?"""
        return self.devices.count < self.before

    @property
    def resizes(self) -> bool:
        """Does the group size of a collective change, so that types change, too?"""
        return any(old != new for old, new in self.sizes.values())


def regroupings(involved: Sequence[Instruction], counts: Counts) -> Iterator[Regrouping]:
    """Yield grids on which a test program can run, the smallest first.

    `involved` are its instructions, `counts` is the grid of the program.
    """
    found = [_Collective(ins, op, counts) for ins in involved if (op := collective_of(ins))]
    if counts.total > FEW:
        asked = [
            any(isinstance(ins.op, kind) for ins in involved) for kind in (ReplicaId, PartitionId)
        ]
        chosen = _chosen(found, counts, (asked[0], asked[1]))
        if chosen is not None:
            yield _regrouped(found, counts, chosen)
    if counts.total <= MOST:
        everything = _KeptDevices(range(counts.replicas), range(counts.partitions), counts)
        sizes = {c.ins: (size, size) for c in found if (size := c.size(everything))}
        yield Regrouping(counts.devices, counts.total, sizes=sizes)


class _KeptDevices:
    """The replicas and partitions that a smaller grid keeps. They are numbered again in order."""

    def __init__(self, replicas: Iterable[int], partitions: Iterable[int], counts: Counts) -> None:
        self.replicas: Final = {n: k for k, n in enumerate(sorted(replicas))}
        self.partitions: Final = {n: k for k, n in enumerate(sorted(partitions))}
        self.count: Final = len(self.replicas) * len(self.partitions)
        self._columns = counts.partitions

    def numbers(self, axis: Axis) -> Mapping[int, int]:
        """Return new by old numbers: of replicas, partitions or devices, as `axis` selects."""
        if axis is Axis.PARTITION:
            return self.partitions
        if axis is not Axis.DEVICE:
            return self.replicas
        few = len(self.partitions)
        return {
            r * self._columns + p: new_r * few + new_p
            for (r, new_r), (p, new_p) in product(self.replicas.items(), self.partitions.items())
        }


class _Collective:
    """A collective of the program, with its groups."""

    def __init__(self, ins: Instruction, op: Joint, counts: Counts) -> None:
        self.ins: Final = ins
        self.op: Final = op
        groups = known_groups(ins)
        self.axis: Final = groups.axis
        self.rows: Final = groups.rows
        whole = counts.along(groups.axis)
        self.is_one_of_all: Final = not groups.rows
        self._rows: Final = groups.rows or (tuple(range(whole)),)
        # Each device's group and position, to select the kept members in order.
        self._seats: Final = {
            n: (k, i) for k, row in enumerate(self._rows) for i, n in enumerate(row)
        }
        self._across: Final = (
            counts.partitions if groups.axis is Axis.REPLICAS_OF_ALL_PARTITIONS else 1
        )
        sizes = {len(row) for row in self._rows}
        self._is_even = len(sizes) == 1

    def size(self, kept: _KeptDevices) -> int:
        """Return the group size on the kept devices.

        It is 0 for source-target pairs, or if sizes differ.
        """
        if isinstance(self.op, CollectivePermute):
            return 0
        sizes = set(map(len, self.groups(kept)))
        across = len(kept.partitions) if self._across > 1 else 1
        return sizes.pop() * across if len(sizes) == 1 else 0

    def groups(self, kept: _KeptDevices) -> tuple[Dims, ...]:
        """Return the groups on the kept devices, with new device numbers."""
        numbers = kept.numbers(self.axis)
        seats = sorted([(*self._seats[n], numbers[n]) for n in numbers if n in self._seats])
        rows: dict[int, list[int]] = {}
        for row, _, number in seats:
            rows.setdefault(row, []).append(number)
        return tuple(map(tuple, rows.values()))

    def pairs(self, kept: _KeptDevices) -> Pairs:
        """Return the source-target pairs on the kept devices.

        From each kept source the pairs are followed to the next kept target.
        """
        assert isinstance(self.op, CollectivePermute)
        numbers = kept.numbers(self.axis)
        targets: dict[int, int] = {}
        for source, target in self.op.pairs:
            targets.setdefault(source, target)
        found = []
        for source, at in [pair for pair in self.op.pairs if pair[0] in numbers]:
            left = len(targets)
            # `left` ends the search in a cycle of pairs in which no device is kept.
            while at not in numbers and at in targets and left:
                at, left = targets[at], left - 1
            if at in numbers:
                found.append((numbers[source], numbers[at]))
        return tuple(found)

    def joined(self) -> Iterator[Dims]:
        """Yield sets of devices that exchange values: groups, or a source with its target."""
        yield from self.op.pairs if isinstance(self.op, CollectivePermute) else self._rows

    def score(self, kept: _KeptDevices) -> int | None:
        """Return a score of how much of the groups the kept devices preserve; larger is better.

        `None` if the collective is not valid on these devices.
        """
        if isinstance(self.op, CollectivePermute):
            pairs = self.pairs(kept)
            return min(4, len(pairs)) if pairs or not self.op.pairs else None
        groups = self.groups(kept)
        if not groups or (self._is_even and len(set(map(len, groups))) > 1):
            return None
        numbers = kept.numbers(self.axis)
        is_outside = any(n not in self._seats for n in numbers)
        # A device in no group would have no defined value, except in a broadcast, which gives
        # zeros.
        if is_outside and not isinstance(self.op, CollectiveBroadcast):
            return None
        largest = max(map(len, groups))
        if largest < 2 <= max(map(len, self._rows)) or len(kept.partitions) < min(2, self._across):
            return None
        if self._keeps_all_members and sum(map(len, groups)) < sum(
            len(self._rows[k]) for k in {self._seats[n][0] for n in numbers}
        ):
            return None
        return min(2, len(groups)) + min(2, largest)

    @property
    def _keeps_all_members(self) -> bool:
        """Must every group keep all its members?

        True if the operands determine the group size: by their number for an all-to-all without a
        split dimension, by their elements for a ragged all-to-all.
        """
        op = self.op
        return isinstance(op, RaggedAllToAll) or (
            isinstance(op, AllToAll) and op.split_dimension is None
        )

    def regrouped(self, kept: _KeptDevices) -> Op:
        """Return the op with its groups on the kept devices."""
        op = self._regrouped(kept)
        if isinstance(self.ins.op, AsyncStart):
            return with_fields(self.ins.op, wrapped=op)
        return op

    def _regrouped(self, kept: _KeptDevices) -> Op:
        op = self.op
        if isinstance(op, CollectivePermute):
            pairs = self.pairs(kept)
            is_table = isinstance(op.source_target_pairs, Table)
            return with_fields(op, source_target_pairs=Table.of(pairs) if is_table else pairs)
        new: dict[str, object] = {}
        if not self.is_one_of_all:
            rows = self.groups(kept)
            is_table = isinstance(op.replica_groups, Table)
            new["replica_groups"] = Table.of(rows) if is_table else WrittenGroups(rows)
        if isinstance(op, AllToAll) and op.split_count:
            new["split_count"] = self.size(kept)
        return with_fields(op, **new)


def _regrouped(
    collectives: Sequence[_Collective], counts: Counts, kept: _KeptDevices
) -> Regrouping:
    """Return the grid of the kept devices, with all collectives on it."""
    everything = _KeptDevices(range(counts.replicas), range(counts.partitions), counts)
    return Regrouping(
        Devices(len(kept.replicas), len(kept.partitions)),
        counts.total,
        {c.ins: c.regrouped(kept) for c in collectives},
        {c.ins: (c.size(everything), c.size(kept)) for c in collectives if c.size(kept)},
    )


def _chosen(
    collectives: Sequence[_Collective], counts: Counts, reads_ids: tuple[bool, bool]
) -> _KeptDevices | None:
    """Return a small set of replicas and partitions that preserves the groups best.

    `None` if no set is valid.

    Args:
        collectives: The collectives of the program.
        counts: The grid of the program.
        reads_ids: Two flags: does an instruction read the replica number, and the partition number?
    """
    best: tuple[int, int] | None = None
    chosen: _KeptDevices | None = None
    for most in (FEW, MOST):
        for replicas, partitions in _choices(collectives, counts, most):
            if _is_id_lost(reads_ids, counts, len(replicas), len(partitions)):
                continue
            kept = _KeptDevices(replicas, partitions, counts)
            worths = [c.score(kept) for c in collectives]
            if any(score is None for score in worths):
                continue
            # Most structure first, then fewest devices.
            order = -sum(score or 0 for score in worths), kept.count
            if best is None or order < best:
                best, chosen = order, kept
        if chosen is not None:
            return chosen
    return None


def _is_id_lost(
    reads_ids: tuple[bool, bool], counts: Counts, replicas: int, partitions: int
) -> bool:
    """Does a smaller grid have only one replica, or partition, although its number is read?

    False for a program that itself has only one.

    Args:
        reads_ids: Two flags: does an instruction read the replica number, and the partition number?
        counts: The grid of the program.
        replicas: Number of replicas of the smaller grid.
        partitions: Its number of partitions.
    """
    return (reads_ids[0] and replicas < min(2, counts.replicas)) or (
        reads_ids[1] and partitions < min(2, counts.partitions)
    )


def _choices(
    collectives: Sequence[_Collective], counts: Counts, most: int
) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """Yield pairs of a set of replicas and a set of partitions to keep.

    Args:
        collectives: The collectives of the program.
        counts: The grid of the program.
        most: Largest number of devices to keep.
    """
    bases: tuple[list[Sequence[int]], list[Sequence[int]]]
    bases = [range(counts.replicas)], [range(counts.partitions)]
    along = int(counts.replicas == 1)
    if counts.total == counts.along(Axis.PARTITION if along else Axis.REPLICA):
        # If all devices are on one axis, a set of devices that exchange values with each other can
        # be kept alone; no value enters from outside.
        bases[along].extend(_components(collectives))
    choices = product(*[[some for one in base for some in _parts(one, most)] for base in bases])
    for replicas, partitions in islice(choices, MOST_CHOICES):
        if 1 < len(replicas) * len(partitions) <= most:
            yield replicas, partitions


def _parts(base: Sequence[int], most: int) -> Iterator[Sequence[int]]:
    """Yield subsets of `base` with at most `most` elements.

    They are prefixes, elements at equal distances, and combinations of both.

    >>> [list(part) for part in _parts(range(6), 4)]
    [[0], [0, 2, 4], [0, 1]]
    """
    factors = []
    count, p = len(base), 2
    while count > 1:
        if p * p > count:
            p = count
        if count % p:
            p += 1
            continue
        factors.append(p)
        count //= p
    if len(base) <= most:
        yield base
    # Positions are mixed-radix numbers by the prime factors of the length; each digit is fixed to
    # 0 or takes two or three values.
    for digits in product(*[(1, f if f <= 3 else 2) for f in factors]):
        if prod(digits) > min(most, len(base) - 1):
            continue
        places, step = [0], 1
        for digit, factor in zip(digits, factors, strict=True):
            places = [at + step * k for k in range(digit) for at in places]
            step *= factor
        yield [base[at] for at in sorted(places)]


def _components(collectives: Sequence[_Collective]) -> list[list[int]]:
    """Return a list of one set: the first connected component of devices that exchange values.

    The set is empty if no devices exchange values.
    """
    leader: dict[int, int] = {}

    # Union-find with path halving: devices that exchange values are in one set.
    def root(n: int) -> int:
        while leader.setdefault(n, n) != n:
            leader[n] = leader[leader[n]]
            n = leader[n]
        return n

    for numbers in [numbers for c in collectives for numbers in c.joined()]:
        for n in numbers[1:]:
            leader[root(n)] = root(numbers[0])
    members: dict[int, list[int]] = {}
    for n in sorted(leader):
        members.setdefault(root(n), []).append(n)
    return [next((some for some in members.values() if len(some) > 1), [])]
