"""Sliding windows, beside plain loops over positions and taps."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hloscope.errors import UnsupportedError
from hloscope.interpreter.evaluation import evaluate
from hloscope.ops.windows import Window
from tests.interpreter.helpers import read, values


def window_text(window: Window) -> str:
    def listed(numbers: Sequence[int]) -> str:
        return f"array<i64: {', '.join(map(str, numbers))}>"

    pairs = ", ".join(f"[{a}, {b}]" for a, b in window.padding)
    return f"""window_dimensions = {listed(window.sizes)},
      window_strides = {listed(window.strides)},
      base_dilations = {listed(window.base_dilations)},
      window_dilations = {listed(window.window_dilations)},
      padding = dense<[{pairs}]> : tensor<{len(window.sizes)}x2xi64>"""


def sized(shape: Sequence[int], element: str) -> str:
    return "x".join([*map(str, shape), element])


def program(window: Window, shape: Sequence[int], element: str, body: str) -> str:
    positions = [window.positions(d, size) for d, size in enumerate(shape)]
    whole, result = sized(shape, element), sized(positions, element)
    return f"""func.func @main(%x: tensor<{whole}>, %i: tensor<{element}>) -> tensor<{result}> {{
      %0 = "stablehlo.reduce_window"(%x, %i) ({{
        ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
          {body.replace("T", f"tensor<{element}>")}
          stablehlo.return %r : tensor<{element}>
      }}) {{{window_text(window)}}} : (tensor<{whole}>, tensor<{element}>) -> tensor<{result}>
      return %0 : tensor<{result}>
    }}"""


def touched(window: Window, shape: Sequence[int], position: Sequence[int]) -> Iterator[Any]:
    """Index of the element of each tap, `None` for padding and holes."""
    for tap in itertools.product(*map(range, window.sizes)):
        index = []
        for d, size in enumerate(shape):
            at = position[d] * window.strides[d] + tap[d] * window.window_dilations[d]
            at -= window.padding[d][0]
            if at % window.base_dilations[d] or not 0 <= at // window.base_dilations[d] < size:
                break
            index.append(at // window.base_dilations[d])
        yield tuple(index) if len(index) == len(shape) else None


def looped(window: Window, x: Any, init: Any, body: Callable[[Any, Any], Any]) -> Any:
    """The windows one after the other."""
    positions = [window.positions(d, size) for d, size in enumerate(x.shape)]
    result = np.full(positions, init, x.dtype)
    with np.errstate(over="ignore"):
        for position in np.ndindex(*positions):
            total = x.dtype.type(init)
            for index in touched(window, x.shape, position):
                total = x.dtype.type(body(total, x.dtype.type(init) if index is None else x[index]))
            result[position] = total
    return result


def some_window(rng: random.Random, rank: int) -> Window:
    def some(low: int, high: int) -> tuple[int, ...]:
        return tuple(rng.randint(low, high) for _ in range(rank))

    padding = tuple((rng.randint(-2, 4), rng.randint(-2, 4)) for _ in range(rank))
    return Window(some(1, 4), some(1, 3), padding, some(1, 3), some(1, 3), (False,) * rank)


def plain(sizes: Sequence[int], padding: Sequence[tuple[int, int]], stride: int = 1) -> Window:
    one = (1,) * len(sizes)
    strides = (stride,) * len(sizes)
    return Window(tuple(sizes), strides, tuple(padding), one, one, (False,) * len(sizes))


ADD = "%r = stablehlo.add %a, %b : T"
MAXIMUM = "%r = stablehlo.maximum %a, %b : T"
HALVES = """%1 = stablehlo.subtract %a, %b : T
  %r = stablehlo.add %1, %1 : T"""


def test_reduce_window_of_the_specification() -> None:
    window = Window((2, 1), (4, 1), ((2, 1), (0, 0)), (2, 1), (3, 1), (False, False))
    text = program(window, (3, 2), "i64", ADD)
    assert values(text, [[1, 2], [3, 4], [5, 6]], 0) == [[0, 0], [3, 4]]


@pytest.mark.parametrize("seed", range(40))
def test_all_windows(seed: int) -> None:
    rng = random.Random(seed)
    rank = rng.randint(1, 3)
    shape = [rng.randint(1, 7) for _ in range(rank)]
    window = some_window(rng, rank)
    x = np.random.default_rng(seed).integers(-9, 9, shape).astype(np.int32)
    bodies: list[tuple[str, Callable[[Any, Any], Any]]] = [
        (ADD, lambda a, b: a + b),
        (MAXIMUM, max),
        (HALVES, lambda a, b: 2 * (a - b)),
    ]
    for body, function in bodies:
        found = values(program(window, shape, "i32", body), x, np.int32(3))
        assert found == looped(window, x, 3, function).tolist(), (window, body)


def test_the_initial_value_counts_for_each_window_and_for_padding() -> None:
    window = plain([2], [(1, 0)])
    assert values(program(window, (3,), "i32", ADD), [1, 2, 3], 100) == [201, 103, 105]


@pytest.mark.parametrize("element", ["i8", "f32", "f64", "complex<f32>"])
@pytest.mark.parametrize("size", [5, 40, 300])
def test_cumulative_sums(size: int, element: str) -> None:
    """Windows as long as the array: forwards and backwards, whatever way they are added up."""
    rng = np.random.default_rng(size)
    x = rng.integers(-9, 9, (2, size)).astype(np.dtype("i1"))
    for padding in ((size - 1, 0), (0, size - 1)):
        window = plain([1, size], [(0, 0), padding])
        sums = np.cumsum(x, 1) if padding[0] else np.cumsum(x[:, ::-1], 1)[:, ::-1]
        found = values(program(window, (2, size), element, ADD), x.tolist(), 0)
        assert found == (sums.astype(np.int8) if element == "i8" else sums).tolist()


def test_narrow_sums_round_in_order() -> None:
    window = plain([400], [(0, 0)])
    ones = np.ones(400, ml_dtypes.bfloat16)
    assert list(map(float, values(program(window, (400,), "bf16", ADD), ones, 0))) == [256]


@pytest.mark.parametrize("size", [3, 200])
def test_long_windows_keep_the_order_of_the_elements(size: int) -> None:
    """`first` is associative and not commutative: it keeps the first number that is not 0."""
    first = """%zero = stablehlo.constant dense<0> : T
      %1 = stablehlo.compare NE, %a, %zero : (T, T) -> tensor<i1>
      %r = stablehlo.select %1, %a, %b : tensor<i1>, T"""
    x = np.random.default_rng(0).integers(-1, 2, (4, 300)).astype(np.int32)
    window = Window((2, size), (1, 2), ((0, 1), (3, 0)), (1, 1), (1, 1), (False, False))
    found = values(program(window, x.shape, "i32", first), x, 0)
    assert found == looped(window, x, 0, lambda a, b: a or b).tolist()


def test_no_windows() -> None:
    window = plain([4], [(0, 0)])
    assert values(program(window, (3,), "f32", ADD), [1, 2, 3], 0) == []
    assert values(program(plain([1], [(0, 0)]), (0,), "f32", ADD), np.zeros(0, np.float32), 0) == []


def test_several_arrays() -> None:
    text = """
    func.func @main(%x: tensor<4xf32>, %k: tensor<4xi32>, %f: tensor<f32>, %i: tensor<i32>)
        -> (tensor<3xf32>, tensor<3xi32>) {
      %0:2 = "stablehlo.reduce_window"(%x, %k, %f, %i) ({
        ^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):
          %1 = stablehlo.compare GE, %a, %c : (tensor<f32>, tensor<f32>) -> tensor<i1>
          %2 = stablehlo.select %1, %a, %c : tensor<i1>, tensor<f32>
          %3 = stablehlo.select %1, %b, %d : tensor<i1>, tensor<i32>
          stablehlo.return %2, %3 : tensor<f32>, tensor<i32>
      }) {window_dimensions = array<i64: 2>}
        : (tensor<4xf32>, tensor<4xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)
      return %0#0, %0#1 : tensor<3xf32>, tensor<3xi32>
    }"""
    found = values(text, [1, 4, 4, 2], [0, 1, 2, 3], -np.inf, -1)
    assert found == ([4, 4, 4], [1, 1, 2])


@pytest.mark.parametrize("first", ["f32[]", "f32[2]"])
def test_what_begins_with_several_elements_is_not_done_yet(first: str) -> None:
    text = f"""HloModule m
    f {{ a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3)
      ROOT r = (f32[], f32[]) tuple(c, d) }}
    ENTRY e {{ x = f32[4] parameter(0) i = {first} parameter(1) j = f32[2] parameter(2)
      ROOT r = (f32[3], f32[3]) reduce-window(x, x, i, j), window={{size=2}}, to_apply=f }}"""
    one = 1.0 if first == "f32[]" else [1.0, 2.0]
    with pytest.raises(UnsupportedError, match="begins with several elements"):
        values(text, [1, 2, 3, 4], one, [1.0, 2.0])


# ------------------------------------------------------------------------- select_and_scatter


def scattering(window: Window, shape: Sequence[int], element: str, direction: str) -> str:
    positions = [window.positions(d, size) for d, size in enumerate(shape)]
    one, whole = f"tensor<{element}>", f"tensor<{sized(shape, element)}>"
    source = f"tensor<{sized(positions, element)}>"
    kept = window_text(window).split(",\n")
    listed = ",".join(part for part in kept if "dilations" not in part)
    return f"""func.func @main(%x: {whole}, %s: {source}, %i: {one}) -> {whole} {{
      %0 = "stablehlo.select_and_scatter"(%x, %s, %i) ({{
        ^bb0(%a: {one}, %b: {one}):
          %1 = stablehlo.compare {direction}, %a, %b : ({one}, {one}) -> tensor<i1>
          stablehlo.return %1 : tensor<i1>
      }}, {{
        ^bb0(%a: {one}, %b: {one}):
          %1 = stablehlo.add %a, %b : {one}
          stablehlo.return %1 : {one}
      }}) {{{listed}}} : ({whole}, {source}, {one}) -> {whole}
      return %0 : {whole}
    }}"""


def test_select_and_scatter_of_the_specification() -> None:
    window = Window((3, 1), (2, 1), ((0, 1), (0, 0)), (1, 1), (1, 1), (False, False))
    operand = [[1, 5], [2, 5], [3, 6], [4, 4]]
    text = scattering(window, (4, 2), "i64", "GE")
    assert values(text, operand, [[5, 6], [7, 8]], 0) == [[0, 0], [0, 0], [5, 14], [7, 0]]


@pytest.mark.parametrize("seed", range(30))
def test_selected_elements(seed: int) -> None:
    rng = random.Random(seed)
    rank = rng.randint(1, 3)
    shape = [rng.randint(1, 6) for _ in range(rank)]
    one = (1,) * rank
    made = some_window(rng, rank)
    window = Window(made.sizes, made.strides, made.padding, one, one, made.reversal)
    positions = [window.positions(d, size) for d, size in enumerate(shape)]
    numbers = np.random.default_rng(seed)
    x = numbers.integers(-5, 5, shape).astype(np.int32)
    source = numbers.integers(1, 9, positions).astype(np.int32)
    expected = np.full(shape, 100, np.int32)
    for position in np.ndindex(*positions):
        chosen = None
        for index in touched(window, shape, position):
            if index is not None and (chosen is None or not x[chosen] >= x[index]):
                chosen = index
        if chosen is not None:
            expected[chosen] += source[position]
    text = scattering(window, shape, "i32", "GE")
    assert values(text, x, source, np.int32(100)) == expected.tolist()


def test_overlapping_windows_share_one_initial_value() -> None:
    """As XLA and the specification have it."""
    text = scattering(plain([2], [(0, 0)]), (4,), "f32", "GE")
    assert values(text, [1, 5, 5, 2], [10, 20, 30], 0.5) == [0.5, 30.5, 30.5, 0.5]


def test_sums_of_pooling_gradients_round_in_the_order_of_the_windows() -> None:
    text = scattering(plain([3], [(0, 0)]), (5,), "f32", "GE")
    (found,) = evaluate(read(text), [[0, 0, 9, 0, 0], np.float32([1e8, 1, -1e8]), np.float32(0)])
    assert found.tolist() == [0, 0, 0, 0, 0]  # type: ignore[union-attr]


def test_few_taps_are_added_in_their_order() -> None:
    window = Window((2, 2), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), (False, False))
    text = program(window, (2, 2), "f32", "%r = stablehlo.add %a, %b : T")
    x = np.float32([[1e8, 1], [-1e8, 1]])
    assert values(text, x, np.float32(0)) == [[1]]  # by columns it would be 0
