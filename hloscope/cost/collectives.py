"""Collectives: bytes that each device sends, and kernels that overlap with a transfer.

Bytes are those of the usual algorithms among the `r` members of a group.  `size` is the bytes of
the operand on one device, `result` those of its result:

| kind | ring | tree |
|---|---|---|
| all-reduce | 2 (r - 1) / r of the size | 2 x size |
| all-gather | (r - 1) / r of the result | |
| reduce-scatter | (r - 1) / r of the size | |
| all-to-all | (r - 1) / r of the size | |
| collective-permute | size, from each source of a pair | |
| collective-broadcast | size | size |
| collective-reduce | size | size |

A ring transfers the fewest bytes: the bytes of all-reduce, all-gather, reduce-scatter and
all-to-all are lower bounds of what each device must send, if values are not compressed and no
switch reduces.  A tree has fewer steps and more bytes.

Source: Thakur et al., "Optimization of Collective Communication Operations in MPICH"; XLA
`gpu_hlo_cost_analysis.cc` has the same factors of rings.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

from msgspec import Struct

from hloscope.cost.runs import running
from hloscope.errors import HloscopeError
from hloscope.fusion import ALIASES, size_in_bytes
from hloscope.indexing import UNKNOWN_COUNTS, Axis, DeviceCounts, Groups, counts_of, groups_of
from hloscope.ir import Computation, Instruction, Module, Op
from hloscope.ops import (
    COLLECTIVE_KINDS,
    AllGather,
    AllReduce,
    AllToAll,
    AsyncDone,
    AsyncStart,
    AsyncUpdate,
    Call,
    Case,
    Collective,
    CollectivePermute,
    Composite,
    CopyDone,
    CopyStart,
    CrossReplicaSum,
    OptimizationBarrier,
    PartitionId,
    RaggedAllToAll,
    Recv,
    RecvDone,
    ReduceScatter,
    ReplicaId,
    Send,
    SendDone,
    While,
    is_in_place,
)
from hloscope.support.walks import reached


class LinkBytes(Struct, frozen=True):
    """Bytes that one device sends in a collective, for the largest group.

    Attributes:
        kind: Name of the collective in HLO.
        members: Members of a group; `None` if unknown.
        size: Bytes of the operands on one device.
        ring: Bytes that each device sends in a ring; `None` if unknown.
        tree: Maximum number of bytes that a device sends in a tree; `None` if trees are not used.
        reason: Why the bytes are unknown, or what they leave out.
        channel: Is the transfer between partitions, and not between replicas?
    """

    kind: str
    members: int | None
    size: int
    ring: int | None
    tree: int | None = None
    reason: str = ""
    channel: bool = False


def collective_op(ins: Instruction) -> Collective | CrossReplicaSum | None:
    """Return the collective of an instruction or of its `<op>-start`; `None` for any other."""
    own = begun_collective(ins).op
    op = own.wrapped if isinstance(own, AsyncStart) else own
    return op if isinstance(op, Collective | CrossReplicaSum) else None


def begun_collective(ins: Instruction) -> Instruction:
    """Return the only collective that an `async-start` calls; any other instruction unchanged."""
    if isinstance(ins.op, AsyncStart) and ins.op.wrapped is None and len(ins.calls) == 1:
        inner = [i for i in ins.calls[0].instructions if not isinstance(i.op, ALIASES)]
        if len(inner) == 1 and isinstance(inner[0].op, Collective | CrossReplicaSum):
            return inner[0]
    return ins


def link_bytes(ins: Instruction, counts: DeviceCounts = UNKNOWN_COUNTS) -> LinkBytes | None:
    """Return the bytes that each device sends in a collective; `None` for any other instruction.

    Args:
        ins: A collective, or the `<op>-start` of one.
        counts: Replicas and partitions of the module, for collectives without replica groups: see
            `counts_of`.
    """
    op = collective_op(ins)
    if op is None:
        return None
    ins = begun_collective(ins)
    kind = COLLECTIVE_KINDS[type(op)]
    size = sum([size_in_bytes(operand.type) for operand in ins.operands])
    channel = isinstance(op, Collective) and op.has_channel
    if isinstance(op, CollectivePermute):
        if is_in_place(tuple([operand.type for operand in ins.operands])):
            reason = "it sends slices of its operand"
            return LinkBytes(kind, 2, size, None, None, reason, channel)
        moves = any(source != target for source, target in op.pairs)
        return LinkBytes(
            kind, 2 if moves else 1, size, size if moves else 0, channel=channel,
            reason="" if moves else "no pair of different devices",
        )  # fmt: skip
    members = _members(ins, counts)
    if isinstance(members, str):
        return LinkBytes(kind, None, size, None, None, members, channel)
    if isinstance(op, RaggedAllToAll):
        reason = "how many rows go to which device is known only at run time"
        return LinkBytes(kind, members, size, None, None, reason, channel)
    ring, tree = _formulas(op, size, members)
    return LinkBytes(kind, members, size, ring, tree, channel=channel)


def _formulas(op: Op, size: int, members: int) -> tuple[int, int | None]:
    """Return the bytes that a device sends in a ring and in a tree, rounded up.

    The second is `None` if trees are not used.

    Args:
        op: The collective.
        size: Bytes of the operands on one device.
        members: Members of the group.
    """
    others = members - 1
    if others == 0:
        return 0, 0
    match op:
        case AllReduce() | CrossReplicaSum():
            return -(-2 * others * size // members), 2 * size
        case AllGather():  # the result is `members` operands, of which each sends all but one
            return others * size, None
        case ReduceScatter() | AllToAll():
            return -(-others * size // members), None
        case _:  # broadcast and reduce: all but the last device of the chain forward everything
            return size, size


def _members(ins: Instruction, counts: DeviceCounts) -> int | str:
    """Return the number of members of the largest group, or the reason why it is unknown."""
    try:
        groups = groups_of(ins)
    except HloscopeError as error:
        return f"the replica groups are not readable: {error.message}"
    if groups.mesh is not None:
        return "the replica groups are axes of a mesh whose sizes are not written here"
    if groups.axis is Axis.REPLICAS_OF_ALL_PARTITIONS:
        return _of_all_partitions(groups, counts)
    if groups.size is not None:
        return groups.size
    count = {
        Axis.REPLICA: counts.replicas,
        Axis.PARTITION: counts.partitions,
        Axis.DEVICE: (counts.replicas or 0) * (counts.partitions or 0) or None,
    }[groups.axis]
    return count or f"no replica groups are written, and the header has no count of {groups.axis}s"


def _of_all_partitions(groups: Groups, counts: DeviceCounts) -> int | str:
    """Return the number of members of groups of replicas with all their partitions.

    A text states the reason if the number is unknown.

    Source: StableHLO spec, "Collective ops", `cross_replica_and_partition`.
    """
    if counts.partitions is None:
        return "a group holds every partition of its replicas, and the header has no count of them"
    replicas = max(map(len, groups.rows)) if groups.rows else counts.replicas
    if replicas is None:
        return "no replica groups are written, and the header has no count of replicas"
    return replicas * counts.partitions


# -------------------------------------------------------------------------------------- overlap

_DONE: Final = (AsyncDone, CopyDone, SendDone, RecvDone)
_START: Final = (AsyncStart, CopyStart, Send, Recv)
_ASIDE: Final[tuple[type[Op], ...]] = (
    *ALIASES,
    *_DONE,
    *_START,
    AsyncUpdate,
    OptimizationBarrier,
    PartitionId,
    ReplicaId,
)
_CALLING: Final = (While, Case, Call, Composite)


class Overlap(Struct, frozen=True):
    """A transfer or an asynchronous computation, and the kernels that run at the same time.

    Attributes:
        start: The start instruction, or the synchronous op itself.
        done: The done instruction; `None` if the op is synchronous, or its computation has no done.
        between: Instructions between start and done that run kernels: fusions, calls, loops and
            single ops, without aliases and other starts and dones.
        is_async: Does the op have a start and a done?
    """

    start: Instruction
    done: Instruction | None
    between: tuple[Instruction, ...]
    is_async: bool

    @property
    def is_exposed(self) -> bool:
        """Are there no kernels between start and done, so that the device waits?

        A transfer that overlaps with kernels may still last longer than they do.
        """
        return not self.between


def overlap_of(computation: Computation) -> list[Overlap]:
    """Return each transfer of a computation, in program order, with the overlapping kernels.

    Transfers are collectives, asynchronous ops, copies, sends and receives. The computation must
    belong to a scheduled module: see `is_scheduled`. Collectives in called computations are not
    listed: call this function for every computation that runs.
    """
    order = {ins: at for at, ins in enumerate(computation.instructions)}
    done_of: dict[Instruction, Instruction] = {}
    for ins in computation.instructions:
        if isinstance(ins.op, _DONE) and ins.operands:
            done_of.setdefault(_begun_by(ins.operands[0]), ins)
    kernels = [ins for ins in computation.instructions if _computes(ins)]
    places = [order[ins] for ins in kernels]
    found = []
    for ins in computation.instructions:
        if isinstance(ins.op, _START):
            done = done_of.get(ins)
            # In a scheduled module the order of the text is the order of execution.
            first = bisect_right(places, order[ins])
            last = bisect_left(places, order[done or ins])
            found.append(Overlap(ins, done, tuple(kernels[first:last]), True))
        elif collective_op(ins) is not None:
            found.append(Overlap(ins, None, (), False))
    return found


def _begun_by(value: Instruction) -> Instruction:
    """Return the start instruction whose value is forwarded through updates and tuple elements.

    Return the last forwarded value if it is not a start.
    """
    while isinstance(value.op, (AsyncUpdate, *ALIASES)) and len(value.operands) == 1:
        value = value.operands[0]
    return value


def _computes(ins: Instruction) -> bool:
    """Does the instruction run a kernel, directly or through a call?"""
    if not isinstance(ins.op, _CALLING):
        return _is_kernel(ins)

    def called(computation: Computation) -> list[Computation]:
        return [c for i in computation if isinstance(i.op, _CALLING) for c in i.calls]

    inside = [i for computation in reached(ins.calls, called) for i in computation]
    return any(not isinstance(i.op, _CALLING) and _is_kernel(i) for i in inside)


def _is_kernel(ins: Instruction) -> bool:
    """Is the instruction a kernel, on this or another stream, and not a transfer?"""
    is_other = isinstance(ins.op, _ASIDE) and not isinstance(ins.op, AsyncStart)
    return not is_other and collective_op(ins) is None


class Transfer(NamedTuple):
    """A transfer of a program.

    Attributes:
        computation: The computation that contains it.
        overlap: The kernels that overlap with it.
        link: Bytes on the link; `None` if it is not a collective.
        times: Number of runs in one run of the program; see `running`.
    """

    computation: Computation
    overlap: Overlap
    link: LinkBytes | None
    times: int


def transfers_of(module: Module) -> list[Transfer]:
    """Return each transfer of the computations that run, callers first.

    The computation that an `async-start` calls belongs to it and is not listed again.
    """
    counts, found = counts_of(module), []
    begun: set[Computation] = set()
    for place in running(module):
        for ins in place.computation.instructions:
            if isinstance(ins.op, AsyncStart):
                begun.update(ins.calls)
        if place.computation in begun:
            continue
        for overlap in overlap_of(place.computation):
            link = link_bytes(overlap.start, counts)
            found.append(Transfer(place.computation, overlap, link, place.times))
    return found
