"""Ops that only StableHLO has, and ops whose answer is that nothing is known."""

from __future__ import annotations

import pytest

import hloscope as hs
from hloscope.fusion.analysis import Analysis
from hloscope.hlo_parser.types import parse_type
from hloscope.indexing import Precision
from hloscope.indexing.analysis import coverage, input_to_output, output_to_input
from hloscope.ir.graph import Instruction
from hloscope.ir.op import Op
from hloscope.ir.types import TensorType
from hloscope.ops import OPS
from hloscope.ops.contraction import Dot, Einsum, UnaryEinsum
from hloscope.ops.control import CustomCall, Parameter, UnknownOp
from hloscope.ops.convolution import ConvDimensions, DynamicConv
from hloscope.ops.dynamic import DynamicBroadcastInDim, DynamicIota, DynamicPad
from hloscope.ops.elementwise import ELEMENTWISE, IMPLICIT_BROADCAST
from hloscope.ops.gather_scatter import DynamicGather, TorchIndexSelect
from hloscope.ops.shape import Broadcast, Reshape, Transpose
from hloscope.ops.slicing import RealDynamicSlice
from hloscope.ops.windows import Window
from tests.indexing.relations import Values, instruction, relation, without_domain


def make(op: Op, types: str) -> Instruction:
    """An instruction from its op and `operand types -> type`."""
    inputs, _, result = types.partition("->")
    operands = [
        Instruction(f"p{k}", parse_type(text), Parameter(k))
        for k, text in enumerate(inputs.split())
    ]
    return Instruction("r", parse_type(result.strip()), op, tuple(operands))


CONV = DynamicConv(
    Window((2,), (2,), ((0, 0),), (1,), (1,), (False,)),
    ConvDimensions(0, 1, (2,), 1, 0, (2,), 0, 1, (2,)),
)
# op, types, maps of operand 0, 1 … from the output, without their domains
CASES: list[tuple[Op, str, list[str]]] = [
    (
        Dot(),
        "f32[2,3] f32[3,4] -> f32[2,4]",
        ["(d0, d1)[s0] -> (d0, s0)", "(d0, d1)[s0] -> (s0, d1)"],
    ),
    (Dot(), "f32[3] f32[3,4] -> f32[4]", ["(d0)[s0] -> (s0)", "(d0)[s0] -> (s0, d0)"]),
    (Dot(), "f32[3] f32[3] -> f32[]", ["()[s0] -> (s0)", "()[s0] -> (s0)"]),
    (
        Einsum("abc,cd->da"),
        "f32[2,3,4] f32[4,5] -> f32[5,2]",
        ["(d0, d1)[s0, s1] -> (d1, s0, s1)", "(d0, d1)[s0] -> (s0, d0)"],
    ),
    (UnaryEinsum("aa->a"), "f32[3,3] -> f32[3]", ["(d0) -> (d0, d0)"]),
    (UnaryEinsum("aba->b"), "f32[2,3,2] -> f32[3]", ["(d0)[s0] -> (s0, d0, s0)"]),
    (Broadcast((2, 3)), "f32[4] -> f32[2,3,4]", ["(d0, d1, d2) -> (d2)"]),
    (
        IMPLICIT_BROADCAST["add"](),
        "f32[3] f32[2,3] -> f32[2,3]",
        ["(d0, d1) -> (d1)", "(d0, d1) -> (d0, d1)"],
    ),
    (
        IMPLICIT_BROADCAST["add"]((0,)),
        "f32[2] f32[2,3] -> f32[2,3]",
        ["(d0, d1) -> (d0)", "(d0, d1) -> (d0, d1)"],
    ),
    (ELEMENTWISE["chlo.constant_like"](), "f32[2] -> f32[2]", [""]),
    (
        DynamicBroadcastInDim((1,)),
        "f32[3] s32[2] -> f32[2,3]",
        ["(d0, d1) -> (d1)", "(d0, d1)[s0] -> (s0)"],
    ),
    (DynamicIota(0), "s32[2] -> s32[2,3]", ["(d0, d1)[s0] -> (s0)"]),
    (
        RealDynamicSlice(),
        "f32[5] s32[1] s32[1] s32[1] -> f32[2]",
        ["(d0){rt0, rt1} -> (d0 * rt1 + rt0)", *["(d0)[s0] -> (s0)"] * 3],
    ),
    (
        DynamicPad(),
        "f32[3] f32[] s32[1] s32[1] s32[1] -> f32[9]",
        ["(d0)[s0]{rt0, rt1} -> (s0)", "(d0) -> ()", *["(d0)[s0] -> (s0)"] * 3],
    ),
    (
        CONV,
        "f32[1,2,5] f32[3,2,2] s32[1,2] -> f32[1,3,4]",
        [
            "(d0, d1, d2)[s0, s1]{rt0} -> (0, s1, d2 * 2 - rt0 + s0)",
            "(d0, d1, d2)[s0, s1]{rt0} -> (d1, s1, s0)",
            "(d0, d1, d2)[s0, s1] -> (s0, s1)",
        ],
    ),
    (
        DynamicGather((1,), (0,), (), (), (0,), 1),
        "f32[4,3] s32[2,1] s32[2] -> f32[2,3]",
        ["(d0, d1){rt0} -> (rt0, d1)", "(d0, d1)[s0] -> (d0, s0)", "(d0, d1)[s0] -> (s0)"],
    ),
    (
        TorchIndexSelect(1, 0),
        "f32[2,4,3] s32[5] -> f32[2,5,3]",
        ["(d0, d1, d2){rt0} -> (d0, rt0, d2)", "(d0, d1, d2) -> (d1)"],
    ),
    (
        TorchIndexSelect(2, 1),
        "f32[2,3,4] s32[2,5] -> f32[2,3,5]",
        ["(d0, d1, d2){rt0} -> (d0, d1, rt0)", "(d0, d1, d2) -> (d0, d2)"],
    ),
]
IDS = [f"{op.name} {types}" for op, types, _ in CASES]


@pytest.mark.parametrize(("op", "types", "maps"), CASES, ids=IDS)
def test_maps_print_as_written(op: Op, types: str, maps: list[str]) -> None:
    answer = output_to_input(make(op, types))
    assert [" ".join(without_domain(a.map) for a in accesses) for accesses in answer] == maps


@pytest.mark.parametrize(("op", "types", "maps"), CASES, ids=IDS)
def test_the_directions_are_inverse(op: Op, types: str, maps: list[str]) -> None:
    ins = make(op, types)
    for high in (1, 3):
        values = Values(high)
        for k, reads in enumerate(output_to_input(ins)):
            (writes,) = input_to_output(ins, k)
            back = {(there, here, replica) for here, there, replica in relation(writes, values)}
            assert relation(reads, values) == back


def test_sizes_without_bounds_are_unknown_with_a_reason() -> None:
    unbounded = TensorType(parse_type("f32[2]").element, (2, None), None, (None, None))  # type: ignore[union-attr]
    ins = make(ELEMENTWISE["abs"](), "f32[2] -> f32[2]")
    ins = Instruction("r", unbounded, ins.op, ins.operands)
    ((access,),) = output_to_input(ins)
    assert access.precision is Precision.UNKNOWN
    assert access.reason == "dimension 1 has no bound"


def test_bounded_sizes_count_as_their_bound() -> None:
    ((access,),) = output_to_input(make(ELEMENTWISE["abs"](), "f32[<=7] -> f32[<=7]"))
    assert str(access.map) == "(d0) -> (d0), domain: d0 in [0, 6]"


@pytest.mark.parametrize("op", [UnknownOp("frobnicate"), CustomCall("mystery")])
def test_what_is_unknown_says_why(op: Op) -> None:
    ins = make(op, "f32[2] s32[] -> f32[2]")
    for answer in (output_to_input(ins), input_to_output(ins, 1)):
        for accesses in answer:
            assert [a.precision for a in accesses] == [Precision.UNKNOWN]
            assert accesses[0].map is None
            assert accesses[0].reason


def test_a_custom_call_with_a_known_name_is_not_unknown() -> None:
    ((access,),) = output_to_input(make(CustomCall("Sharding"), "f32[2] -> f32[2]"))
    assert str(access.map) == "(d0) -> (d0), domain: d0 in [0, 1]"


def test_the_table_has_every_op_and_a_reason_for_what_is_not_exact() -> None:
    rows = coverage()
    assert [row.op for row in rows] == sorted(OPS)
    for row in rows:
        claims = {row.output_to_input, row.input_to_output}
        assert claims == {Precision.EXACT} or row.reason
    assert not [row.op for row in rows if row.reason == "no rule"]


def test_a_reshape_to_no_elements_keeps_its_rank() -> None:
    ((access,),) = output_to_input(make(Reshape(), "f32[1,0,4] -> f32[0,3]"))
    assert access.map is not None
    assert access.map.is_known_empty
    assert len(access.map.results) == 3


def test_a_program_that_is_not_valid_gets_an_answer_too() -> None:
    ins = make(Transpose((1, 2)), "f32[2,3] -> f32[3,2]")
    assert [a.reason for accesses in output_to_input(ins) for a in accesses] == [
        "operands and result do not fit together"
    ]


def test_asking_for_what_is_not_there_is_an_error() -> None:
    ins = make(Dot(), "f32[2,3] f32[3,4] -> f32[2,4]")
    with pytest.raises(ValueError, match="no output 1: `r` has 1"):
        output_to_input(ins, 1)
    with pytest.raises(ValueError, match="no operand 2: `r` has 2"):
        input_to_output(ins, 2)


BOUNDED = [
    ("f32[<=7] negate(f32[<=7])", "exact"),
    ("f32[2,<=7] broadcast(f32[<=7]), dimensions={1}", "exact"),
    ("f32[] reduce(f32[<=7], f32[]), dimensions={0}, to_apply=add", "over"),
    ("f32[<=10] concatenate(f32[3], f32[<=7]), dimensions={0}", "over"),
    ("f32[<=10] concatenate(f32[3], f32[<=7], f32[<=0]), dimensions={0}", "over"),
    ("f32[<=7] reverse(f32[<=7]), dimensions={0}", "over"),
    ("f32[2,<=7] reverse(f32[2,<=7]), dimensions={0}", "exact"),
    ("f32[<=14] reshape(f32[2,<=7])", "unknown"),
]


@pytest.mark.parametrize(("text", "claim"), BOUNDED, ids=[text for text, _ in BOUNDED])
def test_a_size_known_only_at_run_time_weakens_the_claim(text: str, claim: str) -> None:
    ins = instruction(text)
    for answer in (output_to_input(ins), input_to_output(ins)):
        assert answer[0][0].precision == claim
        assert (claim == "exact") != bool(answer[0][0].reason)


def test_a_scatter_that_overwrites_says_that_it_may_read_less() -> None:
    text = "f32[5] scatter(f32[5], s32[2,1], f32[2]), update_window_dims={}, "
    text += "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"
    for settings, claims in (
        (", to_apply=add", ["exact", "exact", "exact"]),
        (", to_apply=second", ["over", "exact", "over"]),
        (", unique_indices=true, to_apply=second", ["over", "exact", "exact"]),
        (", to_apply=first", ["exact", "never", "never"]),
    ):
        ins, reader = instruction(text + settings), Analysis().bodies
        answer = output_to_input(ins, reader=reader)
        said = [str(accesses[0].precision) if accesses else "never" for accesses in answer]
        assert said == claims
        for k, claim in enumerate(claims):
            (accesses,) = input_to_output(ins, k, reader=reader)
            assert (str(accesses[0].precision) if accesses else "never") == claim


def test_only_the_first_member_has_what_is_reduced_to_it() -> None:
    program = hs.read(
        """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %r = "stablehlo.collective_reduce"(%x) ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %s = stablehlo.add %a, %b : tensor<f32>
            stablehlo.return %s : tensor<f32>
          }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}
            : (tensor<4xf32>) -> tensor<4xf32>
          return %r : tensor<4xf32>
        }"""
    )
    found = str(program["r"].indexing())
    assert "(d0)[s0]{rt0} -> (d0) on replica (s0)   s0 in [0, 1], rt0 in [0, 0]   exact" in found
    assert "with rt0 = own position in r" in found
