"""The syntax tree becomes the program graph, and the graph the tree it came from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hloscope.errors import UnsupportedError, VerifyError
from hloscope.hlo_parser import parse_hlo
from hloscope.ir.graph import Body, Computation, Instruction, Module
from hloscope.mlir.dialects.registry import CLASSES, DIALECTS
from hloscope.mlir.ir import Operation
from hloscope.mlir.text.parser import parse_mlir
from hloscope.mlir.text.printer import print_mlir
from hloscope.ops import OPS
from hloscope.ops.control import Fusion, Parameter, Return
from hloscope.ops.reduction import Sort
from hloscope.stablehlo.cloning import clone
from hloscope.stablehlo.graph import to_graph
from hloscope.stablehlo.op_making import OpMaker, attributes_of, make_op, name_of
from hloscope.stablehlo.tree import to_mlir
from tests.conftest import SHARED

STABLEHLO = SHARED / "conformance" / "stablehlo"
PROGRAMS = sorted(
    [*(SHARED / "real" / "models").glob("*.mlir"), *(STABLEHLO / "jax_samples").glob("*.mlir")]
)
WHOLE = """
module @m attributes {a.b = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<2x3xf32> {a.c = "}"}, %i: tensor<i32>) -> (tensor<2xf32> {r}) {
    %0 = call @f(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [1] : \
(tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    %2:2 = stablehlo.while(%a = %i, %b = %1) : tensor<i32>, tensor<2xf32>
      cond {
        %c = stablehlo.compare LT, %a, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %s = stablehlo.add %b, %1 : tensor<2xf32>
        stablehlo.return %a, %s : tensor<i32>, tensor<2xf32>
      }
    %3 = "other.op"(%2#1) ({
    ^bb0(%y: tensor<f32>):
      "other.jump"(%y)[^bb1] : (tensor<f32>) -> ()
    ^bb1:
      "other.use"(%1, %y) : (tensor<2xf32>, tensor<f32>) -> ()
    }) {k} : (tensor<2xf32>) -> tensor<2xf32>
    return %3 : tensor<2xf32>
  }
  func.func private @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.negate %x {d.e = 2 : i64} : tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
  func.func private @declared(tensor<f32>) -> tensor<f32>
  module @inner {
    func.func @g() {
      return
    }
  }
}
"""


def tree_of(text: str, name: str = "<test>") -> Operation:
    return parse_mlir(text, name, dialects=DIALECTS)


def chunks() -> Iterator[tuple[str, str]]:
    for line in (STABLEHLO / "oracle" / "verify.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record.get("printed_generic"):
            yield record["id"], record["printed_generic"]


@pytest.mark.parametrize("generic", [False, True])
def test_the_graph_becomes_the_tree_it_came_from(generic: bool) -> None:
    tree = tree_of(WHOLE)
    back = to_mlir(to_graph(tree))
    assert print_mlir(back, dialects=DIALECTS, generic=generic) == print_mlir(
        tree, dialects=DIALECTS, generic=generic
    )


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_a_real_program_comes_back(path: Path) -> None:
    tree = tree_of(path.read_text(), path.name)
    back = to_mlir(to_graph(tree))
    locations = ".debug." in path.name
    assert print_mlir(back, dialects=DIALECTS, locations=locations) == print_mlir(
        tree, dialects=DIALECTS, locations=locations
    )


@pytest.mark.slow
def test_accepted_chunks_come_back(shared: Path) -> None:
    checked = 0
    for name, text in chunks():
        tree = tree_of(text, name)
        if not any(region.blocks[0].operations for region in tree.regions):
            continue
        back = to_mlir(to_graph(tree))
        expected = print_mlir(tree, dialects=DIALECTS, generic=True)
        assert print_mlir(back, dialects=DIALECTS, generic=True) == expected, name
        checked += 1
    assert checked > 300


def test_the_table_serves_both_ways(shared: Path) -> None:
    """The attributes made of an op make the same op again, for every op of the corpus."""
    seen: set[str] = set()
    for name, text in chunks():
        for operation in tree_of(text, name).walk():
            if operation.name not in CLASSES:
                continue
            op = make_op(operation)
            attributes = attributes_of(op)
            again = Operation(
                operation.name,
                operation.operands,
                operation.results,
                attributes,
                {},
                operation.regions,
            )
            assert make_op(again) == op, f"{name}: {operation.name}"
            assert OPS[op.name] is OPS[
                make_op(Operation(name_of(op), properties=attributes)).name
            ] or (operation.name in ("stablehlo.convolution", "chlo.scan"))
            seen.add(operation.name)
    missing = {n for n in CLASSES if n.startswith("stablehlo.")} - seen
    assert missing <= {
        "stablehlo.collective_reduce",
        "stablehlo.async_start",
        "stablehlo.async_done",
        "stablehlo.return",
        "stablehlo.torch_index_select",
    }


def test_equal_attributes_share_their_op() -> None:
    tree = tree_of("""func.func @f(%x: tensor<4xf32>) {
      %0 = stablehlo.negate %x : tensor<4xf32>
      %1 = stablehlo.negate %0 : tensor<4xf32>
      return
    }""")
    maker = OpMaker()
    first, second, *_ = tree.regions[0].block.operations[0].regions[0].block.operations
    assert maker(first) is maker(second)


def test_a_dimension_counted_from_the_end_is_counted_from_the_start() -> None:
    text = """func.func @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %0 = "stablehlo.sort"(%x) <{dimension = -2 : i64}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }) : (tensor<2x3xf32>) -> tensor<2x3xf32>
      return %0 : tensor<2x3xf32>
    }"""
    assert to_graph(tree_of(text)).entry["0"].op == Sort(0)


def node(name: str, like: Instruction, op_name: str, *operands: Instruction) -> Instruction:
    return Instruction(name, like.type, OPS[op_name](), operands)


def test_a_graph_made_in_python_becomes_a_tree() -> None:
    hlo = parse_hlo("ENTRY e { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }").entry
    p = Instruction("p", hlo.parameters[0].type, Parameter(0))
    total = node("s", p, "add", p, p)
    root = Instruction("r", p.type, Return(), (total,))
    module = Module("made", {}, Computation("main", Body((p, total, root), (p,), root)))
    module = Module("made", {"main": module.entry}, module.entry)
    assert print_mlir(to_mlir(module), dialects=DIALECTS) == (
        "module @made {\n"
        "  func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {\n"
        "    %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>\n"
        "    return %0 : tensor<4xf32>\n  }\n}\n"
    )


def test_hlo_that_stablehlo_can_say_becomes_a_tree() -> None:
    text = """HloModule m
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
    ENTRY e { x = f32[2,3]{1,0} parameter(0) z = f32[] constant(0)
      t = f32[3,2]{0,1} transpose(x), dimensions={1,0}
      ROOT r = f32[3] reduce(t, z), dimensions={1}, to_apply=add }"""
    printed = print_mlir(to_mlir(parse_hlo(text)), dialects=DIALECTS)
    assert (
        "stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>" in printed
    )
    assert "applies stablehlo.add across dimensions = [1]" in printed
    assert "dense<0.000000e+00> : tensor<f32>" in printed


def test_an_op_of_hlo_alone_is_named() -> None:
    with pytest.raises(UnsupportedError, match="no op `fusion`"):
        name_of(Fusion("kLoop"))


def test_a_missing_or_wrong_attribute_is_refused() -> None:
    with pytest.raises(VerifyError, match="requires attribute 'permutation'"):
        make_op(Operation("stablehlo.transpose"))
    text = (
        'func.func @f(%x: tensor<4xf32>) { %0 = "stablehlo.iota"() {iota_dimension = "x"} : () -> '
    )
    tree = tree_of(text + "tensor<4xf32> return }")
    with pytest.raises(VerifyError, match="needs an integer"):
        list(to_graph(tree).entry)


def test_a_copy_is_apart() -> None:
    tree = tree_of(WHOLE)
    copy = clone(tree, {})
    assert print_mlir(copy, dialects=DIALECTS) == print_mlir(tree, dialects=DIALECTS)
    old = {id(value) for operation in tree.walk() for value in operation.results}
    new = {id(value) for operation in copy.walk() for value in operation.operands}
    assert not old & new


def test_a_branch_of_an_op_without_results_is_a_computation() -> None:
    tree = tree_of("""func.func @main(%i: tensor<i32>) -> tensor<i32> {
      "stablehlo.case"(%i) ({
        "other.op"() : () -> ()
        stablehlo.return
      }) : (tensor<i32>) -> ()
      return %i : tensor<i32> }""")
    back = to_mlir(to_graph(tree))
    assert print_mlir(back, dialects=DIALECTS) == print_mlir(tree, dialects=DIALECTS)


def test_a_region_of_three_arguments_without_names_keeps_all_of_them() -> None:
    tree = tree_of("""func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
      %0 = "stablehlo.map"(%a, %a, %a) <{dimensions = array<i64: 0>}> ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>, %z: tensor<f32>):
        %r = stablehlo.clamp %x, %y, %z : tensor<f32>
        stablehlo.return %r : tensor<f32>
      }) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32> }""")
    (mapped,) = [op for op in tree.walk() if op.name == "stablehlo.map"]
    for argument in mapped.regions[0].blocks[0].arguments:
        argument.name = ""
    (clamp,) = [ins for c in to_graph(tree) for ins in c if ins.op.name == "clamp"]
    assert len(clamp.operands) == 3
