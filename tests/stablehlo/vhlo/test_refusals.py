"""StableHLO's own files of targets, texts and programs that are refused: where and with what."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hloscope
from hloscope.errors import HloscopeError, ParseError, UnsupportedError
from hloscope.mlir import parse_mlir, split_input
from hloscope.mlir.dialects import DIALECTS
from hloscope.stablehlo.bytecode import parse_vhlo
from hloscope.stablehlo.vhlo import target_of, to_vhlo, version_of
from tests import filecheck

FOLDER = "conformance/stablehlo/vhlo"
_EXPECTED = re.compile(r"expected-error\s*@\s*\+(\d+)\s*\{\{(.*?)\}\}")
_RUN = re.compile(r"--vhlo-to-version(?:='target=(\S*?)')?\s.*--check-prefix=(\w+)")


def expected(text: str) -> list[tuple[int, str]]:
    return [
        (text.count("\n", 0, one.start()) + 1 + int(one[1]), one[2])
        for one in _EXPECTED.finditer(text)
    ]


def test_targets_that_are_no_versions_are_refused_in_upstreams_words(shared: Path) -> None:
    text = (shared / FOLDER / "vhlo_to_version_invalid.mlir").read_text()
    runs = _RUN.findall(text)
    assert len(runs) == 4
    for target, prefix in runs:
        with pytest.raises(HloscopeError) as caught:
            target_of(target)
        filecheck.check(str(caught.value), filecheck.directives(text, [prefix]))


def test_wrong_attributes_of_vhlo_are_refused_at_their_line(shared: Path) -> None:
    path = shared / FOLDER / "vhlo_attributes_invalid.mlir"
    pieces = split_input(path.read_text())
    assert len(pieces) == 2
    for _, piece in pieces:
        ((line, message),) = expected(piece)
        with pytest.raises(ParseError, match=re.escape(message)) as caught:
            parse_vhlo(piece)
        assert caught.value.span is not None
        assert caught.value.span.line_col[0] == line


def test_what_has_no_form_in_vhlo_is_refused_at_its_line(shared: Path) -> None:
    path = shared / FOLDER / "legalize_stablehlo_to_vhlo_invalid.mlir"
    pieces = split_input(path.read_text())
    assert len(pieces) == 2
    for _, piece in pieces:
        ((line, message),) = expected(piece)
        with pytest.raises(UnsupportedError) as caught:
            to_vhlo(parse_mlir(piece, "piece", dialects=DIALECTS))
        assert re.search(rf"piece:{line}:\d+: {re.escape(message)}", str(caught.value))


def test_everything_that_is_in_the_way_is_said_at_once() -> None:
    text = """func.func @f(%x: tensor<2xf32>, %y: tensor<2xi2>) -> tensor<2xf32> {
      %0 = stablehlo.tan %x : tensor<2xf32> loc("a.py":1:2)
      %1 = "stablehlo.cbrt"(%0) {result_accuracy = #stablehlo.result_accuracy<ulps = 2,
        mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : (tensor<2xf32>) -> tensor<2xf32>
      %2 = stablehlo.add %y, %y : tensor<2xi2>
      return %1 : tensor<2xf32>
    }"""
    with pytest.raises(HloscopeError) as caught:
        hloscope.serialize(text, "1.1.0")
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("failed to convert VHLO to v1.1.0:")
    for place, op, why in (
        ('"a.py":1:2: ', "vhlo.tan_v2", "the op tan needs 1.4.0"),
        ("", "vhlo.cbrt_v2", "`result_accuracy` needs 1.10.0"),
        ("", "vhlo.add_v1", "the type i2 of operand 0 needs 1.2.0"),
        ("", "vhlo.func_v1", "the type i2 of `function_type` needs 1.2.0"),
    ):
        part = (
            f"{place}failed to legalize operation '{op}' that was explicitly marked illegal: {why}"
        )
        assert any(part in line for line in lines), part


@pytest.mark.parametrize("text", ["", "1", "1.0", "a.b.c", "1.0.0.0", "1.0.-1", "1.0.0 ", "９.0.0"])
def test_versions_have_three_numbers(text: str) -> None:
    for read in (version_of, target_of):
        with pytest.raises(HloscopeError, match=r"of the form `#\.#\.#`"):
            read(text)
