"""The conversion driver and the small passes on it: what becomes of programs, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hloscope.interpreter import evaluate
from hloscope.ir import ELEMENT_TYPES, TensorType, Type
from hloscope.mlir import Operation, parse_mlir, print_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.passes import Pass, PassError, Patterns, Rewriter, Run
from hloscope.passes.conversion import Conversion, convert_function, converted, replace_converted
from hloscope.passes.pipeline import find_pass
from hloscope.stablehlo import parse_stablehlo, to_graph
from tests.filecheck import check, directives


def tree_of(text: str) -> Operation:
    return parse_mlir(text, dialects=DIALECTS)


def after(name: str, text: str, **options: Any) -> str:
    module, _ = find_pass(name).apply(tree_of(text), **options)
    return print_mlir(module, dialects=DIALECTS)


CASES = [
    (
        "shape-legalize-to-stablehlo",
        """
        func.func @main(%a: tensor<?x4xf32>) -> index {
          // CHECK: %[[SIZE:.*]] = stablehlo.get_dimension_size %arg0, dim = 1
          // CHECK-NEXT: %[[INDEX:.*]] = builtin.unrealized_conversion_cast %[[SIZE]]
          // CHECK-NEXT: return %[[INDEX]] : index
          %c = arith.constant 1 : index
          %0 = tensor.dim %a, %c : tensor<?x4xf32>
          return %0 : index
        }""",
    ),
    (
        "shape-legalize-to-stablehlo",
        """
        func.func @main(%a: tensor<3xindex>, %b: tensor<1xindex>) -> tensor<3xindex> {
          // CHECK-DAG: %[[ONES:.*]] = stablehlo.constant dense<1> : tensor<2xi32>
          // CHECK: %[[LONG:.*]] = stablehlo.concatenate %[[ONES]], {{.*}}, dim = 0
          // CHECK-NEXT: stablehlo.maximum {{.*}}, %[[LONG]] : tensor<3xi32>
          %0 = shape.broadcast %a, %b : tensor<3xindex>, tensor<1xindex> -> tensor<3xindex>
          return %0 : tensor<3xindex>
        }""",
    ),
    (
        "legalize-deprecated-ops",
        """
        func.func @main(%a: tensor<4xf32>, %b: tensor<4x2xf32>) -> tensor<2xf32> {
          // CHECK: stablehlo.dot_general %arg0, %arg1, contracting_dims = [0] x [0]
          %0 = stablehlo.dot %a, %b : (tensor<4xf32>, tensor<4x2xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }""",
    ),
    (
        "legalize-deprecated-ops",
        """
        func.func @main(%a: tensor<4xf32>) -> tensor<2x3x4xf32> {
          // CHECK: stablehlo.broadcast_in_dim %arg0, dims = [2]
          %0 = stablehlo.broadcast %a, sizes = [2, 3] : (tensor<4xf32>) -> tensor<2x3x4xf32>
          return %0 : tensor<2x3x4xf32>
        }""",
    ),
    (
        "legalize-composite-to-call",
        """
        func.func @main(%a: tensor<f32>) -> tensor<f32> {
          // CHECK: %[[R:.*]] = call @f(%arg0) : (tensor<f32>) -> tensor<f32>
          // CHECK-NEXT: return %[[R]]
          %0 = stablehlo.composite "a.b" %a {decomposition = @f} : (tensor<f32>) -> tensor<f32>
          return %0 : tensor<f32>
        }
        func.func private @f(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }""",
    ),
    (
        "convert-to-signless",
        """
        // CHECK: func.func @main(%arg0: tensor<2xi8>) -> tensor<2xi8>
        func.func @main(%a: tensor<2xui8>) -> tensor<2xui8> {
          // CHECK: dense<[1, -1]> : tensor<2xi8>
          %c = stablehlo.constant dense<[1, 255]> : tensor<2xui8>
          // CHECK: stablehlo.add %arg0, %c : tensor<2xi8>
          %0 = stablehlo.add %a, %c : tensor<2xui8>
          return %0 : tensor<2xui8>
        }""",
    ),
    (
        "interpreter-instrument-with-probe",
        """
        func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
          // CHECK: %[[A:.*]] = stablehlo.abs %arg0
          // CHECK-NEXT: %[[P:.*]] = interpreter.probe %[[A]], probe_id = "probe1"
          // CHECK-NEXT: return %[[P]]
          %0 = stablehlo.abs %a : tensor<2xf32>
          return %0 : tensor<2xf32>
        }""",
    ),
    (
        "canonicalize",
        """
        func.func @main(%a: tensor<?x3xf32>) -> (index, tensor<?x3xf32>) {
          // CHECK: %[[C:.*]] = arith.constant 6 : index
          // CHECK-NEXT: %[[S:.*]] = stablehlo.add
          // CHECK-NEXT: return %[[C]], %[[S]]
          %c = arith.constant 1 : index
          %0 = tensor.dim %a, %c : tensor<?x3xf32>
          %1 = arith.addi %0, %0 : index
          %w = shape.const_witness true
          %2 = shape.assuming %w -> (tensor<?x3xf32>) {
            %3 = stablehlo.add %a, %a : tensor<?x3xf32>
            shape.assuming_yield %3 : tensor<?x3xf32>
          }
          return %1, %2 : index, tensor<?x3xf32>
        }""",
    ),
    (
        "cse",
        """
        func.func @main(%a: tensor<2xf32>, %p: tensor<i1>) -> tensor<2xf32> {
          // CHECK: %[[X:.*]] = stablehlo.abs
          // CHECK-NOT: stablehlo.abs
          // CHECK: stablehlo.if
          // CHECK-NEXT: stablehlo.return %[[X]]
          %0 = stablehlo.abs %a : tensor<2xf32>
          %1 = "stablehlo.if"(%p) ({
            %2 = stablehlo.abs %a : tensor<2xf32>
            stablehlo.return %2 : tensor<2xf32>
          }, {
            stablehlo.return %0 : tensor<2xf32>
          }) : (tensor<i1>) -> tensor<2xf32>
          return %1 : tensor<2xf32>
        }""",
    ),
    (
        "inline",
        """
        func.func @main(%a: tensor<f32>) -> tensor<f32> {
          // CHECK: %[[X:.*]] = stablehlo.abs
          // CHECK-NEXT: %[[Y:.*]] = stablehlo.abs %[[X]]
          // CHECK-NEXT: return %[[Y]]
          // CHECK-NOT: func.func
          %0 = call @f(%a) : (tensor<f32>) -> tensor<f32>
          %1 = call @f(%0) : (tensor<f32>) -> tensor<f32>
          return %1 : tensor<f32>
        }
        func.func private @f(%a: tensor<f32>) -> tensor<f32> {
          %0 = call @g(%a) : (tensor<f32>) -> tensor<f32>
          return %0 : tensor<f32>
        }
        func.func private @g(%a: tensor<f32>) -> tensor<f32> {
          %0 = stablehlo.abs %a : tensor<f32>
          return %0 : tensor<f32>
        }""",
    ),
    (
        "symbol-dce",
        """
        // CHECK: @main
        func.func @main() { return }
        // CHECK-NOT: @f
        func.func private @f() { call @f() : () -> () return }
        // CHECK-NOT: @g
        func.func private @g() { call @f() : () -> () return }
        // CHECK: @h
        func.func @h() { return }""",
    ),
    (
        "reconcile-unrealized-casts",
        """
        func.func @main(%a: tensor<i32>) -> (tensor<i32>, index) {
          // CHECK: %[[I:.*]] = builtin.unrealized_conversion_cast %arg0
          // CHECK-NEXT: return %arg0, %[[I]]
          %0 = builtin.unrealized_conversion_cast %a : tensor<i32> to index
          %1 = builtin.unrealized_conversion_cast %0 : index to i32
          %2 = builtin.unrealized_conversion_cast %1 : i32 to tensor<i32>
          return %2, %0 : tensor<i32>, index
        }""",
    ),
]


@pytest.mark.parametrize(("name", "text"), CASES, ids=[name for name, _ in CASES])
def test_programs_become_what_their_comments_say(name: str, text: str) -> None:
    check(after(name, text), directives(text))


def test_locations_go() -> None:
    text = 'func.func @main(%a: index loc("x")) -> index { return %a : index loc("y") }'
    module, _ = find_pass("strip-debuginfo").apply(tree_of(text))
    assert "loc(" not in print_mlir(module, dialects=DIALECTS)


WRAPPED = """
func.func @main(%a: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %a, %a {first} : tensor<f32>
  %1 = stablehlo.add %0, %a : tensor<f32>
  return %1 : tensor<f32>
}
func.func private @stablehlo.add.impl() { return }
"""


def test_wrapped_ops_get_free_names_the_last_one_first() -> None:
    text = after("wrap-in-composite", WRAPPED, **{"op-names": ("stablehlo.add",), "version": 2})
    assert text.count("decomposition = @stablehlo.add.impl_0, version = 2") == 1
    assert "composite_attributes = {first}, decomposition = @stablehlo.add.impl_1" in text
    back = after("legalize-composite-to-call", text)
    wanted = evaluate(parse_stablehlo(WRAPPED), [np.float32(3)])
    assert evaluate(to_graph(tree_of(back)), [np.float32(3)]) == wanted
    assert wanted[0] == 9


def test_an_op_that_reads_from_outside_cannot_be_wrapped() -> None:
    text = """func.func @main(%a: tensor<f32>, %p: tensor<i1>) -> tensor<f32> {
      %0 = "stablehlo.if"(%p) ({ stablehlo.return %a : tensor<f32> },
        { stablehlo.return %a : tensor<f32> }) : (tensor<i1>) -> tensor<f32>
      return %0 : tensor<f32>
    }"""
    with pytest.raises(PassError, match="value defined outside the region"):
        after("wrap-in-composite", text, **{"op-names": ("stablehlo.if",)})


def test_a_name_of_no_op_is_warned_of() -> None:
    wrap = find_pass("wrap-in-composite")
    _, run = wrap.apply(tree_of(WRAPPED), **{"op-names": ("stablehlo.no",)})
    assert [found.severity for found in run.diagnostics] == ["warning"]


UNUSED = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.map"(%a) ({
  ^bb0(%x: tensor<f32>):
    stablehlo.return %x : tensor<f32>
  }) {dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""


def test_ops_without_a_successor_are_illegal_unless_told() -> None:
    with pytest.raises(PassError, match=r"failed to legalize operation 'stablehlo\.map'"):
        after("legalize-deprecated-ops", UNUSED)
    assert "stablehlo.map" in after("legalize-deprecated-ops", UNUSED, **{"fail-on-unused": False})


# --------------------------------------------------------------------------------------- the driver

F32, F64 = ELEMENT_TYPES["f32"], ELEMENT_TYPES["f64"]


def doubled(type_: Type) -> Type:
    if isinstance(type_, TensorType) and type_.element == F32:
        return TensorType(F64, type_.sizes)
    return type_


def is_legal(op: Operation) -> bool:
    if op.name == "func.func":
        return "f32" not in str(op.get("function_type"))
    return not any("f32" in str(value.type) for value in (*op.operands, *op.results))


def double(names: tuple[str, ...]) -> Pass:
    """Computes in `f64` what was in `f32`; knows these ops only."""
    patterns = Patterns()

    @patterns.on("func.func")
    def function(rewriter: Rewriter, op: Operation) -> bool:
        convert_function(rewriter, op, doubled)
        return True

    @patterns.on(*names)
    def any_op(rewriter: Rewriter, op: Operation) -> bool:
        operands = [converted(rewriter, v, doubled(v.type), before=op) for v in op.operands]
        types = [doubled(value.type) for value in op.results]
        new = rewriter.create(op.name, operands, op.properties, before=op, types=types)
        replace_converted(rewriter, op, new.results)
        return True

    def run(run: Run) -> None:
        Conversion(run, patterns, is_legal).convert(run.rewriter.module)

    return Pass("double", run, "In double precision.")


DOUBLED = """func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %a, %a : tensor<2xf32>
  %1 = stablehlo.abs %0 : tensor<2xf32>
  return %1 : tensor<2xf32>
}"""


def test_types_are_converted_and_nothing_stands_between() -> None:
    known = ("stablehlo.add", "stablehlo.abs", "func.return")
    module, run = double(known).apply(tree_of(DOUBLED))
    text = print_mlir(module, dialects=DIALECTS)
    assert "f32" not in text
    assert "cast" not in text
    assert run.fired["any_op"] == 3


def test_a_failure_leaves_the_module_and_names_the_op() -> None:
    tree = tree_of(DOUBLED)
    with pytest.raises(PassError, match=r"operation 'stablehlo\.abs' that was") as caught:
        double(("stablehlo.add", "func.return")).apply(tree)
    assert caught.value.span is not None
    assert caught.value.span.line == 3
    assert print_mlir(tree, dialects=DIALECTS) == print_mlir(tree_of(DOUBLED), dialects=DIALECTS)


def test_patterns_that_chase_each_other_end() -> None:
    patterns = Patterns()

    @patterns.on("stablehlo.abs")
    def again(rewriter: Rewriter, op: Operation) -> bool:
        rewriter.replace(op, rewriter.create(op.name, op.operands, before=op).results)
        return True

    def run(run: Run) -> None:
        Conversion(run, patterns, lambda op: op.name != "stablehlo.abs").convert(
            run.rewriter.module
        )

    with pytest.raises(PassError, match="failed to legalize"):
        Pass("again", run, "Never ends.").apply(tree_of(DOUBLED))


def test_a_broadcast_of_unknown_rank_has_no_successor() -> None:
    text = """func.func @main(%a: tensor<*xf32>) -> tensor<*xf32> {
      %0 = stablehlo.broadcast %a, sizes = [2, 3] : (tensor<*xf32>) -> tensor<*xf32>
      return %0 : tensor<*xf32> }"""
    with pytest.raises(PassError, match=r"failed to legalize operation 'stablehlo\.broadcast'"):
        after("legalize-deprecated-ops", text)
