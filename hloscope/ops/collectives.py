"""Ops that talk to other devices."""

from __future__ import annotations

from dataclasses import dataclass

from hloscope.ops.base import Op, Pairs, op


@dataclass(frozen=True, slots=True)
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
@dataclass(frozen=True, slots=True)
class AllGather(Collective):
    """Concatenates the operands of a group along `all_gather_dim`."""

    all_gather_dim: int = 0


@op("all_reduce")
@dataclass(frozen=True, slots=True)
class AllReduce(Collective):
    """Reduces the operands of a group element by element.  Calls: the body."""


@op("collective_reduce")
@dataclass(frozen=True, slots=True)
class CollectiveReduce(Collective):
    """`all_reduce` whose result only one member of each group keeps.  Calls: the body."""


@op("reduce_scatter")
@dataclass(frozen=True, slots=True)
class ReduceScatter(Collective):
    """`all_reduce`, then each member keeps its part along `scatter_dimension`."""

    scatter_dimension: int = 0


@op("all_to_all")
@dataclass(frozen=True, slots=True)
class AllToAll(Collective):
    """Splits along `split_dimension`, exchanges, concatenates along `concat_dimension`.

    HLO's tuple form (one operand per member) has no dimension.
    """

    split_dimension: int | None = None
    concat_dimension: int | None = None
    split_count: int | None = None


@op("collective_broadcast")
@dataclass(frozen=True, slots=True)
class CollectiveBroadcast(Collective):
    """The first member's value for all."""


@op("collective_permute")
@dataclass(frozen=True, slots=True)
class CollectivePermute(Collective):
    """Sends along `source_target_pairs`; who receives nothing gets zeros."""

    source_target_pairs: Pairs = ()


@op("ragged_all_to_all")
@dataclass(frozen=True, slots=True)
class RaggedAllToAll(Collective):
    """`all_to_all` with sizes and offsets given at run time."""


@op("partition_id")
@dataclass(frozen=True, slots=True)
class PartitionId(Op):
    """Number of this partition."""


@op("replica_id")
@dataclass(frozen=True, slots=True)
class ReplicaId(Op):
    """Number of this replica."""


@op("cross-replica-sum")
@dataclass(frozen=True, slots=True)
class CrossReplicaSum(Op):
    """StableHLO's old `cross-replica-sum`."""

    replica_groups: str = ""


@op("send")
@dataclass(frozen=True, slots=True)
class Send(Op):
    """Sends data on a channel."""

    channel_id: int | None = None
    is_host_transfer: bool = False
    settings: tuple[tuple[str, str], ...] = ()


@op("send-done")
@dataclass(frozen=True, slots=True)
class SendDone(Op):
    """Ends a send (HLO)."""

    channel_id: int | None = None
    is_host_transfer: bool = False
    settings: tuple[tuple[str, str], ...] = ()


@op("recv")
@dataclass(frozen=True, slots=True)
class Recv(Op):
    """Receives data on a channel."""

    channel_id: int | None = None
    is_host_transfer: bool = False
    settings: tuple[tuple[str, str], ...] = ()


@op("recv-done")
@dataclass(frozen=True, slots=True)
class RecvDone(Op):
    """Ends a recv (HLO)."""

    channel_id: int | None = None
    is_host_transfer: bool = False
    settings: tuple[tuple[str, str], ...] = ()


@op("infeed")
@dataclass(frozen=True, slots=True)
class Infeed(Op):
    """Reads from the host."""

    infeed_config: str = ""
    settings: tuple[tuple[str, str], ...] = ()


@op("outfeed")
@dataclass(frozen=True, slots=True)
class Outfeed(Op):
    """Writes to the host."""

    outfeed_config: str = ""
    settings: tuple[tuple[str, str], ...] = ()
