"""Programs called from Python, and what is said of wrong calls."""

from __future__ import annotations

import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hloscope as hs
from hloscope.errors import UnknownNameError, UnsupportedError

PAIR = """
func.func @main(%x: tensor<2x3xf32>, %n: tensor<i32>) -> (tensor<3x2xf32>, tensor<i32>) {
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = stablehlo.add %n, %n : tensor<i32>
  return %0, %1 : tensor<3x2xf32>, tensor<i32>
}
func.func @twice(%x: tensor<2xbf16>) -> tensor<2xbf16> {
  %0 = stablehlo.add %x, %x : tensor<2xbf16>
  return %0 : tensor<2xbf16>
}
"""
ENDLESS = """
func.func @main(%x: tensor<i32>) -> tensor<i32> {
  %0 = stablehlo.while(%a = %x) : tensor<i32>
  cond {
    %t = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    stablehlo.return %a : tensor<i32>
  }
  return %0 : tensor<i32>
}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Foreign:
    """An array of another library."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array, self.dtype = array, array.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self.array


def test_several_results_are_a_tuple() -> None:
    transposed, doubled = hs.evaluate(PAIR, X, 21)
    assert (transposed == X.T).all()
    assert doubled == 42
    assert isinstance(doubled, np.ndarray)
    assert doubled.dtype == np.int32


def test_another_function_is_the_entry() -> None:
    result = hs.evaluate(PAIR, [1.5, -2], entry="twice")
    assert result.dtype == ml_dtypes.bfloat16
    assert result.tolist() == [3, -4]
    with pytest.raises(UnknownNameError, match="no function `twise` in module; did you mean"):
        hs.evaluate(PAIR, [1.5, -2], entry="twise")


def test_a_program_a_module_and_other_arrays_are_taken() -> None:
    program = hs.read(PAIR)
    for given in (program, program.module):
        assert hs.evaluate(given, Foreign(X), hs.Tensor.of(3, "s32"))[1] == 6
    assert program.evaluate(X.tolist(), np.int32(3))[1] == 6


def test_tuples_of_hlo() -> None:
    text = """ENTRY e { p = (f32[2], (s32[])) parameter(0) q = (s32[]) get-tuple-element(p), index=1
      r = f32[2] get-tuple-element(p), index=0 ROOT t = ((s32[]), f32[2]) tuple(q, r) }"""
    (number,), array = hs.evaluate(text, ([1, 2], (3,)))
    assert number == 3
    assert array.tolist() == [1, 2]


def test_results_belong_to_the_caller() -> None:
    text = """ENTRY e { p = f32[2] parameter(0) c = f32[] constant(1)
      b = f32[2] broadcast(c), dimensions={}
      ROOT t = (f32[2], f32[2], f32[2]) tuple(p, p, b) }"""
    given = np.ones(2, np.float32)
    first, second, third = hs.evaluate(text, given)
    for result in (first, second, third):
        result += 1
    assert given.tolist() == [1, 1]
    assert [r.tolist() for r in (first, second, third)] == [[2, 2]] * 3


WRONG: list[tuple[list[Any], str]] = [
    ([], r"main takes 2 arguments \(f32\[2,3\], s32\[\]\), found 0"),
    ([X, 1, 2], "found 3"),
    ([X.astype(np.float64), 1], r"argument 0 should be f32\[2,3\]: .* float64, not float32"),
    ([X.T, 1], r"its shape is \(3, 2\), not \(2, 3\)"),
    ([X, [1]], r"argument 1 should be s32\[\]: its shape is \(1,\), not \(\)"),
    ([X, 1.5], "argument 1 should be .*its elements are float64, not int32"),
    ([X, 1 << 40], "argument 1: 1099511627776 is no s32"),
    ([X, 1 << 80], "argument 1: 1208925819614629174706176 is no s32"),
    ([X * 1j, 1], "its elements are complex"),
    ([[[1, 2, 3], [1, 2]], 1], "argument 0 is not an array"),
    ([[[1, 2, 3], [1, 2, 1e300]], 1], "argument 0: 1e.300 is no f32"),
    ([X, "one"], "its elements are <U3"),
    ([X, None], "argument 1: None is no s32"),
    ([(X, X), 1], "argument 0 should be"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_a_wrong_argument_is_refused(arguments: list[Any], message: str) -> None:
    with pytest.raises(hs.EvaluationError, match=message):
        hs.evaluate(PAIR, *arguments)


def test_an_endless_loop_ends_at_the_limit_of_steps() -> None:
    with pytest.raises(hs.EvaluationError, match="stopped after 1,000 steps") as caught:
        hs.evaluate(ENDLESS, 1, max_steps=1000)
    assert caught.value.span is not None


HUGE = {
    "iota": "ENTRY e { ROOT i = f32[25000000000] iota(), iota_dimension=0 }",
    "broadcast": """ENTRY e { c = f32[] constant(1)
        b = f32[25000000000] broadcast(c), dimensions={} ROOT n = f32[25000000000] negate(b) }""",
}


@pytest.mark.parametrize("text", HUGE.values(), ids=list(HUGE))
def test_a_value_of_100_gigabytes_is_refused_before_it_is_made(text: str) -> None:
    tracemalloc.start()
    with pytest.raises(hs.EvaluationError, match="needs 100,000,000,000 bytes, at most"):
        hs.evaluate(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50_000_000


def test_the_limit_of_bytes_can_be_chosen() -> None:
    text = "ENTRY e { ROOT i = f32[1000] iota(), iota_dimension=0 }"
    assert hs.evaluate(text, max_bytes=4000).size == 1000
    with pytest.raises(hs.EvaluationError, match="`i` needs 4,000 bytes, at most 3,999"):
        hs.evaluate(text, max_bytes=3999)


def test_custom_calls_are_functions_of_python() -> None:
    text = """ENTRY e { p = f32[2] parameter(0)
      ROOT c = f32[2] custom-call(p), custom_call_target="mine" }"""
    assert hs.evaluate(text, [1, 2], custom_calls={"mine": lambda x: x * 10}).tolist() == [10, 20]
    with pytest.raises(UnsupportedError, match="custom call `mine` has no evaluation"):
        hs.evaluate(text, [1, 2])


def test_a_grid_of_processes() -> None:
    text = """
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
    ENTRY e { p = f32[] parameter(0) ROOT r = f32[] all-reduce(p), to_apply=add }"""
    given = [[1], [2]]
    assert [float(r) for r in hs.evaluate_grid(text, *given, replicas=2)] == [3, 3]
    assert [float(r) for r in hs.evaluate_grid(text, [5], replicas=2)] == [10, 10]
    with pytest.raises(hs.EvaluationError, match="2 lists of arguments for 3 processes"):
        hs.evaluate_grid(text, *given, replicas=3)


def test_what_goes_wrong_in_a_wrong_program_is_said_of_the_program() -> None:
    text = """ENTRY e { p = f32[2] parameter(0) q = f32[3] parameter(1)
      ROOT s = f32[2] add(p, q) }"""
    with pytest.raises(hs.HloscopeError):
        hs.evaluate(text, [1, 2], [1, 2, 3])


def test_a_result_of_another_type_than_declared_is_an_error() -> None:
    wrong = "ENTRY e { p = f32[3] parameter(0) ROOT n = f32[5] slice(p), slice={[0:5]} }"
    with pytest.raises(
        hs.EvaluationError, match=r"result 0 should be f32\[5\]: its shape is \(3,\)"
    ):
        hs.evaluate(wrong, [1, 2, 3])
