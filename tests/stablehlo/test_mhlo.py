"""Programs of MHLO: what StableHLO has is read as StableHLO's."""

from __future__ import annotations

import pytest

import hloscope
from hloscope.errors import Diagnostic
from hloscope.mlir import parse_mlir, print_mlir
from hloscope.mlir.dialects import DIALECTS

REDUCE = """\
func.func @main(%arg0: tensor<4x2xf32>) -> tensor<4xf32> {
  %0 = mhlo.constant dense<0.0> : tensor<f32>
  %1 = mhlo.compare GT, %arg0, %arg0, FLOAT : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xi1>
  %2 = mhlo.select %1, %arg0, %arg0 : tensor<4x2xi1>, tensor<4x2xf32>
  %3 = mhlo.reduce(%2 init: %0) applies mhlo.add across dimensions = [1] :
    (tensor<4x2xf32>, tensor<f32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
"""
PIECES = {
    "pretty": ("mhlo.abs %arg0 : tensor<4x2xf32>", "stablehlo.abs %arg0 : tensor<4x2xf32>"),
    "lists of integers": (
        '"mhlo.transpose"(%arg0) {permutation = dense<[1, 0]> : tensor<2xi64>} :'
        " (tensor<4x2xf32>) -> tensor<2x4xf32>",
        "stablehlo.transpose %arg0, dims = [1, 0] : (tensor<4x2xf32>) -> tensor<2x4xf32>",
    ),
    "a splat": (
        '"mhlo.slice"(%arg0) {start_indices = dense<0> : tensor<2xi64>, limit_indices ='
        " dense<[4, 2]> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} :"
        " (tensor<4x2xf32>) -> tensor<4x2xf32>",
        "stablehlo.slice %arg0 [0:4, 0:2] : (tensor<4x2xf32>) -> tensor<4x2xf32>",
    ),
    "an empty list": (
        '"mhlo.broadcast_in_dim"(%c) {broadcast_dimensions = dense<> : tensor<0xi64>} :'
        " (tensor<f32>) -> tensor<2xf32>",
        "stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2xf32>",
    ),
    "structures and enums": (
        '"mhlo.dot_general"(%arg0, %arg0) {dot_dimension_numbers ='
        " #mhlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1]>,"
        " precision_config = [#mhlo<precision HIGH>, #mhlo<precision DEFAULT>]} :"
        " (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x4xf32>",
        "stablehlo.dot_general %arg0, %arg0, contracting_dims = [1] x [1],"
        " precision = [HIGH, DEFAULT] : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x4xf32>",
    ),
    "types": ("mhlo.create_token : !mhlo.token", "stablehlo.create_token : !stablehlo.token"),
}


def program(op: str) -> str:
    return (
        "func.func @main(%arg0: tensor<4x2xf32>) -> tensor<4x2xf32> {\n"
        f"  %c = mhlo.constant dense<0.0> : tensor<f32>\n  %0 = {op}\n"
        "  return %arg0 : tensor<4x2xf32>\n}"
    )


@pytest.mark.parametrize(("written", "expected"), PIECES.values(), ids=PIECES)
def test_an_op_of_mhlo_is_read_as_that_of_stablehlo(written: str, expected: str) -> None:
    text = program(written)
    assert hloscope.verify(text) == []
    printed = print_mlir(parse_mlir(text, dialects=DIALECTS), dialects=DIALECTS)
    assert f"%0 = {expected}\n" in printed
    assert "mhlo." not in printed.replace("stablehlo.", "")


def test_regions_and_reducers_of_mhlo_are_read() -> None:
    assert hloscope.verify(REDUCE) == []
    names = [ins.op.name for ins in hloscope.read(REDUCE).module.entry]
    assert names == ["parameter", "constant", "compare", "select", "reduce", "return"]


def test_a_note_says_where_mhlo_is_read_as_stablehlo() -> None:
    notes: list[Diagnostic] = []
    parse_mlir(REDUCE, dialects=DIALECTS, notes=notes)
    (note,) = notes
    assert note.message == "ops of `mhlo` are read as those of `stablehlo`"
    assert note.span is not None
    assert note.span.line == 2
    assert [note.message for note in hloscope.read(REDUCE).module.notes] == [notes[0].message]


def test_what_stablehlo_does_not_have_stays_unknown() -> None:
    (found,) = hloscope.verify(program("mhlo.copy %arg0 : tensor<4x2xf32>"))
    assert "`mhlo' not found for custom op 'mhlo.copy'" in found.message


def test_attributes_of_mhlo_on_a_module_are_kept() -> None:
    text = "module attributes {mhlo.num_partitions = 2 : i32} {\n" + program(PIECES["pretty"][0])
    printed = print_mlir(parse_mlir(f"{text}\n}}", dialects=DIALECTS), dialects=DIALECTS)
    assert "mhlo.num_partitions = 2 : i32" in printed
