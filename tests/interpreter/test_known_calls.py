"""Custom calls whose meaning is known, and copies."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hloscope.errors import UnsupportedError
from hloscope.interpreter.values import EvaluationError
from tests.interpreter.helpers import values

GREATER = """greater { a = f32[] parameter(0) b = f32[] parameter(1)
  i = s32[] parameter(2) j = s32[] parameter(3)
  ROOT c = pred[] compare(a, b), direction=GT }
"""


def test_top_k_gives_the_first_of_equal_elements_first() -> None:
    text = f"""{GREATER} ENTRY e {{ p = f32[2,4] parameter(0)
      ROOT r = (f32[2,2], s32[2,2]) custom-call(p), custom_call_target="TopK",
        called_computations={{greater}} }}"""
    x = np.float32([[1, 3, 3, 2], [0, -1, -2, 0]])
    assert values(text, x) == ([[3, 3], [0, 0]], [[1, 2], [0, 3]])


def test_top_k_of_a_vector() -> None:
    text = """ENTRY e { p = f32[4] parameter(0)
      ROOT r = (f32[1], s32[1]) custom-call(p), custom_call_target="TopK" }"""
    assert values(text, np.float32([1, 3, 4, 2])) == ([4], [2])


def test_approximate_top_k_sorts() -> None:
    text = """func.func private @greater(%a: tensor<f32>, %b: tensor<f32>,
        %i: tensor<i32>, %j: tensor<i32>) -> tensor<i1> {
      %r = stablehlo.compare GT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      return %r : tensor<i1>
    }
    func.func public @main(%x: tensor<3x2xf32>, %i: tensor<3x2xi32>)
        -> (tensor<2x2xf32>, tensor<2x2xi32>) {
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %k = stablehlo.constant dense<-1> : tensor<i32>
      %r:2 = stablehlo.custom_call @ApproxTopK(%x, %i, %z, %k) {called_computations = [@greater],
          mhlo.backend_config = {reduction_dim = 0 : i64, top_k = 2 : i64}}
        : (tensor<3x2xf32>, tensor<3x2xi32>, tensor<f32>, tensor<i32>)
        -> (tensor<2x2xf32>, tensor<2x2xi32>)
      return %r#0, %r#1 : tensor<2x2xf32>, tensor<2x2xi32>
    }"""
    x = np.float32([[1, 6], [3, 5], [2, 4]])
    i = np.int32([[0, 0], [1, 1], [2, 2]])
    assert values(text, x, i) == ([[3, 6], [2, 5]], [[1, 0], [2, 1]])


@pytest.mark.parametrize("target", ["Sharding", "MoveToHost", "annotate_device_placement", "Pin"])
def test_placement_leaves_the_value(target: str) -> None:
    text = f"""ENTRY e {{ p = f32[2] parameter(0)
      ROOT r = f32[2] custom-call(p), custom_call_target="{target}" }}"""
    assert values(text, np.float32([1, 2])) == [1, 2]


def test_a_part_of_a_value_takes_several_devices() -> None:
    text = """ENTRY e { p = f32[4] parameter(0)
      ROOT r = f32[2] custom-call(p), custom_call_target="SPMDFullToShardShape" }"""
    with pytest.raises(UnsupportedError, match=r"makes f32\[2\] of f32\[4\]: this takes several"):
        values(text, np.zeros(4, np.float32))


ZEROS = np.zeros(4, np.float32)


@pytest.mark.parametrize(
    ("given", "value", "asked"),
    [
        ("(f32[4])", (ZEROS,), "f32[4]"),
        ("f32[4]", ZEROS, "(f32[4])"),
        ("(f8e4m3fn[4])", (ZEROS.astype(ml_dtypes.float8_e4m3fn),), "f32[4]"),
        ("s32[4]", ZEROS.astype(np.int32), "f32[4]"),
        ("(f32[4], s32[])", (ZEROS, np.int32(0)), "(f32[4], s32[2])"),
        ("(f32[4], (f32[]))", (ZEROS, (np.float32(0),)), "(f32[4], f32[])"),
    ],
)
def test_a_value_is_handed_on_as_what_it_is(given: str, value: Any, asked: str) -> None:
    text = f"""ENTRY e {{ p = {given} parameter(0)
      ROOT r = {asked} custom-call(p), custom_call_target="Sharding" }}"""
    with pytest.raises(UnsupportedError, match=r"hands on .*, and is declared as"):
        values(text, value)


def test_precisions_and_layouts_may_differ() -> None:
    text = """ENTRY e { p = (f32[2]{0}, bf16[2]) parameter(0)
      ROOT r = (f32[2]{0:S(5)}, f32[2]) custom-call(p), custom_call_target="MoveToHost" }"""
    one = np.float32([1, 2])
    assert values(text, (one, one.astype(ml_dtypes.bfloat16))) == ([1, 2], [1, 2])


def test_halves_of_64_bits() -> None:
    text = """ENTRY e { p = u64[2] parameter(0)
      low = u32[2] custom-call(p), custom_call_target="X64SplitLow"
      high = u32[2] custom-call(p), custom_call_target="X64SplitHigh"
      both = u64[2] custom-call(low, high), custom_call_target="X64Combine"
      ROOT r = (u32[2], u32[2], u64[2]) tuple(low, high, both) }"""
    x = np.array([2**64 - 2, 2**32 + 5], np.uint64)
    assert values(text, x) == ([2**32 - 2, 5], [2**32 - 1, 1], x.tolist())


def test_a_new_buffer_holds_zeros() -> None:
    text = """ENTRY e { ROOT r = s32[2] custom-call(), custom_call_target="AllocateBuffer" }"""
    assert values(text) == [0, 0]


def shapes(holds: str) -> str:
    return f"""func.func @main() {{
      %c = stablehlo.constant dense<{holds}> : tensor<i1>
      %n = stablehlo.constant dense<-3> : tensor<i32>
      %m = stablehlo.constant dense<4> : tensor<i32>
      stablehlo.custom_call @shape_assertion(%c, %n, %m) {{error_message =
          "expected {{1}}, found {{0}}", has_side_effect = true}}
        : (tensor<i1>, tensor<i32>, tensor<i32>) -> ()
      return
    }}"""


def test_shape_assertions() -> None:
    assert values(shapes("true")) == ()
    with pytest.raises(EvaluationError, match="expected 4, found -3"):
        values(shapes("false"))


def test_copies() -> None:
    text = """ENTRY e { p = f32[2] parameter(0)
      start = (f32[2], f32[2], u32[]) copy-start(p)
      done = f32[2] copy-done(start)
      ROOT c = f32[2] copy(done) }"""
    assert values(text, np.float32([1, 2])) == [1, 2]


def test_calls_and_fusions_that_are_begun_and_ended() -> None:
    text = """twice { p = f32[2] parameter(0) ROOT r = f32[2] add(p, p) }
    ENTRY e { p = f32[2] parameter(0)
      a = ((f32[2]), f32[2], s32[]) call-start(p), to_apply=twice
      b = f32[2] call-done(a), to_apply=twice
      c = ((f32[2]), f32[2], s32[]) fusion-start(b), kind=kLoop, calls=twice
      ROOT d = f32[2] fusion-done(c), kind=kLoop, calls=twice }"""
    assert values(text, np.float32([1, 2])) == [4, 8]


WRAPPER = "stablehlo.shape_refinement_operand_wrapper"


def wrapped(given: str, asked: str) -> str:
    """What refinement leaves where it knows a size and users have a bound."""
    return f"""func.func @main(%a: {given}) -> {asked} {{
      %c = stablehlo.constant dense<2> : tensor<1xi64>
      %0 = stablehlo.custom_call @{WRAPPER}(%a, %c) {{indices_of_shape_operands =
        dense<1> : tensor<1xi64>}} : ({given}, tensor<1xi64>) -> {asked}
      return %0 : {asked}
    }}"""


@pytest.mark.parametrize("asked", ["tensor<?xf32>", "tensor<?xf32, #stablehlo.bounds<4>>"])
def test_sizes_that_refinement_knows_leave_the_value(asked: str) -> None:
    assert values(wrapped("tensor<2xf32>", asked), np.float32([1, 2])) == [1, 2]


@pytest.mark.parametrize(
    "asked",
    ["tensor<3xf32>", "tensor<?xi32>", "tensor<?x?xf32>", "tensor<?xf32, #stablehlo.bounds<1>>"],
)
def test_what_refinement_knows_must_be_of_the_type(asked: str) -> None:
    with pytest.raises((UnsupportedError, EvaluationError)):
        values(wrapped("tensor<2xf32>", asked), np.float32([1, 2]))
