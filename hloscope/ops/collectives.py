"""Collective ops, and ops that return the number of a device."""

from __future__ import annotations

from typing import ClassVar, Final

from hloscope.errors import Name, VerifyError, message_of
from hloscope.ir import Callees, Op, TensorType, TupleType, Type, Types
from hloscope.ops.groups import (
    NO_GROUPS,
    GroupRules,
    Groups,
    PairRules,
    Table,
    check_groups,
    check_pairs,
    check_senders,
    is_mlir_notation,
)
from hloscope.ops.inference import (
    S32,
    U32,
    Pairs,
    array,
    count,
    extents,
    leaves,
    may_be_one_size,
    op,
    packed,
    require,
    resized,
    returned,
    tensors,
    with_element,
    without_layouts,
)
from hloscope.ops.reduction import ReducerRules, check_reducer
from hloscope.ops.result_types import mismatch


class Collective(Op):
    """Base of collective ops.

    Attributes:
        replica_groups: Groups: a table or mesh axes in StableHLO; lists, an iota or a mesh in HLO.
        channel_id: Channel, or `None`.
        channel_type: StableHLO's number of the channel's kind, or `None`.
        use_global_device_ids: Whether groups list flattened device ids, instead of replicas or
            partitions.
        settings: Other attributes, as written; they do not affect the data.
    """

    replica_groups: Groups = NO_GROUPS
    channel_id: int | None = None
    channel_type: int | None = None
    use_global_device_ids: bool = False
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def has_channel(self) -> bool:
        """Does the op communicate between partitions?

        Source: StableHLO spec, "Collective ops".
        """
        return (self.channel_id or 0) > 0


def _check_channel(op: Collective, rule: str) -> None:
    """Check that the op has a channel if its groups list global device ids.

    `rule` is the label of the constraint.
    """
    channel = op.channel_id or 0
    require(
        not op.use_global_device_ids or channel > 0,
        rule,
        f"channel_id must be positive when useGlobalDeviceIds is set but got: {channel}",
    )


_ALL_GATHER: Final = GroupRules("all_gather_i3", "all_gather_c2", "all_gather_c4")


@op("all_gather")
class AllGather(Collective):
    """Concatenates the operands of a group along `all_gather_dim`.

    Source: StableHLO spec `all_gather` (C1)-(C6).
    """

    all_gather_dim: int = 0

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        check_groups(
            self.replica_groups,
            _ALL_GATHER,
            same_size=True,
            global_ids=self.use_global_device_ids,
        )
        require(
            not self.use_global_device_ids or (self.channel_id or 0) >= 0,
            "all_gather_c5",
            "channel_id cannot be negative when useGlobalDeviceIds is set",
        )
        pairs = zip(tensors(self.name, operands), tensors(self.name, results), strict=False)
        for operand, result in pairs:
            self._verify_one(operand, result)

    def _verify_one(self, operand: TensorType, result: TensorType) -> None:
        """Check the types of one operand and of the result that gathers it."""
        d = self.all_gather_dim
        require(
            0 <= d < operand.rank,
            "all_gather_c1",
            "all_gather_dim must be a valid index of operand",
        )
        require(
            operand.sizes[d] != 0,
            "all_gather_i1",
            "dimension size of operand at 'all_gather_dim' cannot be zero",
        )
        require(
            result.rank == operand.rank,
            "all_gather_c6",
            "operand and result must have the same rank",
        )
        sizes = list(zip(operand.sizes, result.sizes, strict=True))
        require(
            all(may_be_one_size(*pair) for i, pair in enumerate(sizes) if i != d),
            "all_gather_c6",
            "operand and result should have the same shape except for the dimension size at"
            " 'all_gather_dim'",
        )
        operand_size, result_size = sizes[d]
        require(
            operand_size is None or result_size is None or result_size % operand_size == 0,
            "all_gather_c6",
            f"result gather dimension has size {result_size}, expected to be a multiple of operand"
            f" gather dimension size {operand_size}",
        )


def _reduced(op: Collective, operands: list[TensorType], calls: Callees) -> Type:
    """Return the type of a reduction's result.

    It is that of the operands. In StableHLO the element types are those that the body returns.

    Args:
        op: The op.
        operands: Types of the operands.
        calls: The body, if there is one.
    """
    if not calls or not is_mlir_notation(op.replica_groups):
        return packed(operands)
    found = leaves(returned(op.name, calls))
    if not found or not isinstance(found[0], TensorType):
        raise VerifyError(f"the body of `{op.name}` returns no array")
    return packed(with_element(t, found[0].element) for t in operands)


def _check_body(
    op: Collective, operands: list[TensorType], calls: Callees, rules: ReducerRules
) -> None:
    """Check the body of a reduction once for each operand type."""
    for operand in operands if calls else ():
        check_reducer(calls[0], [operand], [array(operand.element, ())], (), rules)


_ALL_REDUCE: Final = GroupRules("all_reduce_i2", "all_reduce_c1", "all_reduce_c3")
_ALL_REDUCE_BODY: Final = ReducerRules("all_reduce_c5")


@op("all_reduce")
class AllReduce(Collective):
    """Reduces the operands of a group element by element.  Callee: the body.

    Source: StableHLO spec `all_reduce` (C1)-(C7).
    """

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        return _reduced(self, tensors(self.name, operands), calls)

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        if is_mlir_notation(self.replica_groups):
            check_groups(
                self.replica_groups,
                _ALL_REDUCE,
                same_size=False,
                global_ids=self.use_global_device_ids,
            )
            _check_channel(self, "all_reduce_c4")
            _check_body(self, tensors(self.name, operands), calls, _ALL_REDUCE_BODY)
        super().verify(operands, results, calls)

    def broken_rule(self, inferred: Types, declared: Types) -> str:
        return mismatch(
            inferred,
            declared,
            number="all_reduce_c6",
            sizes="all_reduce_c6",
            element="all_reduce_c7",
        )


class Rooted(Collective):
    """Base of collectives with a root device in each group.

    Attributes:
        has_dynamic_root: Whether the last operand is a vector with the index of the root in the
            group, one for each of the other operands.  Otherwise the root is the first device of
            the group.
    """

    has_dynamic_root: bool = False

    def data(self, operands: Types) -> Types:
        """Return the operand types without that of the root indices."""
        return operands[:-1] if self.has_dynamic_root else operands

    def _check_root(self, operands: Types, data_rule: str, root_rule: str) -> None:
        """Check that there are data operands, and one root index for each of them.

        Args:
            operands: Types of all operands.
            data_rule: Label of the constraint on the data operands.
            root_rule: Label of the constraint on the root indices.
        """
        name = Name(self.name)
        if not self.has_dynamic_root:
            message = message_of("{} requires at least one data operand", name)
            require(bool(operands), data_rule, message)
            return
        that = message_of("{} with has_dynamic_root=true", name)
        message = message_of("{} requires at least two operands (data + root)", that)
        require(len(operands) >= 2, root_rule, message)
        needed, root = len(operands) - 1, operands[-1]
        require(
            isinstance(root, TensorType) and root.rank == 1 and root.element == S32,
            root_rule,
            message_of("last operand of {} must be a rank-1 i32 tensor", that),
        )
        assert isinstance(root, TensorType)
        size = root.sizes[0]
        require(
            may_be_one_size(size, needed),
            root_rule,
            message_of(
                "last operand of {} must have the same number of elements as data operands"
                f" ({needed}), but got {size}",
                that,
            ),
        )


_COLLECTIVE_REDUCE: Final = GroupRules(
    "collective_reduce_i2", "collective_reduce_c1", "collective_reduce_c3"
)
_COLLECTIVE_REDUCE_BODY: Final = ReducerRules("collective_reduce_c5")


@op("collective_reduce")
class CollectiveReduce(Rooted):
    """`all_reduce` whose result only the root of each group gets.  Callee: the body."""

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        return _reduced(self, tensors(self.name, self.data(operands)), calls)

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        if is_mlir_notation(self.replica_groups):
            self._check_root(operands, "collective_reduce_i1", "collective_reduce_i6")
            check_groups(
                self.replica_groups,
                _COLLECTIVE_REDUCE,
                same_size=False,
                global_ids=self.use_global_device_ids,
            )
            _check_channel(self, "collective_reduce_c4")
            data = tensors(self.name, self.data(operands))
            _check_body(self, data, calls, _COLLECTIVE_REDUCE_BODY)
        super().verify(operands, results, calls)

    def broken_rule(self, inferred: Types, declared: Types) -> str:
        return mismatch(
            inferred,
            declared,
            number="collective_reduce_c6",
            sizes="collective_reduce_c6",
            element="collective_reduce_c7",
        )


_REDUCE_SCATTER: Final = GroupRules("reduce_scatter_i3", "reduce_scatter_c3", "reduce_scatter_c5")
_REDUCE_SCATTER_BODY: Final = ReducerRules("reduce_scatter_c7")


@op("reduce_scatter")
class ReduceScatter(Collective):
    """`all_reduce` whose members each get a part along `scatter_dimension`.  Callee: the body.

    Source: StableHLO spec `reduce_scatter` (C1)-(C9).
    """

    scatter_dimension: int = 0

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        if not is_mlir_notation(self.replica_groups):
            return
        check_groups(
            self.replica_groups,
            _REDUCE_SCATTER,
            same_size=True,
            global_ids=self.use_global_device_ids,
        )
        count(self.name, operands, 1)
        (operand,), declared = tensors(self.name, operands), tensors(self.name, results)
        require(len(declared) == 1, "", f"`reduce_scatter` has {len(declared)} results, needs 1")
        (result,) = declared
        _check_body(self, [operand], calls, _REDUCE_SCATTER_BODY)
        d = self.scatter_dimension
        require(
            operand.rank == result.rank,
            "reduce_scatter_c8",
            "operand and result should have same rank",
        )
        require(
            0 <= d < operand.rank,
            "reduce_scatter_c2",
            "scatter dim should be less than operand/result rank",
        )
        _check_channel(self, "reduce_scatter_c6")
        _check_parts(list(zip(operand.sizes, result.sizes, strict=True)), d)
        accumulated = leaves(returned(self.name, calls))[0] if calls else result
        if isinstance(accumulated, TensorType):
            wanted, found = accumulated.element, result.element
            require(
                wanted == found,
                "reduce_scatter_c9",
                message_of("result element-type is expected to be {}, but got {}", wanted, found),
            )


def _check_parts(sizes: list[tuple[int | None, int | None]], d: int) -> None:
    """Check the sizes of operand and result, whose dimension `d` is divided among the group.

    `sizes` has the pair (operand size, result size) of each dimension.
    """
    whole, part = sizes[d]
    if whole is None or part is None:
        return
    for name, size in (("result", part), ("operand", whole)):
        require(
            size != 0,
            "reduce_scatter_c8",
            f"{name} dimension size at scatter_dimension cannot be zero",
        )
    require(
        whole % part == 0,
        "reduce_scatter_c1",
        f"operand scatter dimension has size {whole}, expected to be a multiple of result scatter"
        f" dimension size {part}",
    )
    for i, (operand_size, result_size) in enumerate(sizes):
        require(
            i == d or may_be_one_size(operand_size, result_size),
            "reduce_scatter_c8",
            f"non scatter dimensions should be same for operand ({operand_size}) and result"
            f" ({result_size})",
        )


_ALL_TO_ALL: Final = GroupRules("all_to_all_i5", "all_to_all_c5", "all_to_all_c7", "all_to_all_c8")


@op("all_to_all")
class AllToAll(Collective):
    """Splits along `split_dimension`, exchanges, concatenates along `concat_dimension`.

    HLO's tuple form, with one operand per member, has no dimensions.
    Source: StableHLO spec `all_to_all` (C1)-(C9).
    """

    result_rule: ClassVar[str] = "all_to_all_c9"
    split_dimension: int | None = None
    concat_dimension: int | None = None
    split_count: int | None = None

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        types = tensors(self.name, operands)
        number, split = self.split_count, self.split_dimension
        concat = split if self.concat_dimension is None else self.concat_dimension
        if split is None or concat is None:
            return packed(types)
        if number is None:
            if concat != split:
                return Op.infer(self, operands, calls)
            return packed(types)
        require(number > 0, "all_to_all_c4", f"split_count {number}, needs at least 1")
        check_groups(self.replica_groups, _ALL_TO_ALL, same_size=True, group_size=number)
        return packed(exchanged(t, split, concat, number) for t in types)


def exchanged(t: TensorType, split: int, concat: int, number: int) -> TensorType:
    """Return the type of an operand of type `t` after `all_to_all` among `number` members.

    Dimension `split` becomes `number` times smaller, dimension `concat` `number` times larger.

    Raises:
        VerifyError: A dimension is out of bounds, or its size is not divisible.
    """
    for name, d, rule in (("split", split, "all_to_all_c1"), ("concat", concat, "all_to_all_c3")):
        require(
            0 <= d < t.rank,
            rule,
            f"AllToAll {name}_dimension {d} is out-of-bounds for input rank {t.rank}",
        )
    dims = extents(t)
    size = dims[split][0]
    require(
        size is None or size % number == 0,
        "all_to_all_c2",
        f"split dimension has size {size}, expected to be a multiple of split_count {number}",
    )
    dims[split] = resized(dims[split], lambda n: n // number)
    dims[concat] = resized(dims[concat], lambda n: n * number)
    return array(t.element, dims)


_BROADCAST: Final = GroupRules(
    "collective_broadcast_i2", "collective_broadcast_c1", "collective_broadcast_c2"
)


@op("collective_broadcast")
class CollectiveBroadcast(Rooted):
    """Sends the root's operands to all members of its group.

    Source: StableHLO spec `collective_broadcast` (C1)-(C4).
    """

    result_rule: ClassVar[str] = "collective_broadcast_c3"

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        return packed(tensors(self.name, self.data(operands)))

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        if is_mlir_notation(self.replica_groups):
            self._check_root(operands, "collective_broadcast_c3", "collective_broadcast_c4")
            check_senders(self.replica_groups, _BROADCAST)
        super().verify(operands, results, calls)


_PERMUTE: Final = PairRules(
    "collective_permute_i2",
    "collective_permute_c1",
    "collective_permute_c2",
    "collective_permute_c3",
    "collective_permute_c4",
)


def is_in_place(operands: Types) -> bool:
    """Are these the operand types of HLO's in-place `collective-permute`?

    They are the input, the output and two offsets.
    """
    return len(operands) == 4 and all(map(_is_offset, operands[2:]))


def _is_offset(type_: Type) -> bool:
    """Is `type_` an integer type, or a (nested) tuple of integer types?"""
    if isinstance(type_, TensorType):
        return type_.rank == 0 and type_.element.kind in ("signed", "unsigned")
    return isinstance(type_, TupleType) and all(map(_is_offset, type_.elements))


@op("collective_permute")
class CollectivePermute(Collective):
    """Sends along `source_target_pairs`; a device that receives nothing gets zeros.

    Attributes:
        source_target_pairs: Pairs (sender, receiver) of device numbers.
        slice_sizes: Sizes of each slice in HLO's in-place form.

    Source: StableHLO spec `collective_permute` (C1)-(C5).
    """

    result_rule: ClassVar[str] = "collective_permute_c5"
    source_target_pairs: Pairs | Table = ()
    slice_sizes: Groups = NO_GROUPS

    @property
    def pairs(self) -> Pairs:
        """The pairs (sender, receiver), also if they are written as a table."""
        pairs = self.source_target_pairs
        if not isinstance(pairs, Table):
            return pairs
        return tuple((row[0], row[1]) for row in pairs.rows if len(row) == 2)

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        if is_in_place(operands):
            return without_layouts(operands[1])
        return packed(tensors(self.name, operands))

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        if isinstance(self.source_target_pairs, Table):
            check_pairs(self.source_target_pairs, _PERMUTE)
        super().verify(operands, results, calls)


@op("ragged_all_to_all")
class RaggedAllToAll(Collective):
    """`all_to_all` with run-time sizes and offsets.

    Operands: the input, the output, input offsets, send sizes, output offsets, receive sizes.
    """

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        sent, into, first, *numbers = tensors(self.name, operands, 6)
        require(
            sent.element == into.element
            and sent.rank == into.rank > 0
            and all(map(may_be_one_size, sent.sizes[1:], into.sizes[1:])),
            "",
            message_of(
                "input {:bare} and output {:bare} may differ in dimension 0 only", sent, into
            ),
        )
        for t in (first, *numbers):
            is_integer = t.element.kind in ("signed", "unsigned")
            require(
                is_integer and t.rank == 1 and may_be_one_size(t.sizes[0], first.sizes[0]),
                "",
                message_of(
                    "offsets and sizes need to be vectors of integers of one size, found {:bare}", t
                ),
            )
        return without_layouts(operands[1])


@op("partition_id")
class PartitionId(Op):
    """Number of this partition."""

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 0)
        return array(U32, ())


@op("replica_id")
class ReplicaId(Op):
    """Number of this replica."""

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 0)
        return array(U32, ())


@op("cross-replica-sum")
class CrossReplicaSum(Op):
    """The former `cross-replica-sum` of StableHLO, an `all_reduce` with addition."""

    replica_groups: Groups = NO_GROUPS

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        return packed(tensors(self.name, operands))


COLLECTIVE_KINDS: Final[dict[type[Op], str]] = {
    AllGather: "all-gather",
    AllReduce: "all-reduce",
    CrossReplicaSum: "all-reduce",
    AllToAll: "all-to-all",
    CollectiveBroadcast: "collective-broadcast",
    CollectivePermute: "collective-permute",
    CollectiveReduce: "collective-reduce",
    RaggedAllToAll: "ragged-all-to-all",
    ReduceScatter: "reduce-scatter",
}
"""Kind of each collective, in HLO's spelling."""
