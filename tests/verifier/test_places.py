"""Findings name the constraint that is broken, and where the other end is."""

from __future__ import annotations

import pytest

import hloscope as hs
from hloscope.hlo_parser import parse_hlo, parse_type
from hloscope.ops import Broadcast
from hloscope.verifier.hlo import verify_hlo

DOT = """func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>) -> tensor<2x2xf32> {
  %0 = "stablehlo.dot_general"(%a, %b) {dot_dimension_numbers = GIVEN}
    : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}"""


@pytest.mark.parametrize(
    "given", ["#stablehlo.gather<offset_dims = [1]>", "#stablehlo<precision DEFAULT>", "[]", "1"]
)
def test_a_structure_of_another_kind_breaks_the_constraint(given: str) -> None:
    (found,) = hs.verify(DOT.replace("GIVEN", given))
    assert "'dot_dimension_numbers' failed to satisfy constraint" in str(found)


IN_A_REGION = """func.func @main(%c: tensor<i1>, %a: tensor<f32>) -> tensor<f32> {
  %0 = "stablehlo.if"(%c) ({ stablehlo.return %1 : tensor<f32> },
    { stablehlo.return %a : tensor<f32> }) : (tensor<i1>) -> tensor<f32>
  %1 = stablehlo.add %a, %a : tensor<f32>
  return %0 : tensor<f32>
}"""
IN_A_BLOCK = """func.func @main(%a: tensor<f32>) -> tensor<f32> {
  cf.br ^bb2
^bb1:
  %1 = stablehlo.add %a, %a : tensor<f32>
  cf.br ^bb2
^bb2:
  return %1 : tensor<f32>
}"""
BEFORE = """func.func @main(%a: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %1, %a : tensor<f32>
  %1 = stablehlo.add %a, %a : tensor<f32>
  return %0 : tensor<f32>
}"""


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (IN_A_REGION, "op in a parent region"),
        (IN_A_BLOCK, "op in the same region"),
        (BEFORE, "op in the same block"),
    ],
)
def test_a_definition_that_does_not_dominate_is_placed(text: str, place: str) -> None:
    (found,) = hs.verify(text)
    (note,) = found.notes
    assert note.message == f"operand defined here ({place})"


@pytest.mark.parametrize("wrong", range(2))
def test_every_size_of_a_dynamic_reshape_is_an_integer(wrong: int) -> None:
    types = ["f32[]" if k == wrong else "s32[]" for k in range(2)]
    (found,) = hs.verify(
        f"HloModule m\nENTRY e {{ a = f32[4,3] parameter(0) b = {types[0]} parameter(1)"
        f" c = {types[1]} parameter(2) ROOT r = f32[<=4,<=3] dynamic-reshape(a, b, c) }}"
    )
    assert "the sizes need to be integers" in str(found)


def test_a_broadcast_may_have_no_elements() -> None:
    assert Broadcast((0, 2)).infer((parse_type("f32[3]"),)) == parse_type("f32[0,2,3]")


def test_findings_are_in_the_order_of_the_text() -> None:
    """Channels are looked at after all types."""
    module = parse_hlo("""HloModule m
ENTRY e {
  a = f32[2] parameter(0)
  t = token[] after-all()
  s = (f32[2], u32[], token[]) send(a, t), channel_id=1
  d = token[] send-done(s), channel_id=2
  b = f32[3] abs(a)
  ROOT c = f32[4] negate(a)
}
""")
    found = [d.message for d in verify_hlo(module)]
    assert found == ["it has channel 2, `s` channel 1", *found[1:]]
    assert ["abs" in found[1], "negate" in found[2]] == [True, True]
