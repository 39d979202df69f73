"""Programs go to VHLO and back, and from version to version, or say all that keeps them."""

from __future__ import annotations

import pytest

from hloscope.errors import UnsupportedError
from hloscope.mlir import Operation, parse_mlir, print_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.stablehlo.vhlo import (
    CURRENT,
    DowngradeError,
    obstacles,
    to_stablehlo,
    to_version,
    to_vhlo,
    version_of,
)

PROGRAMS = {
    "elementwise": """func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.exponential %a : tensor<4xf32>
      %1 = stablehlo.tanh %0 {result_accuracy = #stablehlo.result_accuracy<ulps = 10, mode = \
#stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<4xf32>
      %2 = stablehlo.compare GT, %0, %1, FLOAT : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
      %3 = stablehlo.select %2, %0, %1 : tensor<4xi1>, tensor<4xf32>
      return %3 : tensor<4xf32> }""",
    "dot": """func.func @f(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<2x4xf32> {
      %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0], precision = [HIGH, \
DEFAULT] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
      return %0 : tensor<2x4xf32> }""",
    "convolution": """func.func @f(%a: tensor<1x8x8x3xf32>, %b: tensor<3x3x3x2xf32>) \
-> tensor<1x4x4x2xf32> {
      %0 = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], \
window = {stride = [2, 2], pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, \
feature_group_count = 1 : i64} : (tensor<1x8x8x3xf32>, tensor<3x3x3x2xf32>) -> tensor<1x4x4x2xf32>
      return %0 : tensor<1x4x4x2xf32> }""",
    "gather": """func.func @f(%a: tensor<3x4x2xf32>, %i: tensor<2x3x2xi64>) \
-> tensor<2x3x2x2xf32> {
      %0 = "stablehlo.gather"(%a, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2, \
3], collapsed_slice_dims = [0], start_index_map = [1, 0], index_vector_dim = 2>, \
slice_sizes = array<i64: 1, 2, 2>}> : (tensor<3x4x2xf32>, tensor<2x3x2xi64>) -> tensor<2x3x2x2xf32>
      return %0 : tensor<2x3x2x2xf32> }""",
    "regions": """func.func @f(%a: tensor<4x8xf32>, %n: tensor<i32>) -> tensor<4xf32> {
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] \
: (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
      %1:2 = stablehlo.while(%x = %0, %i = %n) : tensor<4xf32>, tensor<i32> cond {
        %c = stablehlo.constant dense<3> : tensor<i32>
        %2 = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %2 : tensor<i1>
      } do {
        %2 = stablehlo.add %x, %0 : tensor<4xf32>
        %c = stablehlo.constant dense<1> : tensor<i32>
        %3 = stablehlo.add %i, %c : tensor<i32>
        stablehlo.return %2, %3 : tensor<4xf32>, tensor<i32>
      }
      return %1#0 : tensor<4xf32> }""",
    "calls": """module @m attributes {mhlo.num_partitions = 1 : i32} {
      func.func public @main(%a: tensor<?x2xf32, #stablehlo.bounds<8, ?>> {mhlo.sharding = "x"}) \
-> (tensor<?x2xf32, #stablehlo.bounds<8, ?>> {jax.result_info = ""}) {
        %0 = call @g(%a) : (tensor<?x2xf32, #stablehlo.bounds<8, ?>>) \
-> tensor<?x2xf32, #stablehlo.bounds<8, ?>>
        %1 = stablehlo.custom_call @h(%0) {backend_config = "b", mhlo.x = {y = 1 : i64}, \
called_computations = [@g], has_side_effect = true} \
: (tensor<?x2xf32, #stablehlo.bounds<8, ?>>) -> tensor<?x2xf32, #stablehlo.bounds<8, ?>>
        return %1 : tensor<?x2xf32, #stablehlo.bounds<8, ?>>
      }
      func.func private @g(%a: tensor<?x2xf32, #stablehlo.bounds<8, ?>>) \
-> tensor<?x2xf32, #stablehlo.bounds<8, ?>> {
        return %a : tensor<?x2xf32, #stablehlo.bounds<8, ?>>
      } }""",
    "collectives": """func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "stablehlo.all_reduce"(%a) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, \
channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, use_global_device_ids}> ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %1 = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %1 : tensor<f32>
      }) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32> }""",
    "quantized": """func.func @f(%a: tensor<2x!quant.uniform<i8:f32, 0.5:3>>, \
%b: tensor<2x2x!quant.uniform<u8:f32:1, {1.0:1,2.0}>>) -> tensor<2xf32> {
      %0 = stablehlo.uniform_dequantize %a : \
(tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2xf32>
      return %0 : tensor<2xf32> }""",
}


def read(text: str) -> Operation:
    return parse_mlir(text, dialects=DIALECTS)


def shown(tree: Operation) -> str:
    return print_mlir(tree, dialects=DIALECTS, generic=True)


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=list(PROGRAMS))
def test_vhlo_and_back_is_the_program(text: str) -> None:
    tree = read(text)
    made = to_vhlo(tree)
    assert all(op.name.startswith(("vhlo.", "builtin.")) for op in made.walk())
    back = to_stablehlo(made)
    assert print_mlir(back, dialects=DIALECTS) == print_mlir(tree, dialects=DIALECTS)


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=list(PROGRAMS))
@pytest.mark.parametrize("target", ["0.9.0", "0.20.0", "1.0.0", "1.5.0", "1.9.0", "1.17.0"])
def test_down_and_up_again_is_the_same(text: str, target: str) -> None:
    made = to_vhlo(read(text))
    version = version_of(target)
    if obstacles(made, version):
        with pytest.raises(DowngradeError):
            to_version(made, version)
        return
    down = to_version(made, version).module
    up = to_version(down, CURRENT).module
    assert shown(up) == shown(made)
    names = {op.name for op in made.walk()} - {op.name for op in down.walk()}
    assert not names or all(name.endswith("_v2") for name in names)


def test_symbols_and_arrays_in_attributes_of_any_name_take_the_form_of_vhlo() -> None:
    tree = read("""func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.abs %a {x.array = array<i64: 1, 2>, x.list = [@f, {y = array<i1: true>}], \
x.symbol = @f} : tensor<2xf32>
      return %0 : tensor<2xf32> }""")
    for text in (
        "x.array = dense<[1, 2]> : tensor<2xi64>",
        'x.list = ["f", {y = dense<true> : tensor<1xi1>}]',
        'x.symbol = "f"',
    ):
        assert text in shown(to_vhlo(tree))


def test_an_older_version_has_the_older_form_of_an_op() -> None:
    made = to_vhlo(read(PROGRAMS["dot"]))
    down = to_version(made, version_of("1.5.0")).module
    ops = {op.name: op.properties for op in down.walk()}
    assert "lhs_precision_type" not in ops["vhlo.dot_general_v1"]
    assert "vhlo.dot_general_v2" not in ops
    up = {op.name: op.properties for op in to_version(down, CURRENT).module.walk()}
    assert "lhs_precision_type" in up["vhlo.dot_general_v2"]


def test_a_downgrade_tells_everything_that_keeps_it() -> None:
    tree = read("""func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.tan %a : tensor<2xf32> loc("one")
      %1 = stablehlo.tanh %0 {result_accuracy = #stablehlo.result_accuracy<mode = \
#stablehlo.result_accuracy_mode<HIGHEST>>} : tensor<2xf32> loc("two")
      %2 = stablehlo.constant dense<1.0> : tensor<2xf8E4M3>
      return %1 : tensor<2xf32> }""")
    with pytest.raises(DowngradeError) as caught:
        to_version(to_vhlo(tree), (1, 3, 0))
    found = {(one.op, one.version) for one in caught.value.obstacles}
    assert ("vhlo.tan_v2", (1, 4, 0)) in found
    assert ("vhlo.tanh_v2", (1, 10, 0)) in found
    assert ("vhlo.constant_v1", (1, 7, 0)) in found
    for part in ('"one"', '"two"', "1.10.0", "result_accuracy", "f8E4M3", "the op tan"):
        assert part in str(caught.value)
    assert to_version(to_vhlo(tree), (1, 10, 0)).module


def test_what_vhlo_cannot_say_is_refused_all_at_once() -> None:
    tree = read("""func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = chlo.tan %a : tensor<2xf32> -> tensor<2xf32>
      %1 = stablehlo.abs %0 {mhlo.flag} : tensor<2xf32>
      return %1 : tensor<2xf32> }""")
    with pytest.raises(UnsupportedError) as caught:
        to_vhlo(tree)
    assert "chlo.tan" in str(caught.value)
    assert "mhlo.flag" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("%0 = stablehlo.create_token : !stablehlo.token", (0, 9, 0)),
        ("%0 = stablehlo.constant dense<1> : tensor<i2>", (1, 2, 0)),
        ('%0 = stablehlo.custom_call @c() {backend_config = {a = "b"}, api_version = 4 : i32} '
         ": () -> tensor<f32>", (1, 3, 0)),
        ("%0 = stablehlo.custom_call @c() : () -> memref<2xf32>", (1, 13, 0)),
        ("%0 = stablehlo.constant dense<1.0> : tensor<f6E2M3FN>", (1, 8, 0)),
    ],
)  # fmt: skip
def test_a_feature_needs_the_version_that_brought_it(text: str, needed: tuple[int, ...]) -> None:
    made = to_vhlo(read(f"func.func @f() {{ {text}\n return }}"))
    assert max([one.version for one in obstacles(made, (0, 9, 0))], default=(0, 9, 0)) == needed


def test_old_libraries_use_old_ops() -> None:
    tree = read("func.func @f() { %0 = stablehlo.custom_call @c() : () -> tensor<f32>\n return }")
    assert "vhlo.custom_call_v1" in {op.name for op in to_vhlo(tree, (1, 17, 0)).walk()}
    assert "vhlo.custom_call_v2" in {op.name for op in to_vhlo(tree).walk()}
