"""Custom calls that are an op in a library's words."""

from __future__ import annotations

import numpy as np
import pytest

from hloscope.fusion.analysis import Analysis
from hloscope.hlo_parser import parse_hlo
from hloscope.indexing import Precision
from hloscope.indexing.analysis import input_to_output, output_to_input
from hloscope.ir import Instruction
from hloscope.proof import Execution
from hloscope.stablehlo import parse_stablehlo
from tests.indexing.relations import Values, instruction, relation, without_domain

GEMM = (
    'backend_config={"gemm_backend_config":{"beta":0,"dot_dimension_numbers":'
    '{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"],'
    '"lhs_batch_dimensions":[],"rhs_batch_dimensions":[]}}}'
)
LOWER = '{"left_side":true,"lower":true,"unit_diagonal":false,"transpose_a":"NO_TRANSPOSE"}'
# the custom call, the op it is, outputs that hold no data
PAIRS = [
    (
        '(f32[2,4], s8[99]) custom-call(f32[2,3], f32[3,4]), custom_call_target="__cublas$gemm", '
        + GEMM,
        "f32[2,4] dot(f32[2,3], f32[3,4]), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    (
        "(f32[2,3], s8[0]) custom-call(f32[2,2], f32[2,3]), "
        f'custom_call_target="__cublas$triangularSolve", backend_config={LOWER}',
        "f32[2,3] triangular-solve(f32[2,2], f32[2,3]), left_side=true, lower=true, "
        "unit_diagonal=false, transpose_a=NO_TRANSPOSE",
    ),
    (
        'f32[3,2] custom-call(f32[2,2], f32[3,2]), custom_call_target="lapack_strsm_ffi", '
        "backend_config={diag = 85 : ui8, side = 82 : ui8, trans_x = 84 : ui8, uplo = 85 : ui8}",
        "f32[3,2] triangular-solve(f32[2,2], f32[3,2]), left_side=false, lower=false, "
        "unit_diagonal=true, transpose_a=TRANSPOSE",
    ),
    (
        'f32[2,4] custom-call(f32[2,4]), custom_call_target="MoveToHost"',
        "f32[2,4] copy(f32[2,4])",
    ),
    (
        '(f32[2,3], s32[2,3]) custom-call(f32[2,5]), custom_call_target="TopK"',
        "(f32[2,3], s32[2,3]) topk(f32[2,5]), k=3, largest=true",
    ),
]


@pytest.mark.parametrize(
    ("call", "same"), PAIRS, ids=[p[0].split("target=")[1][:20] for p in PAIRS]
)
def test_a_known_target_has_the_maps_of_the_op(call: str, same: str) -> None:
    ins, op = instruction(call), instruction(same)
    assert output_to_input(ins) == output_to_input(op)
    for k in range(len(ins.operands)):
        mine, its = input_to_output(ins, k), input_to_output(op, k)
        assert mine[: len(its)] == its
        assert not any(mine[len(its) :])


def test_a_bias_and_a_summand_of_a_matrix_product() -> None:
    text = "(f32[2,4], s8[9]) custom-call(f32[2,3], f32[3,4], f32[2,4], f32[4]), "
    ins = instruction(f'{text}custom_call_target="__cublas$lt$matmul", {GEMM}')
    answer = output_to_input(ins)
    assert without_domain(answer[2][0].map) == "(d0, d1) -> (d0, d1)"
    assert without_domain(answer[3][0].map) == "(d0, d1) -> (d1)"
    assert without_domain(input_to_output(ins, 3)[0][0].map) == "(d0)[s0] -> (s0, d0)"


@pytest.mark.parametrize("uplo", "LU")
def test_a_factor_in_place_reads_its_triangle_and_the_rest_itself(uplo: str) -> None:
    ins = instruction(
        "(f32[5,3,3], s32[5]) custom-call(f32[5,3,3]), custom_call_target="
        f'"lapack_spotrf_ffi", backend_config={{uplo = {ord(uplo)} : ui8}}'
    )
    triangle = np.tril if uplo == "L" else np.triu
    is_read = triangle(np.ones((3, 3), bool))
    reads = {
        ((b, i, j), (b, r, c))
        for b in range(5)
        for i, j, r, c in np.ndindex(3, 3, 3, 3)
        if (is_read[i, j] and is_read[r, c]) or (i, j) == (r, c)
    }
    ((factor,), (code,)) = output_to_input(ins), output_to_input(ins, 1)
    assert {pair[:2] for pair in relation(factor, Values(0))} == reads
    written, codes = input_to_output(ins, 0)
    assert {pair[1::-1] for pair in relation(written, Values(0))} == reads
    assert {a.precision for a in (*factor, *written, *code, *codes)} == {Precision.OVER}
    assert without_domain(code[0].map) == "(d0)[s0, s1] -> (d0, s0, s1)"
    execution = Execution(ins)
    for output in range(2):
        shown = execution.check(output, 0, 0)
        assert (shown.reason, shown.violation) == ("", None)


def test_a_factorisation_stays_within_its_batch() -> None:
    ins = instruction(
        "(f32[7,5,4], s32[7,4], s32[7]) custom-call(f32[7,5,4]), "
        'custom_call_target="lapack_sgetrf_ffi"'
    )
    for output, expected in enumerate(
        [
            "(d0, d1, d2)[s0, s1] -> (d0, s0, s1)",
            "(d0, d1)[s0, s1] -> (d0, s0, s1)",
            "(d0)[s0, s1] -> (d0, s0, s1)",
        ]
    ):
        ((access,),) = output_to_input(ins, output)
        assert access.precision is Precision.OVER
        assert access.reason
        assert without_domain(access.map) == expected


def test_settings_that_nobody_can_read_make_the_call_unknown() -> None:
    text = '(f32[2,4], s8[9]) custom-call(f32[2,3], f32[3,4]), custom_call_target="__cublas$gemm"'
    for config in ("", ', backend_config="opaque"', ', backend_config={"alpha":1}'):
        for accesses in output_to_input(instruction(text + config)):
            assert [a.precision for a in accesses] == [Precision.UNKNOWN]


APPROXIMATE = """
HloModule m
gt { a = f32[] parameter(0) b = f32[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3)
  ROOT c = pred[] compare(a, b), direction=GT }
ENTRY e { x = f32[4,9] parameter(0) i = s32[4,9] iota(), iota_dimension=1
  z = f32[] constant(0) k = s32[] constant(0)
  ROOT t = (f32[4,2], s32[4,2]) custom-call(x, i, z, k), custom_call_target="ApproxTopK",
    called_computations={gt},
    backend_config={is_fallback = %s, reduction_dim = 1 : i64, top_k = 2 : i64}
}
"""


@pytest.mark.parametrize("exact", [True, False])
def test_the_best_of_a_line_are_read_from_the_line(exact: bool) -> None:
    ins = parse_hlo(APPROXIMATE % str(exact).lower()).entry.root
    precision = Precision.EXACT if exact else Precision.OVER
    for output, read in ((0, (0,)), (1, (0, 1))) if exact else ((0, range(4)), (1, range(4))):
        answer = output_to_input(ins, output, reader=Analysis().bodies)
        assert [k for k, accesses in enumerate(answer) if accesses] == list(read)
        (access,) = answer[0]
        assert str(access.map).startswith("(d0, d1)[s0] -> (d0, s0)")
        assert access.precision is precision
    (back,) = input_to_output(ins, 0, reader=Analysis().bodies)[0]
    assert str(back.map).startswith("(d0, d1)[s0] -> (d0, s0)")
    assert "s0 in [0, 1]" in str(back.map)


def test_an_initial_value_of_the_best_of_a_line_may_reach_every_output() -> None:
    ins = parse_hlo(APPROXIMATE % "false").entry.root
    for operand in (2, 3):
        for ((access,),) in zip(input_to_output(ins, operand), strict=True):
            assert str(access.map) == "()[s0, s1] -> (s0, s1), domain: s0 in [0, 3], s1 in [0, 1]"


def test_the_configuration_of_a_stablehlo_call_counts() -> None:
    text = """func.func @main(%a: tensor<2x2xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %0 = stablehlo.custom_call @lapack_strsm_ffi(%a, %b) {mhlo.backend_config = {diag = 85 : ui8,
        side = 76 : ui8, trans_x = 78 : ui8, uplo = 76 : ui8}} :
        (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
      return %0 : tensor<2x3xf32>
    }"""
    solved = output_to_input(parse_stablehlo(text).entry["0"])
    same = instruction(
        'f32[2,3] custom-call(f32[2,2], f32[2,3]), custom_call_target="lapack_strsm_ffi", '
        "backend_config={diag = 85 : ui8, side = 76 : ui8, trans_x = 78 : ui8, uplo = 76 : ui8}"
    )
    assert solved == output_to_input(same)


@pytest.mark.parametrize("first", [0, 1])
def test_custom_calls_that_differ_in_their_config_only_have_their_own_maps(first: int) -> None:
    head = 'f32[2,2] custom-call(f32[2,2], f32[2,2]), custom_call_target="__cublas$gemm", '
    plain = instruction(head + GEMM)
    turned = GEMM.replace('"lhs_contracting_dimensions":["1"', '"lhs_contracting_dimensions":["0"')
    extras = instruction(head + turned).extras
    other = Instruction("other", plain.type, plain.op, plain.operands, (), extras)
    analysis = Analysis()
    calls = [plain, other]
    found = {ins: analysis.output_to_input(ins)[0, 0] for ins in (calls[first], calls[1 - first])}
    assert [str(access.map) for access in found[plain]] == [
        "(d0, d1)[s0] -> (d0, s0), domain: d0 in [0, 1], d1 in [0, 1], s0 in [0, 1]"
    ]
    assert [str(access.map) for access in found[other]] == [
        "(d0, d1)[s0] -> (s0, d0), domain: d0 in [0, 1], d1 in [0, 1], s0 in [0, 1]"
    ]


@pytest.mark.parametrize(
    "call",
    [
        'f32[2,4] custom-call(f32[2,4], f32[2,4]), custom_call_target="MoveToHost"',
        'f32[2,4] custom-call(), custom_call_target="MoveToHost"',
        '(f32[2,4], s8[9]) custom-call(f32[2,3]), custom_call_target="__cublas$gemm", ' + GEMM,
        "f32[2,3] custom-call(f32[2,2], f32[2,3]), custom_call_target="
        '"lapack_strsm_ffi", backend_config={side = 76 : ui8, uplo = 76 : ui8, diag = 78 : ui8}',
        "(f32[2], s32[2]) custom-call(f32[9], s32[9], f32[], s32[]), custom_call_target="
        '"ApproxTopK", backend_config={is_fallback = true}',
    ],
)
def test_a_call_that_misses_something_or_has_too_much_is_unknown(call: str) -> None:
    ins = instruction(call)
    reads = output_to_input(ins)
    writes = [each for k in range(len(ins.operands)) for each in input_to_output(ins, k)]
    assert {a.precision for found in (*reads, *writes) for a in found} <= {Precision.UNKNOWN}
    assert all([*reads, *writes])
