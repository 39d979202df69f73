"""Typing of transfers, tests' own ops and shardings."""

from __future__ import annotations

import pytest

from hloscope.ir import Written
from hloscope.ops.checking import (
    ExpectAlmostEqConst,
    ExpectClose,
    ExpectEq,
    Print,
    Probe,
    RunParallel,
)
from hloscope.ops.partition import ManualComputation, ShardingConstraint
from hloscope.ops.transfers import (
    DEVICE_TO_DEVICE,
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
    Infeed,
    Outfeed,
    Recv,
    Send,
)
from tests.ops.typings import Case, check_refused, refused

TO_DEVICE, TO_HOST, FROM_HOST = (
    {"channel_id": 1, "channel_type": kind}
    for kind in (DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE)
)

REFUSED = [
    refused(Send(**TO_HOST), "send_c1", "channel_type should be DEVICE_TO_DEVICE when"
            " is_host_transfer is false", "f32[3]; token[]", "token[]"),
    refused(Send(**TO_DEVICE, is_host_transfer=True), "send_c1", "channel_type should be"
            " DEVICE_TO_HOST when is_host_transfer is true", "f32[3]; token[]", "token[]"),
    refused(Recv(**FROM_HOST), "recv_c1", "channel_type should be DEVICE_TO_DEVICE when"
            " is_host_transfer is false", "token[]", "f32[3]; token[]"),
    refused(Recv(**TO_DEVICE, is_host_transfer=True), "recv_c1", "channel_type should be"
            " HOST_TO_DEVICE when is_host_transfer is true", "token[]", "f32[3]; token[]"),
    refused(Recv(**TO_DEVICE), "recv_c2", "expected to be at least of size 1, but got 0",
            "token[]", ""),
    refused(Recv(**TO_DEVICE), "recv_c3", "everything but the last element of result types is"
            " expected to be of tensor type, but got '!stablehlo.token'", "token[]",
            "token[]; token[]"),
    refused(Recv(**TO_DEVICE), "recv_c4", "last element of result types is expected to be of token"
            " type, but got 'tensor<i32>'", "token[]", "f32[3]; s32[]"),
    refused(Infeed(), "infeed_c1", "at least of size 1, but got 0", "token[]", ""),
    refused(Infeed(), "infeed_c2", "all elements of result types, except the last element, are"
            " expected to be of tensor type, but got '!stablehlo.token'", "token[]",
            "token[]; token[]"),
    refused(Infeed(), "infeed_c3", "of token type, but got 'tensor<i32>'", "token[]",
            "s32[]; s32[]"),
    refused(Infeed(layout=((0, 1),)), "infeed_i3", "layout-attribute size must be 2 (which is the"
            " number of op-results - 1 (for token result)), but got 1", "token[]",
            "s32[3,3]; pred[]; token[]"),
    refused(Infeed(layout=((),)), "infeed_i3", "size must be 0", "token[]", "token[]"),
    refused(Infeed(layout=(0,)), "infeed_i3", "expected to have elements of type array, but got 0"
            " : i64", "token[]", "s32[3]; token[]"),
    refused(Infeed(layout=((0, Written("[]")),)), "infeed_i3", "leaf elements are expected to"
            " be of type integer, but got []", "token[]", "s32[3,3]; token[]"),
    refused(ExpectEq(), "", "of different types", "f32[3]; s32[3]", ""),
    refused(ExpectClose(), "", "has 1 operands, needs 2", "f32[3]", ""),
    refused(Print(), "", "", "f32[3]", "f32[4]"),
    refused(ShardingConstraint(), "", "", "f32[3]", "f32[4]"),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_broken_constraint_is_named(case: Case) -> None:
    check_refused(case)


ACCEPTED = [
    Case(Send(**TO_DEVICE), "f32[3]; s32[]; token[]", "token[]"),
    Case(Send(**TO_HOST, is_host_transfer=True), "token[]", "token[]"),
    Case(Send(), "f32[4]; token[]", "f32[4]; u32[]; token[]"),
    Case(Recv(**TO_DEVICE), "token[]", "f32[3]; s32[]; token[]"),
    Case(Recv(**FROM_HOST, is_host_transfer=True), "token[]", "token[]"),
    Case(Recv(), "token[]", "f32[4]; u32[]; token[]"),
    Case(Infeed(), "token[]", "(f32[3], s32[]); token[]"),
    Case(Infeed(layout=((0, 1), (0,))), "token[]", "s32[3,3]; pred[1]; token[]"),
    Case(Infeed(layout=((0, 1), ())), "token[]", "s32[3,3]; pred[]; token[]"),
    Case(Infeed(layout=()), "token[]", "token[]"),
    Case(Outfeed(), "f32[3]; token[]", "token[]"),
    Case(ExpectEq(), "f32[3]; f32[?]", ""),
    Case(ExpectAlmostEqConst("dense<0.0>"), "f32[3]", ""),
    Case(Probe("p"), "f32[3]", "f32[3]"),
    Case(RunParallel("[[@foo]]"), "s64[]", "s64[]; token[]"),
    Case(ShardingConstraint(Written("<@mesh, [{}]>")), "f32[3]", "f32[3]"),
    Case(ManualComputation(), "f32[8]", "f32[4]; f32[]"),
]


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.id)
def test_types_fit(case: Case) -> None:
    case.verify()
