"""Whatever is asked about a program: no question fails, and the answers do not contradict."""

from __future__ import annotations

import json
import re
from contextlib import suppress

import pytest

import hloscope
from hloscope.errors import HloscopeError, VerifyError
from tests.verifier import hlo_programs, stablehlo_programs
from tests.verifier.ends import disagreements
from tests.verifier.search import LANGUAGES, search

SUM = (
    "s { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] add(x, y) }\n"
    "taking_a_tuple { x = (f32[], f32[]) parameter(0)"
    " ROOT r = f32[] get-tuple-element(x), index=0 }\n"
    "taking_vectors { x = (f32[3], f32[4]) parameter(0) ROOT r = f32[] constant(0) }\n"
    "before { x = f32[] parameter(0) y = f32[] parameter(1)"
    " ROOT r = pred[] compare(x, y), direction=LT }\n"
    "scanning { x = f32[3] parameter(0) c = f32[3] parameter(1) s = f32[3] add(x, c)"
    " ROOT r = (f32[3], f32[3]) tuple(s, s) }\n"
    "taking_four { x = f32[4] parameter(0) ROOT r = f32[] constant(0) }\n"
    "returning_another { x = f32[4] parameter(0) ROOT r = f32[] constant(1) }\n"
)


@pytest.mark.slow(keep=4)
@pytest.mark.parametrize(
    "program", hlo_programs.RIGHT, ids=lambda p: f"{p.lines[0].opcode} {p.parameters}"
)
def test_a_right_program_of_each_opcode_is_accepted_and_answered(
    program: hlo_programs.Program,
) -> None:
    assert hloscope.verify(program.text()) == []
    assert disagreements(program.text()) == []


@pytest.mark.slow(keep=4)
@pytest.mark.parametrize(
    "program", stablehlo_programs.RIGHT, ids=lambda p: f"{p.op} {p.parameters}"
)
def test_a_right_program_of_each_op_is_accepted_and_answered(
    program: stablehlo_programs.Program,
) -> None:
    assert hloscope.verify(program.text()) == []
    assert disagreements(program.text()) == []


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_answers_about_changed_programs_agree(language: str, full: bool) -> None:
    assert search(language, range(25_000 if full else 150), timed=False).found == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_many_changed_programs_are_right_and_many_are_wrong(language: str) -> None:
    """Else the agreement above would say little."""
    verdicts = [not hloscope.verify(LANGUAGES[language](seed).text()) for seed in range(300)]
    assert 0.1 < sum(verdicts) / len(verdicts) < 0.9


MISREAD = {
    "an element that is not there": "a = s32[2] parameter(0)"
    " ROOT r = (s32[2], pred[]) get-tuple-element(a), index=1",
    "a slice of another rank": "a = s1[1,4,3] parameter(0) b = s32[1,5,1] parameter(1)"
    " ROOT r = f32[1,5,3] gather(a, b), offset_dims={1}, collapsed_slice_dims={0},"
    " start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}",
}
QUESTIONS = {
    "indexing": (), "indexing_from": (0,), "to_parameters": (), "grouped": (), "tiles": (),
    "tiling_space": (), "cancellation": (),
}  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("name", MISREAD)
def test_no_question_about_a_wrong_program_fails_otherwise(name: str, question: str) -> None:
    root = hloscope.read(f"ENTRY e {{ {MISREAD[name]} }}").root
    with suppress(HloscopeError):  # its own words
        getattr(root, question)(*QUESTIONS[question])


REFUSED = {
    "all-gather of rank 0": "a = f32[32] parameter(0) ROOT r = f32[] all-gather(a), dimensions={0}",
    "no operand": "ROOT r = f32[] bitcast()",
    "nothing to broadcast": "ROOT r = pred[] broadcast(), dimensions={}",
    "a tuple of nothing": "a = f32[4,4] parameter(0) ROOT r = () bitcast-convert(a)",
    "sizes that are vectors": "a = s32[2,3] parameter(0) b = s32[1] parameter(1)"
    " ROOT r = () dynamic-reshape(a, b, b)",
    "too few sizes": "a = s32[4] parameter(0) b = s32[] parameter(1)"
    " ROOT r = s32[2,2] dynamic-reshape(a, b)",
    "a StableHLO shape": "a = s32[4] parameter(0) b = s32[2] parameter(1)"
    " ROOT r = s32[2,2] dynamic-reshape(a, b)",
    "recv of an array": "a = f32[4] parameter(0) t = token[] after-all()"
    " ROOT r = (f32[4], token[]) recv(t), channel_id=1",
    "recv that is not a tuple": "t = token[] after-all() ROOT r = f32[4] recv(t), channel_id=1",
    "recv-start": "t = token[] after-all() ROOT r = (f32[4], u32[], token[]) recv-start(t)",
    "done of a parameter": "a = () parameter(0) ROOT r = (f32[4], s32[]) add-done(a)",
    "done of another op": "a = f32[4] parameter(0) c = ((f32[4]), f32[3], s32[])"
    ' custom-call-start(a), custom_call_target="x" ROOT d = f32[3] add-done(c)',
    "update of another op": "a = f32[4] parameter(0) c = ((f32[4]), f32[3], s32[])"
    ' custom-call-start(a), custom_call_target="x"'
    " u = ((f32[4]), f32[3], s32[]) add-update(c) ROOT d = f32[3] custom-call-done(u)",
    "a start of another element": "a = f32[4] parameter(0)"
    " ROOT r = s32[8] all-gather-start(a), dimensions={0}",
    "a start of an array": "a = f32[4] parameter(0)"
    " s = f32[8] all-gather-start(a), replica_groups={{0,1}}, dimensions={0}"
    " ROOT d = f32[8] all-gather-done(s)",
    "a permutation that starts as an array": "a = f32[4] parameter(0)"
    " s = f32[4] collective-permute-start(a), source_target_pairs={{0,1},{1,0}}"
    " ROOT d = f32[4] collective-permute-done(s)",
    "a barrier of two": "a = f32[4] parameter(0) ROOT r = (f32[4], f32[4]) opt-barrier(a, a)",
    "bits of floats": "a = f32[4] parameter(0) ROOT r = f32[4] popcnt(a)",
    "a root of integers": "a = s32[4] parameter(0) ROOT r = s32[4] rsqrt(a)",
    "rounded integers": "a = s32[4] parameter(0) ROOT r = s32[4] reduce-precision(a),"
    " exponent_bits=5, mantissa_bits=10",
    "the sign of what has none": "a = u32[4] parameter(0) ROOT r = u32[4] abs(a)",
    "a difference of booleans": "a = pred[4] parameter(0) ROOT r = pred[4] subtract(a, a)",
    "a complex number of halves": "a = f16[4] parameter(0) ROOT r = c64[4] complex(a, a)",
    "a system in two precisions": "a = f32[3,3] parameter(0) b = bf16[3,2] parameter(1)"
    " ROOT r = f32[3,2] triangular-solve(a, b), left_side=true, lower=true,"
    " transpose_a=NO_TRANSPOSE",
    "a system of integers": "a = s32[3,3] parameter(0) ROOT r = s32[3,3] triangular-solve(a, a),"
    " left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
    "a sum of integers in floats": "a = s32[4] parameter(0) b = f32[] parameter(1)"
    " ROOT r = f32[] reduce(a, b), dimensions={0}, to_apply=s",
    "updates of another element": "a = f32[4] parameter(0) i = s32[2,1] parameter(1)"
    " b = f16[2] parameter(2) c = s32[2] parameter(3) ROOT r = f32[4] scatter(a, i, c),"
    " update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},"
    " index_vector_dim=1, to_apply=s",
    "an attribute that no opcode has": "a = f32[4] parameter(0)"
    " ROOT r = f32[4] negate(a), brand_new={x=1}",
    "an attribute of another opcode": "a = f32[4] parameter(0)"
    " ROOT r = f32[4] negate(a), dimensions={0}",
    "indices that are no integers": "a = f32[4,3] parameter(0) b = f32[5,1] parameter(1)"
    " ROOT r = f32[5,3] gather(a, b), offset_dims={1}, collapsed_slice_dims={0},"
    " start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}",
    "places that are no integers": "a = f32[4] parameter(0) i = pred[2,1] parameter(1)"
    " c = f32[2] parameter(2) ROOT r = f32[4] scatter(a, i, c), update_window_dims={},"
    " inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=s",
    "a start that is not an integer": "a = f32[4] parameter(0) b = f32[] parameter(1)"
    " ROOT r = f32[2] dynamic-slice(a, b), dynamic_slice_sizes={2}",
    "a size that is no s32": "a = f32[4] parameter(0) b = s64[] parameter(1)"
    " ROOT r = f32[<=4] set-dimension-size(a, b), dimensions={0}",
    "a root of a matrix of integers": "a = s32[4,4] parameter(0)"
    " ROOT r = s32[4,4] cholesky(a), lower=true",
    "a norm of integers": "a = s32[4,3] parameter(0) b = s32[3] parameter(1)"
    " ROOT r = (s32[4,3], s32[3], s32[3]) batch-norm-training(a, b, b), epsilon=0.001,"
    " feature_index=1",
    "a lost imaginary part": "a = c64[4] parameter(0) ROOT r = f32[4] convert(a)",
    "narrow random bits": "a = f32[4] parameter(0) b = u8[4] parameter(1)"
    " ROOT r = s8[4] stochastic-convert(a, b)",
    "a start without operands": "ROOT r = ((f32[4]), f32[8]) all-gather-start(), dimensions={0}",
    "a start of other operands": "a = f32[4] parameter(0) s = ((f32[5]), f32[2], s32[])"
    " slice-start(a), slice={[0:2]} ROOT r = f32[2] slice-done(s)",
    "a start of a wrong op": "a = f32[4,4] parameter(0) s = ((f32[4,4]), f32[4,4], s32[])"
    " dot-start(a, a) ROOT r = f32[4,4] dot-done(s)",
    "done of three": "a = f32[4] parameter(0) ROOT r = s32[9] all-gather-done(a, a, a)",
    "iota of operands": "a = f32[4] parameter(0) ROOT r = f32[4] iota(a, a), iota_dimension=0",
    "rng of one": "a = f32[] constant(0) ROOT r = f32[2] rng(a), distribution=rng_uniform",
    "rng of other elements": "a = f32[] constant(0)"
    " ROOT r = s32[2] rng(a, a), distribution=rng_uniform",
    "dot of three": "a = f32[4] parameter(0) ROOT r = f32[] dot(a, a, a),"
    " lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "a conditional on a float": "a = f32[] parameter(0) ROOT r = f32[] conditional(a, a, a),"
    " branch_computations={{x = f32[] parameter(0) ROOT y = f32[] abs(x)},"
    " {x = f32[] parameter(0) ROOT y = f32[] negate(x)}}",
    "a gather of too few": "a = f32[4] parameter(0)"
    " ROOT r = f32[8] all-gather(a), replica_groups={{0,1,2}}, dimensions={0}",
    "a group of nobody": "a = f32[4] parameter(0)"
    " ROOT r = f32[4] all-to-all(a), replica_groups={{}}, dimensions={0}",
    "a group of nobody beside another": "a = f32[4] parameter(0)"
    " ROOT r = f32[4] all-to-all(a), replica_groups={{0},{}}, dimensions={0}",
    "a split that leaves a rest": "a = f32[4] parameter(0)"
    " ROOT r = f32[4] all-to-all(a), replica_groups={{0,1,2}}, dimensions={0}",
    "a split among partitions that leaves a rest": "a = f32[4] parameter(0)"
    " ROOT r = f32[4] all-to-all(a), replica_groups={{0,1,2}}, dimensions={0}, channel_id=1",
    "bounds that differ": "a = f32[<=4] parameter(0) ROOT r = f32[3] abs(a)",
    "an operand without a name": "a = f32[] parameter(0) ROOT r = f32[] add(a, f32[])",
    "copy-start of a tuple": "a = (f32[]) parameter(0) ROOT r = ((f32[]), (f32[]), u32[])"
    " copy-start(a)",
    "add-dependency on an array": "a = f32[] parameter(0) ROOT r = f32[] add-dependency(a, a)",
    "domain of two": "a = f32[] parameter(0) ROOT r = f32[] domain(a, a),"
    ' domain={kind="sharding", entry={}, exit={}}',
    "infeed of an array": "a = f32[] parameter(0) ROOT r = ((f32[]), token[]) infeed(a)",
    "a call with more than it takes": "a = (f32[<=4], f32[<=4]) parameter(0)"
    " ROOT r = f32[] call(a), to_apply=taking_vectors",
    "a kernel of unknown size": "a = f32[1,6,2] parameter(0) b = f32[?,2,4] parameter(1)"
    " ROOT r = f32[1,?,4] convolution(a, b), window={size=3}, dim_labels=b0f_0io->b0f",
    "features of unknown number": "a = f32[1,6,?] parameter(0) b = f32[3,2,4] parameter(1)"
    " ROOT r = f32[1,4,4] convolution(a, b), window={size=3}, dim_labels=b0f_0io->b0f",
    "a constant of unknown size": "ROOT r = f32[?] constant({1, 2})",
    "a sum that takes a tuple": "a = f32[2,3] parameter(0) b = f32[] parameter(1)"
    " ROOT r = f32[2] reduce(a, b), dimensions={1}, to_apply=taking_a_tuple",
    "domain that takes a tuple apart": "a = (f32[4]) parameter(0) ROOT r = f32[4] domain(a),"
    ' domain={kind="sharding", entry={}, exit={}}',
    "parts that differ": "a = f32[3] parameter(0) b = f32[4] parameter(1)"
    " ROOT r = (f32[3], f32[4]) all-to-all(a, b), replica_groups={{0,1}}",
    "a shape that is not sent": "a = f32[4] parameter(0) t = token[] after-all()"
    " ROOT r = token[] outfeed(a, t), outfeed_shape=f32[5]",
    "no exponent": "ROOT r = f8e8m0fnu[] constant(0)",
    "an exponent with a sign": "ROOT r = f8e8m0fnu[] constant(-1)",
    "an update with more": "a = f32[4] parameter(0) t = ((f32[4]), f32[2], s32[])"
    " slice-start(a), slice={[0:2]} u = ((f32[4]), f32[2], s32[]) slice-update(t, a)"
    " ROOT d = f32[2] slice-done(u)",
    "aliasing of what is done": "a = f32[4] parameter(0) t = ((f32[4]), f32[2], s32[])"
    " slice-start(a), slice={[0:2]} ROOT d = f32[2] slice-done(t), output_to_operand_aliasing={}",
    "done in another thread": "a = f32[4] parameter(0) t = ((f32[4]), f32[2], s32[])"
    ' slice-start(a), slice={[0:2]} ROOT d = f32[2] slice-done(t), async_execution_thread="x"',
    "done of another computation": "a = f32[4] parameter(0) t = ((f32[4]), f32[], s32[])"
    " async-start(a), calls=taking_four ROOT d = f32[] async-done(t), calls=returning_another",
    "operands of another shape in the type": "a = f32[4] parameter(0) t = ((f32[5]), f32[], s32[])"
    " async-start(a), calls=taking_four ROOT d = f32[] async-done(t)",
    "index vectors that name batching dimensions": "a = s32[4,2] parameter(0)"
    " i = s32[4,2] parameter(1) ROOT g = s32[4,2,2] gather(a, i), offset_dims={2},"
    " collapsed_slice_dims={}, start_index_map={0}, operand_batching_dims={0},"
    " start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,2}",
    "done on no channel": "a = f32[4] parameter(0) t = token[] after-all() u = (f32[4], u32[],"
    " token[]) send(a, t), channel_id=1 ROOT d = token[] send-done(u)",
    "done on a channel": "a = f32[4] parameter(0) t = token[] after-all() u = (f32[4], u32[],"
    " token[]) send(a, t) ROOT d = token[] send-done(u), channel_id=1",
    "output features that have a bound only": "a = f32[1,6,2] parameter(0)"
    " b = f32[3,2,<=4] parameter(1) ROOT r = f32[1,4,<=4] convolution(a, b), window={size=3},"
    " dim_labels=b0f_0io->b0f",
    "parts of two precisions": "a = f32[4] parameter(0) b = f64[4] parameter(1)"
    " ROOT r = c64[4] complex(a, b)",
    "fewer than none": "a = f32[4,3] parameter(0) ROOT r = topk(a), k=-1, largest=true",
    "a tuple in a tuple": "a = f32[4,3] parameter(0) b = f32[3] parameter(1)"
    " ROOT r = ((f32[4,3], f32[3])) scan(a, b), dimensions={0}, num_carries=1, to_apply=scanning",
    "a complex number that is no pair": "ROOT r = c64[] constant(2)",
    "nan of a payload that e4m3fn lacks": "ROOT r = f8e4m3fn[] constant(nan(0x1))",
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_programs_are_refused(name: str) -> None:
    text = f"{SUM}ENTRY e {{ {REFUSED[name]} }}"
    assert hloscope.verify(text)
    assert disagreements(text) == []


ACCEPTED = {
    "bodies in another precision": "a = bf16[4] parameter(0) b = f32[] parameter(1)"
    " ROOT r = f32[] reduce(a, b), dimensions={0}, to_apply=s",
    "a reduction that starts as an array": "a = f32[4] parameter(0) t = f32[4]"
    " all-reduce-start(a), to_apply=s ROOT d = f32[4] all-reduce-done(t)",
    "scales of nothing": "a = f8e4m3fn[4,0] parameter(0) b = f8e4m3fn[5,0] parameter(1)"
    " c = f8e8m0fnu[4,1] parameter(2) d = f8e8m0fnu[] parameter(3) ROOT r = f32[4,5]"
    " scaled-dot(a, b, c, d), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "windows of narrow floats": "a = f32[1,6,2] parameter(0) b = f32[3,2,4] parameter(1)"
    " ROOT r = f8e5m2[1,4,4] convolution(a, b), window={size=3}, dim_labels=b0f_0io->b0f",
    "slices of narrow floats": "a = f8e5m2[4,3] parameter(0) b = s32[5,2] parameter(1)"
    " ROOT r = f8e5m2[5,2,1] gather(a, b), offset_dims={1,2}, collapsed_slice_dims={},"
    " start_index_map={0,1}, index_vector_dim=1, slice_sizes={2,1}",
    "real products of complex numbers": "a = c64[4,3] parameter(0) ROOT r = f32[4,4] dot(a, a),"
    " lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "nothing between commas": "a = f32[] parameter(0) ROOT r = f32[] add(,a,, f32[],, a)",
    "the first of several dimensions": "a = f32[4,3] parameter(0)"
    " ROOT r = s32[] get-dimension-size(a), dimensions={1,0}",
    "features of one unknown number": "a = f32[1,6,?] parameter(0) b = f32[3,?,4] parameter(1)"
    " ROOT r = f32[1,4,4] convolution(a, b), window={size=3}, dim_labels=b0f_0io->b0f",
    "an order of complex numbers": "a = c64[4,3] parameter(0)"
    " ROOT r = (c64[4,2], s32[4,2]) topk(a), k=2, largest=true",
    "a map in another precision": "a = f16[4] parameter(0) b = bf16[4] parameter(1)"
    " ROOT r = f32[4] map(a, b), dimensions={0}, to_apply=s",
    "an order in another precision": "a = f16[4] parameter(0)"
    " ROOT r = f16[4] sort(a), dimensions={0}, to_apply=before",
    "booleans as bytes": "a = pred[4] parameter(0) ROOT r = u8[4] bitcast-convert(a)",
    "booleans as bits": "a = pred[4,8] parameter(0) ROOT r = u8[4] bitcast-convert(a)",
    "a part in another precision": "a = c64[4] parameter(0) ROOT r = bf16[4] real(a)",
    "a slice in another precision": "a = f32[4] parameter(0)"
    " ROOT r = bf16[2] slice(a), slice={[1:3]}",
    "values in another precision": "a = f16[4,3] parameter(0)"
    " ROOT r = (f32[4,2], s32[4,2]) topk(a), k=2, largest=true",
    "a permutation into another precision": "a = bf16[4] parameter(0) s = (f32[4], f32[4], u32[],"
    " u32[]) collective-permute-start(a), source_target_pairs={{0,1},{1,0}}"
    " ROOT r = f32[4] collective-permute-done(s)",
    "a sum of nothing in another precision": "a = f32[0,3] parameter(0) b = f32[] parameter(1)"
    " ROOT r = f8e8m0fnu[3] reduce(a, b), dimensions={0}, to_apply=s",
    "a thread of its own": "a = f32[4] parameter(0) t = ((f32[4]), f32[2], s32[])"
    ' slice-start(a), slice={[0:2]}, async_execution_thread="x" ROOT d = f32[2] slice-done(t)',
}


@pytest.mark.slow(keep=4)
@pytest.mark.parametrize("name", ACCEPTED)
def test_right_programs_are_accepted(name: str) -> None:
    text = f"{SUM}ENTRY e {{ {ACCEPTED[name]} }}"
    assert hloscope.verify(text) == []
    for seed in range(4):
        assert disagreements(text, seed) == []


OPEN = {
    "broadcast_dimensions that the result has not": "func.func @main(%a: tensor<1x4xf32>,"
    " %b: tensor<4xf32>) -> tensor<1x4xf32> { %r = chlo.broadcast_add %a, %b"
    " {broadcast_dimensions = array<i64: 2>} : (tensor<1x4xf32>, tensor<4xf32>) ->"
    " tensor<1x4xf32> return %r : tensor<1x4xf32> }",
    "broadcast_dimensions that are too few": "func.func @main(%a: tensor<1x4xf32>,"
    " %b: tensor<4xf32>) -> tensor<1x4xf32> { %r = chlo.broadcast_add %a, %b"
    " {broadcast_dimensions = array<i64>} : (tensor<1x4xf32>, tensor<4xf32>) ->"
    " tensor<1x4xf32> return %r : tensor<1x4xf32> }",
    "windows that begin with several elements": "func.func @main(%a: tensor<4x2xf32>,"
    ' %b: tensor<4xf32>) -> tensor<2x1xf32> { %r = "stablehlo.reduce_window"(%a, %b)'
    " <{window_dimensions = array<i64: 4, 2>, padding = dense<[[2, 2], [0, 0]]> : tensor<2x2xi64>,"
    " window_strides = array<i64: 3, 1>}> ({ ^bb0(%x: tensor<4xf32>, %y: tensor<4xf32>):"
    " %z = stablehlo.add %x, %y : tensor<4xf32> stablehlo.return %z : tensor<4xf32> }) :"
    " (tensor<4x2xf32>, tensor<4xf32>) -> tensor<2x1xf32> return %r : tensor<2x1xf32> }",
    "a bound larger than the size": "func.func @main(%a: tensor<1xi64>, %n: tensor<i32>) ->"
    " tensor<?xi64, #stablehlo.bounds<2>> { %r = stablehlo.set_dimension_size %a, %n, dim = 0 :"
    " (tensor<1xi64>, tensor<i32>) -> tensor<?xi64, #stablehlo.bounds<2>>"
    " return %r : tensor<?xi64, #stablehlo.bounds<2>> }",
    "torch_index_select": "func.func @main(%a: tensor<4x3xf32>, %b: tensor<i32>) -> tensor<2x3xf32>"
    ' { %r = "stablehlo.torch_index_select"(%a, %b) <{dim = 0 : i64, batch_dims = 0 : i64}> :'
    " (tensor<4x3xf32>, tensor<i32>) -> tensor<2x3xf32> return %r : tensor<2x3xf32> }",
    "einsum": "func.func @main(%a: tensor<4x3xf32>) -> tensor<2xf32> { %r ="
    ' "stablehlo.unary_einsum"(%a) <{einsum_config = "abc->a"}> : (tensor<4x3xf32>) ->'
    " tensor<2xf32> return %r : tensor<2xf32> }",
    "sizes that run-time values contradict": "func.func @main(%a: tensor<4x3xf32>,"
    " %b: tensor<5x1xi32>, %c: tensor<2xi32>) -> tensor<5x0xf32> { %r ="
    ' "stablehlo.dynamic_gather"(%a, %b, %c) <{dimension_numbers = #stablehlo.gather<offset_dims ='
    " [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}> :"
    " (tensor<4x3xf32>, tensor<5x1xi32>, tensor<2xi32>) -> tensor<5x0xf32>"
    " return %r : tensor<5x0xf32> }",
    "an index that is no vector": "func.func @main(%a: tensor<4x3xf32>, %b: tensor<2xi32>) ->"
    ' tensor<2x3xf32> { %r = "stablehlo.torch_index_select"(%a, %b) <{dim = 0 : i64, batch_dims ='
    " 1 : i64}> : (tensor<4x3xf32>, tensor<2xi32>) -> tensor<2x3xf32> return %r : tensor<2x3xf32>"
    " }",
    "nothing to select": "func.func @main(%a: tensor<f32>) -> tensor<f32> {"
    ' %r = "stablehlo.torch_index_select"(%a, %a) <{dim = 0 : i64, batch_dims = 0 : i64}> :'
    " (tensor<f32>, tensor<f32>) -> tensor<f32> return %r : tensor<f32> }",
    "a label of two sizes": "func.func @main(%a: tensor<2x3xf32>) -> tensor<4xf32> { %r ="
    ' "stablehlo.unary_einsum"(%a) <{einsum_config = "ab->a"}> : (tensor<2x3xf32>) ->'
    " tensor<4xf32> return %r : tensor<4xf32> }",
    "a result of unknown sizes": "func.func @main(%a: tensor<4x3xf32>) -> tensor<?x?xf32> {"
    ' %r = "stablehlo.collective_broadcast"(%a) <{replica_groups = dense<[[0, 1]]> :'
    " tensor<1x2xi64>}> : (tensor<4x3xf32>) -> tensor<?x?xf32> return %r : tensor<?x?xf32> }",
    "Sharding": "ENTRY e { a = f32[4] parameter(0) ROOT r = f32[4,3] custom-call(a),"
    ' custom_call_target="Sharding" }',
    "an extent that fits no slice": "func.func @main(%a: tensor<4x3xf32>, %b: tensor<5x1xi32>,"
    ' %c: tensor<2xi32>) -> tensor<5x7xf32> { %r = "stablehlo.dynamic_gather"(%a, %b, %c)'
    " <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],"
    " start_index_map = [0], index_vector_dim = 1>}> : (tensor<4x3xf32>, tensor<5x1xi32>,"
    " tensor<2xi32>) -> tensor<5x7xf32> return %r : tensor<5x7xf32> }",
    "bounds of another dimension": "func.func @main(%a:"
    " tensor<?x3xf32, #stablehlo.bounds<4, ?>>) -> tensor<3x?xf32, #stablehlo.bounds<?, 4>> { %r ="
    ' "stablehlo.sort"(%a) <{dimension = 1 : i64}> ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>): %c ='
    " stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1> stablehlo.return %c :"
    " tensor<i1> }) : (tensor<?x3xf32, #stablehlo.bounds<4, ?>>) ->"
    " tensor<3x?xf32, #stablehlo.bounds<?, 4>> return %r :"
    " tensor<3x?xf32, #stablehlo.bounds<?, 4>> }",
    "a result smaller than its part": "ENTRY e { a = f32[4,3] parameter(0)"
    " s = (f32[4,3], f32[0,3]) all-gather-start(a), dimensions={0}"
    " ROOT r = f32[0,3] all-gather-done(s) }",
    "bits in tiles": "ENTRY e { a = f32[3] parameter(0)"
    " ROOT r = f32[4,3]{1,0:T(2,128)} bitcast(a) }",
    "sizes of a tuple's parts": "func.func @main(%a: tensor<?x?xf32>) -> tuple<tensor<4x3xf32>> {"
    ' %r = "stablehlo.tuple"(%a) : (tensor<?x?xf32>) -> tuple<tensor<4x3xf32>>'
    " return %r : tuple<tensor<4x3xf32>> }",
    "complex numbers of real ones": "func.func @main(%p: tensor<3xi1>, %a: tensor<3xf32>) ->"
    ' tensor<3xcomplex<f32>> { %r = "chlo.broadcast_select"(%p, %a, %a) : (tensor<3xi1>,'
    " tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>> return %r : tensor<3xcomplex<f32>> }",
    "complex numbers of rows": "func.func @main(%a: tensor<4x3xf32>, %i: tensor<2xcomplex<f64>>) ->"
    ' tensor<2x3xf32> { %r = "stablehlo.torch_index_select"(%a, %i) <{dim = 0 : i64, batch_dims ='
    " 0 : i64}> : (tensor<4x3xf32>, tensor<2xcomplex<f64>>) -> tensor<2x3xf32>"
    " return %r : tensor<2x3xf32> }",
    "members of a group": "func.func @main(%a: tensor<4x3xf32>) -> tensor<4x3xf32> { %r ="
    ' "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> :'
    " tensor<1x2xi64>}> : (tensor<4x3xf32>) -> tensor<4x3xf32> return %r : tensor<4x3xf32> }",
    "TopK of complex numbers": "ENTRY e { a = c64[4,3] parameter(0)"
    ' ROOT r = (f32[4,2], s32[4,2]) custom-call(a), custom_call_target="TopK" }',
    "TopK": "ENTRY e { a = f32[] parameter(0) ROOT r = (f32[4,2], s32[4,2]) custom-call(a),"
    ' custom_call_target="TopK" }',
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OPEN)
def test_what_upstream_leaves_open_is_accepted_and_nothing_fails(name: str) -> None:
    assert hloscope.verify(OPEN[name]) == []
    for seed in range(24):
        assert disagreements(OPEN[name], seed) == []


LOST = """
func.func @main(%a: tensor<4x3xf32>, %b: tensor<3xf32>) -> tensor<4x3xf32> {
  %r:2 = "chlo.scan"(%a, %b) <{dimension = 0 : i64, operandSegmentSizes = array<i32: 1, 1>,
      resultSegmentSizes = array<i32: SIZES>}> ({
  ^bb0(%x: tensor<3xf32>, %y: tensor<3xf32>):
    "stablehlo.return"(%x, %y) : (tensor<3xf32>, tensor<3xf32>) -> ()
  }) : (tensor<4x3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>)
  return %r#0 : tensor<4x3xf32>
}
"""


@pytest.mark.parametrize("sizes", ["1, 1, 0", "1", ""])
def test_what_a_form_would_not_show_is_printed_without_it(sizes: str) -> None:
    """A text that is right must not come of a wrong program."""
    text = LOST.replace("array<i32: SIZES>", f"array<i32: {sizes}>" if sizes else "array<i32>")
    assert hloscope.verify(text)
    assert disagreements(text) == []


LOOP = """
func.func @main(%a: tensor<4x0xf32>) -> RESULT {
  %r = "stablehlo.while"(%a) ({
  ^bb0(%x: CONDITION):
    %c = stablehlo.constant dense<false> : tensor<i1>
    "stablehlo.return"(%c) : (tensor<i1>) -> ()
  }, {
  ^bb0(%x: BODY):
    "stablehlo.return"(%a) : (tensor<4x0xf32>) -> ()
  }) : (tensor<4x0xf32>) -> RESULT
  return %r : RESULT
}
"""


@pytest.mark.parametrize("place", ["CONDITION", "BODY", "RESULT"])
def test_a_loop_of_types_that_do_not_fit_is_printed_with_all_of_them(place: str) -> None:
    text = LOOP.replace(place, "tensor<4x3xf32>")
    text = re.sub("CONDITION|BODY|RESULT", "tensor<4x0xf32>", text)
    assert hloscope.verify(text)
    assert disagreements(text) == []


HEADERS = [
    "num_partitions={1}",
    "is_scheduled=maybe",
    "brand_new=1",
    "num_partitions=99999999999999999999",
    "replica_count=-1",
    "replica_count=x, num_partitions=2",
    "input_output_alias={ {0, a}: (0, {}, may-alias) }",
    "input_output_alias={ {0}: (0, a, may-alias) }",
]


@pytest.mark.parametrize("header", HEADERS)
def test_wrong_headers_are_refused(header: str) -> None:
    assert hloscope.verify(f"HloModule m, {header}\nENTRY e {{ ROOT p = f32[4] parameter(0) }}")


WRONG = {
    "convolution": "p = f16[1,2,2,2] parameter(0) ROOT c = f16[1,2,2,3] convolution(p, p),"
    " window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f",
    "fft": "p = f32[3,4,9] parameter(0) ROOT f = c64[3,5] fft(p), fft_type=RFFT, fft_length={3,9}",
    "transpose": "p = f32[4] parameter(0) ROOT r = f32[4] transpose(p), dimensions={1,0,3,2}",
    "dot": "p = f32[4,4,0] parameter(0) ROOT d = f32[4,4] dot(p, p), lhs_contracting_dims={1},"
    " rhs_contracting_dims={0}",
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("how", ["indexing", "indexing_from", "to_parameters"])
def test_maps_of_wrong_programs_are_not_blamed(name: str, how: str) -> None:
    """A proof that fails, or a form that cannot be made, leads to what is wrong."""
    root = hloscope.read(f"ENTRY e {{ {WRONG[name]} }}").root
    error = None
    try:
        found = getattr(root, how)()
        assert not any(check.is_refuted for check in found.prove().checks)
        made = found.to_latex(), found.to_html(), found.to_svg(), json.dumps(found.to_json())
        assert all(made)
    except HloscopeError as refused:
        error = refused
    assert error is None or (isinstance(error, VerifyError) and error.span is not None)
