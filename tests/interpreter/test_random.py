"""Random bits and numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import hloscope
from hloscope.errors import UnsupportedError
from hloscope.hlo_parser import parse_hlo
from hloscope.interpreter.evaluation import evaluate
from hloscope.interpreter.values import EvaluationError
from tests.conftest import SHARED
from tests.interpreter.helpers import values
from tests.oracle import needs_jaxlib

STATE = np.array([1, 2**64 - 1, 7], np.uint64)


def bits(algorithm: str, words: int, type_: str) -> str:
    return f"""ENTRY e {{ s = u64[{words}] parameter(0)
      ROOT r = (u64[{words}], {type_}) rng-bit-generator(s), algorithm={algorithm} }}"""


CASES: list[tuple[str, int, str, list[int], Any]] = [
    ("rng_three_fry", 2, "u32[3]", [1, 1], [277883032, 1381858422, 3023415290]),
    ("rng_three_fry", 2, "u32[]", [1, 0], 277883032),
    ("rng_three_fry", 2, "u64[2]", [1, 1], [5935036730470049944, 10874829180423743482]),
    ("rng_three_fry", 2, "u8[2,2]", [1, 1], [[152, 250], [118, 133]]),
    ("rng_philox", 3, "u32[4]", [1, 0, 8], [2939814351, 3089645902, 2240701313, 4013425625]),
    ("rng_philox", 2, "u32[4]", [1, 0], [1483621553, 651866410, 3635972313, 3644338380]),
    ("rng_default", 2, "u32[4]", [1, 0], [1483621553, 651866410, 3635972313, 3644338380]),
    ("rng_philox", 3, "u64[2]", [1, 0, 8], [13269928108250235343, 17237531806544061313]),
    ("rng_philox", 3, "s16[2]", [1, 0, 8], [463, 16718]),
]


@pytest.mark.parametrize(
    ("algorithm", "words", "type_", "state", "expected"),
    CASES,
    ids=[f"{c[0]} {c[1]} {c[2]}" for c in CASES],
)
def test_bits_as_xla_has_them(
    algorithm: str, words: int, type_: str, state: list[int], expected: Any
) -> None:
    assert values(bits(algorithm, words, type_), STATE[:words]) == (state, expected)


def test_an_odd_size_drops_the_last_word() -> None:
    _, odd = values(bits("rng_three_fry", 2, "u32[3,5]"), STATE[:2])
    _, even = values(bits("rng_three_fry", 2, "u32[3,6]"), STATE[:2])
    assert [row[:5] for row in even] == odd


def test_stablehlo_bits() -> None:
    text = """func.func @main(%s: tensor<2xui64>) -> (tensor<2xui64>, tensor<2xui32>) {
      %r:2 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY
        : (tensor<2xui64>) -> (tensor<2xui64>, tensor<2xui32>)
      return %r#0, %r#1 : tensor<2xui64>, tensor<2xui32>
    }"""
    assert values(text, STATE[:2]) == ([1, 0], [277883032, 1381858422])


def test_a_state_of_another_size_is_refused() -> None:
    text = bits("rng_philox", 5, "u32[4]")
    with pytest.raises(EvaluationError, match="state of 5 words, needs 2 or 3"):
        values(text, np.zeros(5, np.uint64))


def test_bits_of_complex_numbers_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="random bits cannot be elements of c64"):
        values(bits("rng_philox", 2, "c64[4]"), STATE[:2])


def rng(distribution: str, type_: str, a: str, b: str) -> str:
    element = type_.partition("[")[0]
    return f"""ENTRY e {{ a = {element}[] constant({a})
      b = {element}[] constant({b})
      ROOT r = {type_} rng(a, b), distribution=rng_{distribution} }}"""


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
def test_uniform_floats_are_in_the_interval(element: str) -> None:
    (found,) = evaluate(parse_hlo(rng("uniform", f"{element}[50,40]", "-1", "3")))
    numbers: Any = np.asarray(found).astype(np.float64)
    assert numbers.min() >= -1
    assert numbers.max() <= 3
    assert abs(numbers.mean() - 1) < 0.1
    assert len(np.unique(numbers)) > 100


@pytest.mark.parametrize("element", ["s8", "s32", "u32", "s64"])
def test_uniform_integers_take_every_value(element: str) -> None:
    found: Any = evaluate(parse_hlo(rng("uniform", f"{element}[500]", "3", "7")))[0]
    assert sorted(set(found.tolist())) == [3, 4, 5, 6]


@pytest.mark.parametrize("element", ["s8", "s32", "s64"])
def test_uniform_integers_may_be_negative(element: str) -> None:
    found: Any = evaluate(parse_hlo(rng("uniform", f"{element}[500]", "-3", "2")))[0]
    assert sorted(set(found.tolist())) == [-3, -2, -1, 0, 1]


def test_normal_numbers() -> None:
    found: Any = evaluate(parse_hlo(rng("normal", "f32[101,99]", "5", "2")))[0]
    assert abs(found.mean() - 5) < 0.1
    assert abs(found.std() - 2) < 0.1


def test_rng_gives_the_same_numbers_in_every_evaluation_and_others_each_time() -> None:
    text = """func.func @main() -> (tensor<3xf32>, tensor<3xf32>) {
      %a = stablehlo.constant dense<0.0> : tensor<f32>
      %b = stablehlo.constant dense<1.0> : tensor<f32>
      %n = stablehlo.constant dense<3> : tensor<1xi64>
      %x = stablehlo.rng %a, %b, %n, distribution = UNIFORM
        : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>
      %y = stablehlo.rng %a, %b, %n, distribution = UNIFORM
        : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>
      return %x, %y : tensor<3xf32>, tensor<3xf32>
    }"""
    first, second = values(text)
    assert first != second
    assert values(text) == (first, second)


def test_the_global_state_advances() -> None:
    text = """ENTRY e { a = u64[2] rng-get-and-update-state(), delta=5
      b = u64[2] rng-get-and-update-state(), delta=1
      ROOT t = (u64[2], u64[2]) tuple(a, b) }"""
    (low, high), (later, _) = values(text)
    assert (later - low, high) == (5, 0)


def test_the_global_state_goes_around() -> None:
    text = f"""ENTRY e {{ a = u64[2] rng-get-and-update-state(), delta={-(2**62)}
      b = u64[2] rng-get-and-update-state(), delta={-(2**62)}
      ROOT t = (u64[2], u64[2]) tuple(a, b) }}"""
    first, second = [int(low) + (int(high) << 64) for low, high in values(text)]
    assert second == (first - 2**62) % 2**128


_CHILD = """
import json, sys
sys.path.insert(0, sys.argv[1])
import hlo_oracle, numpy as np
state = np.array([1, 2**64 - 1, 7], np.uint64)
answers = [
    [np.asarray(x).tolist() for x in hlo_oracle.execute(text, [state[:words]])]
    for text, words in json.load(sys.stdin)
]
print(json.dumps(answers))
"""
SHAPES = ["", "3,5", "7,1,9", "2,0,3"]


@needs_jaxlib
def test_bits_agree_with_xla() -> None:
    kinds = [("rng_three_fry", 2), ("rng_philox", 2), ("rng_philox", 3), ("rng_default", 3)]
    asked = [
        (bits(algorithm, words, f"{element}[{shape}]"), words)
        for algorithm, words in kinds
        for element in ("u16", "u32", "u64")
        for shape in SHAPES
    ]
    child = subprocess.run(
        [sys.executable, "-c", _CHILD, str(SHARED / "oracle")],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
    )
    answers = json.loads(child.stdout.splitlines()[-1])
    for (text, words), answer in zip(asked, answers, strict=True):
        state, found = values(text, STATE[:words])
        assert [state, found] == answer, text


def test_a_state_that_changes_its_type_is_not_evaluated() -> None:
    text = """func.func @main(%s: tensor<3xui64>) -> (tensor<3xf8E4M3FNUZ>, tensor<4xui8>) {
  %r:2 = "stablehlo.rng_bit_generator"(%s) <{
    rng_algorithm = #stablehlo<rng_algorithm PHILOX>
  }> : (tensor<3xui64>) -> (tensor<3xf8E4M3FNUZ>, tensor<4xui8>)
  return %r#0, %r#1 : tensor<3xf8E4M3FNUZ>, tensor<4xui8>
}
"""
    with pytest.raises(UnsupportedError, match="the state changes its type"):
        hloscope.evaluate(text, np.arange(3, dtype=np.uint64))
