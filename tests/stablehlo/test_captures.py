"""Values that regions read from outside are no operands, and not forgotten."""

from __future__ import annotations

import pytest

import hloscope as hs
from hloscope.errors import UnsupportedError
from hloscope.ir.views import captured

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


def test_an_answer_that_would_leave_them_out_is_refused() -> None:
    program = hs.read(LOOP)
    loop = next(ins for ins in program.entry if ins.opcode == "while")
    assert {value.name for value in captured(loop.ir)} >= {"y", "n"}
    with pytest.raises(UnsupportedError, match="from outside"):
        loop.indexing()
    with pytest.raises(UnsupportedError, match="from outside"):
        loop.indexing_from(1)


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
