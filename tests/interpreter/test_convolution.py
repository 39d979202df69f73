"""Convolutions, beside plain loops over everything."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from hloscope.errors import HloscopeError
from hloscope.interpreter.ops import convolution
from tests.interpreter.helpers import values


def text_of(
    types: tuple[str, str, str],
    numbers: str,
    window: str,
    groups: tuple[int, int] = (1, 1),
) -> str:
    lhs, rhs, result = (f"tensor<{t}>" for t in types)
    return f"""func.func @main(%x: {lhs}, %k: {rhs}) -> {result} {{
      %0 = stablehlo.convolution(%x, %k) dim_numbers = {numbers}, window = {{{window}}}
        {{feature_group_count = {groups[0]} : i64, batch_group_count = {groups[1]} : i64}}
        : ({lhs}, {rhs}) -> {result}
      return %0 : {result}
    }}"""


NHWC = "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"


def test_convolution_of_the_specification() -> None:
    text = text_of(
        ("1x4x4x1xi64", "3x3x1x1xi64", "1x2x2x1xi64"), NHWC,
        "stride = [4, 4], lhs_dilate = [2, 2]",
    )  # fmt: skip
    x = np.array([[1, 2, 5, 6], [3, 4, 7, 8], [10, 11, 14, 15], [12, 13, 16, 17]])
    kernel = np.ones((3, 3, 1, 1), np.int64)
    found = values(text, x.reshape(1, 4, 4, 1), kernel)
    assert found == [[[[10], [26]], [[46], [62]]]]


class Case:
    """A convolution of one to three spatial dimensions, and what it should be."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.rank = rank = rng.randint(0, 3)

        def some(low: int, high: int) -> list[int]:
            return [rng.randint(low, high) for _ in range(rank)]

        self.stride, self.base, self.dilation = some(1, 3), some(1, 2), some(1, 2)
        self.padding = [(rng.randint(-1, 2), rng.randint(-1, 3)) for _ in range(rank)]
        self.reversal = [rng.random() < 0.4 for _ in range(rank)]
        self.sizes, self.taps = some(1, 5), some(1, 3)
        self.groups, self.batches = rng.choice([(1, 1), (2, 1), (3, 1), (1, 2), (1, 3)])
        self.batch = rng.randint(1, 2) * self.batches
        self.features = rng.randint(1, 2)
        self.made = rng.randint(1, 2) * self.groups * self.batches
        self.positions = []
        for d in range(rank):
            low, high = self.padding[d]
            room = low + high + (self.sizes[d] - 1) * self.base[d] + 1
            spread = (self.taps[d] - 1) * self.dilation[d] + 1
            self.positions.append(max((room - spread) // self.stride[d] + 1, 0))
        self.orders = [rng.sample(range(rank + 2), rank + 2) for _ in range(3)]
        numbers = np.random.default_rng(seed)
        # batch, feature, sizes; input feature, output feature, taps
        shape = (self.batch, self.features * self.groups, *self.sizes)
        self.x = numbers.integers(-5, 5, shape).astype(np.int32)
        self.kernel = numbers.integers(-5, 5, (self.features, self.made, *self.taps)).astype(
            "int32"
        )

    def expected(self) -> Any:
        batch = self.batch // self.batches
        result = np.zeros((batch, self.made, *self.positions), np.int32)
        for n, o, *position in np.ndindex(*result.shape):
            group = o // (self.made // (self.groups * self.batches))
            for i, *tap in itertools.product(range(self.features), *map(range, self.taps)):
                at = []
                for d in range(self.rank):
                    t = self.taps[d] - 1 - tap[d] if self.reversal[d] else tap[d]
                    p = position[d] * self.stride[d] + t * self.dilation[d] - self.padding[d][0]
                    at.append(p // self.base[d] if p % self.base[d] == 0 else -1)
                if all(0 <= p < s for p, s in zip(at, self.sizes, strict=True)):
                    row = n + group * batch if self.batches > 1 else n
                    feature = i + (group * self.features if self.groups > 1 else 0)
                    result[(n, o, *position)] += (
                        self.x[(row, feature, *at)] * self.kernel[(i, o, *tap)]
                    )
        return result

    def text(self, element: str) -> str:
        shapes = [
            [arrays.shape[d] for d in order]
            for arrays, order in zip(self.arrays(), self.orders, strict=True)
        ]
        names = [
            ["b", "f", *range(self.rank)], ["i", "o", *range(self.rank)],
            ["b", "f", *range(self.rank)],
        ]  # fmt: skip
        numbers = [
            f"[{', '.join(str(name[d]) for d in order)}]"
            for name, order in zip(names, self.orders, strict=True)
        ]
        reverse = [str(r).lower() for r in self.reversal]
        window = (
            f"stride = {self.stride}, pad = {[list(p) for p in self.padding]},"
            f" lhs_dilate = {self.base}, rhs_dilate = {self.dilation},"
            f" reverse = [{', '.join(reverse)}]"
        )
        types = tuple("x".join([*map(str, s), element]) for s in shapes)
        assert len(types) == 3
        dims = f"{numbers[0]}x{numbers[1]}->{numbers[2]}"
        return text_of(types, dims, window if self.rank else "", (self.groups, self.batches))

    def arrays(self) -> tuple[Any, Any, Any]:
        return self.x, self.kernel, self.expected()

    def given(self) -> list[Any]:
        return [x.transpose(order) for x, order in zip(self.arrays(), self.orders, strict=True)]


@pytest.mark.parametrize("element", ["i32", "f32", "i8", "f16"])
@pytest.mark.parametrize("seed", range(30))
def test_all_convolutions(seed: int, element: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 3 == 0:
        monkeypatch.setattr(convolution, "_MOST_BYTES", 64)  # in several parts
    case = Case(seed)
    x, kernel, expected = case.given()
    found = values(case.text(element), x.tolist(), kernel.tolist())
    if element == "i8":
        expected = expected.astype(np.int8)
    assert np.array(found).tolist() == expected.tolist()


def test_accumulates_in_the_type_of_the_result() -> None:
    types = ("1x1x2xi8", "1x2x1xi8", "1x1x1xi32")
    text = text_of(types, "[b, 0, f]x[0, i, o]->[b, 0, f]", "")
    assert values(text, [[[100, 100]]], [[[100], [100]]]) == [[[20000]]]


def test_nothing_to_sum_is_zero() -> None:
    types = ("1x3x0xf32", "2x0x2xf32", "1x2x2xf32")
    text = text_of(types, "[b, 0, f]x[0, i, o]->[b, 0, f]", "")
    zeros = np.zeros((1, 3, 0), np.float32), np.zeros((2, 0, 2), np.float32)
    assert values(text, *zeros) == [[[0, 0], [0, 0]]]


def test_dynamic_conv_takes_its_padding_from_an_operand() -> None:
    text = """
    func.func @main(%x: tensor<1x3x1xf32>, %k: tensor<2x1x1xf32>, %p: tensor<1x2xi32>)
        -> tensor<1x?x1xf32> {
      %0 = "stablehlo.dynamic_conv"(%x, %k, %p) {
        dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>,
        feature_group_count = 1 : i64, batch_group_count = 1 : i64
      } : (tensor<1x3x1xf32>, tensor<2x1x1xf32>, tensor<1x2xi32>) -> tensor<1x?x1xf32>
      return %0 : tensor<1x?x1xf32>
    }"""
    x, kernel = [[[1], [2], [3]]], [[[1]], [[10]]]
    assert values(text, x, kernel, [[0, 0]]) == [[[21], [32]]]
    assert values(text, x, kernel, [[1, 2]]) == [[[10], [21], [32], [3], [0]]]


def test_windows_of_other_dimensions_are_refused() -> None:
    text = """
    func.func @main(%x: tensor<1x3x1xf32>, %k: tensor<2x1x1xf32>, %p: tensor<1x2xi32>)
        -> tensor<1x?x1xf32> {
      %0 = "stablehlo.dynamic_conv"(%x, %k, %p) {
        dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>,
        window_strides = array<i64: 2, 2>,
        feature_group_count = 1 : i64, batch_group_count = 1 : i64
      } : (tensor<1x3x1xf32>, tensor<2x1x1xf32>, tensor<1x2xi32>) -> tensor<1x?x1xf32>
      return %0 : tensor<1x?x1xf32>
    }"""
    with pytest.raises(HloscopeError, match="2 dimensions"):
        values(text, [[[1], [2], [3]]], [[[1]], [[10]]], [[0, 0]])


def test_hlo_convolution_with_reversed_window_and_groups() -> None:
    text = """
    HloModule m
    ENTRY e {
      x = f32[1,3,2] parameter(0)
      k = f32[2,1,2] parameter(1)
      ROOT c = f32[1,2,2] convolution(x, k), window={size=2 rhs_reversal=1}, dim_labels=b0f_0io->b0f, feature_group_count=2
    }"""  # noqa: E501
    x = [[[1, 2], [3, 4], [5, 6]]]
    kernel = [[[1, 1]], [[10, 100]]]
    assert values(text, x, kernel) == [[[13, 204], [35, 406]]]
