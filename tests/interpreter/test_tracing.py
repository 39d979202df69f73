"""The first instruction whose value differs between two runs."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from hloscope.interpreter.comparing import within
from hloscope.interpreter.tracing import Finding, compare_programs, compare_values, paired
from hloscope.interpreter.values import EvaluationError
from hloscope.interpreter.world import World
from tests.interpreter.helpers import read

CLOSE = partial(within, tolerance=1e-4)
X = np.array([1.0, 2.0, 3.0], "float32")

MLIR = """
func.func private @inner(%a: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.negate %a : tensor<3xf32>
  %1 = stablehlo.add %0, %a : tensor<3xf32>
  return %1 : tensor<3xf32>
}
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.multiply %x, %x : tensor<3xf32>
  %1 = func.call @inner(%0) : (tensor<3xf32>) -> tensor<3xf32>
  %2 = stablehlo.subtract %1, %x : tensor<3xf32>
  return %2 : tensor<3xf32>
}"""


def compare(mine: str, theirs: str, *arguments: Any) -> Finding:
    a, b = read(mine), read(theirs)
    return compare_programs(
        a.entry,
        b.entry,
        arguments or [X],
        CLOSE,
        World(functions=a.computations),
        World(functions=b.computations),
    )


def test_programs_that_agree() -> None:
    found = compare(MLIR, MLIR)
    assert found.instruction is None
    assert (found.instructions, found.values) == (5, 6)  # and the result


@pytest.mark.parametrize(
    ("old", "new", "name", "op"),
    [
        ("stablehlo.multiply %x", "stablehlo.add %x", "0", "add"),
        ("stablehlo.negate %a", "stablehlo.abs %a", "0", "abs"),
        ("subtract %1, %x", "subtract %x, %1", "2", "subtract"),
    ],
)
def test_the_first_is_told(old: str, new: str, name: str, op: str) -> None:
    found = compare(MLIR.replace(old, new), MLIR)
    assert found.instruction is not None
    assert (found.instruction.name, found.instruction.op.name) == (name, op)
    assert found.difference is not None


def test_values_of_operands_inside_functions() -> None:
    found = compare(MLIR.replace("stablehlo.negate %a", "stablehlo.abs %a"), MLIR)
    ((operand, value),) = found.operands
    assert operand.name == "a"
    assert np.asarray(value).tolist() == [1, 4, 9]


def test_names_that_were_numbered_anew() -> None:
    more = MLIR.replace(
        "  %2 = stablehlo.subtract %1, %x",
        "  %c = stablehlo.constant dense<0.0> : tensor<3xf32>\n"
        "  %n = stablehlo.add %1, %c : tensor<3xf32>\n"
        "  %2 = stablehlo.subtract %n, %x",
    )
    assert compare(more, MLIR).instruction is None
    found = compare(more.replace("dense<0.0>", "dense<1.0>"), MLIR)
    assert found.instruction is not None
    assert found.instruction.op.name == "subtract"


def test_evaluations_of_a_loop_are_compared_in_turn() -> None:
    loop = """func.func @main(%x: tensor<i32>) -> tensor<i32> {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %r = stablehlo.while(%i = %x) : tensor<i32> cond {
        %p = stablehlo.compare LT, %i, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      } do {
        %m = stablehlo.minimum %i, %ten : tensor<i32>
        %n = stablehlo.add %m, %one : tensor<i32>
        stablehlo.return %n : tensor<i32>
      }
      return %r : tensor<i32>
    }"""
    wrong = loop.replace("minimum %i, %ten", "remainder %i, %five").replace(
        "%ten = ", "%five = stablehlo.constant dense<5> : tensor<i32>\n      %ten = "
    )
    world = World(max_steps=1000)
    a, b = read(wrong), read(loop)
    found = compare_programs(a.entry, b.entry, [np.int32(0)], CLOSE, world, World())
    assert found.instruction is not None
    assert (found.instruction.op.name, found.evaluation) == ("remainder", 6)
    assert [
        value if value is None else np.asarray(value).tolist() for _, value in found.operands
    ] == [None, 5]


HLO = """HloModule m
ENTRY e {
  p = f32[3] parameter(0)
  square = f32[3] multiply(p, p)
  ROOT sum = f32[3] add(square, p)
}"""


def test_hlo_beside_stablehlo() -> None:
    mlir = """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.multiply %x, %x : tensor<3xf32>
      %1 = stablehlo.add %0, %x : tensor<3xf32>
      return %1 : tensor<3xf32>
    }"""
    assert len(paired(read(HLO).entry, read(mlir).entry)) == 3
    assert compare(HLO, mlir).instruction is None
    found = compare(HLO.replace("multiply", "add"), mlir)
    assert found.instruction is not None
    assert found.partner is not None
    assert (found.instruction.name, found.partner.op.name) == ("square", "multiply")


def test_only_the_results_are_alike() -> None:
    """Nothing in common but what is returned: that is compared all the same."""
    other = """HloModule m
    f { q = f32[3] parameter(0) s = f32[3] multiply(q, q) ROOT t = f32[3] add(s, q) }
    ENTRY e { p = f32[3] parameter(0) ROOT x = f32[3] fusion(p), kind=kLoop, calls=f }"""
    assert compare(HLO, other).instruction is None
    found = compare(HLO.replace("add(", "subtract("), other)
    assert found.instruction is not None
    assert found.instruction.name == "sum"


def test_results_of_another_number() -> None:
    both = HLO.replace("ROOT sum", "sum").replace(
        "}", "  ROOT t = (f32[3], f32[3]) tuple(sum, p)\n}"
    )
    with pytest.raises(EvaluationError, match="returns 1 arrays, the other 2"):
        compare(HLO, both)


def test_values_by_name() -> None:
    module = read(HLO)
    values = {"square": X * X, "sum": X * X + X, "other": X}
    found = compare_values(module.entry, values, [X], CLOSE, World())
    assert (found.instruction, found.values) == (None, 2)
    values["sum"] = X
    found = compare_values(module.entry, values, [X], CLOSE, World())
    assert found.instruction is module.entry["sum"]
    values["square"] = X[:2]
    found = compare_values(module.entry, values, [X], CLOSE, World())
    assert str(found.difference) == (
        "3 of 3 elements differ; the worst: found [3], expected [2] (the shape)"
    )
    with pytest.raises(EvaluationError, match="no instruction has a name"):
        compare_values(module.entry, {"other": X}, [X], CLOSE, World())


def test_values_that_are_too_large_are_left_out() -> None:
    module, other = read(MLIR), read(MLIR)
    world = World(functions=module.computations)
    small = World(functions=other.computations, max_bytes=24)
    found = compare_programs(module.entry, other.entry, [X], CLOSE, world, small)
    assert found.instruction is None
    assert (found.values, found.left_out) == (3, 3)
