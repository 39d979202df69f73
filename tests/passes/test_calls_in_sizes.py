"""What calls read in terms of named sizes, compared with the functions at known sizes."""

from __future__ import annotations

import pytest

import hloscope
from hloscope.api import unknown_sizes
from hloscope.indexing import Called
from hloscope.ir import Instruction, Module

TEXT = """
func.func @main(%a: tensor<?x4xf32>) -> (tensor<4x?xf32>, tensor<?xf32>, tensor<?x4xf32>) {
  %n = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
  %t = func.call @t(%a) : (tensor<?x4xf32>) -> tensor<4x?xf32>
  %flat = func.call @flat(%n, %a) : (tensor<i32>, tensor<?x4xf32>) -> tensor<?xf32>
  %two:2 = func.call @two(%a, %t)
    : (tensor<?x4xf32>, tensor<4x?xf32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  %c = stablehlo.composite "x.y" %a {decomposition = @t} : (tensor<?x4xf32>) -> tensor<4x?xf32>
  return %c, %flat, %two#1 : tensor<4x?xf32>, tensor<?xf32>, tensor<?x4xf32>
}
func.func private @t(%a: tensor<?x4xf32>) -> tensor<4x?xf32> {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<?x4xf32>) -> tensor<4x?xf32>
  return %0 : tensor<4x?xf32>
}
func.func private @two(%a: tensor<?x4xf32>, %b: tensor<4x?xf32>)
    -> (tensor<?x4xf32>, tensor<?x4xf32>) {
  %0 = stablehlo.reverse %a, dims = [0] : tensor<?x4xf32>
  %1 = stablehlo.transpose %b, dims = [1, 0] : (tensor<4x?xf32>) -> tensor<?x4xf32>
  %2 = stablehlo.add %0, %1 : tensor<?x4xf32>
  return %0, %2 : tensor<?x4xf32>, tensor<?x4xf32>
}
func.func private @flat(%n: tensor<i32>, %a: tensor<?x4xf32>) -> tensor<?xf32> {
  %c = stablehlo.constant dense<4> : tensor<i32>
  %m = stablehlo.multiply %n, %c : tensor<i32>
  %s = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>
  %0 = stablehlo.dynamic_reshape %a, %s : (tensor<?x4xf32>, tensor<1xi32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}"""


def verdicts(name: str, operand: int | None = None) -> list[str]:
    """The outcomes of proving what a call reads, or what an operand reaches."""
    view = hloscope.read(TEXT)[name]
    asked = view.indexing(None) if operand is None else view.indexing_from(operand)
    outputs = asked.prove().answer.outputs
    return [str(each.check.outcome) for output in outputs for each in output.operands if each.check]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("t", ["sampled"]),
        ("c", ["sampled"]),
        ("two", ["sampled"] * 4),
        ("flat", ["undecided", "sampled"]),  # the first is the number it is refined with
    ],
)
def test_calls_are_compared_with_refined_functions(name: str, expected: list[str]) -> None:
    assert verdicts(name) == expected


@pytest.mark.parametrize("operand", [0, 1])
def test_the_other_direction_is_compared_too(operand: int) -> None:
    assert verdicts("two", operand) == ["sampled"] * 2
    assert verdicts("flat", operand) == ["undecided" if operand == 0 else "sampled"]


def test_a_call_that_reads_something_else_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    called = unknown_sizes._called

    def of_another(module: Module | None, call: Instruction) -> Called | None:
        """What `two` reads for its first output is told by its second."""
        told = called(module, call)
        assert told is not None
        return lambda instance, _: told(instance, 1)

    monkeypatch.setattr(unknown_sizes, "_called", of_another)
    assert "refuted" in verdicts("two")


def test_a_function_that_is_not_refined_is_told() -> None:
    text = TEXT.replace("%m = stablehlo.multiply %n, %c", '%m = "x.y"(%n, %c)')
    text = text.replace(
        '"x.y"(%n, %c) : tensor<i32>', '"x.y"(%n, %c) : (tensor<i32>, tensor<i32>) -> tensor<i32>'
    )
    checks = hloscope.read(text)["flat"].indexing().prove().checks
    assert {str(check.outcome) for check in checks} <= {"undecided", "unclaimed"}
