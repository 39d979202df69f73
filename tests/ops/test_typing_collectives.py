"""Typing of collectives, constraint by constraint."""

from __future__ import annotations

from typing import Any

import pytest

from hloscope.errors import VerifyError
from hloscope.hlo_parser.devices import HloGroups
from hloscope.hlo_parser.types import parse_type
from hloscope.ir.op import Op, Signature
from hloscope.ir.types import TensorType
from hloscope.mlir.types import INDEX, type_text
from hloscope.ops.collectives import (
    AllGather,
    AllReduce,
    AllToAll,
    CollectiveBroadcast,
    CollectivePermute,
    CollectiveReduce,
    CrossReplicaSum,
    PartitionId,
    ReduceScatter,
    ReplicaId,
    is_in_place,
)
from hloscope.ops.groups import MeshGroups, PairRules, Table, check_pairs
from tests.ops.typings import Case, check_refused, read_types, refused

PAIR = Table((1, 2), (0, 1))
MESH = MeshGroups()
SUM = "f32[]; f32[] -> f32[]"
TWICE, GAP, HOLE, FLAT = (
    Table((2, 2), (0, 1, 1, 2)),
    Table((1, 2), (0, 2)),
    Table((1, 3), (0, 1, -1)),
    Table((2,), (0, 1)),
)


def gather(groups: Table | str = PAIR, **fields: Any) -> Op:
    return AllGather(groups, **{"all_gather_dim": 1, **fields})


def scatter(groups: Table | str = PAIR, **fields: Any) -> Op:
    return ReduceScatter(groups, **{"scatter_dimension": 1, **fields})


def exchange(groups: Table | str = PAIR, **fields: Any) -> Op:
    dims = {"split_dimension": 1, "concat_dimension": 0, "split_count": 2}
    return AllToAll(groups, **{**dims, **fields})


def permute(*pairs: tuple[int, ...]) -> Op:
    return CollectivePermute(
        source_target_pairs=Table((len(pairs), len(pairs[0])), tuple(n for p in pairs for n in p))
    )


GATHER = [
    refused(gather(all_gather_dim=2), "all_gather_c1", "must be a valid index of operand",
            "f32[8,2]", "f32[8,4]"),
    refused(gather(), "all_gather_i1", "'all_gather_dim' cannot be zero", "f32[8,0]", "f32[8,4]"),
    refused(gather(FLAT), "all_gather_i3", "replica groups should be a rank 2 tensor", "f32[8,2]",
            "f32[8,4]"),
    refused(gather(TWICE), "all_gather_c2", "replica id #1 seen more than once", "f32[8,2]",
            "f32[8,4]"),
    refused(gather(HOLE), "all_gather_c4", "Invalid replica id -1", "f32[8,2]", "f32[8,4]"),
    refused(gather(GAP), "all_gather_c4", "replica id #1 not seen in replica groups", "f32[8,2]",
            "f32[8,4]"),
    refused(gather(channel_id=-1, use_global_device_ids=True), "all_gather_c5",
            "channel_id cannot be negative", "f32[8,2]", "f32[8,4]"),
    refused(gather(), "all_gather_c6", "operand and result must have the same rank", "f32[8,2]",
            "f32[8,4,1]"),
    refused(gather(), "all_gather_c6", "the same shape except for the dimension size at",
            "f32[8,2]", "f32[4,4]"),
    refused(gather(), "all_gather_c6", "result gather dimension has size 100, expected to be a"
            " multiple of operand gather dimension size 32", "f32[8,32]", "f32[8,100]"),
    refused(gather(MESH, all_gather_dim=2), "all_gather_c1", "", "f32[8,2]", "f32[8,4]"),
]  # fmt: skip

REDUCE = [
    refused(AllReduce(FLAT), "all_reduce_i2", "should be a rank 2 tensor", "f32[4]", "f32[4]", SUM),
    refused(AllReduce(Table((0, 0)), channel_id=1, use_global_device_ids=True), "all_reduce_i2",
            "replica groups cannot be empty", "f32[4]", "f32[4]", SUM),
    refused(AllReduce(TWICE), "all_reduce_c1", "#1 seen more than once", "f32[4]", "f32[4]", SUM),
    refused(AllReduce(GAP), "all_reduce_c3", "#1 not seen", "f32[4]", "f32[4]", SUM),
    refused(AllReduce(PAIR, use_global_device_ids=True), "all_reduce_c4",
            "channel_id must be positive when useGlobalDeviceIds is set but got: 0", "f32[4]",
            "f32[4]", SUM),
    refused(AllReduce(PAIR), "all_reduce_c5", "must take 2 parameters, but takes 1", "f32[4]",
            "f32[4]", "f32[] -> f32[]"),
    refused(AllReduce(PAIR), "all_reduce_c5", "expected to return some value(s)", "f32[4]",
            "f32[4]", "f32[]; f32[] ->"),
    refused(AllReduce(PAIR), "all_reduce_c5", "produce 1 tensors, but produces 2", "f32[4]",
            "f32[4]", "f32[]; f32[] -> f32[]; f32[]"),
    refused(AllReduce(PAIR), "all_reduce_c5", "tensor-typed result(s), but produces 'tuple<",
            "f32[4]", "f32[4]", "f32[]; f32[] -> (f32[], f32[])"),
    refused(AllReduce(PAIR), "all_reduce_c5", "parameter at index 1 is different than the"
            " corresponding result type: 'tensor<i32>' vs 'tensor<f32>'", "f32[4]", "f32[4]",
            "f32[]; s32[] -> f32[]"),
    refused(AllReduce(PAIR), "all_reduce_c5", "promotable from the op's corresponding init-value"
            " element-type: 'tensor<i8>' vs 'tensor<i32>'", "s32[4]", "s8[4]",
            "s8[]; s8[] -> s8[]"),
    refused(AllReduce(PAIR), "all_reduce_c5", "The shape of reduction-region's result type at"
            " index 0 differs", "f32[4]", "f32[4]", "f32[4]; f32[4] -> f32[4]"),
    refused(AllReduce(PAIR), "all_reduce_c6", "", "f32[4]", "f32[5]", SUM),
    refused(AllReduce(PAIR), "all_reduce_c7", "", "f32[4]", "f32[4]", "f64[]; f64[] -> f64[]"),
    refused(CollectiveReduce(FLAT), "collective_reduce_i2", "rank 2", "f32[4]", "f32[4]", SUM),
    refused(CollectiveReduce(TWICE), "collective_reduce_c1", "#1 seen", "f32[4]", "f32[4]", SUM),
    refused(CollectiveReduce(GAP), "collective_reduce_c3", "#1 not seen", "f32[4]", "f32[4]", SUM),
    refused(CollectiveReduce(PAIR, channel_id=-1, use_global_device_ids=True),
            "collective_reduce_c4", "must be positive when useGlobalDeviceIds is set but got: -1",
            "f32[4]", "f32[4]", SUM),
    refused(CollectiveReduce(PAIR), "collective_reduce_c5", "must take 2 parameters", "f32[4]",
            "f32[4]", "f32[]; f32[]; f32[] -> f32[]"),
    refused(CollectiveReduce(PAIR), "collective_reduce_i1", "collective_reduce requires at least"
            " one data operand", "", "", SUM),
    refused(CollectiveReduce(PAIR, has_dynamic_root=True), "collective_reduce_i6",
            "requires at least two operands (data + root)", "s32[1]", "", SUM),
    refused(CollectiveReduce(PAIR), "collective_reduce_c6", "", "f32[4]", "f32[5]", SUM),
    refused(CollectiveReduce(PAIR), "collective_reduce_c7", "", "f32[4]", "s32[4]", SUM),
]  # fmt: skip

SCATTER = [
    refused(scatter(FLAT), "reduce_scatter_i3", "rank 2 tensor", "f32[4,8]", "f32[4,4]", SUM),
    refused(scatter(TWICE), "reduce_scatter_c3", "seen more than once", "f32[4,8]", "f32[4,4]",
            SUM),
    refused(scatter(HOLE), "reduce_scatter_c5", "Invalid replica id -1", "f32[4,8]", "f32[4,4]",
            SUM),
    refused(scatter(GAP), "reduce_scatter_c5", "replica id #1 not seen", "f32[4,8]", "f32[4,4]",
            SUM),
    refused(scatter(), "reduce_scatter_c7", "must take 2 parameters, but takes 3", "f32[4,8]",
            "f32[4,4]", "f32[]; f32[]; f32[] -> f32[]"),
    refused(scatter(), "reduce_scatter_c8", "operand and result should have same rank", "f32[4,8]",
            "f32[32]", SUM),
    refused(scatter(scatter_dimension=2), "reduce_scatter_c2", "scatter dim should be less than"
            " operand/result rank", "f32[4,8]", "f32[4,4]", SUM),
    refused(scatter(use_global_device_ids=True), "reduce_scatter_c6", "but got: 0", "f32[4,8]",
            "f32[4,4]", SUM),
    refused(scatter(), "reduce_scatter_c8", "result dimension size at scatter_dimension cannot be"
            " zero", "f32[4,8]", "f32[4,0]", SUM),
    refused(scatter(), "reduce_scatter_c8", "operand dimension size at scatter_dimension cannot be"
            " zero", "f32[4,0]", "f32[4,4]", SUM),
    refused(scatter(), "reduce_scatter_c1", "operand scatter dimension has size 16, expected to be"
            " a multiple of result scatter dimension size 5", "f32[4,16]", "f32[4,5]", SUM),
    refused(scatter(), "reduce_scatter_c8", "same for operand (4) and result (3)", "f32[4,16]",
            "f32[3,4]", SUM),
    refused(scatter(), "reduce_scatter_c9", "expected to be 'f64', but got 'f32'", "f32[4,8]",
            "f32[4,4]", "f64[]; f64[] -> f64[]"),
]  # fmt: skip

EXCHANGE = [
    refused(exchange(FLAT), "all_to_all_i5", "rank 2 tensor", "f32[4,16]", "f32[8,8]"),
    refused(exchange(split_dimension=2), "all_to_all_c1", "AllToAll split_dimension 2 is"
            " out-of-bounds for input rank 2", "f32[4,16]", "f32[8,8]"),
    refused(exchange(), "all_to_all_c2", "split dimension has size 15, expected to be a multiple"
            " of split_count 2", "f32[4,15]", "f32[8,8]"),
    refused(exchange(concat_dimension=2), "all_to_all_c3", "AllToAll concat_dimension 2 is",
            "f32[4,16]", "f32[8,8]"),
    refused(exchange(split_count=0), "all_to_all_c4", "split_count 0", "f32[4,16]", "f32[8,8]"),
    refused(exchange(TWICE), "all_to_all_c5", "#1 seen more than once", "f32[4,16]", "f32[8,8]"),
    refused(exchange(GAP), "all_to_all_c7", "replica id #1 not seen", "f32[4,16]", "f32[8,8]"),
    refused(exchange(Table((1, 4), (0, 1, 2, 3))), "all_to_all_c8", "group size of replica_groups"
            " must be 2", "f32[4,16]", "f32[8,8]"),
    refused(exchange(), "all_to_all_c9", "", "f32[4,16]", "f32[4,16]"),
]  # fmt: skip

ROOTED, DATA = CollectiveBroadcast(PAIR, has_dynamic_root=True), CollectiveBroadcast(PAIR)
SEND = [
    refused(DATA, "collective_broadcast_c3", "collective_broadcast requires at least one data"
            " operand", "", ""),
    refused(ROOTED, "collective_broadcast_c4", "collective_broadcast with has_dynamic_root=true"
            " requires at least two operands (data + root)", "s32[1]", ""),
    refused(ROOTED, "collective_broadcast_c4", "must be a rank-1 i32 tensor", "f32[4]; f32[1]",
            "f32[4]"),
    refused(ROOTED, "collective_broadcast_c4", "must be a rank-1 i32 tensor", "f32[4]; s32[]",
            "f32[4]"),
    refused(ROOTED, "collective_broadcast_c4", "must have the same number of elements as data"
            " operands (2), but got 1", "f32[4]; f32[4]; s32[1]", "f32[4]; f32[4]"),
    refused(CollectiveBroadcast(FLAT), "collective_broadcast_i2", "but instead it is of rank 1",
            "f32[4]", "f32[4]"),
    refused(CollectiveBroadcast(TWICE), "collective_broadcast_c1", "#1 seen more than once",
            "f32[4]", "f32[4]"),
    refused(CollectiveBroadcast(HOLE), "collective_broadcast_c2", "must be positive, but was given"
            " -1", "f32[4]", "f32[4]"),
    refused(DATA, "collective_broadcast_c3", "", "f32[4]", "f32[5]"),
    refused(CollectivePermute(source_target_pairs=FLAT), "collective_permute_i2",
            "to be of rank 2, but got rank 1", "f32[4]", "f32[4]"),
    refused(permute((0, 1, 2), (3, 4, 5)), "collective_permute_c1", "of shape (N, 2), but got (2,"
            " 3)", "f32[4]", "f32[4]"),
    refused(permute((0, 1), (0, 2)), "collective_permute_c2", "duplicate sources not allowed",
            "f32[4]", "f32[4]"),
    refused(permute((0, 1), (1, 1)), "collective_permute_c3", "duplicate targets not allowed",
            "f32[4]", "f32[4]"),
    refused(permute((0, 1), (-1, 0)), "collective_permute_c4", "must be >= 0", "f32[4]", "f32[4]"),
    refused(permute((0, 1)), "collective_permute_c5", "", "f32[4]", "s32[4]"),
]  # fmt: skip


@pytest.mark.slow(keep=100)  # all cases: a millisecond each
@pytest.mark.parametrize(
    "case", GATHER + REDUCE + SCATTER + EXCHANGE + SEND, ids=lambda case: case.id
)
def test_broken_constraint_is_named(case: Case) -> None:
    check_refused(case)


ACCEPTED = [
    Case(gather(), "f32[8,2]", "f32[8,4]"),
    Case(gather(MESH), "f32[8,2]; s32[3,5]", "f32[8,4]; s32[3,10]"),
    Case(gather(), "f32[8,?]", "f32[?,4]"),
    Case(AllReduce(PAIR), "f32[4]; f32[?]", "f32[4]; f32[?]", SUM),
    Case(AllReduce(HOLE), "f32[4]", "f32[4]", SUM),
    Case(AllReduce(MESH), "bf16[4]", "f32[4]", SUM),
    Case(AllReduce(HloGroups("{{0,1}}")), "bf16[4]; s32[]", "bf16[4]; s32[]", SUM),
    Case(CollectiveReduce(PAIR), "f32[4]; f32[]", "f32[4]; f32[]", SUM),
    Case(CollectiveReduce(PAIR, has_dynamic_root=True), "f32[4]; s32[1]", "f32[4]", SUM),
    Case(scatter(), "f32[4,16]", "f32[4,4]", SUM),
    Case(scatter(), "f32[4,?]", "f32[4,4]", SUM),
    Case(scatter(MESH), "bf16[4,16]", "f32[4,8]", SUM),
    Case(exchange(), "f32[4,16]; s32[2,2]", "f32[8,8]; s32[4,1]"),
    Case(exchange(concat_dimension=1), "f32[4,16]", "f32[4,16]"),
    Case(exchange(), "f32[4,?]", "f32[8,3]"),
    Case(DATA, "f32[4]; s32[]", "f32[4]; s32[]"),
    Case(ROOTED, "f32[4]; f32[5]; s32[2]", "f32[4]; f32[5]"),
    Case(ROOTED, "f32[4]; s32[?]", "f32[4]"),
    Case(permute((0, 1), (1, 2)), "f32[4]", "f32[?]"),
    Case(CrossReplicaSum(PAIR), "f32[4]", "f32[4]"),
    Case(PartitionId(), "", "u32[]"),
    Case(ReplicaId(), "", "u32[]"),
]


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.id)
def test_types_fit(case: Case) -> None:
    case.verify()


@pytest.mark.parametrize(
    ("op", "operand", "inferred"),
    [
        (exchange(), "f32[4,<=6]", "tensor<8x?xf32, #stablehlo.bounds<?, 3>>"),
        (exchange(), "f32[<=5,16]", "tensor<?x8xf32, #stablehlo.bounds<10, ?>>"),
        (DATA, "f32[<=5]", "tensor<?xf32, #stablehlo.bounds<5>>"),
    ],
)
def test_bounds_are_carried_through(op: Op, operand: str, inferred: str) -> None:
    assert type_text(op.infer(read_types(operand))) == inferred


def test_the_body_gives_the_elements_in_stablehlo_and_the_operands_in_hlo() -> None:
    body = Signature(read_types("f64[]; f64[]"), read_types("f64[]"))
    operands = read_types("f32[10]")
    assert type_text(AllReduce(PAIR).infer(operands, (body,))) == "tensor<10xf64>"
    assert type_text(AllReduce(HloGroups("{{0,1}}")).infer(operands, (body,))) == "tensor<10xf32>"


def test_tables_have_rows_and_splats_repeat_themselves() -> None:
    assert Table((2, 2), (0, 1, 2, -1)).rows == ((0, 1), (2,))
    assert Table((10**6, 10**6), (7,)).elements == (7, 7)
    assert Table((1, 1), (0,)).rows == ((0,),)
    assert Table((0, 2)).rows == ()
    assert CollectivePermute(source_target_pairs=Table((2, 2), (0, 1, 1, 0))).pairs == (
        (0, 1),
        (1, 0),
    )


def test_a_splat_of_any_size_is_checked_at_once() -> None:
    check_refused(
        refused(
            AllReduce(Table((10**9, 10**9), (0,))),
            "all_reduce_c1",
            "replica id #0 seen more than once",
            "f32[]",
            "f32[]",
            SUM,
        )
    )


def test_a_splat_of_one_pair_is_one_device_that_sends_to_itself() -> None:
    labels = PairRules("rank", "columns", "sources", "targets", "inside")
    check_pairs(Table((1, 2), (0,)), labels)
    with pytest.raises(VerifyError, match="duplicate sources") as refused:
        check_pairs(Table((2, 2), (0,)), labels)
    assert refused.value.rule == "sources"


def test_indices_are_not_promoted() -> None:
    index = TensorType(INDEX, ())
    with pytest.raises(VerifyError, match="expected to be promotable") as caught:
        AllReduce(PAIR).verify((index,), (index,), (Signature((index, index), (index,)),))
    assert caught.value.rule == "all_reduce_c5"


@pytest.mark.parametrize(
    ("offsets", "are"),
    [
        (("(s32[], s32[])", "(s32[], s32[])"), True),
        (("s32[]", "(s32[], (u32[], s32[]))"), True),
        (("(s32[], f32[])", "(s32[], s32[])"), False),
        (("s32[]", "s32[2]"), False),
    ],
)
def test_offsets_of_a_permutation_in_place_are_all_integers(
    offsets: tuple[str, str], are: bool
) -> None:
    types = tuple(map(parse_type, ("f32[4]", "f32[4]", *offsets)))
    assert is_in_place(types) is are
