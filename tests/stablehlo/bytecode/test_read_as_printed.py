"""Artifacts are read into the program that the text printed of them is read into."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import hloscope
from hloscope.api import check
from hloscope.api.artifacts import artifact_text
from hloscope.errors import HloscopeError
from hloscope.ir import Computation, Instruction
from hloscope.mlir import resolve_location
from hloscope.mlir.text import printed
from hloscope.stablehlo import TreeModule, parse_stablehlo
from hloscope.stablehlo.bytecode import is_bytecode, read_exported
from tests.conftest import SHARED

FILES = sorted(
    [
        *(SHARED / "conformance/stablehlo/vhlo").glob("*.bc"),
        *(SHARED / "real/models").glob("*.bc"),
        *(SHARED / "real/models").glob("*.jaxexport"),
        *(SHARED / "real/corpus/GleasonK__stablehlo-exports").glob("pt*.bc"),
    ]
)

REDUCE = """
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [0]
    : (tensor<4xf32>, tensor<f32>) -> tensor<f32> loc("sum")
  %1 = stablehlo.reduce(%x init: %c) across dimensions = [0]
    : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    reducer(%a: tensor<f32> loc("a"), %b: tensor<f32> loc("b")) {
      %2 = stablehlo.add %a, %b {mark = 1 : i32} : tensor<f32> loc("inside")
      stablehlo.return %2 : tensor<f32>
    }"""
LOOP = """
  %c = stablehlo.constant dense<3> : tensor<i32>
  %0:2 = stablehlo.while(%i = %c, %y = %x) : tensor<i32>, tensor<4xf32>
    cond {
      %1 = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.add %y, %y : tensor<4xf32> loc("body")
      stablehlo.return %i, %1 : tensor<i32>, tensor<4xf32>
    }"""
ALIKE = """
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  %1 = stablehlo.add %0, %x : tensor<4xf32>
  %2 = stablehlo.add %1, %0 {mark = "other"} : tensor<4xf32>
  %3 = stablehlo.custom_call @f(%2) {backend_config = "b"} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = "stablehlo.sort"(%3) <{dimension = 0 : i64}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %5 = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %5 : tensor<i1>
  }) : (tensor<4xf32>) -> tensor<4xf32>"""


def program(body: str) -> str:
    return f"""module @m {{
func.func public @main(%x: tensor<4xf32> loc("x")) -> (tensor<4xf32> {{jax.result_info = "r"}}) {{
  {body}
  %9 = func.call @g(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %9 : tensor<4xf32>
}}
func.func private @g(%arg: tensor<4xf32> {{mhlo.layout_mode = "default"}}) -> tensor<4xf32> {{
  return %arg : tensor<4xf32>
}} loc("function")
}}"""


def without_location(extras: Any) -> list[tuple[str, str]]:
    """A location's text may be an alias of the printed text."""
    return [pair for pair in extras if pair[0] != "loc"]


def told(ins: Instruction) -> tuple[object, ...]:
    place = ins.span and (ins.span.source.text, ins.span.start, ins.span.end)
    location: Any = ins.location
    return (
        ins.name,
        ins.type,
        type(ins.op),
        str(ins.op),
        [operand.name for operand in ins.operands],
        [called.name for called in ins.calls],
        without_location(ins.extras),
        resolve_location(location),
        place,
    )


def begun(computation: Computation) -> object:
    span = computation.span
    return computation.name, without_location(computation.extras), span and span.line_col


def assert_same(data: bytes, name: str) -> None:
    direct = hloscope.read(data, name=name).module
    assert isinstance(direct, TreeModule)
    by_text = parse_stablehlo(artifact_text(data, name), name=name)
    assert direct.name == by_text.name
    assert direct.entry.name == by_text.entry.name
    assert without_location(direct.extras) == without_location(by_text.extras)
    for ours, theirs in zip(direct, by_text, strict=True):
        assert [told(ins) for ins in ours] == [told(ins) for ins in theirs]
        assert begun(ours) == begun(theirs)


@pytest.mark.parametrize("body", [REDUCE, LOOP, ALIKE], ids=["reduce", "while", "alike"])
def test_names_places_and_attributes_are_those_of_the_printed_text(body: str) -> None:
    assert_same(hloscope.serialize(program(body)), "a.mlir.bc")


def test_an_older_version_is_read_alike() -> None:
    assert_same(hloscope.serialize(program(ALIKE), "0.9.0"), "old.mlir.bc")


def test_ops_that_differ_in_names_only_are_one_op() -> None:
    main = hloscope.read(hloscope.serialize(program(ALIKE))).module.entry
    assert main["0"].op is main["1"].op
    assert main["1"].extras != main["2"].extras


def test_no_text_is_printed_unless_a_place_is_asked_for() -> None:
    data = hloscope.serialize(program(LOOP))
    with patch.object(printed, "print_mlir", side_effect=AssertionError):
        read = hloscope.read(data, strict=True)
        check(read.module)
        assert read["1"].indexing().maps
        with pytest.raises(AssertionError):
            read["1"].ir.span  # noqa: B018


def test_an_error_shows_the_line_of_the_printed_text() -> None:
    text = program("%0 = stablehlo.add %x, %x : tensor<4xf32>").replace("@g(%x)", "@g(%0)")
    data = hloscope.serialize(text).replace(b"add_v1", b"and_v1")
    with pytest.raises(HloscopeError) as direct:
        check(hloscope.read(data, name="a.bc").module)
    with pytest.raises(HloscopeError) as by_text:
        check(parse_stablehlo(artifact_text(data, "a.bc"), name="a.bc"))
    assert str(direct.value) == str(by_text.value)
    assert "a.bc:5:10: " in str(direct.value)


@pytest.mark.slow
@pytest.mark.skipif(not FILES, reason="the shared artifacts are absent")
def test_real_artifacts_are_read_as_their_text(full: bool) -> None:
    for file in FILES if full else FILES[::9]:
        data = Path(file).read_bytes()
        if not is_bytecode(data):
            data = read_exported(data, file.name)[0].module
        try:
            artifact_text(data, file.name)
        except HloscopeError as error:
            with pytest.raises(type(error)):
                hloscope.read(data, name=file.name)
            continue
        assert_same(data, file.name)
