"""Ops that talk to other devices."""

from __future__ import annotations

from hloscope.errors import VerifyError
from hloscope.ir.types import TensorType, TokenType, TupleType
from hloscope.ops.base import Callee, Op, Pairs, Type, op
from hloscope.ops.infer_util import (
    U32,
    array,
    bare,
    count,
    extents,
    kind,
    packed,
    require,
    resized,
    tensors,
)


class Collective(Op):
    """Base: who takes part, and on which channel.

    Attributes:
        replica_groups: As written, in any of the three notations (lists, iota, mesh axes);
            `hlo_parser.replica_groups` reads it.
        channel_id: Channel, or `None`.
        use_global_device_ids: Groups hold flattened device ids.
        settings: Everything else that has no meaning for the data, as written.
    """

    replica_groups: str = ""
    channel_id: int | None = None
    use_global_device_ids: bool = False
    settings: tuple[tuple[str, str], ...] = ()


@op("all_gather")
class AllGather(Collective):
    """Concatenates the operands of a group along `all_gather_dim`."""

    all_gather_dim: int = 0


@op("all_reduce")
class AllReduce(Collective):
    """Reduces the operands of a group element by element.  Calls: the body."""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        return packed(tensors(self.name, operands))


@op("collective_reduce")
class CollectiveReduce(Collective):
    """`all_reduce` whose result only one member of each group keeps.  Calls: the body."""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        return packed(tensors(self.name, operands))


@op("reduce_scatter")
class ReduceScatter(Collective):
    """`all_reduce`, then each member keeps its part along `scatter_dimension`."""

    scatter_dimension: int = 0


@op("all_to_all")
class AllToAll(Collective):
    """Splits along `split_dimension`, exchanges, concatenates along `concat_dimension`.

    HLO's tuple form (one operand per member) has no dimension.
    """

    split_dimension: int | None = None
    concat_dimension: int | None = None
    split_count: int | None = None

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        types = tensors(self.name, operands)
        if self.split_dimension is None or len(types) != 1:
            return packed(types)
        (t,), split = types, self.split_dimension
        concat = split if self.concat_dimension is None else self.concat_dimension
        for d, rule in ((split, "all_to_all_c1"), (concat, "all_to_all_c3")):
            require(0 <= d < t.rank, rule, f"dimension {d} is not in [0, {t.rank})")
        dims, number = extents(t), self.split_count
        if number is None:
            if concat != split:
                return Op.infer(self, operands, calls)
            return bare(t)
        require(number > 0, "all_to_all_c4", f"split_count {number}, needs at least 1")
        size = dims[split][0]
        require(
            size is None or size % number == 0,
            "all_to_all_c2",
            f"dimension {split}: size {size} is no multiple of {number}",
        )
        dims[split] = resized(dims[split], lambda n: n // number)
        dims[concat] = resized(dims[concat], lambda n: n * number)
        return array(t.element, dims)


@op("collective_broadcast")
class CollectiveBroadcast(Collective):
    """The first member's value for all."""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        return packed(tensors(self.name, operands))


@op("collective_permute")
class CollectivePermute(Collective):
    """Sends along `source_target_pairs`; who receives nothing gets zeros."""

    source_target_pairs: Pairs = ()

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        if len(operands) == 4 and not any(
            isinstance(t, TensorType) and t.rank for t in operands[2:]
        ):
            return bare(operands[1])  # HLO's form in place: input, output and their offsets
        return packed(tensors(self.name, operands))


@op("ragged_all_to_all")
class RaggedAllToAll(Collective):
    """`all_to_all` with sizes and offsets given at run time."""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 6)
        return bare(operands[1])


@op("partition_id")
class PartitionId(Op):
    """Number of this partition."""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 0)
        return array(U32, ())


@op("replica_id")
class ReplicaId(Op):
    """Number of this replica."""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 0)
        return array(U32, ())


@op("cross-replica-sum")
class CrossReplicaSum(Op):
    """StableHLO's old `cross-replica-sum`."""

    replica_groups: str = ""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        return packed(tensors(self.name, operands))


@op("send")
class Send(Op):
    """Sends data on a channel."""

    channel_id: int | None = None
    is_host_transfer: bool = False
    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 2)
        return TupleType((bare(operands[0]), array(U32, ()), TokenType()))


@op("send-done")
class SendDone(Op):
    """Ends a send (HLO)."""

    channel_id: int | None = None
    is_host_transfer: bool = False
    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1)
        return TokenType()


@op("recv")
class Recv(Op):
    """Receives data on a channel."""

    channel_id: int | None = None
    is_host_transfer: bool = False
    settings: tuple[tuple[str, str], ...] = ()


@op("recv-done")
class RecvDone(Op):
    """Ends a recv (HLO)."""

    channel_id: int | None = None
    is_host_transfer: bool = False
    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1)
        match bare(operands[0]):
            case TupleType((data, _, token)):
                return TupleType((data, token))
            case other:
                raise VerifyError(
                    f"the operand of `recv-done` is a {kind(other)}, needs a recv's tuple"
                )


@op("infeed")
class Infeed(Op):
    """Reads from the host."""

    infeed_config: str = ""
    settings: tuple[tuple[str, str], ...] = ()


@op("outfeed")
class Outfeed(Op):
    """Writes to the host."""

    outfeed_config: str = ""
    settings: tuple[tuple[str, str], ...] = ()

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1, at_least=True)
        return TokenType()
