"""Everything that reading leaves as text, decoded at once."""

from __future__ import annotations

import pytest

from hloscope.errors import ParseError
from hloscope.hlo_parser import decode_module, parse_hlo
from hloscope.ir import TensorType

_LINE = "ENTRY e {{\n  ROOT x = f32[2] parameter(0){}\n}}\n"


@pytest.mark.parametrize(
    ("attributes", "found"),
    [
        (', metadata={op_name="{a}"}', {"metadata": '{op_name="{a}"}'}),
        (', metadata={op_name="a//b"}', {"metadata": '{op_name="a//b"}'}),
        (', metadata={op_name="a"}, sharding={replicated}',
         {"metadata": '{op_name="a"}', "sharding": "{replicated}"}),
        (', metadata={op_name="a"}, backend_config={"b":{"c":1}}',
         {"metadata": '{op_name="a"}', "backend_config": '{"b":{"c":1}}'}),
        (', metadata={op_name="a" /*b*/}', {"metadata": '{op_name="a"      }'}),
        (', metadata={op_name="a"} // }', {"metadata": '{op_name="a"}'}),
    ],
)  # fmt: skip
def test_what_follows_metadata_is_kept(attributes: str, found: dict[str, str]) -> None:
    module = parse_hlo(_LINE.format(attributes))
    assert dict(module.entry.root.extras) == found
    assert decode_module(module) == len(found)


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        (", metadata={op_name}", "op_name"),
        (', metadata={op_name="a"}, sharding={nowhere}', "nowhere"),
        (", sharding={devices=[2]0}", "devices"),
        (", origin={x}", "x"),
        (", statistics={a=b}", "b"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(attributes: str, said: str) -> None:
    module = parse_hlo(_LINE.format(attributes), strict=True)
    with pytest.raises(ParseError) as caught:
        decode_module(module)
    span = caught.value.span
    assert span is not None
    assert span.line == 2
    assert said in span.source.text[span.start :].splitlines()[0]


def test_equal_literals_are_separate_arrays() -> None:
    module = parse_hlo("ENTRY e { a = f32[2] constant({1, 2}) ROOT b = f32[2] constant({1, 2}) }")
    first, second = (ins.op.literal.array(ins.type) for ins in module.entry)  # type: ignore[attr-defined]
    first[0] = 7
    assert second.tolist() == [1, 2]


def test_a_short_literal_is_read_for_each_type() -> None:
    module = parse_hlo(
        "ENTRY e { a = f32[] constant(1) b = s32[] constant(1) ROOT c = f32[2] constant(1) }"
    )
    values = [ins.op.literal.array(ins.type) for ins in module.entry]  # type: ignore[attr-defined]
    assert [(str(v.dtype), v.tolist()) for v in values] == [
        ("float32", 1.0), ("int32", 1), ("float32", [1.0, 0.0]),
    ]  # fmt: skip
    assert all(isinstance(ins.type, TensorType) for ins in module.entry)
