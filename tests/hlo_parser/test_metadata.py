"""Metadata, frontend attributes, backend configs, origins and stack frames."""

from __future__ import annotations

import pytest

from hloscope.errors import ParseError
from hloscope.hlo_parser import parse_hlo
from hloscope.hlo_parser.metadata import (
    BackendConfig,
    Frame,
    Metadata,
    OriginLeaf,
    metadata,
    read_backend_config,
    read_frontend_attributes,
    read_metadata,
    read_origin,
    read_stack_frames,
    read_statistics,
    source_trace,
)

METADATA = [
    ("{}", Metadata()),
    ('{op_name="jit(f)/add" stack_frame_id=7}', Metadata(op_name="jit(f)/add", stack_frame_id=7)),
    (
        '{op_type="add" op_name="it\\\'s {\\"x\\"}" source_file="a b.py" source_line=3 '
        "source_end_line=4 source_column=5 source_end_column=6}",
        Metadata("add", 'it\'s {"x"}', "a b.py", 3, 4, 5, 6),
    ),
    (
        '{scheduling_name="s" deduplicated_name="d"}',
        Metadata(scheduling_name="s", deduplicated_name="d"),
    ),
    (
        '{op_name="a", profile_type={1, 2} preserve_layout=true}',
        Metadata(op_name="a", others=(("profile_type", "{1, 2}"), ("preserve_layout", "true"))),
    ),
]


@pytest.mark.parametrize(("text", "value"), METADATA)
def test_metadata(text: str, value: Metadata) -> None:
    assert read_metadata(text) == value


FRONTEND = [
    ("{}", {}),
    ('{a="b",c="d=\\"e\\", f"}', {"a": "b", "c": 'd="e", f'}),
    (
        '{xla.sdy.sharding="#sdy.sharding<@mesh, [{\\"x\\"}, {}]>",'
        'xla.sdy.meshes={mesh = #sdy.mesh<["x"=8]>},composite.attributes={n = 1 : i32}}',
        {
            "xla.sdy.sharding": '#sdy.sharding<@mesh, [{"x"}, {}]>',
            "xla.sdy.meshes": '{mesh = #sdy.mesh<["x"=8]>}',
            "composite.attributes": "{n = 1 : i32}",
        },
    ),
    ('{"quoted"="x", y=1}', {"quoted": "x", "y": "1"}),
]


@pytest.mark.parametrize(("text", "value"), FRONTEND)
def test_frontend_attributes(text: str, value: dict[str, str]) -> None:
    assert read_frontend_attributes(text) == value


CONFIGS = [
    ("{}", BackendConfig("json", {})),
    ('{"a":[1,"}"],"b":{"c":true}}', BackendConfig("json", {"a": [1, "}"], "b": {"c": True}})),
    ("{sizes:[2,4], kind: \"a: b\",}", BackendConfig("json", {"sizes": [2, 4], "kind": "a: b"})),
    ('"a \\"b\\""', BackendConfig("string", 'a "b"')),
    (
        '{uplo = 76 : ui8, s = "a, b", unit}',
        BackendConfig("mlir", {"uplo": "76 : ui8", "s": '"a, b"', "unit": "unit"}),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), CONFIGS)
def test_backend_configs(text: str, value: BackendConfig) -> None:
    assert read_backend_config(text) == value


A, B = OriginLeaf("a"), OriginLeaf("b", (1, 0))
ORIGINS = [
    ('{{"a"}}', A),
    ('{{"b" {1,0}}}', B),
    ("{{}}", None),
    ('{({"a"}, ({}, {"b" {1,0}}))}', (A, (None, B))),
    ("{()}", ()),
    ("{[synthetic_call]}", "synthetic_call"),
]


@pytest.mark.parametrize(("text", "value"), ORIGINS)
def test_origins(text: str, value: object) -> None:
    assert read_origin(text) == value


def test_statistics() -> None:
    assert read_statistics("{visualizing_index=1,stat-1=33.5}") == {
        "visualizing_index": 1.0,
        "stat-1": 33.5,
    }


@pytest.mark.parametrize("text", ["{op_name}", "op_name", "{=3}", "{a=}"])
def test_broken_metadata_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        read_metadata(text)


@pytest.mark.parametrize("text", ["{1}", "x", "{a b}"])
def test_broken_configs_are_refused(text: str) -> None:
    with pytest.raises(ParseError):
        read_backend_config(text)


def test_broken_origins_are_refused() -> None:
    with pytest.raises(ParseError, match="expected the origin of a value"):
        read_origin("{{a}}")


MODULE = """HloModule m

FileNames
1 "a.py"
2 "dir/b \\"c\\".py"

FunctionNames
1 "<module>"
2 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=31 end_line=32 column=4 end_column=6}
2 {file_name_id=2 function_name_id=2 line=5 end_line=5 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}


ENTRY %e (x: f32[]) -> f32[] {
  %x = f32[] parameter(0), metadata={stack_frame_id=1}
  %y = f32[] negate(%x), metadata={op_name="neg" stack_frame_id=2}
  %z = f32[] negate(%y), metadata={source_file="old.py" source_line=9}
  ROOT %w = f32[] negate(%z)
}
"""


def test_instructions_know_their_place_in_the_source() -> None:
    module = parse_hlo(MODULE)
    top = Frame("a.py", "<module>", 31, 32, 4, 6)
    traces = {ins.name: source_trace(metadata(ins), module.preamble) for ins in module.entry}
    assert traces == {
        "x": (top,),
        "y": (Frame('dir/b "c".py', "f", 5, 5, 1, 2), top),
        "z": (Frame("old.py", "", 9),),
        "w": (),
    }
    assert str(traces["y"][0]) == 'dir/b "c".py:5'
    assert metadata(module.entry["y"]).op_name == "neg"
    assert metadata(module.entry["w"]) == Metadata()


def test_frames_that_do_not_exist_have_no_trace() -> None:
    frames = read_stack_frames(MODULE)
    assert frames.trace(0) == frames.trace(7) == ()
    assert read_stack_frames("").trace(1) == ()


def test_parts_of_a_location_that_are_not_written_are_empty_or_0() -> None:
    frames = read_stack_frames(
        'FileNames\n1 "a.py"\n\nFunctionNames\n1 "f"\n\nFileLocations\n1 {line=3}\n'
        "2 {file_name_id=1 function_name_id=1}\n\n"
        "StackFrames\n1 {file_location_id=1}\n2 {file_location_id=2}\n"
    )
    assert frames.trace(1) == (Frame("", "", 3, 0, 0, 0),)
    assert frames.trace(2) == (Frame("a.py", "f", 0, 0, 0, 0),)


def test_a_circle_of_frames_ends() -> None:
    frames = read_stack_frames("StackFrames\n1 {file_location_id=1 parent_frame_id=2}\n")
    assert len(frames.trace(1)) == 1
