"""Programs of StableHLO and other dialects as artifacts, with casts, as jaxlib writes them."""

from __future__ import annotations

import hashlib

import pytest

import hloscope
from hloscope.errors import UnsupportedError
from hloscope.mlir import FileLoc, parse_mlir, print_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.stablehlo.bytecode import (
    in_version,
    print_vhlo,
    read_bytecode,
    write_artifact,
    write_bytecode,
)

OTHERS = """func.func @f(%a: tensor<2xf32>, %b: tensor<2xf32>) {
  %0 = "my.op"(%a) {x = 1 : i32} : (tensor<2xf32>) -> tensor<2xf32>
  "my.op"(%0, %b, %a) : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> ()
  %1 = stablehlo.add %0, %a : tensor<2xf32>
  %2 = stablehlo.tanh %1 : tensor<2xf32>
  %3 = stablehlo.add %0, %2 : tensor<2xf32>
  "my.op"(%3, %1) : (tensor<2xf32>, tensor<2xf32>) -> ()
  return
}"""
SHARDED = """sdy.mesh @mesh = <["x"=2]>
func.func @a(%a: tensor<4x2xf32>, %b: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %0 = sdy.sharding_constraint %a <@mesh, [{"x"}, {}]> : tensor<4x2xf32>
  %1 = sdy.manual_computation(%0, %b) in_shardings=[<@mesh, [{"x"}, {}]>, <@mesh, [{"x"}, {}]>]
      out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"}
      (%x: tensor<2x2xf32>, %y: tensor<2x2xf32>) {
    %2 = stablehlo.add %y, %x : tensor<2x2xf32>
    %3 = stablehlo.tanh %2 : tensor<2x2xf32>
    sdy.return %3 : tensor<2x2xf32>
  } : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %4 = stablehlo.add %b, %1 : tensor<4x2xf32>
  return %4 : tensor<4x2xf32>
}"""
WRITTEN = {
    (OTHERS, "1.17.0"): "7286d78539eb",
    (OTHERS, "1.5.0"): "56aa0f8090ca",
    (OTHERS, "0.13.0"): "b9f1e4225e7c",
    (SHARDED, "1.17.0"): "5ca1db0b084c",
    (SHARDED, "1.5.0"): "b2e24337b474",
    (SHARDED, "0.13.0"): "a52ef70a1b5c",
}
"""What jaxlib 0.10.2 writes, without locations."""


def tree_of(text: str):  # type: ignore[no-untyped-def]
    return parse_mlir(text, dialects=DIALECTS, allow_unregistered=True)


@pytest.mark.parametrize(("text", "target"), WRITTEN, ids=lambda one: one[:12])
def test_mixed_programs_are_written_as_jaxlib_writes_them(text: str, target: str) -> None:
    data = write_artifact(tree_of(text), target, library="1.17.0", allow_other_dialects=True)
    assert hashlib.sha1(data).hexdigest()[:12] == WRITTEN[text, target]
    found = read_bytecode(data)
    image = found.image
    again = write_bytecode(
        found.module, producer=image.producer, version=image.version, orders=found.orders
    )
    assert again == data
    back = hloscope.deserialize(data).tree
    assert print_mlir(back, dialects=DIALECTS) == print_mlir(tree_of(text), dialects=DIALECTS)


def test_values_pass_through_one_cast_behind_where_they_come_from() -> None:
    made = in_version(tree_of(OTHERS), (1, 5, 0), allow_other_dialects=True).module
    casts = [op for op in made.walk() if op.name == "builtin.unrealized_conversion_cast"]
    assert len(casts) == 5
    lines = print_vhlo(made).splitlines()
    where = next(i for i, line in enumerate(lines) if '"my.op"' in line)
    assert "unrealized_conversion_cast %2 : tensor<2xf32> to !vhlo.tensor_v1<" in lines[where + 1]


CAST = "builtin.unrealized_conversion_cast"
BACKWARDS = f"""module {{
  "my.graph"() ({{
    %0 = {CAST} %1 : tensor<2xf32> to tensor<2xf32>
    %1 = {CAST} %2 : tensor<2xf32> to tensor<2xf32>
    %2 = {CAST} %3 : tensor<2xf32> to tensor<2xf32>
    %3 = "my.op"() : () -> tensor<2xf32>
    %4 = {CAST} to tensor<2xf32>
    %5 = {CAST} %4 : tensor<2xf32> to tensor<2xf32>
    "my.end"(%0, %1, %2, %5) : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> ()
  }}) : () -> ()
}}
"""


def test_casts_change_sides_wherever_their_operands_are_defined() -> None:
    """Of three casts of a value outside VHLO, the results of the first and third are in VHLO."""
    module = tree_of(BACKWARDS)
    vhlo, plain = "!vhlo.tensor_v1<2x!vhlo.f32_v1>", "tensor<2xf32>"
    lines = [line.strip() for line in print_vhlo(module).splitlines()]
    assert f"%0 = {CAST} %1 : {plain} to {vhlo}" in lines
    assert f"%1 = {CAST} %2 : {vhlo} to {plain}" in lines
    assert f"%2 = {CAST} %3 : {plain} to {vhlo}" in lines
    assert f"%4 = {CAST} to {plain}" in lines
    assert f"%5 = {CAST} %4 : {plain} to {vhlo}" in lines
    assert lines[8].endswith(f": ({vhlo}, {plain}, {vhlo}, {vhlo}) -> ()")


def test_casts_that_define_each_other_are_printed_and_written() -> None:
    text = f"""module {{
  "my.graph"() ({{
    %0 = {CAST} %1 : i8 to i8
    %1 = {CAST} %0 : i8 to i8
  }}) : () -> ()
}}
"""
    module = tree_of(text)
    lines = [line.strip() for line in print_vhlo(module).splitlines() if CAST in line]
    assert lines == [
        f"%0 = {CAST} %1 : !vhlo.i8_v1 to i8",
        f"%1 = {CAST} %0 : i8 to !vhlo.i8_v1",
    ]
    assert write_bytecode(module, producer="p", version=6)


def test_without_the_option_other_dialects_are_refused() -> None:
    with pytest.raises(
        UnsupportedError,
        match=r"'my\.op' that was explicitly marked illegal: the op my\.op has no form in VHLO",
    ):
        write_artifact(tree_of(OTHERS))
    with pytest.raises(UnsupportedError, match="can be kept: --allow-other-dialects does it"):
        write_artifact(tree_of(OTHERS))


CONTROL = """func.func @f(%a: tensor<i1>, %b: tensor<2xf32>) -> tensor<2xf32> {
  %c = "my.bool"(%a) : (tensor<i1>) -> i1
  cf.cond_br %c, ^bb1(%b : tensor<2xf32>), ^bb2
^bb1(%x: tensor<2xf32>):
  %0 = stablehlo.add %x, %b : tensor<2xf32>
  cf.br ^bb1(%0 : tensor<2xf32>)
^bb2:
  return %b : tensor<2xf32>
}"""


JUMPS = """func.func @f(%a: tensor<i1>, %b: tensor<2xf32>) -> tensor<2xf32> {
  %c = "my.bool"(%a) : (tensor<i1>) -> i1
  cf.cond_br %c, ^bb1, ^bb2
^bb1:
  %0 = stablehlo.add %b, %b : tensor<2xf32>
  cf.br ^bb1
^bb2:
  return %b : tensor<2xf32>
}"""


def test_blocks_with_arguments_that_ops_of_other_dialects_go_to_are_refused() -> None:
    with pytest.raises(
        UnsupportedError,
        match=r"'cf\.cond_br' that was explicitly marked illegal: the arguments of the blocks",
    ):
        write_artifact(tree_of(CONTROL), allow_other_dialects=True)


def test_blocks_keep_their_successors() -> None:
    tree = tree_of(JUMPS)
    made = in_version(tree, (1, 5, 0), allow_other_dialects=True).module
    for op in made.walk():
        for block in op.successors:
            assert op.parent is not None
            assert block.parent is op.parent.parent
    assert sum(len(op.successors) for op in made.walk()) == 3
    data = write_artifact(tree, allow_other_dialects=True)
    back = hloscope.deserialize(data).tree
    assert print_mlir(back, dialects=DIALECTS) == print_mlir(tree, dialects=DIALECTS)


PLACES = {
    (365, 0, 365, 6): (365, 0, 365, 0),  # MLIR writes no column behind column 0
    (365, 3, 365, 6): (365, 3, 365, 6),
    (365, 0, 366, 6): (365, 0, 366, 6),
    (3, 4, 3, 4): (3, 4, 3, 4),
    (0, 0, 0, 9): (0, 0, 0, 0),
    (0, 4, 0, 9): (0, 4, 0, 9),
    (3, 5, 3, 0): (3, 5, 3, 0),
    (5, 7, 0, 0): (5, 7, 0, 0),
    (3, 4, -1, -1): (3, 4, -1, -1),
}
"""Places of a program, and what an artifact keeps of them."""


@pytest.mark.parametrize("place", PLACES)
def test_ranges_of_places_are_kept_as_mlir_keeps_them(place: tuple[int, int, int, int]) -> None:
    tree = tree_of("func.func @f() { return }")
    for op in tree.walk():
        op.location = FileLoc("f", *place)
    data = write_artifact(tree)
    (op, *_) = read_bytecode(data).module.walk()
    assert op.location == FileLoc("f", *PLACES[place])
