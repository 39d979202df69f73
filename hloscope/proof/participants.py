"""Comparison of accesses through collectives: whether the same is read on every device.

A map to other devices names members of groups by position, so equal maps mean equal reads only with
equal groups. Collectives whose groups are equal on every grid represent each other. Otherwise the
maps are compared device by device, on each grid that fits all collectives of both programs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import product
from math import prod
from typing import Final, NamedTuple

from hloscope.affine import Const, Expr, Interval, Range, Runtime, Var
from hloscope.errors import HloscopeError
from hloscope.fusion import with_origins
from hloscope.indexing import (
    Access,
    Accesses,
    Axis,
    IndexingMap,
    Variable,
    groups_of,
    joined,
    prove_equal,
    replaced,
)
from hloscope.interpreter import World, mesh_groups
from hloscope.ir import Computation, Dims, Instruction
from hloscope.ops import Collective, CollectiveBroadcast, CollectivePermute, PartitionId, ReplicaId
from hloscope.proof.devices import (
    Counts,
    Devices,
    GridError,
    collective_of,
    counts_of,
    written_size,
)
from hloscope.simplifier import PROVED, Proof, UndecidedError, Verdict
from hloscope.support.arrays import np
from hloscope.support.walks import reached

Header = tuple[tuple[str, str], ...]
"""Attributes of a module as (name, text), with its device counts and meshes."""

MOST_DEVICES: Final = 64
"""Largest number of devices that are compared one by one."""
MOST_ROUTES: Final = 4096
"""Largest number of routes through groups from one device."""
_TRIED: Final = 3
"""Largest number of replicas, and of partitions, that is tried if any number fits."""
_COUNTS: Final = (("replica_count", "mhlo.num_replicas"), ("num_partitions", "mhlo.num_partitions"))


def header_counts(header: Header) -> Counts | None:
    """Return the device counts that a module states; `None` if it states none.

    XLA omits a count of 1.
    """
    known = dict(header)
    texts = [next((known[name] for name in names if name in known), None) for names in _COUNTS]
    found = [(text or "1").partition(":")[0].strip() for text in texts]
    if texts == [None, None] or not all(n.isdecimal() and len(n) < 8 for n in found):
        return None
    return Counts(*[max(1, int(n)) for n in found])


def fitting_counts(computations: Iterable[Computation]) -> Counts | None:
    """Return the smallest grid that fits the groups of all collectives; `None` if none is found."""
    called = reached(computations, lambda c: c.callees)
    try:
        return counts_of([ins for c in called for ins in c.instructions])
    except GridError:
        return None


class Table(NamedTuple):
    """The groups of one collective, in a form in which equal groups compare equal.

    Attributes:
        axis: What the numbers in groups count: replicas, partitions or devices.
        rows: The groups, in order of their first members; empty for one group of all.
        is_hlo: For groups of replicas of all partitions: whether the partitions of a replica are
            adjacent, as in HLO. In StableHLO the replicas of a partition are.
    """

    axis: Axis
    rows: tuple[Dims, ...]
    is_hlo: bool


class Participants:
    """The collectives of two programs, and comparisons of accesses through them."""

    def __init__(
        self,
        sides: Sequence[Iterable[Computation]],
        headers: Sequence[Header] = ((), ()),
        alone: Sequence[Iterable[Instruction]] = ((), ()),
    ) -> None:
        """Collect the collectives of two programs, or of parts of them.

        Args:
            sides: The computations of each program; their callees are included.
            headers: Attributes of the two modules.
            alone: Further instructions of each program.
        """
        self._sides: Final = [
            [
                *some,
                *[
                    ins
                    for computation in reached(side, lambda c: c.callees)
                    for ins in computation.instructions
                ],
            ]
            for side, some in zip(sides, alone, strict=True)
        ]
        self._headers: Final = headers
        # Every pair of accesses through a collective asks for its groups again.
        self._tables: Final[list[dict[Instruction, Table]]] = [{}, {}]
        self._first: Final[dict[Hashable, Instruction]] = {}
        self._devices: Final[dict[Counts, list[Devices]]] = {}

    # Cached: asked for every pair of accesses; it is one pass over both programs.
    @cached_property
    def reason(self) -> str:
        """Text that says why reads of other devices cannot be compared; empty if they can."""
        asked = [
            [
                ins
                for ins in side
                if collective_of(ins) is not None or isinstance(ins.op, ReplicaId | PartitionId)
            ]
            for side in self._sides
        ]
        if not any(asked):
            return ""
        counts = [header_counts(header) for header in self._headers]
        if counts[0] and counts[1] and counts[0] != counts[1]:
            a, b = (f"{c.replicas} x {c.partitions}" for c in counts if c)
            return f"the first runs on {a} devices (replicas x partitions), the second on {b}"
        # Ops that name a mesh are equal in both programs, whatever the mesh is in each.
        rows: dict[object, object] = {}
        for side, instructions in enumerate(asked):
            for ins in instructions:
                try:
                    groups = None if collective_of(ins) is None else groups_of(ins)
                    if groups is None or groups.mesh is None:
                        continue
                    table = self.table(ins, side)
                except HloscopeError as error:
                    return f"the groups of `{ins.name}` are not known: {error.message}"
                key = groups.mesh, groups.axis
                if rows.setdefault(key, table) != table:
                    return f"the mesh of `{ins.name}` is another one in the other program"
        return ""

    def table(self, ins: Instruction, side: int) -> Table:
        """Return the groups of a collective, in comparable form.

        Args:
            ins: The collective.
            side: Number of the collective's program, 0 or 1.

        Raises:
            HloscopeError: The groups are not stated, or their mesh is not defined.
        """
        known = self._tables[side]
        if ins not in known:
            groups = groups_of(ins)
            rows = groups.rows
            if groups.mesh is not None:
                rows = mesh_groups(groups.mesh, World(attributes=self._headers[side]))
            op = collective_of(ins)
            is_hlo = isinstance(op, Collective) and op.channel_type is None
            axis = groups.axis
            if axis is not Axis.REPLICAS_OF_ALL_PARTITIONS:
                is_hlo = True  # the order is the same
            elif is_hlo and not rows:
                axis = Axis.DEVICE  # one group of all devices, in order
            known[ins] = Table(axis, tuple(sorted(rows)), is_hlo)
        return known[ins]

    def canonical(self, accesses: Accesses, side: int) -> Accesses:
        """Return the accesses with each collective replaced by the first one with equal groups.

        `side` is the number of their program, 0 or 1.
        """
        used = dict.fromkeys(ins for access in accesses for ins in _collectives(access))
        if not used:
            return accesses
        new: dict[Instruction, Instruction] = {}
        for ins in used:
            try:
                new[ins] = self._first.setdefault(self.table(ins, side), ins)
            except HloscopeError:
                new[ins] = ins
        return tuple([with_origins(access, new) for access in accesses])

    def same(self, a: Accesses, b: Accesses) -> Proof:
        """Prove or refute that two programs access the same elements on the same devices.

        The accesses of each program are exact, and their union is compared. They may lead to other
        devices.

        Args:
            a: Accesses of the first program.
            b: Accesses of the second program.
        """
        if self.reason:
            return Proof(Verdict.UNDECIDED, reason=self.reason)
        one, other = self.canonical(a, 0), self.canonical(b, 1)
        # With equal groups, equal maps by route mean equal reads on every grid; no grid has to be
        # known.
        by_route = [_by_route(accesses) for accesses in (one, other)]
        if by_route[0].keys() == by_route[1].keys() and all(
            prove_equal(by_route[0][route], by_route[1][route]).is_proved for route in by_route[0]
        ):
            return PROVED
        try:
            return self._on_grids(a, b)
        except (GridError, UndecidedError) as error:
            return Proof(Verdict.UNDECIDED, reason=f"on several devices: {error}")
        except HloscopeError as error:
            return Proof(Verdict.UNDECIDED, reason=f"on several devices: {error.message}")

    def _on_grids(self, a: Accesses, b: Accesses) -> Proof:
        """Compare the accesses of each device, on each grid that fits both programs.

        Return the first proof that fails, or a proof of equality.

        Raises:
            GridError: No grid fits, or not all fitting grids can be tried.
            UndecidedError: Accesses depend on values that the program reads at run time.
        """
        used = [
            self.table(ins, side)
            for side, accesses in enumerate((a, b))
            for access in accesses
            for ins in _collectives(access)
        ]
        grids, is_all = self._grids({table.axis for table in used})
        if not grids:
            raise GridError("no grid of devices fits the groups of both programs")
        for grid in grids:
            proof = self._on_grid(grid, a, b)
            if not proof.is_proved:
                return proof
        # Equal on all tried grids, but other numbers of devices are possible: no proof.
        if not is_all:
            raise GridError(
                f"the same on {len(grids)} small grids of devices, any number of them may be"
            )
        return PROVED

    def _on_grid(self, grid: Counts, a: Accesses, b: Accesses) -> Proof:
        """Compare the accesses of each device on one grid, and return the proof."""
        if grid.total > MOST_DEVICES:
            raise GridError(f"{grid.total} devices, more than {MOST_DEVICES} are not compared")
        if grid not in self._devices:
            self._devices[grid] = [
                Devices(*grid, World(attributes=header)) for header in self._headers
            ]
        known: dict[object, Proof] = {}
        undecided: Proof | None = None
        for device in range(grid.total):
            reads = [
                _reads_of(devices, device, accesses)
                for devices, accesses in zip(self._devices[grid], (a, b), strict=True)
            ]
            for there in sorted(reads[0].keys() | reads[1].keys()):
                mine, theirs = (tuple(found.get(there, ())) for found in reads)
                # Devices mostly read by equal maps, so a proof is made once for each pair of maps.
                key = mine, theirs
                if key not in known:
                    known[key] = prove_equal(mine, theirs)
                proof = known[key]
                if proof.is_refuted:
                    return _refuted(proof, grid, device, there)
                if not proof.is_proved:
                    undecided = proof
        return undecided or PROVED

    def _grids(self, axes: set[Axis]) -> tuple[list[Counts], bool]:
        """Return grids that fit all collectives of both programs, and whether there are no others.

        Args:
            axes: What the relevant groups count. Replicas or partitions that no such group counts
                are ignored.
        """
        stated = next((c for c in map(header_counts, self._headers) if c is not None), None)
        fit = _Fit()
        for side, ins in self._collectives:
            fit.require(ins, self.table(ins, side))
        if max(map(len, (fit.replicas, fit.partitions, fit.devices))) > 1:
            return [], True
        whole = next(iter(fit.devices), 0)
        sides: list[Iterable[int]] = []
        is_all = True
        for number, known in enumerate((fit.replicas, fit.partitions)):
            least = fit.least[number]
            if stated is not None:
                sides.append([stated[number]])
            elif known:
                sides.append(known)
            elif whole:
                sides.append([n for n in range(1, whole + 1) if whole % n == 0])
            elif axes <= {(Axis.PARTITION, Axis.REPLICA)[number]}:
                sides.append([least])  # no relevant group numbers these
            else:
                sides.append(range(least, max(_TRIED, least + 1) + 1))
                is_all = False
        return [grid for r, p in product(*sides) if fit.has(grid := Counts(r, p))], is_all

    # Cached: `_grids` is asked for every pair of accesses.
    @cached_property
    def _collectives(self) -> list[tuple[int, Instruction]]:
        """All collectives of both programs, each with the number of its program, 0 or 1."""
        return [
            (side, ins)
            for side, instructions in enumerate(self._sides)
            for ins in instructions
            if collective_of(ins) is not None
        ]


class _Fit:
    """The conditions of collectives on the grid: their groups must list each device exactly once.

    Attributes:
        replicas: Required numbers of replicas; if there are several, no grid fits.
        partitions: Required numbers of partitions.
        devices: Required numbers of devices.
        least: Lower bounds of replicas and partitions.
    """

    def __init__(self) -> None:
        self.replicas: Final = set[int]()
        self.partitions: Final = set[int]()
        self.devices: Final = set[int]()
        self.least: Final = [1, 1]

    def require(self, ins: Instruction, table: Table) -> None:
        """Add the conditions of a collective, whose groups are in `table`.

        Raises:
            GridError: No grid fits its groups.
        """
        op, named = collective_of(ins), [n for row in table.rows for n in row]
        if isinstance(op, CollectivePermute | CollectiveBroadcast):
            # Devices in no pair or group get zeros, so there may be any number of them.
            pairs = op.pairs if isinstance(op, CollectivePermute) else ()
            number = table.axis is Axis.PARTITION
            if table.axis in (Axis.REPLICA, Axis.PARTITION):
                most = max([*named, *[n for pair in pairs for n in pair]], default=0)
                self.least[number] = max(self.least[number], 1 + most)
            return
        if sorted(named) != [*range(len(named))]:
            raise GridError(f"the groups of `{ins.name}` do not name each device once")
        size = written_size(ins)
        match table.axis:
            case Axis.REPLICA:
                found = self.replicas
            case Axis.PARTITION:
                found = self.partitions
            case Axis.REPLICAS_OF_ALL_PARTITIONS if named:
                self.replicas.add(len(named))
                found, named, size = self.partitions, [], size // len(table.rows[0])
            case _:
                found = self.devices
        if count := len(named) or size:
            found.add(count)

    def has(self, grid: Counts) -> bool:
        """Does a grid satisfy all conditions?"""
        return (
            self.replicas <= {grid.replicas}
            and self.partitions <= {grid.partitions}
            and self.devices <= {grid.total}
            and grid.replicas >= self.least[0]
            and grid.partitions >= self.least[1]
        )


def is_among_devices(accesses: Iterable[Access]) -> bool:
    """Does an access lead to another device, or depend on the device's position in a group?"""
    return any(next(_collectives(access), None) is not None for access in accesses)


def _collectives(access: Access) -> Iterator[Instruction]:
    """Yield the collectives on whose groups the elements that an access reads depend."""
    yield from access.via
    for m in (access.map, access.replica):
        for variable in m.runtime if m is not None else ():
            if variable.collective is not None:
                yield variable.collective
            yield from variable.via


def _by_route(accesses: Accesses) -> dict[tuple[Instruction, ...], list[IndexingMap]]:
    """Return the maps of accesses by route.

    A route is the list of collectives in whose groups the last results of a map are positions.
    """
    found: dict[tuple[Instruction, ...], list[IndexingMap]] = {}
    for access in accesses:
        found.setdefault(access.via, []).append(joined(access))
    return found


def _reads_of(
    devices: Devices, device: int, accesses: Accesses
) -> dict[int, tuple[IndexingMap, ...]]:
    """Return the maps by which one device reads each device, by the number of the latter.

    Raises:
        UndecidedError: Accesses depend on run-time values, or on positions of several devices.
        GridError: There are too many routes through groups.
    """
    found: dict[int, tuple[IndexingMap, ...]] = {}
    for access in accesses:
        m = _at_device(joined(access), devices, device)
        if m is None or access.map is None:
            continue
        rank = len(access.map.results)
        positions = m.results[rank:]
        bounds = [m.range_of(e) & Interval(0, devices.count - 1) for e in positions]
        if prod(b.hi - b.lo + 1 for b in bounds if not b.is_empty) > MOST_ROUTES:
            raise GridError(f"more than {MOST_ROUTES} ways through groups")
        here = m.with_(results=m.results[:rank])
        # A position in a group names a device only when it is a constant: each combination of
        # positions is one route, restricted to the elements that take it.
        for choice in product(*[range(b.lo, b.hi + 1) for b in bounds]):
            there = int(devices.reached(device, access.via, [np.array([c]) for c in choice])[0])
            if there < 0:
                continue
            held = [(e, Interval(c, c)) for e, c in zip(positions, choice, strict=True)]
            some = here.with_(constraints=(*here.constraints, *held))
            found[there] = (*found.get(there, ()), some)
    return found


def _at_device(m: IndexingMap, devices: Devices, device: int) -> IndexingMap | None:
    """Return the map for one device: the device's position in each group becomes a constant.

    `None` if the map does not hold on this device. A variable over all members of a group becomes a
    range variable.

    Raises:
        UndecidedError: The map depends on run-time values, or on the position of another device.
    """
    new: dict[Var, Expr] = {}
    ranges, every = [*m.ranges], dict[object, Range]()
    for k, variable in enumerate(m.runtime):
        if variable.collective is None:
            raise UndecidedError("what is read depends on values")
        members, own = devices.tables(variable.collective)
        if variable.is_every:
            # The members of a group become the values of a range variable. One bound has to fit
            # all groups that the route may pass.
            sizes = {int(n) for n in (members >= 0).sum(axis=1)}
            if len(sizes) > 1 and variable.via:
                raise UndecidedError("groups of different sizes, one behind another")
            size = max(sizes) if variable.via else int((members[device] >= 0).sum())
            key = variable.source, variable.positions
            if key not in every:
                every[key] = Range(len(ranges))
                ranges.append(Variable(Interval(0, size - 1)))
            new[Runtime(k)] = every[key]
            continue
        place = int(own[device])
        if variable.via or place < 0:
            raise UndecidedError("what is read depends on the position of another device")
        if place not in variable.interval:
            return None
        new[Runtime(k)] = Const(place)
    return replaced(m, new, dims=m.dims, ranges=ranges, runtime=()) if m.runtime else m


def _refuted(proof: Proof, grid: Counts, device: int, there: int) -> Proof:
    """Return a refutation with a text that names the two devices that show it.

    Args:
        proof: The refutation for one pair of devices.
        grid: The grid.
        device: The device that reads.
        there: The device whose element is read.
    """

    def named(number: int) -> str:
        return f"(replica {number // grid.partitions}, partition {number % grid.partitions})"

    reason = (
        f"with {grid.replicas} x {grid.partitions} devices (replicas x partitions), the device"
        f" {named(device)} reads that of {named(there)}"
    )
    return Proof(Verdict.REFUTED, proof.counter_example, reason)
