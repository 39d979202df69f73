"""Ops of the dialects `shape`, `tensor` and `arith`."""

from __future__ import annotations

from typing import Any

import pytest

from hloscope.errors import UnsupportedError
from hloscope.interpreter.values import EvaluationError
from tests.interpreter.helpers import values


def test_a_broadcast_as_passes_leave_it() -> None:
    text = """func.func @main(%x: tensor<?x1xf32>, %y: tensor<?xf32>) -> tensor<?x?xf32> {
      %a = shape.shape_of %x : tensor<?x1xf32> -> tensor<2xindex>
      %b = shape.shape_of %y : tensor<?xf32> -> tensor<1xindex>
      %w = shape.cstr_broadcastable %a, %b : tensor<2xindex>, tensor<1xindex>
      %s = shape.broadcast %a, %b : tensor<2xindex>, tensor<1xindex> -> tensor<2xindex>
      %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [0, 1]
          : (tensor<?x1xf32>, tensor<2xindex>) -> tensor<?x?xf32>
      %1 = stablehlo.dynamic_broadcast_in_dim %y, %s, dims = [1]
          : (tensor<?xf32>, tensor<2xindex>) -> tensor<?x?xf32>
      %2 = stablehlo.add %0, %1 : tensor<?x?xf32>
      return %2 : tensor<?x?xf32>
    }"""
    assert values(text, [[1], [2]], [10, 20, 30]) == [[11, 21, 31], [12, 22, 32]]
    with_two = text.replace("tensor<?x1xf32>", "tensor<?x?xf32>")
    with pytest.raises(EvaluationError, match=r"shapes \[1, 2\], \[3\] cannot be broadcast"):
        values(with_two, [[1, 2]], [1, 2, 3])


def test_sizes_of_a_flattened_array() -> None:
    text = """func.func @main(%x: tensor<?x3xf32>) -> (tensor<?xf32>, tensor<2xi32>) {
      %s = shape.shape_of %x : tensor<?x3xf32> -> tensor<2xindex>
      %n = shape.num_elements %s : tensor<2xindex> -> index
      %t = tensor.from_elements %n : tensor<1xindex>
      %0 = stablehlo.dynamic_reshape %x, %t : (tensor<?x3xf32>, tensor<1xindex>) -> tensor<?xf32>
      %one = arith.constant 1 : index
      %d = tensor.dim %x, %one : tensor<?x3xf32>
      %e = tensor.extract %s[%one] : tensor<2xindex>
      %p = arith.muli %d, %e : index
      %i = arith.index_cast %p : index to i32
      %r = "tensor.rank"(%x) : (tensor<?x3xf32>) -> index
      %j = arith.index_cast %r : index to i32
      %k = tensor.from_elements %i, %j : tensor<2xi32>
      return %0, %k : tensor<?xf32>, tensor<2xi32>
    }"""
    assert values(text, [[1, 2, 3], [4, 5, 6]]) == ([1, 2, 3, 4, 5, 6], [9, 2])


def scalar(op: str, type_: str = "i32", result: str = "") -> str:
    """A program of one op of `%a` and `%b`, elements of tensors."""
    result = result or type_
    return f"""func.func @main(%x: tensor<{type_}>, %y: tensor<{type_}>) -> tensor<{result}> {{
      %a = tensor.extract %x[] : tensor<{type_}>
      %b = tensor.extract %y[] : tensor<{type_}>
      %0 = {op}
      %1 = tensor.from_elements %0 : tensor<{result}>
      return %1 : tensor<{result}>
    }}"""


@pytest.mark.parametrize(
    ("op", "given", "found"),
    [
        ("arith.addi %a, %b : i32", (2, 3), 5),
        ("arith.divsi %a, %b : i32", (-7, 2), -3),
        ("arith.divui %a, %b : i32", (-1, 2), 0x7FFFFFFF),
        ("arith.remui %a, %b : i32", (-1, 16), 15),
        ("arith.remsi %a, %b : i32", (-7, 2), -1),
        ("arith.maxsi %a, %b : i32", (-1, 2), 2),
        ("arith.maxui %a, %b : i32", (-1, 2), -1),
        ("arith.shrui %a, %b : i32", (-1, 31), 1),
        ("arith.shrsi %a, %b : i32", (-8, 1), -4),
    ],
)
def test_arithmetic_of_integers(op: str, given: tuple[int, int], found: int) -> None:
    assert values(scalar(op), *given) == found


@pytest.mark.parametrize(
    ("predicate", "found"),
    [("eq", False), ("ne", True), ("slt", True), ("sge", False), ("ult", False), ("uge", True)],
)
def test_comparisons_of_integers(predicate: str, found: bool) -> None:
    text = scalar(f"arith.cmpi {predicate}, %a, %b : i32", "i32", "i1")
    assert values(text, -1, 2) is found


@pytest.mark.parametrize(("predicate", "found"), [(4, True), (6, True), (2, False)])
def test_comparisons_of_floats_are_ordered(predicate: int, found: bool) -> None:
    op = f'"arith.cmpf"(%a, %b) {{predicate = {predicate} : i64}} : (f32, f32) -> i1'
    assert values(scalar(op, "f32", "i1"), 1.0, 2.0) is found
    assert values(scalar(op, "f32", "i1"), float("nan"), 2.0) is False


@pytest.mark.parametrize(
    ("op", "types", "given", "found"),
    [
        ("arith.extui %a : i8 to i32", ("i8", "i32"), -1, 255),
        ("arith.extsi %a : i8 to i32", ("i8", "i32"), -1, -1),
        ("arith.extui %a : i1 to i32", ("i1", "i32"), True, 1),
        ("arith.trunci %a : i32 to i8", ("i32", "i8"), 257, 1),
        ("arith.sitofp %a : i8 to f32", ("i8", "f32"), -1, -1.0),
    ],
)
def test_conversions(op: str, types: tuple[str, str], given: Any, found: Any) -> None:
    assert values(scalar(op, *types), given, given) == found


def test_what_is_chosen_and_put_in() -> None:
    text = """func.func @main(%x: tensor<2xindex>, %p: tensor<i1>) -> tensor<2xindex> {
      %zero = arith.constant 0 : index
      %q = tensor.extract %p[] : tensor<i1>
      %a = tensor.extract %x[%zero] : tensor<2xindex>
      %b = arith.constant 7 : index
      %c = arith.select %q, %a, %b : index
      %one = arith.constant 1 : index
      %r = "tensor.insert"(%c, %x, %one) : (index, tensor<2xindex>, index) -> tensor<2xindex>
      return %r : tensor<2xindex>
    }"""
    assert values(text, [3, 4], True) == [3, 3]
    assert values(text, [3, 4], False) == [3, 7]


def test_what_is_not_there() -> None:
    text = """func.func @main(%x: tensor<2xindex>) -> tensor<index> {
      %two = arith.constant 2 : index
      %a = tensor.extract %x[%two] : tensor<2xindex>
      %r = tensor.from_elements %a : tensor<index>
      return %r : tensor<index>
    }"""
    with pytest.raises(EvaluationError, match=r"no element \[2\] of \[2\]"):
        values(text, [3, 4])
    with pytest.raises(UnsupportedError, match=r"`llvm\.fence` cannot be evaluated"):
        values(text.replace("%two = ", '"llvm.fence"() : () -> ()\n %two = '), [3, 4])
