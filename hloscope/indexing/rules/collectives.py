"""Rules for collectives: ops that exchange values between devices.

In both directions a map relates an output element on one device to an operand element.
`Access.replica`, over the same variables, is the position of the member that holds the operand, in
the group of the output's device. A position that the group does not have means no element. If the
position of the device itself matters, it is a runtime variable. An access without `replica` is on
the same device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from hloscope.affine import POS_INF, Const, Dim, Expr
from hloscope.errors import UnsupportedError
from hloscope.indexing.access import Access, Accesses, DeviceCounts, Precision, groups_of
from hloscope.indexing.rules.dependence import Bodies, Dependence, Use, weakened_by_use
from hloscope.indexing.rules.registry import (
    NEVER,
    Instances,
    MapBuilder,
    all_output_sizes,
    dims,
    everything,
    exact,
    identity,
    input_to_output,
    leaves,
    output_sizes,
    output_to_input,
    over,
    reads_bodies,
    sizes,
)
from hloscope.ir import Dims, Instruction, TupleType
from hloscope.ops import (
    AllGather,
    AllReduce,
    AllToAll,
    CollectiveBroadcast,
    CollectivePermute,
    CollectiveReduce,
    CrossReplicaSum,
    Pairs,
    PartitionId,
    RaggedAllToAll,
    ReduceScatter,
    ReplicaId,
    Rooted,
    is_in_place,
)


def _pairwise(ins: Instruction, number: int, found: Accesses) -> tuple[Accesses, ...]:
    """Return one entry per operand: `found` for operand `number`, no access for the others.

    For collectives whose output number `number` depends on operand number `number` only.
    """
    return tuple(found if k == number else NEVER for k in range(len(ins.operands)))


def _access_on_member(
    ins: Instruction, at: MapBuilder, results: Iterable[Expr], member: Expr, reason: str = ""
) -> Access:
    """Return an access of the element `results` on the member at position `member` of the group.

    With a reason the access is an over-approximation.
    """
    found, replica = at.map(results), at.map([member])
    precision = Precision.OVER if reason else Precision.EXACT
    return Access(found, precision, reason, replica, via=(ins,))


def _split_index(index: Expr, size: int) -> tuple[Expr, Expr]:
    """Return the number of the part that contains the index, and the index within that part.

    All parts have `size` indices. Both numbers are 0 for parts of size 0.
    """
    return (index // size, index % size) if size else (Const(0), Const(0))


@output_to_input(AllReduce, CrossReplicaSum, shared=False, bodies=True)
@input_to_output(AllReduce, CrossReplicaSum, shared=False, bodies=True)
def _(
    ins: Instruction, op: AllReduce | CrossReplicaSum, number: int, bodies: Bodies
) -> tuple[Accesses, ...]:
    """Return accesses of the same index on every member of the group.

    Operand and output correspond.
    """
    at = MapBuilder(sizes(ins.operands[number].type))
    found = _access_on_member(ins, at, dims(len(at.dims)), at.member(ins, groups_of(ins).size))
    return _pairwise(ins, number, weakened_by_use(_combined(ins, bodies), (found,)))


def _combined(ins: Instruction, bodies: Bodies) -> Use:
    """Return whether an output uses each member's element always, sometimes or never.

    The body combines two elements at a time, in any order.
    """
    body = bodies[0] if bodies else Dependence.of_everything(1, 2)
    if groups_of(ins).size == 1 or all(k in body.sure[0] for k in (0, 1)):
        return Use.ALWAYS
    return Use.SOMETIMES if body.reads[0] or not _is_shared(ins) else Use.NEVER


def _is_shared(ins: Instruction) -> bool:
    """Does every group have several members, so that the body is certainly applied?"""
    groups = groups_of(ins)
    return groups.size is not None and min(map(len, groups.rows)) > 1


@reads_bodies(AllReduce, ReduceScatter, CollectiveReduce)
def _(
    ins: Instruction, op: AllReduce | ReduceScatter | CollectiveReduce, output: int, bodies: Bodies
) -> Iterator[Instances]:
    if groups_of(ins).size != 1:
        use = Use.ALWAYS if _is_shared(ins) else Use.SOMETIMES
        yield Instances(0, 0, weakened_by_use(use, everything(output_sizes(ins, output), ())))


@output_to_input(AllGather, shared=False)
def _(ins: Instruction, op: AllGather, output: int) -> tuple[Accesses, ...]:
    """Return accesses of the gathered parts: each is the operand of one member."""
    source = sizes(ins.operands[output].type)
    at = MapBuilder(output_sizes(ins, output))
    results, k = dims(len(source)), op.all_gather_dim
    member, results[k] = _split_index(Dim(k), source[k])
    return _pairwise(ins, output, (_access_on_member(ins, at, results, member),))


@input_to_output(AllGather, shared=False)
def _(ins: Instruction, op: AllGather, operand: int) -> tuple[Accesses, ...]:
    source, target = sizes(ins.operands[operand].type), all_output_sizes(ins)[operand]
    at = MapBuilder(source)
    results, k = dims(len(source)), op.all_gather_dim
    member = at.range(target[k] // source[k] if source[k] else 0)
    results[k] = member * source[k] + Dim(k)
    return _pairwise(ins, operand, (_access_on_member(ins, at, results, member),))


@output_to_input(ReduceScatter, shared=False, bodies=True)
def _(ins: Instruction, op: ReduceScatter, output: int, bodies: Bodies) -> tuple[Accesses, ...]:
    """Return accesses of this device's part on each member of the group."""
    source, target = sizes(ins.operands[output].type), output_sizes(ins, output)
    at = MapBuilder(target)
    results, k = dims(len(target)), op.scatter_dimension
    members = source[k] // target[k] if target[k] else 0
    results[k] = at.position(ins, 0, members - 1, members) * target[k] + Dim(k)
    found = _access_on_member(ins, at, results, at.range(members))
    return _pairwise(ins, output, weakened_by_use(_combined(ins, bodies), (found,)))


@input_to_output(ReduceScatter, shared=False, bodies=True)
def _(ins: Instruction, op: ReduceScatter, operand: int, bodies: Bodies) -> tuple[Accesses, ...]:
    source, target = sizes(ins.operands[operand].type), all_output_sizes(ins)[operand]
    at = MapBuilder(source)
    results, k = dims(len(source)), op.scatter_dimension
    members = source[k] // target[k] if target[k] else 0
    results[k] = Dim(k) - at.position(ins, 0, members - 1, members) * target[k]
    at.require(results[k], 0, target[k] - 1)
    found = _access_on_member(ins, at, results, at.range(members))
    return _pairwise(ins, operand, weakened_by_use(_combined(ins, bodies), (found,)))


# All-to-all: member `q` gets part `q` of every member, in the order of the members.


def _group_size(
    ins: Instruction, op: AllToAll, source: Dims, target: Dims, counts: DeviceCounts
) -> int:
    size = _written_size(ins, op, source, target, counts)
    split, concat = _split_and_concat(op)
    if source[split] % size or target[concat] % size:
        raise UnsupportedError(f"an all-to-all of parts that {size} members cannot share")
    return size


def _written_size(
    ins: Instruction, op: AllToAll, source: Dims, target: Dims, counts: DeviceCounts
) -> int:
    """Return the number of members of a group, from the op, the types, or the device counts.

    `source` and `target` are the sizes of the operand and of the result.

    Raises:
        UnsupportedError: None of them states it.
    """
    split, concat = op.split_dimension, op.concat_dimension
    if op.split_count:
        return op.split_count
    if split is not None and concat is not None and split != concat and target[split]:
        return source[split] // target[split]
    groups = groups_of(ins)
    size = groups.size
    # No groups are written: one group of all devices.
    if size is None and not groups.rows and not groups.mesh:
        size = counts.along(groups.axis)
    if size is None:
        raise UnsupportedError("an all-to-all in a group whose size is not written")
    return size


def _received(ins: Instruction, op: AllToAll, target: Dims, group: int) -> Access:
    """Return the access from an output element of an all-to-all to the operand element it receives.

    Part `i` of the output is the part of member `i`'s operand that is numbered by this device's
    position. `target` has the sizes of the output, and `group` is the number of members.
    """
    split, concat = _split_and_concat(op)
    at = MapBuilder(target)
    mine = at.position(ins, 0, group - 1, group)
    results = dims(len(target))
    part = target[concat] // group
    member, results[concat] = _split_index(Dim(concat), part)
    results[split] = mine * (part if split == concat else target[split]) + results[split]
    return _access_on_member(ins, at, results, member)


def _sent(ins: Instruction, op: AllToAll, source: Dims, group: int) -> Access:
    """Return the access from an operand element of an all-to-all to the output elements it becomes.

    It is the inverse of `_received`. `source` has the sizes of the operand, and `group` is the
    number of members.
    """
    split, concat = _split_and_concat(op)
    at = MapBuilder(source)
    mine, member = at.position(ins, 0, group - 1, group), at.range(group)
    results = dims(len(source))
    length = source[split] // group
    results[split] = Dim(split) - mine * length
    at.require(results[split], 0, length - 1)
    part = length if split == concat else source[concat]
    results[concat] = member * part + results[concat]
    return _access_on_member(ins, at, results, member)


def _split_and_concat(op: AllToAll) -> tuple[int, int]:
    """Return the dimension that an all-to-all splits, and the one that it concatenates."""
    split = op.split_dimension or 0
    return split, split if op.concat_dimension is None else op.concat_dimension


def _is_tuple_form(ins: Instruction, op: AllToAll) -> bool:
    several = isinstance(ins.type, TupleType) and len(ins.operands) > 1
    return op.split_dimension is None or (several and op.split_count is None)


def _member_to_member(ins: Instruction, shape: Dims, operand: int, output: int) -> Accesses:
    """Return the access of an all-to-all of tuples between operand `operand` and output `output`.

    `shape` has the sizes of both. Operand `q` of member `p` is output `p` of member `q`.
    """
    at = MapBuilder(shape)
    at.position(ins, operand, operand, len(ins.operands))
    return (_access_on_member(ins, at, dims(len(shape)), Const(output)),)


@output_to_input(AllToAll, shared=False, counts=True)
def _(ins: Instruction, op: AllToAll, output: int, counts: DeviceCounts) -> tuple[Accesses, ...]:
    target, count = output_sizes(ins, output), len(ins.operands)
    if _is_tuple_form(ins, op):
        return tuple(_member_to_member(ins, target, k, output) for k in range(count))
    group = _group_size(ins, op, sizes(ins.operands[output].type), target, counts)
    return _pairwise(ins, output, (_received(ins, op, target, group),))


@input_to_output(AllToAll, shared=False, counts=True)
def _(ins: Instruction, op: AllToAll, operand: int, counts: DeviceCounts) -> tuple[Accesses, ...]:
    source, count = sizes(ins.operands[operand].type), len(ins.operands)
    if _is_tuple_form(ins, op):
        return tuple(_member_to_member(ins, source, operand, k) for k in range(count))
    group = _group_size(ins, op, source, all_output_sizes(ins)[operand], counts)
    return _pairwise(ins, operand, (_sent(ins, op, source, group),))


# Permutations: positions are the numbers of the devices themselves.


MAX_RUNS: Final = 64
"""Maximum number of runs of a collective-permute (see `_Run`) that have an access each.

With more, one access leads to any sender.
"""
_PAIRS: Final = f"which of more than {MAX_RUNS} senders sends to which device"


class _Run(NamedTuple):
    """Consecutive devices, each of which receives from a device at the same distance.

    `first` to `last` receive, and `source` sends to `first`.
    """

    first: int
    last: int
    source: int


def _runs(pairs: Pairs) -> list[_Run]:
    """Return the pairs `(sender, receiver)` as runs of consecutive receivers.

    If two senders send to one device, the first one counts.

    >>> _runs(((0, 1), (1, 2), (2, 0)))
    [_Run(first=0, last=0, source=2), _Run(first=1, last=2, source=0)]
    """
    senders: dict[int, int] = {}
    for source, target in pairs:
        senders.setdefault(target, source)
    found: list[_Run] = []
    for target, source in sorted(senders.items()):
        run = found[-1] if found else None
        if run and target == run.last + 1 and source == run.source + target - run.first:
            found[-1] = run._replace(last=target)
        else:
            found.append(_Run(target, target, source))
    return found


@output_to_input(CollectivePermute, shared=False)
@input_to_output(CollectivePermute, shared=False)
def _(ins: Instruction, op: CollectivePermute, number: int) -> tuple[Accesses, ...]:
    """Return accesses of the device that sends to this one.

    Devices without a sender receive zeros.
    """
    if is_in_place(tuple([o.type for o in ins.operands])):
        raise UnsupportedError("a collective that writes into a slice of an operand")
    shape, runs = sizes(ins.operands[number].type), _runs(op.pairs)
    if len(runs) > MAX_RUNS:
        at = MapBuilder(shape)
        senders = [source for source, _ in op.pairs]
        member = at.range(max(senders) - min(senders) + 1) + min(senders)
        found: Accesses = (_access_on_member(ins, at, dims(len(shape)), member, _PAIRS),)
    else:
        found = tuple(_received_from(ins, shape, run) for run in runs)
    return _pairwise(ins, number, found)


def _received_from(ins: Instruction, shape: Dims, run: _Run) -> Access:
    """Return the access to the same index on the sender, for the receivers of one run.

    `shape` has the sizes of the array.
    """
    at = MapBuilder(shape)
    mine = at.position(ins, run.first, run.last, None)
    sender = Const(run.source) if run.first == run.last else mine + (run.source - run.first)
    return _access_on_member(ins, at, dims(len(shape)), sender)


# One member of each group is its root: the first one, or the one whose number the last operand has,
# in one element for each of the other operands.


def _root(ins: Instruction, op: Rooted, at: MapBuilder, number: int) -> Expr:
    """Return the position, in its group, of the root of operand and output number `number`.

    It is 0, or a runtime variable of the builder `at` if the op has an operand with the roots.
    """
    if not op.has_dynamic_root:
        return Const(0)
    size = groups_of(ins).size
    return at.read(0, POS_INF if size is None else size - 1, ins.operands[-1], [Const(number)])


def _data(ins: Instruction, op: Rooted, number: int, bodies: Bodies) -> Accesses:
    """Return the accesses between operand and output number `number` of an op with a root.

    They are the same in both directions. `bodies` are the dependences of the reduction.
    """
    at = MapBuilder(sizes(ins.operands[number].type))
    results = dims(len(at.dims))
    if isinstance(op, CollectiveBroadcast):
        return (_access_on_member(ins, at, results, _root(ins, op, at, number)),)
    size = groups_of(ins).size
    if not op.has_dynamic_root:  # a dynamic root may be any member
        at.position(ins, 0, 0, size)
    return weakened_by_use(
        _combined(ins, bodies), (_access_on_member(ins, at, results, at.member(ins, size)),)
    )


@output_to_input(CollectiveBroadcast, CollectiveReduce, shared=False, bodies=True)
def _(ins: Instruction, op: Rooted, output: int, bodies: Bodies) -> tuple[Accesses, ...]:
    found = list(_pairwise(ins, output, _data(ins, op, output, bodies)))
    if op.has_dynamic_root:
        found[-1] = exact(MapBuilder(output_sizes(ins, output)).map([Const(output)]))
    return tuple(found)


@input_to_output(CollectiveBroadcast, CollectiveReduce, shared=False, bodies=True)
def _(ins: Instruction, op: Rooted, operand: int, bodies: Bodies) -> tuple[Accesses, ...]:
    targets = all_output_sizes(ins)
    if not op.has_dynamic_root or operand < len(targets):
        data = _data(ins, op, operand, bodies)
        return tuple(data if k == operand else NEVER for k in range(len(targets)))
    roots = sizes(ins.operands[operand].type)
    return tuple(_from_root(roots, k, target) for k, target in enumerate(targets))


def _from_root(roots: Dims, number: int, target: Dims) -> Accesses:
    """Return the access from the operand that holds the roots to output number `number`.

    Element `number` of the operand influences all elements of that output. `roots` has the sizes of
    the operand, `target` those of the output.
    """
    at = MapBuilder(roots)
    at.require(Dim(0), number, number)
    return exact(at.map([at.range(size) for size in target]))


_RAGGED = "which rows are exchanged depends on sizes and offsets known at run time"


def _rows(ins: Instruction, here: Dims, there: Dims) -> Access:
    """Return the access to elements of any row of any member.

    The index inside the row is unchanged. Rows are numbered by dimension 0. `here` and `there` are
    the sizes of the array that the access starts from and of the accessed one; they differ in
    dimension 0 only.
    """
    at = MapBuilder(here)
    results = [at.range(there[0]), *dims(len(here))[1:]]
    return _access_on_member(ins, at, results, at.member(ins, groups_of(ins).size), _RAGGED)


def _anything(ins: Instruction, here: Dims, there: Dims) -> Access:
    """Return the access from any element of an array to every element of another, of any member.

    `here` has the sizes of the array that the access starts from, `there` those of the accessed
    one.
    """
    at = MapBuilder(here)
    results = [at.range(size) for size in there]
    return _access_on_member(ins, at, results, at.member(ins, groups_of(ins).size), _RAGGED)


def _ragged(ins: Instruction, operand: int, here: Dims, there: Dims) -> Accesses:
    """Return the accesses between operand `operand` and the output of a ragged all-to-all.

    Operand 0 is the input, 1 the initial output; others are vectors of offsets or sizes. `here` and
    `there` are the sizes of the array that the access starts from and of the accessed one.
    """
    if operand == 0:
        return (_rows(ins, here, there),)
    if operand == 1:
        return over(_RAGGED, *[a.map for a in identity(here) if a.map is not None])
    return (_anything(ins, here, there),)


@output_to_input(RaggedAllToAll, shared=False, precision=Precision.OVER, reason=_RAGGED)
def _(ins: Instruction, op: RaggedAllToAll, output: int) -> tuple[Accesses, ...]:
    target, sources = sizes(ins.type), [sizes(o.type) for o in ins.operands]
    return tuple(_ragged(ins, k, target, source) for k, source in enumerate(sources))


@input_to_output(RaggedAllToAll, shared=False, precision=Precision.OVER, reason=_RAGGED)
def _(ins: Instruction, op: RaggedAllToAll, operand: int) -> tuple[Accesses, ...]:
    return (_ragged(ins, operand, sizes(ins.operands[operand].type), sizes(ins.type)),)


@output_to_input(PartitionId, ReplicaId)
def _(ins: Instruction, op: PartitionId | ReplicaId, output: int) -> tuple[Accesses, ...]:
    return ()


@input_to_output(PartitionId, ReplicaId)
def _(ins: Instruction, op: PartitionId | ReplicaId, operand: int) -> tuple[Accesses, ...]:
    return (NEVER,) * len(leaves(ins.type))
