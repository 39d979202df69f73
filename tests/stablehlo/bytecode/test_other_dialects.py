"""Bytecode of dialects beside StableHLO, in all its versions, as jaxlib writes it."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from hloscope.errors import HloscopeError, UnsupportedError
from hloscope.mlir import Operation, StructAttr, UnitAttr, parse_mlir, print_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.passes import find_pass
from hloscope.stablehlo.bytecode import (
    BytecodeError,
    read_artifact,
    read_bytecode,
    write_artifact,
    write_bytecode,
)

GROUPS = """func.func @f(%a: tensor<?x4xf32>, %n: index, %v: f32) -> tensor<?x3xf32> {
  %0 = "tensor.pad"(%a, %n, %n) <{operandSegmentSizes = array<i32: 1, 1, 1>,
      static_low = array<i64: 1, -9223372036854775808>,
      static_high = array<i64: -9223372036854775808, 2>}> ({
  ^bb0(%i: index, %j: index):
    "tensor.yield"(%v) : (f32) -> ()
  }) : (tensor<?x4xf32>, index, index) -> tensor<?x?xf32>
  %1 = "tensor.extract_slice"(%0) <{operandSegmentSizes = array<i32: 1, 0, 0, 0>,
      static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 3, 3>,
      static_strides = array<i64: 1, 1>}> : (tensor<?x?xf32>) -> tensor<3x3xf32>
  %2 = "tensor.extract_slice"(%0, %n, %n) <{operandSegmentSizes = array<i32: 1, 0, 2, 0>,
      static_offsets = array<i64: 0, 0>, static_sizes = array<i64: -9223372036854775808,
      -9223372036854775808>, static_strides = array<i64: 1, 1>}> : (tensor<?x?xf32>, index,
      index) -> tensor<?x?xf32>
  %3 = "tensor.cast"(%1) : (tensor<3x3xf32>) -> tensor<?x3xf32>
  "func.return"(%3) : (tensor<?x3xf32>) -> ()
}"""
BRANCHES = """func.func @f(%c: i1, %x: i32) -> i32 {
  "cf.cond_br"(%c, %x)[^a, ^b] <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (i1, i32) -> ()
^a(%y: i32):
  cf.br ^c(%y : i32)
^b:
  "cf.switch"(%x, %x, %x)[^c, ^a, ^b] <{case_operand_segments = array<i32: 1, 0>,
      case_values = dense<[1, 2]> : vector<2xi32>, operandSegmentSizes = array<i32: 1, 1,
      1>}> : (i32, i32, i32) -> ()
^c(%z: i32):
  return %z : i32
}"""
SCAN = """func.func @f(%a: tensor<4xi32>, %b: tensor<i32>) -> (tensor<4xi32>, tensor<i32>) {
  %0:2 = chlo.scan(%a) inits (%b) dimension=0 {
  ^bb0(%x: tensor<i32>, %y: tensor<i32>):
    %1 = stablehlo.add %x, %y : tensor<i32>
    stablehlo.return %1, %1 : tensor<i32>, tensor<i32>
  } : (tensor<4xi32>, tensor<i32>) -> (tensor<4xi32>, tensor<i32>)
  return %0#0, %0#1 : tensor<4xi32>, tensor<i32>
}"""
RESOURCES = """func.func @f() -> tensor<2xf32>
    attributes {x = dense_resource<second> : tensor<2xf32>} {
  %0 = stablehlo.constant dense_resource<first> : tensor<2xf32>
  return %0 : tensor<2xf32>
}
{-#
  dialect_resources: {
    builtin: {
      second: "0x100000000000803F00000040",
      first: "0x040000000000803F00000040"
    }
  }
#-}"""
MEMREFS = """func.func @f(%a: memref<2x?xf32>, %b: memref<2xf32, 1>,
      %c: memref<2xf32, strided<[1]>>,
      %d: memref<*xf32>, %e: memref<*xf32, 1>, %i: index) {
  %0 = "memref.load"(%a, %i, %i) : (memref<2x?xf32>, index, index) -> f32
  %1 = "memref.alloc"(%i) <{operandSegmentSizes = array<i32: 1, 0>}> : (index) -> memref<?xf32>
  %2 = "memref.cast"(%a) : (memref<2x?xf32>) -> memref<2x3xf32>
  "scf.for"(%i, %i, %i) ({
  ^bb0(%j: index):
    "scf.yield"() : () -> ()
  }) : (index, index, index) -> ()
  return
}"""
SHARDING = """sdy.mesh @m = <["x"=4, "y"=4]>
func.func @f(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = sdy.sharding_constraint %a <@m, [{"x"}, {}], unreduced={"y"}> : tensor<8x8xf32>
  %1 = sdy.all_reduce {"y"} %0 out_sharding=<@m, [{"x"}, {}]> : tensor<8x8xf32>
  %2 = sdy.all_to_all [{"x"}: 0->1] %1 out_sharding=<@m, [{}, {"x"}]> : tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}"""

WRITTEN = {
    GROUPS: "a1d7eac22abe",
    BRANCHES: "e7993eabd5dd",
    SCAN: "64331efdd558",
    RESOURCES: "60f2c49078b9",
    MEMREFS: "f9b3d2608af6",
    SHARDING: "aeaf5752b089",
}
"""The digest of what jaxlib 0.10.2 writes in versions 0 to 6 of bytecode, without locations."""


def tree_of(text: str) -> Operation:
    return find_pass("strip-debuginfo").apply(parse_mlir(text, dialects=DIALECTS))[0]


@pytest.mark.parametrize(
    "text", WRITTEN, ids=["groups", "branches", "scan", "resources", "memrefs", "sharding"]
)
def test_other_dialects_are_written_as_jaxlib_writes_them(text: str) -> None:
    tree, digest = tree_of(text), hashlib.sha1()
    for version in range(7):
        data = write_bytecode(tree, producer="MLIR23.0.0git", version=version)
        digest.update(data)
        found = read_bytecode(data)
        assert write_bytecode(found.module, producer="MLIR23.0.0git", version=version) == data
        assert print_mlir(found.module, dialects=DIALECTS) == print_mlir(tree, dialects=DIALECTS)
    assert digest.hexdigest()[:12] == WRITTEN[text]


@pytest.mark.slow(keep=1)
@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", [GROUPS, BRANCHES, RESOURCES, SHARDING])
def test_any_damaged_byte_is_met_with_an_error_of_ours(text: str) -> None:
    data = write_bytecode(tree_of(text), producer="x", version=6)
    read = 0
    for at in range(6, len(data)):
        for value in (data[at] ^ 1, data[at] ^ 0x80, 0, 0xFF):
            damaged = data[:at] + bytes([value]) + data[at + 1 :]
            try:
                print_mlir(read_bytecode(damaged).module, dialects=DIALECTS)
                read += 1
            except HloscopeError:
                continue
    assert read < 4 * len(data)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('func.func @f() attributes {a = distinct[0]<1 : i32>} { return }', "distinct"),
        ('func.func @f() attributes {a = sparse<[[0]], [1]> : tensor<2xi32>} { return }', "sparse"),
        ('func.func @f() attributes {a = affine_map<(d0)->(d0)>} { return }', "affine_map"),
        ('func.func @f(%a: tensor<2xf32>) { "tensor.new"(%a) : (tensor<2xf32>) -> () return }',
         r"tensor\.new cannot be written: its properties are not known"),
        ('func.func @f(%a: tensor<2xf32>, %i: index) { "tensor.extract_slice"(%a, %i)'
         " <{operandSegmentSizes = array<i32: 1, 0, 0, 0>}> : (tensor<2xf32>, index) -> tensor<f32>"
         " return }", "does not sum up"),
        ('func.func @f(%a: tensor<2xf32>) { "tensor.pad"(%a) : (tensor<2xf32>) -> () return }',
         "the sizes of 3 groups are needed"),
    ],
)  # fmt: skip
def test_what_would_be_written_wrong_is_refused(text: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        write_bytecode(tree_of(text), producer="x", version=6)


def test_resources_of_a_file_are_the_end_of_its_text() -> None:
    module = read_bytecode(write_bytecode(tree_of(RESOURCES), producer="x", version=6)).module
    assert RESOURCES[RESOURCES.index("{-#") :] in print_mlir(module, dialects=DIALECTS)
    data = write_artifact(tree_of(RESOURCES), "1.17.0", library="1.17.0", allow_other_dialects=True)
    assert bytes.fromhex("0000803F00000040") in data
    with pytest.raises(UnsupportedError, match="dense_resource<first>"):
        write_artifact(tree_of(RESOURCES))


def test_groups_say_what_they_have() -> None:
    data = bytearray(write_bytecode(tree_of(GROUPS), producer="x", version=6))
    at = data.rindex(bytes.fromhex("0d030303"))  # three groups of one each
    data[at] = 0x11  # four
    with pytest.raises(BytecodeError, match="sizes of 4 groups where there are 3"):
        read_bytecode(bytes(data))


@pytest.mark.parametrize("text", ["@f", "[@f]", "{x = @f}"])
def test_names_of_functions_are_strings_in_artifacts(text: str) -> None:
    tree = tree_of(f"func.func @f() attributes {{a = {text}}} {{ return }}")
    string = text.replace("@f", '"f"')
    again = tree_of(f"func.func @f() attributes {{a = {string}}} {{ return }}")
    assert write_artifact(tree) == write_artifact(again)


@pytest.mark.parametrize(
    "value",
    ["vector<2xf32>", "f80", "3 : i3", "dense<1> : tensor<2xi3>", "[f80]", "{x = 3 : i3}",
     '"a" : i32', "(f80) -> f32", "3 : index"],
)  # fmt: skip
def test_values_of_types_that_vhlo_lacks_are_refused_in_mixed_programs_too(value: str) -> None:
    tree = tree_of(f"func.func @f() attributes {{a = {value}}} {{ return }}")
    if value == "3 : index":
        write_artifact(tree, allow_other_dialects=True)
        return
    with pytest.raises(UnsupportedError, match="the attribute `a` has no form in VHLO"):
        write_artifact(tree, allow_other_dialects=True)


ON_AN_OP = """func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.custom_call @ext(%a) {note = array<i64: 4, 5>, w = array<i1: true, false>,
      d = dense<[1,2]> : tensor<2xi64>} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}"""
ON_FUNCTIONS = """module attributes {m.a = array<i64: 1>} {
func.func @main(%a: tensor<2xf32> {x.y = array<i64: 1, 2>}) -> tensor<2xf32>
    attributes {z.w = array<i1: true>} {
  return %a : tensor<2xf32>
}
}"""
NESTED = """func.func private @d(%a: tensor<2xf32>) -> tensor<2xf32> attributes {n = [array<i64>]} {
  return %a : tensor<2xf32>
}
func.func @main(%a: tensor<2xf32>) -> (tensor<2xf32> {x.y = {k = [array<i1: true>]}}) {
  %0 = stablehlo.composite "x.y" %a {composite_attributes = {p = array<i64: 7, 7>,
      q = {r = array<i1>}}, decomposition = @d} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = stablehlo.custom_call @e(%0) {api_version = 4 : i32,
      backend_config = {s = array<i1: true, true>, t = [array<i64: -1>, 2 : i32]}} :
      (tensor<2xf32>) -> tensor<2xf32>
  %2 = call @d(%1) {u = [array<i64: -9223372036854775808, 9223372036854775807>]} :
      (tensor<2xf32>) -> tensor<2xf32>
  return %2 : tensor<2xf32>
}"""
ARRAYS = {
    ON_AN_OP: {"0.19.0": "e7d4bb610e3e", "1.0.0": "9d40e812f965", "1.13.0": "aa8b6cda62fc"},
    ON_FUNCTIONS: {"0.19.0": "3281219ad994", "1.0.0": "ae82f9467b13", "1.13.0": "54fd9b528271"},
    NESTED: {"1.3.0": "0c3fe1fb74e6", "1.13.0": "06f8b800ae67", "1.17.0": "bc2399865a6d"},
}
"""The digests of what jaxlib 0.10.2 writes for each target, without locations."""


@pytest.mark.parametrize("text", ARRAYS, ids=["on an op", "on functions", "nested"])
def test_arrays_of_attributes_without_a_type_are_written_as_tensors(text: str) -> None:
    for target, digest in ARRAYS[text].items():
        data = write_artifact(tree_of(text), target)
        assert hashlib.sha1(data).hexdigest()[:12] == digest
        back = read_artifact(data)
        assert write_artifact(back, target) == data
        text_back = print_mlir(back, dialects=DIALECTS).replace("m.a = array<", "")
        assert "array<" not in text_back


def test_arrays_of_the_module_stay_arrays() -> None:
    back = read_artifact(write_artifact(tree_of(ON_FUNCTIONS), "1.0.0"))
    assert "module attributes {m.a = array<i64: 1>}" in print_mlir(back, dialects=DIALECTS)


@pytest.mark.parametrize("value", ["array<i32: 1>", "[array<i8>]", "{x = array<f32: 1.0>}"])
def test_arrays_of_other_types_have_no_form_and_are_kept_if_that_is_allowed(value: str) -> None:
    tree = tree_of(f"func.func @f() attributes {{a = {value}}} {{ return }}")
    with pytest.raises(UnsupportedError, match="the attribute `a` has no form in VHLO: array<"):
        write_artifact(tree)
    kept = read_artifact(write_artifact(tree, allow_other_dialects=True))
    assert value.strip("[{x =}]")[:9] in print_mlir(kept, dialects=DIALECTS)


@pytest.mark.parametrize(
    "value",
    ["#stablehlo.bounds<2>", "#stablehlo.channel_handle<handle = 1, type = 1>",
     "#stablehlo.gather<offset_dims = [0]>", "[#stablehlo.dot<lhs_contracting_dimensions = [0], "
     "rhs_contracting_dimensions = [0]>]"],
)  # fmt: skip
def test_structures_of_ops_have_no_form_as_attributes_of_other_names(value: str) -> None:
    """jaxlib refuses them too, programs mixed with other dialects included."""
    tree = tree_of(f"func.func @f() attributes {{a = {value}}} {{ return }}")
    for allowed in (False, True):
        with pytest.raises(UnsupportedError, match="the attribute `a` has no form in VHLO"):
            write_artifact(tree, allow_other_dialects=allowed)


def test_enums_of_chlo_are_not_those_of_vhlo() -> None:
    tree = tree_of("func.func @f() attributes {a = #chlo<comparison_type FLOAT>} { return }")
    with pytest.raises(UnsupportedError, match="#chlo<comparison_type FLOAT>"):
        write_artifact(tree)
    kept = read_artifact(write_artifact(tree, allow_other_dialects=True))
    assert "a = #chlo<comparison_type FLOAT>" in print_mlir(kept, dialects=DIALECTS)


def test_structures_of_shardy_with_other_parts_are_damaged_bytecode() -> None:
    parts: Any = (UnitAttr(),)
    tree = tree_of('sdy.mesh @m = <["x"=2]>')
    (mesh,) = tree.regions[0].block.operations
    mesh.properties = {
        **mesh.properties,
        "mesh": StructAttr("sdy", "manual_axes", (("axes", parts),)),
    }
    data = write_bytecode(tree, producer="x", version=6)
    with pytest.raises(BytecodeError, match="an attribute of Shardy is needed"):
        read_bytecode(data)


@pytest.mark.parametrize("op", ["all_reduce max", "reduce_scatter min"])
def test_a_named_reduction_is_written_and_read_back(op: str) -> None:
    axes = '{"y"}' if op.startswith("all") else '[{"y"}, {}]'
    result = "{}, {}" if op.startswith("all") else '{"y"}, {}'
    text = f"""sdy.mesh @m = <["x"=4, "y"=4]>
func.func @f(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {{
  %0 = sdy.{op} {axes} %a out_sharding=<@m, [{result}]> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}}"""
    tree = tree_of(text)
    for version in range(7):
        data = write_bytecode(tree, producer="MLIR23.0.0git", version=version)
        found = read_bytecode(data).module
        assert print_mlir(found, dialects=DIALECTS) == print_mlir(tree, dialects=DIALECTS)
        assert f"sdy.{op} " in print_mlir(found, dialects=DIALECTS)
