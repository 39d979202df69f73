"""Pretty forms that state types: all rows at once, ops that only the generic form says, errors."""

from __future__ import annotations

import re

import pytest

from hloscope.errors import ParseError
from hloscope.mlir.dialects.registry import DIALECTS
from hloscope.mlir.text.parser import parse_mlir
from hloscope.mlir.text.printer import print_mlir
from tests.mlir.test_forms import CASES, around, generic


def printed(texts: list[str], *, generic: bool = False) -> str:
    """The module of functions of one op each."""
    module = "\n".join(text.replace("@f(", f"@f{i}(", 1) for i, text in enumerate(texts))
    return print_mlir(parse_mlir(module, dialects=DIALECTS), dialects=DIALECTS, generic=generic)


def ops(text: str) -> list[str]:
    """The lines of the functions' ops, without the names of their results."""
    found = [line.strip() for line in text.splitlines()]
    found = [line for line in found if not re.match(r"\}|return|func\.|module", line)]
    return [re.sub(r"^(?:%[\w:]+(?:, )?)+ = ", "", line) for line in found]


def test_all_forms_are_read_and_printed() -> None:
    """Of either form, the pretty one is printed, and the generic ones are the same."""
    pretty = [around(name + form, types) for name, form, _, types in CASES]
    long = [around(generic(name, inside, types), types) for name, _, inside, types in CASES]
    for texts in (pretty, long):
        assert ops(printed(texts)) == [name + form for name, form, _, _ in CASES]
    assert printed(pretty, generic=True) == printed(long, generic=True)


F, D = "tensor<2xf32>", "tensor<?xf32>"
UNFIT = [
    # result or operand types that the one written type does not tell
    ("stablehlo.tuple", f"({F}, {F}) -> tuple<{F}>"),
    ("stablehlo.tuple", f"({F}) -> tuple<{D}>"),
    ("stablehlo.tuple", f"({F}) -> {F}"),
    ("stablehlo.tuple", f"({F}) -> (tuple<{F}>, tuple<{F}>)"),
    ("stablehlo.optimization_barrier", f"({F}, {D}) -> {F}"),
    ("arith.negf", "(f32) -> f64"),
    ("arith.negf", "(f32, f32) -> f32"),
    ("arith.negf", "() -> f32"),
    ("check.expect_eq", f"({F}, {D}) -> ()"),
    ("check.expect_eq", f"({F}) -> ()"),
    ("tensor.from_elements", "(f32, f64) -> tensor<2xf32>"),
    ("tensor.dim", f"({F}, i32) -> index"),
    ("tensor.dim", f"({F}, index) -> i32"),
    ("tensor.rank", f"({F}) -> i32"),
    ("tensor.extract", f"({F}, index) -> f64"),
    ("tensor.extract", f"({F}, i32) -> f32"),
    ("tensor.insert", f"(f64, {F}, index) -> {F}"),
    ("tensor.insert", f"(f32, {D}, index) -> {F}"),
    ("tensor.insert", f"(f32, {F}, i32) -> {F}"),
    # a number of operands or results that the form has not
    ("stablehlo.complex", f"({F}) -> tensor<2xcomplex<f32>>"),
    ("stablehlo.complex", f"({F}, {F}) -> (tensor<2xcomplex<f32>>, {F})"),
    ("stablehlo.select", f"(tensor<2xi1>, {F}, {F}) -> ({F}, {F})"),
    ("stablehlo.select", f"({F}, {F}) -> {F}"),
    ("stablehlo.clamp", f"({F}, {F}, {F}) -> ({F}, {F})"),
    ("stablehlo.clamp", f"({F}, {F}) -> {F}"),
    ("arith.select", "(i1, i32, i32) -> (i32, i32)"),
    ("arith.select", "(i1, i32) -> i32"),
    ("tensor.cast", f"({F}) -> ({D}, {D})"),
    ("tensor.cast", f"() -> {D}"),
]


def test_ops_that_no_pretty_form_says_are_printed_in_the_generic_one() -> None:
    long = [generic(name, "", types) for name, types in UNFIT]
    text = printed([around(op, case[1]) for op, case in zip(long, UNFIT, strict=True)])
    assert ops(re.sub(r" <\{.*\}>", "", text)) == long


ERRORS = [
    ("stablehlo.tuple %a : i32", "expected tuple type", "i32"),
    ("stablehlo.tuple %a : tuple<>", "got 1 operands and 0 types", "%a"),
    ("stablehlo.complex %a, %a : tensor<2xf32>", "expected tensor with complex", "tensor<2xf32>"),
    ("stablehlo.complex %a, %a : (i32) -> i32", "2 operands present, but expected 1", "(i32)"),
    ("stablehlo.clamp %a, %a, %a : (i32, i32, i32) -> (i32, i32)", "expected single", "(i32,"),
    ("stablehlo.clamp %a, %a, %a : (i32, i32, i32) -> ()", "expected single output", "(i32,"),
    ("stablehlo.select %a, %a, %a : i32", "expected functional type or list of two", "i32"),
    ("stablehlo.select %a, %a, %a : i32, i32, i32", "expected functional type or list", "i32"),
    ("stablehlo.optimization_barrier %a : 3", "expected type list", "3"),
]


@pytest.mark.parametrize("row", range(0, len(ERRORS), 3))
def test_types_that_a_form_cannot_take_are_refused_at_their_place(row: int) -> None:
    for op, message, place in ERRORS[row : row + 3]:
        line = f"  %r = {op}"
        with pytest.raises(ParseError) as caught:
            parse_mlir(f"func.func @f(%a: i32) {{\n{line}\n  return\n}}", dialects=DIALECTS)
        text = str(caught.value)
        assert message in text
        assert f"2:{line.index(place, line.find(':') if place != '%a' else 0) + 1}: " in text, text
