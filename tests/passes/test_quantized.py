"""Quantised programs: values before and after, as integers and through dequantize and quantize."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from hloscope.interpreter import evaluate
from hloscope.mlir import Operation
from hloscope.passes import PassError
from hloscope.passes.pipeline import find_pass
from hloscope.stablehlo import parse_stablehlo, print_stablehlo, to_graph

TO_QDQ = find_pass("legalize-quantized-op-to-qdq")
FROM_QDQ = find_pass("legalize-qdq-to-quantized-op")
TO_MATH = find_pass("legalize-quant-to-math")
CHLO = find_pass("chlo-legalize-to-stablehlo")

UNARY = "abs ceil cosine exponential floor logistic negate sign sine sqrt tanh".split()
BINARY = "add divide maximum minimum multiply subtract".split()


def element(random: Random, storage: str = "i8") -> str:
    scale = random.choice(["1.0", "0.5", "0.25", "2.0"])
    return f"!quant.uniform<{storage}:f32, {scale}:{random.randint(-20, 20)}>"


def program(random: Random) -> str:
    """One op on arrays of four."""
    op = random.choice([*UNARY, *BINARY])
    count = 1 if op in UNARY else 2
    if random.random() < 0.5:
        types = [f"tensor<4x{element(random)}>"] * 3
    else:
        types = [f"tensor<4x{element(random)}>" for _ in range(3)]
    if op in ("maximum", "minimum"):
        types = types[:1] * 3
    names = [f"%a{k}" for k in range(count)]
    given = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=False))
    return f"""func.func @main({given}) -> {types[2]} {{
      %0 = "stablehlo.{op}"({", ".join(names)}) : ({", ".join(types[:count])}) -> {types[2]}
      return %0 : {types[2]}
    }}"""


def integers(random: Random, text: str) -> list[Any]:
    count = (text.count("%a1") and 2) or 1
    return [np.array([random.randint(-128, 127) for _ in range(4)], "i1") for _ in range(count)]


def outcome(tree: Operation, arguments: list[Any]) -> Any:
    return np.asarray(evaluate(to_graph(tree), arguments)[0]).astype(int)


def as_math(tree: Operation) -> Operation:
    return CHLO.apply(TO_MATH.apply(tree)[0])[0]


@pytest.mark.parametrize("seed", range(60))
def test_values_stay(seed: int, full: bool) -> None:
    for inner in range(10 if full else 1):
        random = Random(seed + 1000 * inner)
        text = program(random)
        arguments = [given.view(np.int8) for given in integers(random, text)]
        tree = parse_stablehlo(text).tree
        expected = outcome(tree, arguments)
        through, _ = TO_QDQ.apply(tree)
        assert np.array_equal(outcome(through, arguments), expected)
        again, _ = FROM_QDQ.apply(through)
        assert np.array_equal(outcome(again, arguments), expected)
        # `add` requantizes both sides, each of which is rounded.
        most = 2 if "stablehlo.add" in text else 1
        found = outcome(as_math(tree), arguments)
        assert np.abs(found - expected).max() <= most, text


QUANTIZE = """func.func @main(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.uniform_quantize %a : (tensor<2x3xf32>) -> tensor<2x3x!quant.uniform<TYPE>>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<2x3x!quant.uniform<TYPE>>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}"""


@pytest.mark.parametrize(
    "type_",
    ["i8:f32, 0.5:3", "ui8:f32, 0.25:100", "i8:f32:1, {0.5:0, 2.0:0, 4.0:0}", "i4:f32, 1.0:-2"],
)
def test_quantizing_and_back_is_exact(type_: str) -> None:
    tree = parse_stablehlo(QUANTIZE.replace("TYPE", type_)).tree
    given = np.array([[0.3, -7.5, 1000], [1.25, 63.2, -1e9]], "f4")
    before, after = (np.asarray(evaluate(to_graph(t), [given])[0]) for t in (tree, as_math(tree)))
    assert np.array_equal(before, after)


DOT = """func.func @main(%a: tensor<3x4xA>, %b: tensor<4x2xB>) -> tensor<3x2xC> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<3x4xA>, tensor<4x2xB>) -> tensor<3x2xC>
  return %0 : tensor<3x2xC>
}"""


@pytest.mark.parametrize("seed", range(10))
def test_products_of_integers(seed: int) -> None:
    random = Random(seed)
    text = DOT.replace("xA>", f"x{element(random)}>").replace("xB>", f"x{element(random)}>")
    text = text.replace("xC>", f"x{element(random, 'i32')}>")
    shapes = (3, 4), (4, 2)
    arguments = [
        np.array([random.randint(-128, 127) for _ in range(s[0] * s[1])], np.int8).reshape(s)
        for s in shapes
    ]
    tree = parse_stablehlo(text).tree
    expected, found = outcome(tree, arguments), outcome(as_math(tree), arguments)
    # Product and offset are each cut to integers.
    assert np.abs(found - expected).max() <= 2


REFUSED = [
    ("stablehlo.reverse %a, dims = [0] : T", "failed to legalize operation 'stablehlo"),
    ("stablehlo.custom_call @f(%a) : (T) -> T", "failed to legalize operation 'stablehlo"),
    ("stablehlo.optimization_barrier %a : T", "failed to legalize operation 'stablehlo"),
]


@pytest.mark.parametrize(("op", "message"), REFUSED)
def test_what_integers_cannot_do_is_refused(op: str, message: str) -> None:
    type_ = "tensor<4x!quant.uniform<i8:f32, 0.5:3>>"
    text = f"func.func @main(%a: T) -> T {{ %0 = {op} return %0 : T }}".replace("T", type_)
    tree = parse_stablehlo(text).tree
    before = print_stablehlo(tree)
    with pytest.raises(PassError, match=message):
        TO_MATH.apply(tree)
    assert print_stablehlo(tree) == before


def test_another_axis_is_no_requantization() -> None:
    a, b = (f"tensor<2x2x!quant.uniform<i8:f32:{k}, {{1.0:0, 2.0:0}}>>" for k in (0, 1))
    text = f"""func.func @main(%a: {a}) -> {b} {{
      %0 = stablehlo.uniform_quantize %a : ({a}) -> {b}
      return %0 : {b}
    }}"""
    with pytest.raises(PassError) as caught:
        TO_MATH.apply(parse_stablehlo(text).tree)
    first, second = caught.value.diagnostics
    assert "Cannot requantize while changing quantization_axis" in first.message
    assert "explicitly marked illegal" in second.message
