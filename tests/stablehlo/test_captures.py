"""Values that regions read from outside are no operands, and not forgotten."""

from __future__ import annotations

import pytest

import hloscope as hs
from hloscope.errors import UnknownNameError
from hloscope.ir import captured

LOOP = """
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %n = stablehlo.constant dense<3> : tensor<i32>
  %c = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %c, %a = %x) : tensor<i32>, tensor<4xf32>
    cond {
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %s = stablehlo.add %a, %y : tensor<4xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %s : tensor<i32>, tensor<4xf32>
    }
  return %r#1 : tensor<4xf32>
}
"""


def test_an_answer_lists_them_after_the_operands() -> None:
    loop = next(ins for ins in hs.read(LOOP).entry if ins.opcode == "while")
    assert [value.name for value in captured(loop.ir)] == ["n", "y", "one"]
    answer = loop.indexing(1)
    assert [operand.name for operand in answer] == ["c", "x", "n", "y", "one"]
    assert str(answer[3].accesses[0].map) == "(d0) -> (d0), domain: d0 in [0, 3]"


def test_what_they_reach_is_the_inverse_of_what_is_read_of_them() -> None:
    loop = next(ins for ins in hs.read(LOOP).entry if ins.opcode == "while")
    reached = loop.indexing_from(3).answer.outputs
    assert [len(output.operands[0].accesses) for output in reached] == [0, 1]
    with pytest.raises(UnknownNameError, match="no operand 5"):
        loop.indexing_from(5)


CASE = """
func.func @main(%i: tensor<i32>, %a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = "stablehlo.case"(%i) ({
    %t = stablehlo.transpose %a, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    stablehlo.return %t : tensor<4x4xf32>
  }, {
    stablehlo.return %b : tensor<4x4xf32>
  }) : (tensor<i32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
"""


def test_a_branch_without_parameters_takes_nothing_whichever_it_is() -> None:
    case = hs.read(CASE)["0"]
    answer = case.indexing().prove()
    maps = [[str(map) for map in maps] for maps in answer.maps]
    assert [len(some) for some in maps] == [1, 1, 1]
    assert maps[1][0].startswith("(d0, d1) -> (d1, d0)")
    assert maps[2][0].startswith("(d0, d1) -> (d0, d1)")
    assert {check.outcome.value for check in answer.checks} == {"proved"}
    for operand in (1, 2):
        (check,) = case.indexing_from(operand).prove().checks
        assert check.outcome.value == "proved"


REDUCE = """
func.func @main(%x: tensor<4x8xf32>, %z: tensor<f32>, %w: tensor<f32>) -> tensor<4xf32> {
  %0 = "stablehlo.reduce"(%x, %z) <{dimensions = array<i64: 1>}> ({
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %s = stablehlo.multiply %q, %w : tensor<f32>
    %r = stablehlo.add %p, %s : tensor<f32>
    stablehlo.return %r : tensor<f32>
  }) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def test_what_the_body_of_a_reduction_reads_counts() -> None:
    program = hs.read(REDUCE)
    answer = program.root.to_parameters()
    assert [bool(operand.accesses) for operand in answer.operands] == [True, True, True]
    (check, *_) = program["0"].indexing_from(2).prove().checks
    assert check.outcome.value == "proved"


def test_what_is_read_of_the_parameters_contains_them() -> None:
    answer = hs.read(LOOP).root.to_parameters()
    assert [bool(operand.accesses) for operand in answer.operands] == [True, True]


def test_digits_of_a_type_are_no_elements() -> None:
    """`dense<2> : tensor<3xi32>` is 2 everywhere; 3 and 32 belong to the type."""
    program = hs.read(
        "func.func @main(%x: tensor<9xf32>) -> tensor<3x1xf32> {\n"
        "  %i = stablehlo.constant dense<2> : tensor<3x1xi32>\n"
        '  %g = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = '
        "[1], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, "
        "slice_sizes = array<i64: 1>}> : (tensor<9xf32>, tensor<3x1xi32>) -> tensor<3x1xf32>\n"
        "  return %g : tensor<3x1xf32>\n}"
    )
    (access,) = program["g"].indexing()[0]
    assert access.map is not None
    assert access.map.points((0, 0), (2,) * len(access.map.runtime)) == {(2,)}
