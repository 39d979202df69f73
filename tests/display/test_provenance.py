"""Where instructions come from: tables of frames, files beside names, MLIR's locations."""

from __future__ import annotations

import pytest

import hloscope as hs
from hloscope.display.provenance import SourcePattern, glob
from hloscope.hlo_parser.metadata import Frame

MLIR = """\
#file = loc("/a/model.py":12:4 to :20)
#caller = loc("/a/train.py":30:1)
#site = loc(callsite("forward"(#file) at "step"(#caller)))
func.func @main(%x: tensor<2xf32> loc("x")) -> tensor<2xf32> {
  %a = stablehlo.negate %x : tensor<2xf32> loc("jit(f)/neg"(#site))
  %b = stablehlo.abs %a : tensor<2xf32> loc(fused["jit(f)/abs"(#file), #caller])
  %c = stablehlo.sine %b : tensor<2xf32> loc(#caller)
  %d = stablehlo.cosine %c : tensor<2xf32>
  return %d : tensor<2xf32>
}
"""


@pytest.mark.parametrize(
    ("name", "op_name", "places"),
    [
        ("a", "jit(f)/neg", ["/a/model.py:12", "/a/train.py:30"]),
        ("b", "jit(f)/abs", ["/a/model.py:12", "/a/train.py:30"]),
        ("c", "", ["/a/train.py:30"]),
        ("d", "", []),
        ("x", "x", []),
    ],
)
def test_locations_of_mlir(name: str, op_name: str, places: list[str]) -> None:
    ins = hs.read(MLIR)[name]
    assert ins.metadata.op_name == op_name
    assert [str(frame) for frame in ins.trace] == places
    assert str(ins.source) == (places[0] if places else "None")


def test_functions_of_frames_are_the_names_around_them() -> None:
    functions = [frame.function for frame in hs.read(MLIR)["a"].trace]
    assert functions == ["forward", "step"]


def test_all_from_the_same_line() -> None:
    program = hs.read(MLIR)
    assert [ins.name for ins in program["c"].same_source()] == ["a", "b", "c"]
    assert program["d"].same_source() == []
    assert [ins.name for ins in program.select(source="model.py:12")] == ["a", "b"]


def test_metadata_that_cannot_be_read_says_nothing() -> None:
    program = hs.read("ENTRY e { ROOT p = f32[] parameter(0), metadata={op_name} }")
    assert program.root.source is None


@pytest.mark.parametrize(
    ("pattern", "file", "lines", "matches"),
    [
        ("train.py", "/a/train.py", (3, 3), True),
        ("a/train.py:3", "/a/train.py", (3, 3), True),
        ("rain.py", "/a/train.py", (3, 3), False),
        ("train.py:4", "/a/train.py", (3, 5), True),
        ("train.py:6", "/a/train.py", (3, 5), False),
        ("train.py:1-3", "/a/train.py", (3, 5), True),
        ("train.py:1-2", "/a/train.py", (3, 5), False),
        ("*.py:5", "/a/train.py", (5, 0), True),
        ("C:\\x.py:7", "C:\\x.py", (7, 7), True),
        ("<stdin>:7", "<stdin>", (7, 7), True),
        ("a[1].py", "/b/a[1].py", (1, 1), True),
    ],
)
def test_places_are_found(pattern: str, file: str, lines: tuple[int, int], matches: bool) -> None:
    frame = Frame(file, "f", lines[0], lines[1])
    assert SourcePattern.parse(pattern).matches(frame) is matches


def test_brackets_stand_for_themselves_in_patterns() -> None:
    assert glob("f32[8]").fullmatch("f32[8]")
    assert not glob("f32[8]").fullmatch("f328")
    assert glob("a?c*").fullmatch("abc\nd")
