"""Sorts by every kind of comparator, and top_k."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any

import numpy as np
import pytest

from hloscope.interpreter.evaluation import evaluate
from hloscope.interpreter.ops.sorting import sort_keys
from hloscope.interpreter.values import World
from tests.interpreter.helpers import read, values


def sort(types: list[str], body: str, shape: str = "7", dimension: int = 0) -> str:
    """A program that sorts operands; `%a0, %b0, %a1 …` are the comparator's arguments."""
    whole = [f"tensor<{shape}x{t}>" for t in types]
    given = ", ".join(f"%x{i}: {t}" for i, t in enumerate(whole))
    parts = ", ".join(f"%{s}{i}: tensor<{t}>" for i, t in enumerate(types) for s in "ab")
    names = ", ".join(f"%x{i}" for i in range(len(types)))
    results = ", ".join(f"%0#{i}" for i in range(len(types)))
    listed = ", ".join(whole)
    return f"""func.func @main({given}) -> ({listed}) {{
      %0:{len(types)} = "stablehlo.sort"({names}) ({{
        ^bb0({parts}):
          {body}
          stablehlo.return %r : tensor<i1>
      }}) {{dimension = {dimension} : i64, is_stable = true}} : ({listed}) -> ({listed})
      return {results} : {listed}
    }}"""


def compare(direction: str, type_: str = "i32", kind: str = "", names: str = "%a0, %b0") -> str:
    kind = f", {kind}" if kind else ""
    types = f"(tensor<{type_}>, tensor<{type_}>) -> tensor<i1>"
    return f"%r = stablehlo.compare {direction}, {names}{kind} : {types}"


def test_sort_of_the_specification() -> None:
    text = sort(["i64", "i64"], compare("GT", "i64"), "2x3")
    first, second = values(text, [[1, 2, 3], [3, 2, 1]], [[3, 2, 1], [1, 2, 3]])
    assert first == [[3, 2, 3], [1, 2, 1]]
    assert second == [[1, 2, 1], [3, 2, 3]]


@pytest.mark.parametrize("element", ["i8", "ui8", "i32", "ui32", "i64", "ui64", "f32", "bf16"])
@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_one_operand(element: str, direction: str) -> None:
    numbers = [5, 3, 127, 0, 3, 100, 1]
    expected = sorted(numbers, reverse=direction == "GT")
    assert list(map(int, values(sort([element], compare(direction, element)), numbers))) == expected


def test_unsigned_numbers_above_the_signed_ones() -> None:
    text = sort(["ui32", "i32"], compare("LT", "ui32"), "4")
    numbers, index = values(text, [1 << 31, 5, (1 << 32) - 1, 0], [0, 1, 2, 3])
    assert numbers == [0, 5, 1 << 31, (1 << 32) - 1]
    assert index == [3, 1, 0, 2]


def test_swapped_sides_and_the_other_operand() -> None:
    text = sort(["i32", "i32"], compare("LT", names="%b1, %a1"), "4")
    assert values(text, [0, 1, 2, 3], [7, 9, 7, 8]) == ([1, 3, 0, 2], [9, 8, 7, 7])


def test_floats_in_total_order() -> None:
    numbers = np.array([2, np.nan, -0.0, 0.0, -np.inf, -np.nan, 0.0], np.float32)
    text = sort(["f32"], compare("LT", "f32", "TOTALORDER"))
    found = array(text, numbers)
    assert np.isnan(found[[0, 6]]).all()
    assert np.signbit(found).tolist() == [True, True, True, False, False, False, False]
    assert found[1:6].tolist() == [-np.inf, 0, 0, 0, 2]
    both = array(sort(["f32", "i32"], compare("GT", "f32", "TOTALORDER")), numbers, range(7))
    assert both[1].tolist() == [1, 0, 3, 6, 2, 4, 5]


@pytest.mark.parametrize("element", ["f16", "f64", "f8E5M2", "f8E4M3FN"])
def test_total_order_of_other_types(element: str) -> None:
    text = sort([element], compare("LT", element, "TOTALORDER"), "5")
    assert list(map(float, values(text, [3, -2, 0.5, -0.0, 1]))) == [-2, 0, 0.5, 1, 3]


def array(text: str, *arguments: Any) -> Any:
    found = evaluate(read(text), arguments)
    return found[0] if len(found) == 1 else found


def test_equal_zeros_keep_their_order_and_nans_come_last() -> None:
    numbers = np.array([0.0, np.nan, -0.0, 1, -0.0, -1, 0.0], np.float32)
    found = array(sort(["f32", "i32"], compare("LT", "f32", "FLOAT")), numbers, range(7))
    assert found[1].tolist() == [5, 0, 2, 4, 6, 3, 1]
    alone = array(sort(["f32"], compare("LT", "f32", "FLOAT")), numbers)
    assert alone.tobytes() == found[0].tobytes()


CANONICAL = """
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %nan = stablehlo.constant dense<0x7FC00000> : tensor<f32>
  %1 = stablehlo.compare EQ, %a0, %zero, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %2 = stablehlo.select %1, %zero, %a0 : tensor<i1>, tensor<f32>
  %3 = stablehlo.compare NE, %a0, %a0, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %4 = stablehlo.select %3, %nan, %2 : tensor<i1>, tensor<f32>
  %5 = stablehlo.compare EQ, %b0, %zero, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %6 = stablehlo.select %5, %zero, %b0 : tensor<i1>, tensor<f32>
  %7 = stablehlo.compare NE, %b0, %b0, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %8 = stablehlo.select %7, %nan, %6 : tensor<i1>, tensor<f32>
  %9 = stablehlo.compare LT, %4, %8, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
"""
LEXICOGRAPHIC = """
  %10 = stablehlo.compare LT, %a1, %b1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %11 = stablehlo.compare EQ, %a1, %b1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %12 = stablehlo.and %11, %9 : tensor<i1>
  %r = stablehlo.or %10, %12 : tensor<i1>
"""


def test_keys_computed_as_jax_does() -> None:
    body = CANONICAL.replace("%9 =", "%r =")
    numbers = np.array([0.0, -np.nan, -0.0, 1, -0.0, -1, 0.0], np.float32)
    found = array(sort(["f32", "i32"], body), numbers, range(7))
    assert found[1].tolist() == [5, 0, 2, 4, 6, 3, 1]
    assert np.signbit(found[0]).tolist()[1:5] == [False, True, True, False]


def test_several_keys() -> None:
    text = sort(["f32", "i32"], CANONICAL + LEXICOGRAPHIC)
    second = [2, 1, 2, 1, 2, 1, 2]
    first = [5, 5, -1, np.nan, 3, -2, -0.0]
    found = array(text, np.array(first, np.float32), second)
    assert found[1].tolist() == [1, 1, 1, 2, 2, 2, 2]
    assert found[0].tolist()[:2] == [-2, 5]
    assert np.isnan(found[0][2])
    assert found[0].tolist()[3:] == [-1, -0.0, 3, 5]


OTHER = """
  %seven = stablehlo.constant dense<7> : tensor<i32>
  %1 = stablehlo.remainder %a0, %seven : tensor<i32>
  %2 = stablehlo.remainder %b0, %seven : tensor<i32>
  %3 = stablehlo.subtract %1, %2 : tensor<i32>
  %4 = stablehlo.constant dense<0> : tensor<i32>
  %r = stablehlo.compare LT, %3, %4 : (tensor<i32>, tensor<i32>) -> tensor<i1>
"""


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 100, 129])
def test_any_other_order(size: int) -> None:
    """The comparator is applied to whole arrays; equal elements keep their order."""
    text = sort(["i32", "i32"], OTHER, f"{size}x2")
    numbers = np.random.default_rng(size).integers(0, 50, (size, 2)).astype(np.int32)
    index = np.arange(2 * size, dtype=np.int32).reshape(size, 2)
    first, second = array(text, numbers, index)
    for line in (0, 1):
        order = sorted(range(size), key=lambda i: numbers[i, line] % 7)
        assert first[:, line].tolist() == numbers[order, line].tolist()
        assert second[:, line].tolist() == index[order, line].tolist()


def test_along_another_dimension() -> None:
    numbers = np.random.default_rng(0).integers(-9, 9, (3, 4, 2)).astype(np.int32)
    for body, key in ((compare("GT"), lambda x: -x), (OTHER, lambda x: np.fmod(x, 7))):
        for dimension in (1, -2, 2):
            found = array(sort(["i32"], body, "3x4x2", dimension), numbers)
            assert (np.diff(key(found), axis=dimension) >= 0).all()
            assert (np.sort(found, dimension) == np.sort(numbers, dimension)).all()


def test_a_comparator_that_is_no_order_loses_nothing() -> None:
    body = OTHER.replace("compare LT", "compare NE")
    numbers = [5, 1, 4, 1, 3, 2, 6]
    expected = sorted(numbers, key=cmp_to_key(lambda a, b: -1 if a != b else 0))
    found = values(sort(["i32"], body), numbers)
    assert sorted(found) == sorted(expected)


FIRST = "%f = stablehlo.compare LT, %a1, %b1 : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
LATER = "%l = stablehlo.compare GT, %a0, %b0 : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
TIE = "%t = stablehlo.compare EQ, %a1, %b1 : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
BOTH = FIRST + LATER + TIE + "%u = stablehlo.and {} : tensor<i1>\n%r = stablehlo.or {} : tensor<i1>"
TURNED = """%n = stablehlo.negate {} : tensor<i32>
  %m = stablehlo.{} {} : tensor<i32>
  %r = stablehlo.compare LT, %n, {} : (tensor<i32>, tensor<i32>) -> tensor<i1>"""
Keys = list[tuple[int | None, bool]]
BY_BOTH: Keys = [(1, False), (0, True)]
KEYS: list[tuple[str, Keys]] = [
    (compare("LT"), [(0, False)]),
    (compare("GT"), [(0, True)]),
    (compare("LT", names="%b1, %a1"), [(1, True)]),
    (compare("GT", names="%b1, %a1"), [(1, False)]),
    *[(compare(direction), []) for direction in ("LE", "GE", "EQ", "NE")],
    *[(compare("LT", names=names), []) for names in ("%a0, %a0", "%b0, %b0", "%a0, %b1")],
    (TURNED.format("%a0", "negate", "%b0", "%m"), [(None, False)]),
    (TURNED.format("%b0", "negate", "%a0", "%m"), [(None, True)]),
    (TURNED.format("%a0", "abs", "%b0", "%m"), []),
    (TURNED.format("%a0", "negate", "%a0", "%m"), []),
    (TURNED.format("%a0", "negate", "%b1", "%m"), []),
    (TURNED.format("%a0", "negate", "%b0", "%b0"), []),
    *[
        (BOTH.format(inner, outer), BY_BOTH)
        for inner in ("%t, %l", "%l, %t")
        for outer in ("%f, %u", "%u, %f")
    ],
    (BOTH.format("%t, %l", "%f, %u").replace("EQ, %a1, %b1", "EQ, %b1, %a1"), BY_BOTH),
    *[
        (BOTH.format("%t, %l", "%f, %u").replace("EQ, %a1, %b1", tie), [])
        for tie in ("NE, %a1, %b1", "LE, %a1, %b1", "EQ, %a0, %b0", "EQ, %a1, %b0",
                    "EQ, %a1, %a1", "EQ, %b1, %b1")
    ],
    (BOTH.format("%l, %l", "%f, %u"), []),
    (BOTH.format("%t, %t", "%f, %u"), []),
    (BOTH.format("%t, %l", "%f, %u").replace("stablehlo.and", "stablehlo.or"), []),
    (BOTH.format("%t, %l", "%f, %u").replace("%r = stablehlo.or", "%r = stablehlo.xor"), []),
]  # fmt: skip


@pytest.mark.slow(keep=len(KEYS))
@pytest.mark.parametrize(("body", "keys"), KEYS)
def test_comparators_that_compare_keys(body: str, keys: Keys) -> None:
    """All others are applied, which takes longer; whatever the way, elements are in order."""
    program = read(sort(["i32", "i32"], body))
    ins = next(ins for ins in program.entry if ins.op.name == "sort")
    found = sort_keys(ins.calls[0], World())
    assert [(key.operand, key.is_descending) for key in found] == keys


def test_empty_lines_and_scalars() -> None:
    assert values(sort(["i32"], compare("LT"), "0x2"), np.zeros((0, 2), np.int32)) == []
    assert values(sort(["i32"], OTHER, "2x0"), np.zeros((2, 0), np.int32)) == [[], []]


TOP_K = """func.func @main(%x: tensor<2x5xE>) -> (tensor<2x3xE>, tensor<2x3xi32>) {
  %values, %indices = chlo.top_k(%x, k = 3) : tensor<2x5xE> -> (tensor<2x3xE>, tensor<2x3xi32>)
  return %values, %indices : tensor<2x3xE>, tensor<2x3xi32>
}"""


@pytest.mark.parametrize("element", ["i32", "ui8", "f32", "f64"])
def test_top_k(element: str) -> None:
    found, index = values(TOP_K.replace("E", element), [[1, 5, 3, 5, 0], [9, 8, 7, 6, 5]])
    assert found == [[5, 5, 3], [9, 8, 7]]
    assert index == [[1, 3, 2], [0, 1, 2]]


def test_top_k_takes_nan_for_the_largest() -> None:
    numbers = np.array([[1, np.nan, np.inf, 0, -0.0], [0.0, -0.0, 0.0, -1, -1]], np.float32)
    index = values(TOP_K.replace("E", "f32"), numbers)[1]
    assert index == [[1, 2, 0], [0, 2, 1]]


def test_hlo_topk_of_the_smallest() -> None:
    text = """
    HloModule m
    c {
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT r = pred[] compare(a, b), direction=LT
    }
    ENTRY e {
      p = f32[5] parameter(0)
      ROOT t = (f32[2], s32[2]) topk(p), k=2, largest=false
    }"""
    assert values(text, [4, 1, 5, 1, 0]) == ([0, 1], [4, 1])
