"""Collective ops, by which processes of a grid exchange values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from hloscope.errors import UnsupportedError
from hloscope.interpreter.numbers.conversions import promoted
from hloscope.interpreter.ops.partition import mesh_groups
from hloscope.interpreter.parallel import Group, Process, process_of
from hloscope.interpreter.registry import Kernel, Region, Site, evaluates
from hloscope.interpreter.values import Array, EvaluationError, Value, World, dtype_of
from hloscope.ir import Dims, TensorType, TupleType
from hloscope.ops import (
    AllGather,
    AllReduce,
    AllToAll,
    Collective,
    CollectiveBroadcast,
    CollectivePermute,
    CollectiveReduce,
    CrossReplicaSum,
    Groups,
    MeshGroups,
    PartitionId,
    RaggedAllToAll,
    ReduceScatter,
    ReplicaId,
    Rooted,
    Table,
    is_in_place,
)

# --------------------------------------------------------------------------------------------------
# Collective ops, by which processes of a grid exchange values.
#
# Source: StableHLO spec, the ops named `all_…`, `collective_…`, `reduce_scatter`; for HLO's forms
# XLA docs "Operation semantics".


Parts = list[tuple[Any, ...]]
"""The operands of each member of a group of processes, in the order of the members."""


@evaluates(ReplicaId)
def _replica_id(op: ReplicaId, at: Site) -> Kernel:
    number = np.uint32(at.world.replica)
    return lambda: number  # type: ignore[return-value]


@evaluates(PartitionId)
def _partition_id(op: PartitionId, at: Site) -> Kernel:
    number = np.uint32(at.world.partition)
    return lambda: number  # type: ignore[return-value]


# ------------------------------------------------------------------------------------ groups


def _rows(groups: Groups, world: World) -> tuple[Dims, ...]:
    """Return the groups of numbers in `replica_groups`, without padding (-1) and empty groups."""
    if isinstance(groups, MeshGroups):
        return mesh_groups(groups, world)
    rows = groups.rows
    return tuple(row for row in rows if row) if isinstance(groups, Table) else rows


_BETWEEN_PARTITIONS: Final = (AllToAll, CollectiveBroadcast, CollectivePermute)
"""Ops whose groups consist of partitions of one replica if the op has a channel."""


def groups_of(
    op: Collective | CrossReplicaSum, process: Process, world: World
) -> tuple[Group, ...]:
    """Return the groups of processes among which a collective exchanges values.

    The ids are numbers of replicas, of partitions or of all processes. The channel and
    `use_global_device_ids` decide.  If a group of replicas includes all partitions, HLO orders
    members replica by replica, StableHLO partition by partition.  Empty `replica_groups` mean one
    group of all.

    Source: StableHLO spec, "Collective ops"; XLA `GetParticipatingDevices`.
    """
    grid = process.grid
    replicas, partitions = range(grid.replicas), range(grid.partitions)
    rows = _rows(op.replica_groups, world)
    if not isinstance(op, Collective) or not op.has_channel:
        rows = rows or (tuple(replicas),)
        return tuple(tuple((r, p) for r in row) for row in rows for p in partitions)
    if op.use_global_device_ids:
        rows = rows or (tuple(range(len(grid.processes))),)
        return tuple(tuple(divmod(n, grid.partitions) for n in row) for row in rows)
    if isinstance(op, _BETWEEN_PARTITIONS):
        rows = rows or (tuple(partitions),)
        return tuple(tuple((r, p) for p in row) for row in rows for r in replicas)
    rows = rows or (tuple(replicas),)
    if op.channel_type is None:  # HLO
        return tuple(tuple((r, p) for r in row for p in partitions) for row in rows)
    return tuple(tuple((r, p) for p in partitions for r in row) for row in rows)


def _group(op: Collective | CrossReplicaSum, world: World) -> Group | None:
    """Return the group that contains the process of `world`; `None` if no group contains it.

    Raises:
        EvaluationError: The group contains a process that is not in the grid.
    """
    process = process_of(world)
    grid = process.grid
    # Stored in the grid: every process of the grid makes a kernel for the op, and computing the
    # groups of all processes takes time linear in the size of the grid.
    known = grid.groups.get(op)
    if known is None:
        known = grid.groups[op] = {}
        for group in groups_of(op, process, world):
            stranger = next((member for member in group if member not in grid.processes), None)
            known.update(dict.fromkeys(group, (group, stranger)))
    found, stranger = known.get(process.id, (None, None))
    if stranger is not None:
        raise EvaluationError(
            f"`{op.name}` names process {stranger}, there are {grid.replicas} ×"
            f" {grid.partitions} (replicas × partitions)"
        )
    return found


def _required_group(op: Collective | CrossReplicaSum, world: World) -> Group:
    """Return the group that contains the process of `world`.

    Raises:
        EvaluationError: No group contains the process.
    """
    group = _group(op, world)
    if group is None:
        raise EvaluationError(f"process {process_of(world).id} is in no group of `{op.name}`")
    return group


def check_arrays(op: Collective | CrossReplicaSum, at: Site) -> None:
    """Check that all operands of the collective are arrays.

    Raises:
        EvaluationError: An operand is a tuple.
    """
    for k, operand in enumerate(at.ins.operands):
        if isinstance(operand.type, TupleType):
            raise EvaluationError(f"operand {k} of `{op.name}` is a tuple, needs an array")


def _exchange(
    op: Collective | CrossReplicaSum,
    at: Site,
    combine: Callable[[Parts, Sequence[Region]], Any],
    own_results: Callable[[Any, int, tuple[Any, ...]], tuple[Value, ...]],
) -> Kernel:
    """Return a kernel that exchanges operands among the members of a group.

    Args:
        op: The collective.
        at: The instruction and its world.
        combine: Combines the operands of all members.  It is called once for the group, or once by
            each member if the regions read outer values, since these may differ.
        own_results: Results of one member, from the combined value, its index in the group and its
            operands.
    """
    check_arrays(op, at)
    process = process_of(at.world)
    group = _required_group(op, at.world)
    place = group.index(process.id)
    channel = getattr(op, "channel_id", None) or 0
    ins, has_regions = at.ins, bool(at.ins.calls)

    def kernel(*values: Any) -> Value:
        regions, operands = (values[0], values[1:]) if has_regions else ((), values)
        # The values that a body reads from outside may differ between processes.  Then each member
        # combines by itself, otherwise one of them does it for all.
        if any(region.outer for region in regions):
            parts = process.rendezvous(group, channel, ins, operands, lambda parts: parts)
            whole = combine(parts, regions)
        else:
            whole = process.rendezvous(
                group, channel, ins, operands, lambda parts: combine(parts, regions)
            )
        return at.value(own_results(whole, place, operands))

    return kernel


# ------------------------------------------------------------------------------ gathering


@evaluates(AllGather)
def _all_gather(op: AllGather, at: Site) -> Kernel:
    axis = op.all_gather_dim

    def gathered(parts: Parts, _: Sequence[Region]) -> tuple[Value, ...]:
        return tuple([np.concatenate(arrays, axis) for arrays in zip(*parts, strict=True)])

    return _exchange(op, at, gathered, lambda whole, *_: whole)


@evaluates(AllToAll)
def _all_to_all(op: AllToAll, at: Site) -> Kernel:
    """Return the kernel of `all_to_all`.

    A member gets its part of every member's operand, concatenated.
    """
    split, concat = op.split_dimension, op.concat_dimension
    if split is None:  # an operand for each member
        return _exchange(op, at, lambda parts, _: parts, _one_for_each)
    axis = split if concat is None else concat

    def own_results(parts: Parts, place: int, operands: tuple[Any, ...]) -> tuple[Value, ...]:
        count = op.split_count or len(parts)
        return tuple(
            [
                np.concatenate([_part(sent[k], split, count, place) for sent in parts], axis)
                for k in range(len(operands))
            ]
        )

    return _exchange(op, at, lambda parts, _: parts, own_results)


def _one_for_each(parts: Parts, index: int, operands: tuple[Any, ...]) -> tuple[Value, ...]:
    """Return operand number `index` of each member: what member `index` of the group receives.

    `parts` are the operands of all members, `operands` those of this member.

    Raises:
        EvaluationError: The number of `operands` is not the number of members.
    """
    if len(operands) != len(parts):
        raise EvaluationError(
            f"`all_to_all` has {len(operands)} operands for {len(parts)} members of the group"
        )
    return tuple([sent[index] for sent in parts])


def _part(array: Array, axis: int, count: int, index: int) -> Array:
    """Return the part with index `index` of `count` equal parts of an array along an axis.

    Raises:
        EvaluationError: The size is not divisible by `count`.
    """
    size, rest = divmod(array.shape[axis], count)
    if rest:
        raise EvaluationError(f"size {array.shape[axis]} cannot be split in {count} parts")
    where = [slice(None)] * array.ndim
    where[axis] = slice(index * size, (index + 1) * size)
    return array[tuple(where)]


@evaluates(RaggedAllToAll)
def _ragged_all_to_all(op: RaggedAllToAll, at: Site) -> Kernel:
    """Return the kernel of `ragged_all_to_all`.

    Each member sends `sizes[i]` rows, from row `inputs[i]` on, to member i, which stores them from
    row `outputs[i]` on.
    """

    def own_results(parts: Parts, place: int, operands: tuple[Any, ...]) -> tuple[Value, ...]:
        result = np.array(operands[1])
        for data, _, inputs, sizes, outputs, _ in parts:
            many = len(inputs) // len(parts)  # several updates for each member
            for n in range(place * many, (place + 1) * many):
                size, to, begin = int(sizes[n]), int(outputs[n]), int(inputs[n])
                if min(size, to, begin) < 0 or max(to - len(result), begin - len(data)) + size > 0:
                    raise EvaluationError(f"{size} rows from {begin} on do not fit at {to}")
                result[to : to + size] = data[begin : begin + size]
        return (result,)

    return _exchange(op, at, lambda parts, _: parts, own_results)


# ------------------------------------------------------------------------------- reducing


def _folded(at: Site) -> Callable[[Parts, Sequence[Region]], tuple[Any, ...]]:
    """Return a function that reduces the operands of all members, in the members' order.

    Its arguments are the operands and the region of the op, which combines two values.
    """
    types = at.results
    body = at.ins.calls[0].arguments[0]
    accumulated = dtype_of(body.element) if isinstance(body, TensorType) else None

    def fold(parts: Parts, regions: Sequence[Region]) -> tuple[Any, ...]:
        (region,) = regions
        found = []
        for arrays, type_ in zip(zip(*parts, strict=True), types, strict=False):
            first, *rest = [promoted(array, accumulated) for array in arrays]
            for other in rest:
                first = _applied(region, first, other)
            assert isinstance(type_, TensorType)
            found.append(promoted(first, dtype_of(type_.element)))
        return tuple(found)

    return fold


def _applied(region: Region, a: Any, b: Any) -> Any:
    """Return the result of a region of two scalars, applied elementwise to two arrays."""
    if region.is_elementwise:
        return np.broadcast_to(region(a, b)[0], a.shape)  # type: ignore[arg-type]
    pairs = zip(a.reshape(-1), b.reshape(-1), strict=True)
    return np.array([region(x, y)[0] for x, y in pairs], a.dtype).reshape(a.shape)


@evaluates(AllReduce)
def _all_reduce(op: AllReduce, at: Site) -> Kernel:
    return _exchange(op, at, _folded(at), lambda whole, *_: whole)


@evaluates(CrossReplicaSum)
def _cross_replica_sum(op: CrossReplicaSum, at: Site) -> Kernel:
    def summed(parts: Parts, _: Sequence[Region]) -> tuple[Any, ...]:
        return tuple([sum(arrays[1:], arrays[0]) for arrays in zip(*parts, strict=True)])

    return _exchange(op, at, summed, lambda whole, *_: whole)


@evaluates(ReduceScatter)
def _reduce_scatter(op: ReduceScatter, at: Site) -> Kernel:
    size = len(_required_group(op, at.world))
    axis = op.scatter_dimension

    def own_results(whole: tuple[Any, ...], place: int, _: tuple[Any, ...]) -> tuple[Value, ...]:
        return tuple([_part(array, axis, size, place) for array in whole])

    return _exchange(op, at, _folded(at), own_results)


@evaluates(CollectiveReduce)
def _collective_reduce(op: CollectiveReduce, at: Site) -> Kernel:
    """Return the kernel of `collective-reduce`.

    The root gets the reduction, other members get zeros.
    """
    size, fold = len(_required_group(op, at.world)), _folded(at)

    def combine(parts: Parts, regions: Sequence[Region]) -> tuple[Any, ...]:
        return fold([_data(op, operands) for operands in parts], regions)

    def own_results(
        whole: tuple[Any, ...], place: int, operands: tuple[Any, ...]
    ) -> tuple[Value, ...]:
        roots = _roots(op, operands, size)
        pairs = zip(whole, roots, strict=True)
        return tuple([a if root == place else np.zeros_like(a) for a, root in pairs])

    return _exchange(op, at, combine, own_results)


# ------------------------------------------------------------------------------- sending


def _data(op: Rooted, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the operands without the root indices."""
    return operands[:-1] if op.has_dynamic_root else operands


def _roots(op: Rooted, operands: tuple[Any, ...], size: int) -> list[int]:
    """Return, for each data operand, the index of its root in a group of `size` members.

    Raises:
        EvaluationError: A root is not in the group.
    """
    if not op.has_dynamic_root:
        return [0] * len(operands)
    roots = [int(root) for root in operands[-1]]
    if any(not 0 <= root < size for root in roots):
        raise EvaluationError(f"`{op.name}` has roots {roots} in a group of {size}")
    return roots


@evaluates(CollectiveBroadcast)
def _collective_broadcast(op: CollectiveBroadcast, at: Site) -> Kernel:
    """Return the kernel of `collective_broadcast`; processes in no group get zeros."""
    group = _group(op, at.world)
    if group is None:

        def nothing(*operands: Any) -> Value:
            return at.value(tuple(map(np.zeros_like, _data(op, operands))))

        return nothing
    size = len(group)

    def own_results(parts: Parts, place: int, operands: tuple[Any, ...]) -> tuple[Value, ...]:
        return tuple([parts[root][k] for k, root in enumerate(_roots(op, operands, size))])

    return _exchange(op, at, lambda parts, _: parts, own_results)


# --------------------------------------------------------------------------------------------------
# `collective_permute`: values sent from device to device, whole or slice by slice.
#
# HLO's in-place form has four operands: the buffers to send, the buffers to write, the starts of
# the slices to send, and the starts of the slices to write.  Buffers are an array or a tuple of
# arrays. The starts of one slice are a tuple of integers, those of several slices a tuple of such
# tuples. Source: StableHLO spec `collective_permute`; XLA `hlo_verifier.cc`,
# `CheckInplaceCollectivePermute`.


class _Queues:
    """The queues through which one process of a `collective_permute` sends and receives values.

    Raises:
        EvaluationError: A pair names a device that is not in the grid.
    """

    def __init__(self, op: CollectivePermute, at: Site) -> None:
        self._process, self._ins = process_of(at.world), at.ins
        replica, partition = self._process.id
        me, fixed = (partition, replica) if op.has_channel else (replica, partition)
        grid = self._process.grid
        kind, count = "replica", grid.replicas
        if op.has_channel:
            kind, count = "partition", grid.partitions
        strangers = [number for pair in op.pairs for number in pair if not 0 <= number < count]
        if strangers:
            raise EvaluationError(f"`{op.name}` names {kind} {strangers[0]}, there are {count}")
        line = op.name, op.channel_id or 0, fixed
        sources = [source for source, target in op.pairs if target == me]
        self._sent = [(*line, me, target) for source, target in op.pairs if source == me]
        self._received = (*line, sources[0], me) if sources else None
        self._sender = f"{kind} {sources[0]}" if sources else ""

    def exchange(self, values: tuple[Value, ...]) -> tuple[Value, ...] | None:
        """Send values; return those sent to this process, or `None` if no process sends to it.

        Sending never waits, so a cycle of processes cannot deadlock; receiving waits.
        """
        for key in self._sent:
            self._process.post(key, self._ins, values)
        if self._received is None:
            return None
        return self._process.take(self._received, self._ins, self._sender)


@evaluates(CollectivePermute)
def _collective_permute(op: CollectivePermute, at: Site) -> Kernel:
    """Return the kernel of `collective_permute`; a process that receives nothing gets zeros."""
    mail = _Queues(op, at)
    if is_in_place(tuple([o.type for o in at.ins.operands])):
        return _in_place(op, mail)
    check_arrays(op, at)

    def kernel(*operands: Any) -> Value:
        found = mail.exchange(operands)
        return at.value(tuple(map(np.zeros_like, operands)) if found is None else found)

    return kernel


def _in_place(op: CollectivePermute, mail: _Queues) -> Kernel:
    """Return the kernel of a permute with buffers, whose slices are updated by received values.

    A process that receives nothing returns its buffers unchanged. `mail` sends and receives.

    Raises:
        UnsupportedError: A device receives from several devices.
    """
    targets = [target for _, target in op.pairs]
    if len(set(targets)) < len(targets):
        raise UnsupportedError(f"`{op.name}` in place in which a device receives from several")
    sizes = op.slice_sizes.rows

    def kernel(sent: Any, into: Any, there: Any, here: Any) -> Value:
        windows = _windows(sent, there, sizes)
        found = mail.exchange(tuple([buffer[window] for buffer, window in windows]))
        if found is None:
            return into  # type: ignore[no-any-return]
        result = tuple(map(np.array, into)) if isinstance(into, tuple) else np.array(into)
        for (buffer, window), part in zip(_windows(result, here, sizes), found, strict=True):
            buffer[window] = part
        return result

    return kernel


Window = tuple[slice, ...]


def _windows(buffers: Any, starts: Any, sizes: Sequence[Dims]) -> list[tuple[Array, Window]]:
    """Return, for each slice of one or several buffers, its buffer and its index ranges.

    Args:
        buffers: A buffer, or a tuple of buffers.
        starts: Start indices of each slice.
        sizes: Shape of each slice.

    Raises:
        EvaluationError: Numbers of starts and sizes differ, or a slice is not inside its buffer.
    """
    parts = [(buffers, starts)]
    if isinstance(buffers, tuple):
        _check_count("buffers", len(buffers), starts)
        parts = [*zip(buffers, starts, strict=True)]
    found = [(buffer, first) for buffer, some in parts for first in _starts(some)]
    if len(found) != len(sizes):
        raise EvaluationError(f"{len(found)} slices have {len(sizes)} `slice_sizes`")
    return [
        (buffer, _window(buffer, first, size))
        for (buffer, first), size in zip(found, sizes, strict=True)
    ]


def _check_count(what: str, count: int, starts: Any) -> None:
    """Raise an `EvaluationError` unless `starts` has `count` entries; `what` names them."""
    if not isinstance(starts, tuple) or len(starts) != count:
        raise EvaluationError(f"there are {count} {what}, and another number of starts")


def _starts(starts: Any) -> Iterator[tuple[Any, ...]]:
    """Yield, for each slice of one buffer, its start indices."""
    if not isinstance(starts, tuple):
        yield (starts,)
    elif starts and all(isinstance(some, tuple) for some in starts):
        yield from starts
    else:
        yield starts


def _window(buffer: Array, starts: tuple[Any, ...], sizes: Dims) -> Window:
    """Return the index ranges of the slice of shape `sizes` at `starts`.

    Raises:
        EvaluationError: The slice is not inside its buffer.
    """
    _check_count("dimensions", buffer.ndim, starts)
    _check_count("dimensions", buffer.ndim, sizes)
    if any(isinstance(start, tuple) for start in starts):
        raise EvaluationError("starts of slices are nested in more tuples than there are buffers")
    firsts = [int(start) for start in starts]
    for first, size, whole in zip(firsts, sizes, buffer.shape, strict=True):
        if not 0 <= first <= whole - size:
            raise EvaluationError(f"{size} elements from {first} on are not in the {whole} there")
    return tuple([slice(first, first + size) for first, size in zip(firsts, sizes, strict=True)])
