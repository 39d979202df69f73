"""Ops that talk to other devices.

In both directions a map relates an output element and an operand element.  `Access.replica`, from
the same variables, says which member of the group holds the operand, by its position in the group.
Where the position of the member that holds the output matters, it is a runtime variable without
origin.
"""

from __future__ import annotations

from hloscope.affine import Const, Dim, Expr
from hloscope.errors import UnsupportedError
from hloscope.hlo_parser.replica_groups import read_replica_groups
from hloscope.indexing.access import Access, Accesses, Precision
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.rules.build import (
    NEVER,
    MapBuilder,
    all_output_sizes,
    dims,
    everything_map,
    exact,
    identity,
    identity_map,
    leaves,
    output_sizes,
    over,
    sizes,
)
from hloscope.indexing.rules.registry import input_to_output, missing, output_to_input
from hloscope.ir.graph import Instruction
from hloscope.ir.types import Dims, TupleType
from hloscope.ops.collectives import (
    AllGather,
    AllToAll,
    Collective,
    CollectiveBroadcast,
    CollectivePermute,
    CollectiveReduce,
    PartitionId,
    RaggedAllToAll,
    ReduceScatter,
    ReplicaId,
    Rooted,
)
from hloscope.ops.groups import Table
from hloscope.ops.transfers import Infeed, Outfeed


def _pairwise(ins: Instruction, number: int, found: Accesses) -> tuple[Accesses, ...]:
    """One entry per operand: each operand has its own output."""
    return tuple(found if k == number else NEVER for k in range(len(ins.operands)))


def _on(at: MapBuilder, results: list[Expr], member: Expr) -> Accesses:
    """An access of an element on a member of the group."""
    found = at.map(results)
    return (Access(found, replica=at.map([member])),)


def _part(index: Expr, size: int) -> tuple[Expr, Expr]:
    """Which part of the given size an index lies in, and where in it."""
    return (index // size, index % size) if size else (Const(0), Const(0))


@output_to_input(AllGather)
def _(ins: Instruction, op: AllGather, output: int) -> tuple[Accesses, ...]:
    source = sizes(ins.operands[output].type)
    at = MapBuilder(output_sizes(ins, output))
    results, k = dims(len(source)), op.all_gather_dim
    size = source[k]
    member, results[k] = _part(Dim(k), size)
    return _pairwise(ins, output, _on(at, results, member))


@input_to_output(AllGather)
def _(ins: Instruction, op: AllGather, operand: int) -> tuple[Accesses, ...]:
    source, target = sizes(ins.operands[operand].type), all_output_sizes(ins)[operand]
    at = MapBuilder(source)
    results, k = dims(len(source)), op.all_gather_dim
    member = at.range(target[k] // source[k] if source[k] else 0)
    results[k] = member * source[k] + Dim(k)
    return _pairwise(ins, operand, _on(at, results, member))


@output_to_input(ReduceScatter)
def _(ins: Instruction, op: ReduceScatter, output: int) -> tuple[Accesses, ...]:
    """Each member of the group is read where this device's part is."""
    source, target = sizes(ins.operands[output].type), output_sizes(ins, output)
    at = MapBuilder(target)
    results, k = dims(len(target)), op.scatter_dimension
    members = source[k] // target[k] if target[k] else 0
    results[k] = at.read(0, members - 1, None) * target[k] + Dim(k)
    return _pairwise(ins, output, _on(at, results, at.range(members)))


@input_to_output(ReduceScatter)
def _(ins: Instruction, op: ReduceScatter, operand: int) -> tuple[Accesses, ...]:
    source, target = sizes(ins.operands[operand].type), all_output_sizes(ins)[operand]
    at = MapBuilder(source)
    results, k = dims(len(source)), op.scatter_dimension
    members = source[k] // target[k] if target[k] else 0
    results[k] = Dim(k) - at.read(0, members - 1, None) * target[k]
    at.require(results[k], 0, target[k] - 1)
    return _pairwise(ins, operand, _on(at, results, at.range(members)))


# All-to-all: member `q` gets part `q` of everybody, in the order of the members.


def _group_size(op: AllToAll, source: Dims, target: Dims) -> int:
    split, concat = op.split_dimension, op.concat_dimension
    if op.split_count:
        return op.split_count
    if split is not None and concat is not None and split != concat and target[split]:
        return source[split] // target[split]
    return _members(op, "an all-to-all")


def _members(op: Collective, what: str) -> int:
    """Size of the groups."""
    written = op.replica_groups
    if isinstance(written, str) and written.startswith("#"):
        raise UnsupportedError(f"{what} along axes of a mesh, whose sizes are not written")
    groups = written.rows if isinstance(written, Table) else read_replica_groups(written)
    if not groups:
        raise UnsupportedError(f"{what} among all devices, whose number is not written")
    return len(groups[0])


def _received(op: AllToAll, target: Dims, group: int) -> Accesses:
    """Part `i` of an output is from member `i`, from where this device's part is there."""
    split, concat = _split_and_concat(op)
    at = MapBuilder(target)
    mine = at.read(0, group - 1, None)
    results = dims(len(target))
    part = target[concat] // group
    member, results[concat] = _part(Dim(concat), part)
    results[split] = mine * (part if split == concat else target[split]) + results[split]
    return _on(at, results, member)


def _sent(op: AllToAll, source: Dims, group: int) -> Accesses:
    """The inverse of `_received`."""
    split, concat = _split_and_concat(op)
    at = MapBuilder(source)
    mine, member = at.read(0, group - 1, None), at.range(group)
    results = dims(len(source))
    length = source[split] // group
    results[split] = Dim(split) - mine * length
    at.require(results[split], 0, length - 1)
    part = length if split == concat else source[concat]
    results[concat] = member * part + results[concat]
    return _on(at, results, member)


def _split_and_concat(op: AllToAll) -> tuple[int, int]:
    split = op.split_dimension or 0
    return split, split if op.concat_dimension is None else op.concat_dimension


def _is_tuple_form(ins: Instruction, op: AllToAll) -> bool:
    several = isinstance(ins.type, TupleType) and len(ins.operands) > 1
    return op.split_dimension is None or (several and op.split_count is None)


def _member_to_member(shape: Dims, operand: int, output: int) -> Accesses:
    """The tuple form: operand `q` of member `p` is output `p` of member `q`."""
    at = MapBuilder(shape)
    at.read(operand, operand, None)
    return _on(at, dims(len(shape)), Const(output))


@output_to_input(AllToAll)
def _(ins: Instruction, op: AllToAll, output: int) -> tuple[Accesses, ...]:
    target, count = output_sizes(ins, output), len(ins.operands)
    if _is_tuple_form(ins, op):
        return tuple(_member_to_member(target, k, output) for k in range(count))
    group = _group_size(op, sizes(ins.operands[output].type), target)
    return _pairwise(ins, output, _received(op, target, group))


@input_to_output(AllToAll)
def _(ins: Instruction, op: AllToAll, operand: int) -> tuple[Accesses, ...]:
    source, count = sizes(ins.operands[operand].type), len(ins.operands)
    if _is_tuple_form(ins, op):
        return tuple(_member_to_member(source, operand, k) for k in range(count))
    group = _group_size(op, source, all_output_sizes(ins)[operand])
    return _pairwise(ins, operand, _sent(op, source, group))


# Whole values from another device.


def _from_member(shape: Dims, first: int, last: int) -> Accesses:
    at = MapBuilder(shape)
    member = Const(first) if first == last else at.read(first, last, None)
    return _on(at, dims(len(shape)), member)


@output_to_input(CollectivePermute)
@input_to_output(CollectivePermute)
def _(ins: Instruction, op: CollectivePermute, number: int) -> tuple[Accesses, ...]:
    """From the device that sends to this one; others have zeros."""
    if len(ins.operands) != len(leaves(ins.type)):
        raise UnsupportedError("a collective that writes into a slice of an operand")
    sources = [source for source, _ in op.pairs]
    if not sources:
        return _pairwise(ins, number, NEVER)
    shape = sizes(ins.operands[number].type)
    return _pairwise(ins, number, _from_member(shape, min(sources), max(sources)))


# One member of each group is its root: the first one, or the one that the last operand names for
# each of the others.


def _sent_by_root(ins: Instruction, op: Rooted, number: int) -> Accesses:
    """The value of operand and output `number`, on the members whose it is."""
    shape = sizes(ins.operands[number].type)
    if isinstance(op, CollectiveReduce):
        return identity(shape)
    if not op.has_dynamic_root:
        return _from_member(shape, 0, 0)
    at = MapBuilder(shape)
    root = at.read(0, _members(op, "a broadcast") - 1, ins.operands[-1], [Const(number)])
    return _on(at, dims(len(shape)), root)


@output_to_input(CollectiveBroadcast, CollectiveReduce, memo=False)
def _(ins: Instruction, op: Rooted, output: int) -> tuple[Accesses, ...]:
    found = list(_pairwise(ins, output, _sent_by_root(ins, op, output)))
    if op.has_dynamic_root:
        found[-1] = _here(op, MapBuilder(output_sizes(ins, output)), [Const(output)])
    return tuple(found)


@input_to_output(CollectiveBroadcast, CollectiveReduce, memo=False)
def _(ins: Instruction, op: Rooted, operand: int) -> tuple[Accesses, ...]:
    targets = all_output_sizes(ins)
    if not op.has_dynamic_root or operand < len(targets):
        data = _sent_by_root(ins, op, operand)
        return tuple(data if k == operand else NEVER for k in range(len(targets)))
    roots = sizes(ins.operands[operand].type)
    return tuple(_from_root(op, roots, k, target) for k, target in enumerate(targets))


def _from_root(op: Rooted, roots: Dims, number: int, target: Dims) -> Accesses:
    """What the number of the root for output `number` influences: all of it."""
    at = MapBuilder(roots)
    at.require(Dim(0), number, number)
    return _here(op, at, [at.range(size) for size in target])


def _here(op: Rooted, at: MapBuilder, results: list[Expr]) -> Accesses:
    """An access on the device itself."""
    if isinstance(op, CollectiveReduce):
        return exact(at.map(results))
    return _on(at, results, at.read(0, _members(op, "a broadcast") - 1, None))


_RAGGED = "which rows are exchanged depends on sizes and offsets known at run time"


def _rows(here: Dims, there: Dims) -> IndexingMap:
    """Any row, at the same place within the row."""
    at = MapBuilder(here)
    rest = list(zip(dims(len(here))[1:], there[1:], strict=True))
    return at.map([at.range(there[0]), *[e for e, _ in rest]])


@output_to_input(RaggedAllToAll, precision=Precision.OVER, reason=_RAGGED)
def _(ins: Instruction, op: RaggedAllToAll, output: int) -> tuple[Accesses, ...]:
    """Operands: input, initial output, and four vectors of offsets and sizes."""
    target = sizes(ins.type)
    source, _, *vectors = ins.operands
    return (
        over(_RAGGED, _rows(target, sizes(source.type))),
        over(_RAGGED, identity_map(target)),
        *(over(_RAGGED, everything_map(target, sizes(v.type))) for v in vectors),
    )


@input_to_output(RaggedAllToAll, precision=Precision.OVER, reason=_RAGGED)
def _(ins: Instruction, op: RaggedAllToAll, operand: int) -> tuple[Accesses, ...]:
    source, target = sizes(ins.operands[operand].type), sizes(ins.type)
    if operand == 0:
        return (over(_RAGGED, _rows(source, target)),)
    if operand == 1:
        return (over(_RAGGED, identity_map(target)),)
    return (over(_RAGGED, everything_map(source, target)),)


@output_to_input(PartitionId, ReplicaId)
def _(ins: Instruction, op: PartitionId | ReplicaId, output: int) -> tuple[Accesses, ...]:
    return ()


@input_to_output(PartitionId, ReplicaId)
def _(ins: Instruction, op: PartitionId | ReplicaId, operand: int) -> tuple[Accesses, ...]:
    return (NEVER,) * len(leaves(ins.type))


missing(Infeed, Outfeed, reason="data from or to the host")
