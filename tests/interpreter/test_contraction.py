"""Products summed over dimensions."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hloscope.errors import UnsupportedError
from tests.interpreter.helpers import values


def dot(lhs: str, rhs: str, result: str, dims: str) -> str:
    lhs, rhs, result = f"tensor<{lhs}>", f"tensor<{rhs}>", f"tensor<{result}>"
    return f"""func.func @main(%a: {lhs}, %b: {rhs}) -> {result} {{
      %0 = stablehlo.dot_general %a, %b, {dims} : ({lhs}, {rhs}) -> {result}
      return %0 : {result}
    }}"""


PLAIN = "contracting_dims = [1] x [0]"


def test_dot_general_of_the_specification() -> None:
    dims = "batching_dims = [0] x [0], contracting_dims = [2] x [1]"
    text = dot("2x2x2xi64", "2x2x2xi64", "2x2x2xi64", dims)
    identity = [[1, 0], [0, 1]]
    lhs = [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    assert values(text, lhs, [identity, identity]) == lhs


@pytest.mark.parametrize("seed", range(25))
def test_all_dimensions(seed: int) -> None:
    """Any number of batch, contracting and free dimensions, in any order."""
    rng = random.Random(seed)
    sizes = [rng.randint(1, 3) for _ in range(6)]
    letters = "abcdef"
    batch, summed = letters[: rng.randint(0, 2)], letters[2 : 2 + rng.randint(0, 2)]
    left, right = letters[4 : 4 + rng.randint(0, 1)], letters[5 : 5 + rng.randint(0, 1)]
    lhs = "".join(rng.sample(batch + summed + left, len(batch + summed + left)))
    rhs = "".join(rng.sample(batch + summed + right, len(batch + summed + right)))
    result = batch + left + right
    size = dict(zip(letters, sizes, strict=True))

    def places(of: str, names: str) -> list[int]:
        return [of.index(n) for n in names]

    dims = (
        f"batching_dims = {places(lhs, batch)} x {places(rhs, batch)},"
        f" contracting_dims = {places(lhs, summed)} x {places(rhs, summed)}"
    )
    numbers = np.random.default_rng(seed)
    a = numbers.integers(-9, 9, [size[n] for n in lhs]).astype(np.int32)
    b = numbers.integers(-9, 9, [size[n] for n in rhs]).astype(np.int32)
    types = ["x".join([*(str(size[n]) for n in names), "i32"]) for names in (lhs, rhs, result)]
    expected = np.einsum(f"{lhs},{rhs}->{result}", a, b)
    assert values(dot(*types, dims), a, b) == expected.tolist()


@pytest.mark.parametrize("size", [3, 60])
@pytest.mark.parametrize("element", ["i8", "ui8", "i32", "ui32", "i64", "ui64", "i4"])
def test_integers_wrap_around(element: str, size: int) -> None:
    """Small and large matrices of the largest and smallest numbers."""
    bits = int(element.strip("ui"))
    low, high = (0, (1 << bits) - 1) if "u" in element else (-(1 << bits - 1), (1 << bits - 1) - 1)
    rng = random.Random(size)
    a = [[rng.choice([low, high, rng.randint(low, high)]) for _ in range(size)] for _ in range(2)]
    b = [[rng.choice([low, high, rng.randint(low, high)]) for _ in range(3)] for _ in range(size)]
    text = dot(f"2x{size}x{element}", f"{size}x3x{element}", f"2x3x{element}", PLAIN)
    found = values(text, integers(a, element), integers(b, element))
    for i in range(2):
        for j in range(3):
            exact = sum(a[i][k] * b[k][j] for k in range(size))
            assert int(found[i][j]) == (exact - low) % (1 << bits) + low


def integers(rows: list[list[int]], element: str) -> Any:
    if element == "i4":
        return np.array(rows, np.int8).astype(ml_dtypes.int4)
    return np.array(rows, ("uint" if "u" in element else "int") + element.strip("ui"))


def test_operands_are_converted_to_the_type_of_the_result() -> None:
    text = dot("1x2xi8", "2x1xi8", "1x1xi32", PLAIN)
    assert values(text, [[100, 100]], [[100], [100]]) == [[20000]]
    text = dot("1x2xf8E4M3FN", "2x1xf8E4M3FN", "1x1xf32", PLAIN)
    assert values(text, [[1.5, 448]], [[1.5], [448]]) == [[200706.25]]


def test_hlo_floats_are_summed_before_they_are_made_integers() -> None:
    text = """
    HloModule m
    ENTRY e {
      a = bf16[1,3] parameter(0)
      b = bf16[3,1] parameter(1)
      ROOT r = s32[1,1] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }"""
    assert values(text, [[0.5, 0.5, 0.75]], [[1], [1], [1]]) == [[1]]


def test_booleans() -> None:
    text = dot("2x2xi1", "2x1xi1", "2x1xi1", PLAIN)
    assert values(text, [[True, True], [False, True]], [[True], [False]]) == [[True], [False]]


def test_small_sums_round_in_the_type_of_the_result() -> None:
    ones = np.ones((1, 300), ml_dtypes.bfloat16)
    text = dot("1x300xbf16", "300x1xbf16", "1x1xbf16", PLAIN)
    assert float(values(text, ones, ones.T)[0][0]) == 256


@pytest.mark.parametrize("element", ["f32", "f64", "f16", "bf16", "complex<f32>"])
def test_large_matrices(element: str) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.uniform(-1, 1, (70, 50)), rng.uniform(-1, 1, (50, 60))
    text = dot(f"70x50x{element}", f"50x60x{element}", f"70x60x{element}", PLAIN)
    found = np.array(values(text, a.tolist(), b.tolist()))
    tolerance = 0.2 if "16" in element else 1e-4
    assert np.abs(found.astype(complex) - a @ b).max() < tolerance


def test_nothing_to_sum_is_zero() -> None:
    text = dot("2x0xf32", "0x3xf32", "2x3xf32", PLAIN)
    zeros = np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32)
    assert values(text, *zeros) == [[0, 0, 0], [0, 0, 0]]
    text = dot("2x0xi32", "0x3xi32", "2x3xi32", PLAIN)
    assert values(text, *(z.astype(np.int32) for z in zeros)) == [[0, 0, 0], [0, 0, 0]]


def test_outer_product() -> None:
    text = dot("2xf32", "2xf32", "2x2xf32", "contracting_dims = [] x []")
    assert values(text, [1, 2], [3, 4]) == [[3, 4], [6, 8]]


@pytest.mark.parametrize(
    ("lhs", "rhs", "result"), [("3", "3", ""), ("2x3", "3", "2x"), ("2x3", "3x2", "2x2x")]
)
def test_old_dot(lhs: str, rhs: str, result: str) -> None:
    a, b, c = f"tensor<{lhs}xf32>", f"tensor<{rhs}xf32>", f"tensor<{result}f32>"
    text = f"""func.func @main(%a: {a}, %b: {b}) -> {c} {{
      %0 = stablehlo.dot %a, %b : ({a}, {b}) -> {c}
      return %0 : {c}
    }}"""
    x = np.arange(np.prod(list(map(int, lhs.split("x"))))).reshape([*map(int, lhs.split("x"))])
    y = np.arange(np.prod(list(map(int, rhs.split("x"))))).reshape([*map(int, rhs.split("x"))])
    assert values(text, x.tolist(), y.tolist()) == (x @ y).tolist()


@pytest.mark.parametrize("config", ["ij,jk->ik", "bij,bjk->bik", "ij,ij->", "ij,jk", "i,j->ji"])
def test_einsum(config: str) -> None:
    sizes = dict(zip("bijk", (2, 3, 4, 5), strict=True))
    left, _, right = config.partition("->")[0].partition(",")
    numbers = np.random.default_rng(0)
    a, b = (numbers.integers(-5, 5, [sizes[n] for n in names]) / 4 for names in (left, right))
    expected = np.einsum(config, a, b)
    types = ["x".join([*map(str, x.shape), "f32"]) for x in (a, b, expected)]
    lhs, rhs, result = (f"tensor<{t}>" for t in types)
    text = f"""func.func @main(%a: {lhs}, %b: {rhs}) -> {result} {{
      %0 = "stablehlo.einsum"(%a, %b) {{einsum_config = "{config}"}} : ({lhs}, {rhs}) -> {result}
      return %0 : {result}
    }}"""
    assert values(text, a.tolist(), b.tolist()) == expected.tolist()


@pytest.mark.parametrize("config", ["ij->ji", "ij->", "ii->i", "ij->j"])
def test_unary_einsum(config: str) -> None:
    x = np.arange(9).reshape(3, 3) / 2
    expected = np.einsum(config, x)
    result = "x".join([*map(str, expected.shape), "bf16"])
    text = f"""func.func @main(%a: tensor<3x3xbf16>) -> tensor<{result}> {{
      %0 = "stablehlo.unary_einsum"(%a) {{einsum_config = "{config}"}}
        : (tensor<3x3xbf16>) -> tensor<{result}>
      return %0 : tensor<{result}>
    }}"""
    assert np.array(values(text, x.tolist()), float).tolist() == expected.tolist()


# --------------------------------------------------------------------------------- ragged_dot


def ragged(lhs: str, rhs: str, sizes: str, result: str, dims: dict[str, list[int]]) -> str:
    names = (
        "lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
        "rhs_contracting_dimensions", "lhs_ragged_dimensions", "rhs_group_dimensions",
    )  # fmt: skip
    listed = ", ".join(f"{name} = {dims.get(name[:-11], [])}" for name in names)
    lhs, rhs, sizes, result = (f"tensor<{t}>" for t in (lhs, rhs, sizes, result))
    return f"""
    func.func @main(%a: {lhs}, %b: {rhs}, %s: {sizes}) -> {result} {{
      %0 = "chlo.ragged_dot"(%a, %b, %s) {{
        ragged_dot_dimension_numbers = #chlo.ragged_dot<{listed}>,
        precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>]
      }} : ({lhs}, {rhs}, {sizes}) -> {result}
      return %0 : {result}
    }}"""


def test_ragged_rows() -> None:
    """Rows of a group meet the group's matrix; rows of no group give zeros."""
    dims = {
        "lhs_contracting": [1], "rhs_contracting": [1], "lhs_ragged": [0], "rhs_group": [0],
    }  # fmt: skip
    text = ragged("5x2xf32", "2x2x3xf32", "2xi64", "5x3xf32", dims)
    a = np.arange(10.0).reshape(5, 2)
    b = np.arange(12.0).reshape(2, 2, 3)
    expected = np.concatenate([a[:3] @ b[0], a[3:4] @ b[1], np.zeros((1, 3))])
    assert values(text, a.tolist(), b.tolist(), [3, 1]) == expected.tolist()


def test_ragged_contraction() -> None:
    dims = {"lhs_contracting": [1], "rhs_contracting": [0], "lhs_ragged": [1]}
    text = ragged("2x4xf32", "4x3xf32", "3xi32", "3x2x3xf32", dims)
    a, b = np.arange(8.0).reshape(2, 4), np.arange(12.0).reshape(4, 3)
    expected = [a[:, :1] @ b[:1], a[:, 1:1] @ b[1:1], a[:, 1:] @ b[1:]]
    assert values(text, a.tolist(), b.tolist(), [1, 0, 3]) == [e.tolist() for e in expected]


def test_ragged_batch() -> None:
    dims = {
        "lhs_batching": [0], "rhs_batching": [0], "lhs_contracting": [2], "rhs_contracting": [1],
        "lhs_ragged": [0],
    }  # fmt: skip
    text = ragged("3x2x2xf32", "3x2x2xf32", "2xi32", "3x2x2xf32", dims)
    a, b = np.arange(12.0).reshape(3, 2, 2), np.arange(12.0).reshape(3, 2, 2)
    assert values(text, a.tolist(), b.tolist(), [2, 1]) == (a @ b).tolist()


def test_what_is_no_number_stays_in_its_group() -> None:
    rows = {
        "lhs_contracting": [1], "rhs_contracting": [1], "lhs_ragged": [0], "rhs_group": [0],
    }  # fmt: skip
    text = ragged("2x1xf32", "2x1x1xf32", "2xi64", "2x1xf32", rows)
    assert values(text, [[2.0], [3.0]], [[[np.inf]], [[5.0]]], [1, 1]) == [[np.inf], [15.0]]
    contracted = {"lhs_contracting": [1], "rhs_contracting": [0], "lhs_ragged": [1]}
    text = ragged("1x2xf32", "2x1xf32", "2xi32", "2x1x1xf32", contracted)
    assert values(text, [[2.0, 3.0]], [[np.inf], [5.0]], [1, 1]) == [[[np.inf]], [[15.0]]]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [([-2, 1], [10, 0, 0]), ([2, -1], [1, 1, 0]), ([9, 9], [1, 1, 1]), ([-9, -1], [0, 0, 0])],
)
def test_groups_of_negative_size_have_no_rows(sizes: list[int], expected: list[int]) -> None:
    dims = {
        "lhs_contracting": [1], "rhs_contracting": [1], "lhs_ragged": [0], "rhs_group": [0],
    }  # fmt: skip
    text = ragged("3x1xf32", "2x1x1xf32", "2xi8", "3x1xf32", dims)
    found = values(text, [[1.0]] * 3, [[[1.0]], [[10.0]]], sizes)
    assert found == [[e] for e in expected]


def test_group_sizes_of_every_batch() -> None:
    dims = {
        "lhs_batching": [0], "rhs_batching": [1], "lhs_contracting": [2], "rhs_contracting": [2],
        "lhs_ragged": [1], "rhs_group": [0],
    }  # fmt: skip
    text = ragged("2x3x1xf32", "2x2x1x1xf32", "2x2xi32", "2x3x1xf32", dims)
    a = np.ones((2, 3, 1))
    b = np.array([[[[1]], [[10]]], [[[2]], [[20]]]])
    found = values(text, a.tolist(), b.tolist(), [[1, 2], [2, 1]])
    assert found == [[[1], [2], [2]], [[10], [10], [20]]]


def test_hlo_scaled_dot_multiplies_blocks_by_their_scale() -> None:
    text = """
    HloModule m
    ENTRY e {
      a = f8e4m3fn[1,4] parameter(0)
      b = f8e4m3fn[4,1] parameter(1)
      s = f8e8m0fnu[1,2] parameter(2)
      t = f8e8m0fnu[4,1] parameter(3)
      ROOT r = f32[1,1] scaled-dot(a, b, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }"""
    ones = [[1], [1], [1], [1]]
    assert values(text, [[1, 2, 3, 4]], ones, [[2, 0.5]], ones) == [[9.5]]


def test_sparse_operands_are_refused() -> None:
    text = """
    HloModule m
    ENTRY e {
      a = f16[2,16] parameter(0)
      b = f16[32,3] parameter(1)
      m = u16[2,2] parameter(2)
      ROOT r = f16[2,3] dot(a, b, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sparsity=L.1@2:4
    }"""  # noqa: E501
    zeros = (np.zeros(s, np.float16) for s in ((2, 16), (32, 3)))
    with pytest.raises(UnsupportedError, match="sparse"):
        values(text, *zeros, np.zeros((2, 2), np.uint16))
