# ruff: noqa: E501  (tables read best with one row a line)
from __future__ import annotations

import pytest

from hloscope.ir.graph import Instruction, Module
from hloscope.ir.op import Op, Written
from hloscope.ir.types import ELEMENT_TYPES, TensorType
from hloscope.mlir.constants import MlirLiteral
from hloscope.mlir.dialects.registry import CLASSES
from hloscope.mlir.ir import DenseAttr
from hloscope.ops import OPS, control
from hloscope.ops.collectives import AllReduce, CollectivePermute
from hloscope.ops.contraction import DotDimensions, DotGeneral
from hloscope.ops.control import Case, Composite, CustomCall, UnknownOp
from hloscope.ops.convolution import ConvDimensions, Convolution
from hloscope.ops.dynamic import DynamicBroadcastInDim, GetDimensionSize
from hloscope.ops.elementwise import Compare, ReducePrecision
from hloscope.ops.gather_scatter import Gather
from hloscope.ops.groups import Table
from hloscope.ops.linalg import Fft
from hloscope.ops.partition import ShardingConstraint
from hloscope.ops.random import RngBitGenerator
from hloscope.ops.reduction import Reduce, Sort, TopK
from hloscope.ops.shape import BroadcastInDim, Concatenate, Constant, Iota, Pad, Transpose
from hloscope.ops.slicing import DynamicSlice, Slice
from hloscope.ops.transfers import Infeed
from hloscope.ops.windows import ReduceWindow, Window
from hloscope.stablehlo import parse_stablehlo
from hloscope.stablehlo.kinds import KINDS, kind_of
from hloscope.stablehlo.op_making import own_attributes


def read(lines: str, *arguments: str) -> Module:
    """A function of arguments `%a`, `%b`, … of the given types."""
    listed = ", ".join(f"%{n}: {t}" for n, t in zip("abcdef", arguments, strict=False))
    return parse_stablehlo(f"func.func @main({listed}) {{\n{lines}\n}}\n")


def first(lines: str, *arguments: str) -> Instruction:
    return read(lines, *arguments).entry.instructions[len(arguments)]


def dense(text: str, type: TensorType) -> MlirLiteral:
    return MlirLiteral(DenseAttr(text, type), type)


F32 = ELEMENT_TYPES["f32"]
T4, T23, S = "tensor<4xf32>", "tensor<2x3xf32>", "tensor<f32>"
TOKEN = "!stablehlo.token"
WINDOW = Window((2,), (2,), ((0, 1),), (1,), (1,), (False,))

PRETTY: list[tuple[str, tuple[str, ...], Op]] = [
    (f"%0 = stablehlo.add %a, %a : {T4}", (T4,), OPS["add"]()),
    (f"%0 = chlo.erf %a : {T4} -> {T4}", (T4,), OPS["erf"]()),
    (
        f"%0 = stablehlo.compare LT, %a, %a, FLOAT : ({T4}, {T4}) -> tensor<4xi1>",
        (T4,),
        Compare(comparison_direction="LT", compare_type="FLOAT"),
    ),
    (
        f"%0 = stablehlo.reduce_precision %a, format = e5m10 : {T4}",
        (T4,),
        ReducePrecision(exponent_bits=5, mantissa_bits=10),
    ),
    (
        "%0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>",
        (),
        Constant(dense("[1.0, 2.0]", TensorType(F32, (2,)))),
    ),
    ("%0 = stablehlo.iota dim = 1 : tensor<2x3xi32>", (), Iota(1)),
    (
        f"%0 = stablehlo.broadcast_in_dim %a, dims = [1] : ({T4}) -> tensor<2x4xf32>",
        (T4,),
        BroadcastInDim((1,)),
    ),
    (
        f"%0 = stablehlo.transpose %a, dims = [1, 0] : ({T23}) -> tensor<3x2xf32>",
        (T23,),
        Transpose((1, 0)),
    ),
    (
        f"%0 = stablehlo.slice %a [0:2, 0:3:2] : ({T23}) -> tensor<2x2xf32>",
        (T23,),
        Slice((0, 0), (2, 3), (1, 2)),
    ),
    (
        f"%0 = stablehlo.pad %a, %b, low = [-1], high = [2], interior = [0] : ({T4}, {S}) -> "
        "tensor<5xf32>",
        (T4, S),
        Pad((-1,), (2,), (0,)),
    ),
    (
        f"%0 = stablehlo.concatenate %a, %a, dim = 0 : ({T4}, {T4}) -> tensor<8xf32>",
        (T4,),
        Concatenate(0),
    ),
    (
        f"%0 = stablehlo.dynamic_slice %a, %b, sizes = [3] : ({T4}, tensor<i32>) -> tensor<3xf32>",
        (T4, "tensor<i32>"),
        DynamicSlice((3,)),
    ),
    (
        "%0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = "
        "[1] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x3xf32>, tensor<2x4x3xf32>) -> "
        "tensor<2x4xf32>",
        (T23, "tensor<2x4x3xf32>"),
        DotGeneral(DotDimensions((0,), (0,), (1,), (2,)), ("DEFAULT", "DEFAULT")),
    ),
    (
        "%0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, f, 0],\n"
        "  window = {stride = [2], pad = [[0, 1]], rhs_dilate = [1]}\n"
        "  {batch_group_count = 1 : i64, feature_group_count = 1 : i64} :\n"
        "  (tensor<1x8x3xf32>, tensor<2x3x5xf32>) -> tensor<1x5x4xf32>",
        ("tensor<1x8x3xf32>", "tensor<2x3x5xf32>"),
        Convolution(WINDOW, ConvDimensions(0, 2, (1,), 1, 2, (0,), 0, 1, (2,))),
    ),
    (
        f"%0 = stablehlo.reduce(%a init: %b) applies stablehlo.add across dimensions = [1] : "
        f"({T23}, {S}) -> tensor<2xf32>",
        (T23, S),
        Reduce((1,)),
    ),
    (
        "%0 = stablehlo.fft %a, type = RFFT, length = [4] : (tensor<4xf32>) -> tensor<3xcomplex<f32>>",
        (T4,),
        Fft("RFFT", (4,)),
    ),
    (
        "%s, %v = stablehlo.rng_bit_generator %a, algorithm = PHILOX : (tensor<2xui64>) -> "
        "(tensor<2xui64>, tensor<4xui32>)",
        ("tensor<2xui64>",),
        RngBitGenerator("PHILOX"),
    ),
    (
        f"%v, %i = chlo.top_k(%a, k = 3) : {T4} -> (tensor<3xf32>, tensor<3xi32>)",
        (T4,),
        TopK(3),
    ),
    (
        f"%0 = stablehlo.custom_call @foo(%a) {{has_side_effect = true}} : ({T4}) -> {T4}",
        (T4,),
        CustomCall("foo", True),
    ),
    (
        "%0 = stablehlo.constant() {value = dense<1> : tensor<i8>} : () -> tensor<i8>",
        (),
        Constant(dense("1", TensorType(ELEMENT_TYPES["s8"], ()))),
    ),
    (
        "%0 = tensor.cast %a : tensor<4xf32> to tensor<?xf32>",
        (T4,),
        UnknownOp("tensor.cast"),
    ),
    (
        "%0 = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?xf32>) -> tensor<i32>",
        ("tensor<?xf32>",),
        GetDimensionSize(0),
    ),
    (
        "%0 = stablehlo.dynamic_broadcast_in_dim %a, %b, dims = [] : (tensor<f32>, tensor<1xi32>) "
        "-> tensor<?xf32>",
        (S, "tensor<1xi32>"),
        DynamicBroadcastInDim(()),
    ),
    (
        f"%0 = stablehlo.get_tuple_element %a[1] : (tuple<{S}, {T4}>) -> {T4}",
        (f"tuple<{S}, {T4}>",),
        control.GetTupleElement(1),
    ),
    (
        f'%0 = sdy.sharding_constraint %a <@mesh, [{{"x"}}]> : {T4}',
        (T4,),
        ShardingConstraint(Written('#sdy.sharding<@mesh, [{"x"}]>')),
    ),
]


@pytest.mark.parametrize(("text", "types", "op"), PRETTY, ids=lambda x: str(x)[:40])
def test_a_pretty_form_is_read(text: str, types: tuple[str, ...], op: Op) -> None:
    assert first(text, *types).op == op


GENERIC: list[tuple[str, tuple[str, ...], Op]] = [
    (f'%0 = "stablehlo.add"(%a, %a) : ({T4}, {T4}) -> {T4}', (T4,), OPS["add"]()),
    (
        f'%0 = "stablehlo.compare"(%a, %a) <{{comparison_direction = #stablehlo'
        f"<comparison_direction EQ>}}> : ({T4}, {T4}) -> tensor<4xi1>",
        (T4,),
        Compare(comparison_direction="EQ"),
    ),
    (
        f'%0 = "stablehlo.slice"(%a) {{start_indices = dense<1> : tensor<1xi64>, '
        f"limit_indices = array<i64: 3>, strides = dense<[2]> : tensor<1xi64>}} : "
        f"({T4}) -> tensor<1xf32>",
        (T4,),
        Slice((1,), (3,), (2,)),
    ),
    (
        '%0 = "stablehlo.gather"(%a, %b) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],'
        " collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, "
        "indices_are_sorted = true, slice_sizes = array<i64: 1, 3>}> : "
        "(tensor<2x3xf32>, tensor<5x1xi32>) -> tensor<5x3xf32>",
        (T23, "tensor<5x1xi32>"),
        Gather((1,), (0,), (), (), (0,), 1, (1, 3), True),
    ),
    (
        '%0 = "stablehlo.collective_permute"(%a) <{channel_handle = #stablehlo.channel_handle<'
        "handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 0]]> : "
        f"tensor<2x2xi64>}}> : ({T4}) -> {T4}",
        (T4,),
        CollectivePermute(
            channel_id=1, channel_type=1, source_target_pairs=Table((2, 2), (0, 1, 1, 0))
        ),
    ),
    (
        f'%0:2 = "stablehlo.infeed"(%a) <{{layout = [[1, 0], [0 : i32], 2]}}> : ({TOKEN}) -> '
        f"({T4}, {TOKEN})",
        (TOKEN,),
        Infeed(layout=((1, 0), (Written("0 : i32"),), 2)),
    ),
    (
        '%0 = "stablehlo.convolution"(%a, %b) {batch_group_count = 1 : i64, dimension_numbers = '
        "#stablehlo.conv<raw input_batch_dimension = 0, input_feature_dimension = 2,"
        " input_spatial_dimensions = [1], kernel_input_feature_dimension = 1,"
        " kernel_output_feature_dimension = 2, kernel_spatial_dimensions = [0],"
        " output_batch_dimension = 0, output_feature_dimension = 1,"
        " output_spatial_dimensions = [2]>, window_strides = array<i64: 2>,"
        " padding = dense<[[0, 1]]> : tensor<1x2xi64>, feature_group_count = 1 : i64} : "
        "(tensor<1x8x3xf32>, tensor<2x3x5xf32>) -> tensor<1x5x4xf32>",
        ("tensor<1x8x3xf32>", "tensor<2x3x5xf32>"),
        Convolution(WINDOW, ConvDimensions(0, 2, (1,), 1, 2, (0,), 0, 1, (2,))),
    ),
    (
        '%0 = "stablehlo.dot_general"(%a, %b) <{dot_dimension_numbers = #stablehlo.dot<'
        "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : "
        "(tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>",
        (T23, "tensor<3x4xf32>"),
        DotGeneral(DotDimensions((), (), (1,), (0,))),
    ),
]


@pytest.mark.parametrize(("text", "types", "op"), GENERIC, ids=lambda x: str(x)[:40])
def test_a_generic_form_is_read(text: str, types: tuple[str, ...], op: Op) -> None:
    assert first(text, *types).op == op


BODY = """({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %z = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %z : tensor<f32>
    })"""


@pytest.mark.parametrize(
    ("text", "types", "op"),
    [
        (
            f'%0 = "stablehlo.reduce"(%a, %b) <{{dimensions = array<i64: 0>}}> {BODY} : '
            f"({T4}, {S}) -> {S}",
            (T4, S),
            Reduce((0,)),
        ),
        (
            '%0 = "stablehlo.reduce_window"(%a, %b) <{padding = dense<[[0, 1]]> : tensor<1x2xi64>,'
            f" window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}}> {BODY} : "
            f"({T4}, {S}) -> tensor<2xf32>",
            (T4, S),
            ReduceWindow(WINDOW),
        ),
        (
            f'%0 = "stablehlo.sort"(%a) <{{is_stable = true}}> {BODY} : ({T23}) -> {T23}',
            (T23,),
            Sort(1, True),
        ),
        (
            '%0 = "stablehlo.all_reduce"(%a) <{replica_groups = dense<[[0, 2], [1, 3]]> : '
            f"tensor<2x2xi64>, use_global_device_ids}}> {BODY} : ({T4}) -> {T4}",
            (T4,),
            AllReduce(replica_groups=Table((2, 2), (0, 2, 1, 3)), use_global_device_ids=True),
        ),
    ],
    ids=lambda x: str(x)[:30],
)
def test_a_region_is_a_called_computation(text: str, types: tuple[str, ...], op: Op) -> None:
    ins = first(text, *types)
    assert ins.op == op
    (body,) = ins.calls
    assert [p.name for p in body.parameters] == ["x", "y"]
    assert [type(i.op).__name__ for i in body] == ["Parameter", "Parameter", "Add", "Return"]
    assert body.root.operands == (body["z"],)


def test_a_compact_reduction_applies_the_op_and_takes_inputs_first() -> None:
    ins = first(
        "%0:2 = stablehlo.reduce(%a init: %b), (%c init: %d) across dimensions = [0] : "
        "(tensor<4xf32>, tensor<4xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)\n"
        " reducer(%x: tensor<f32>, %y: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {\n"
        "  stablehlo.return %x, %j : tensor<f32>, tensor<i32>\n }",
        T4,
        S,
        "tensor<4xi32>",
        "tensor<i32>",
    )
    assert [o.name for o in ins.operands] == ["a", "c", "b", "d"]
    assert [p.name for p in ins.calls[0].parameters] == ["x", "i", "y", "j"]
    one = first(PRETTY[14][0], *PRETTY[14][1])
    assert [i.op.name for i in one.calls[0]] == ["parameter", "parameter", "add", "return"]


def test_a_branch_reads_values_from_outside() -> None:
    module = read(
        '%0 = "stablehlo.case"(%a) ({\n  stablehlo.return %b : tensor<f32>\n}, {\n'
        "  %1 = stablehlo.negate %b : tensor<f32>\n  stablehlo.return %1 : tensor<f32>\n}) : "
        "(tensor<i32>) -> tensor<f32>\n"
        '%2 = "stablehlo.if"(%c) ({\n  stablehlo.return %0 : tensor<f32>\n}, {\n'
        "  stablehlo.return %b : tensor<f32>\n}) : (tensor<i1>) -> tensor<f32>\n",
        "tensor<i32>",
        S,
        "tensor<i1>",
    )
    case, chosen = module.entry["0"], module.entry["2"]
    assert (case.op, chosen.op) == (Case(), Case(True))
    assert case.calls[1]["1"].operands == (module.entry["b"],)
    assert chosen.calls[0].root.operands == (case,)
    assert all(module.computations[c.name] is c for c in (*case.calls, *chosen.calls))


def test_a_loop_names_its_values_and_its_results_are_projected() -> None:
    module = read(
        "%0:2 = stablehlo.while(%i = %a, %x = %b) : tensor<i32>, tensor<f32>\n cond {\n"
        "  %1 = stablehlo.compare LT, %i, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "  stablehlo.return %1 : tensor<i1>\n } do {\n"
        "  stablehlo.return %i, %x : tensor<i32>, tensor<f32>\n }\n"
        "return %0#1, %0#0 : tensor<f32>, tensor<i32>",
        "tensor<i32>",
        S,
    )
    entry = module.entry
    loop = entry["0"]
    assert [p.name for p in loop.calls[1].parameters] == ["i", "x"]
    assert [o.op for o in entry.root.operands] == [control.Result(1), control.Result(0)]
    assert entry.root.operands[0].operands == (loop,)


def test_a_call_finds_a_function_defined_later() -> None:
    module = parse_stablehlo(
        "module @m {\n func.func public @main(%a: tensor<f32>) -> tensor<f32> {\n"
        "  %0 = call @f(%a) : (tensor<f32>) -> tensor<f32>\n"
        '  %1 = stablehlo.composite "n.f" %0 {decomposition = @f, version = 1 : i32} : '
        "(tensor<f32>) -> tensor<f32>\n  return %1 : tensor<f32>\n }\n"
        " func.func private @f(%a: tensor<f32>) -> tensor<f32> {\n  return %a : tensor<f32>\n }\n}"
    )
    assert module.name == "m"
    assert module.entry["0"].calls == module.entry["1"].calls == (module.computations["f"],)
    assert module.entry["1"].op == Composite("n.f", 1)


def test_ops_of_other_dialects_keep_what_is_written() -> None:
    ins = first('%0 = "a.b"(%a) <{x = 1 : i64}> {y} : (tensor<f32>) -> !a.t', S)
    assert ins.op == UnknownOp("a.b", (("x", "1 : i64"), ("y", "unit")))


KEPT_AS_TEXT = {
    "accuracy", "algorithm", "aliases", "any", "array", "callees", "config", "dict", "f64", "ints",
    "layouts", "programs", "symbols", "typed",
}  # fmt: skip
"""Constraints of attributes that no class has a field for and nobody computes with."""


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_attribute_of_a_row_has_its_place(name: str) -> None:
    fields = CLASSES[name].__struct_fields__
    for slot in own_attributes(name):
        assert slot.constraint in KINDS or slot.constraint in KEPT_AS_TEXT, slot
        spreads = kind_of(slot.constraint).spreads or slot.constraint in ("conv", "dims", "pairs")
        is_window = "window" in fields and slot.constraint == "bools"
        assert slot.field in fields or "settings" in fields or spreads or is_window, slot
