"""Typing of tuples, branches, loops and asynchronous pairs, constraint by constraint."""

from __future__ import annotations

import pytest

from hloscope.errors import VerifyError
from hloscope.ir.op import IncompatibleTypesError, InferenceError, Signature
from hloscope.ir.types import FutureType
from hloscope.mlir.types import type_text
from hloscope.ops.control import (
    AfterAll,
    AsyncDone,
    AsyncStart,
    Case,
    Composite,
    CreateToken,
    CustomCall,
    GetTupleElement,
    OptimizationBarrier,
    Tuple,
    While,
)
from tests.ops import typings
from tests.ops.typings import check_refused, read_type, read_types, refused

IF = Case(predicated=True)
LOOP = "s32[]; f32[3] -> pred[] | s32[]; f32[3] -> s32[]; f32[3]"

REFUSED = [
    refused(Tuple(), "tuple_c1", "", "f32[]; s32[]", "(f32[], f32[])"),
    refused(GetTupleElement(2), "get_tuple_element_c1", "index 2 is out of bounds of operand with"
            " size 2", "(f32[], s32[])", "f32[]"),
    refused(GetTupleElement(0), "get_tuple_element_c2", "", "(f32[], s32[])", "s32[]"),
    refused(OptimizationBarrier(), "optimization_barrier_c1", "", "f32[3]", "f32[4]"),
    # case and if
    refused(Case(), "case_i1", "operand should be rank 0 tensor but got rank 1", "s32[1]", "f32[]",
            "-> f32[]"),
    refused(Case(), "case_c1", "expect at least one branch", "s32[]", "f32[]"),
    refused(Case(), "case_c2", "branch 1 must have 0 arguments, but found 1", "s32[]", "f32[]",
            "-> f32[] | f32[] -> f32[]"),
    refused(Case(), "case_c3", "branch 0 and branch 1 have mismatched return types:"
            " 'tensor<f32>', 'tensor<f32>' vs 'tensor<f32>'", "s32[]", "f32[]",
            "-> f32[]; f32[] | -> f32[]"),
    refused(Case(), "case_c4", "", "s32[]", "s32[]", "-> f32[] | -> f32[]"),
    refused(IF, "if_i1", "but got rank 1", "pred[1]", "f32[]", "-> f32[] | -> f32[]"),
    refused(IF, "if_c1", "branch 0 must have 0 arguments, but found 1", "pred[]", "f32[]",
            "f32[] -> f32[] | -> f32[]"),
    refused(IF, "if_c2", "mismatched return types: 'tensor<f32>' vs 'tensor<2xf32>'", "pred[]",
            "f32[]", "-> f32[] | -> f32[2]"),
    refused(IF, "if_c3", "", "pred[]", "f32[3]", "-> f32[2] | -> f32[2]"),
    # while
    refused(While(), "while_c1", "expect operands to be compatible with condition block arguments"
            " but got 'tensor<i32>' vs 'tensor<i32>', 'tensor<i32>'", "s32[]", "s32[]",
            "s32[]; s32[] -> pred[] | s32[] -> s32[]"),
    refused(While(), "while_c1", "condition body returns a single value but got 2", "s32[]",
            "s32[]", "s32[] -> pred[]; pred[] | s32[] -> s32[]"),
    refused(While(), "while_c1", "zero-ranked tensor of i1 but got 'tensor<i32>'", "s32[]",
            "s32[]", "s32[] -> s32[] | s32[] -> s32[]"),
    refused(While(), "while_c1", "zero-ranked tensor of i1 but got 'tensor<1xi1>'", "s32[]",
            "s32[]", "s32[] -> pred[1] | s32[] -> s32[]"),
    refused(While(), "while_c2", "body block arguments but got 'tensor<i32>' vs 'tensor<f32>'",
            "s32[]", "s32[]", "s32[] -> pred[] | f32[] -> s32[]"),
    refused(While(), "while_c2", "body block return types but got 'tensor<i32>' vs 'tensor<f32>'",
            "s32[]", "s32[]", "s32[] -> pred[] | s32[] -> f32[]"),
    refused(While(), "while_c3", "", "s32[]; f32[3]", "s32[]; f32[4]", LOOP),
    # asynchronous pairs
    refused(AsyncStart(region=True), "async_start_c1", "number of operands (1) must match number"
            " of region arguments (2)", "f32[4]", "f32[]", "f32[4]; f32[4] -> f32[4]"),
    refused(AsyncStart(region=True), "async_start_c1", "operand type 'tensor<4xf32>' at index 0"
            " must match region argument type 'tensor<4xi32>'", "f32[4]", "f32[]",
            "s32[4] -> s32[4]"),
    refused(AsyncStart(region=True), "async_start_c1", "", "f32[4]", "f32[4]", "f32[4] -> f32[4]"),
    refused(AsyncDone(region=True), "async_done_i1", "needs a future", "f32[4]", "f32[4]"),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_broken_constraint_is_named(case: typings.Case) -> None:
    check_refused(case)


ACCEPTED = [
    typings.Case(Tuple(), "", "()"),
    typings.Case(GetTupleElement(1), "(f32[], (s32[]))", "(s32[])"),
    typings.Case(OptimizationBarrier(), "", ""),
    typings.Case(OptimizationBarrier(), "f32[<=3]; token[]", "f32[?]; token[]"),
    typings.Case(Case(), "s32[]", "", "->"),
    typings.Case(Case(), "s32[]", "f32[3]", "-> f32[?] | -> f32[3] | -> f32[<=5]"),
    typings.Case(IF, "pred[]", "f32[]; token[]", "-> f32[]; token[] | -> f32[]; token[]"),
    typings.Case(While(), "", "", "-> pred[] | ->"),
    typings.Case(While(), "s32[]; f32[3]", "s32[]; f32[?]", LOOP),
    typings.Case(While(), "f32[4]", "f32[?]", "f32[?] -> pred[] | f32[?] -> f32[?]"),
    typings.Case(AfterAll(), "token[]; token[]", "token[]"),
    typings.Case(CreateToken(), "", "token[]"),
    typings.Case(CustomCall("foo"), "f32[]; token[]", "(f32[], s32[4]); token[]"),
    typings.Case(Composite("a.b"), "f32[]", "s32[]; s32[]"),
]


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.id)
def test_types_fit(case: typings.Case) -> None:
    case.verify()


@pytest.mark.parametrize(
    ("branches", "inferred"),
    [
        (("f32[2]", "f32[2]"), "tensor<2xf32>"),
        (("f32[3]", "f32[?]"), "tensor<?xf32>"),
        (("f32[4]", "f32[<=4]"), "tensor<?xf32, #stablehlo.bounds<4>>"),
        (("f32[?]", "f32[<=5]"), "tensor<?xf32>"),
        (("f32[<=6]", "f32[<=7]", "f32[2]"), "tensor<?xf32, #stablehlo.bounds<7>>"),
    ],
)
def test_a_branch_gives_what_holds_for_all_of_them(
    branches: tuple[str, ...], inferred: str
) -> None:
    calls = tuple(Signature((), (read_type(b),)) for b in branches)
    assert type_text(Case().infer(read_types("s32[]"), calls)) == inferred


def test_what_is_inferred_comes_last() -> None:
    calls = (Signature(read_types("s32[]"), read_types("pred[]")),) * 2
    with pytest.raises(VerifyError, match="body block return types") as caught:
        While().verify(read_types("s32[]"), read_types("f32[]"), calls)
    assert not isinstance(caught.value, InferenceError | IncompatibleTypesError)


def test_a_future_is_what_the_region_returns() -> None:
    body = Signature(read_types("f32[8,2]"), read_types("f32[8,8]; s32[]"))
    future = AsyncStart(region=True).infer(body.arguments, (body,))
    assert future == FutureType(body.results)
    AsyncStart(region=True).verify(body.arguments, (future,), (body,))
    AsyncDone(region=True).verify((future,), body.results)
    with pytest.raises(IncompatibleTypesError) as caught:
        AsyncDone(region=True).verify((future,), read_types("f32[8,2]; s32[]"))
    assert caught.value.rule == "async_done_c1"


def test_hlo_loops_and_branches_take_tuples() -> None:
    state = read_types("(s32[], f32[3])")
    calls = (Signature(state, read_types("pred[]")), Signature(state, state))
    While().verify(state, state, calls)
    branch = Signature(read_types("f32[3]"), read_types("f32[3]"))
    Case().verify(read_types("s32[]; f32[3]; f32[3]"), branch.results, (branch, branch))
