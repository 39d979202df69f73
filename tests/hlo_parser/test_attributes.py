"""Attribute lists are split at commas outside brackets and strings."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from hloscope.errors import ParseError
from hloscope.hlo_parser.scanner import (
    distance,
    error_in_source,
    near,
    part_end,
    split_attributes,
    split_list,
)
from hloscope.support.source import Source

CASES = [
    ("", []),
    (" , ", []),
    (", dimensions={0,1}, to_apply=%add", [("dimensions", "{0,1}"), ("to_apply", "%add")]),
    ("a = 1,b=2", [("a", "1"), ("b", "2")]),
    ('s="a, b={\\"", c={"}"}', [("s", '"a, b={\\""'), ("c", '{"}"}')]),
    ("control-predecessors={%a, %b}", [("control-predecessors", "{%a, %b}")]),
    ("slice={[0:8], [2:10:4]}, x=1", [("slice", "{[0:8], [2:10:4]}"), ("x", "1")]),
    ("f={m = #m<[\"x\"=8]>, n={a=1}}", [("f", "{m = #m<[\"x\"=8]>, n={a=1}}")]),
    ("replica_groups=[2,4]<=[8]T(1,0), x=y", [("replica_groups", "[2,4]<=[8]T(1,0)"), ("x", "y")]),
    ("replica_groups=mesh['a'=2,'b'=2] {'a'}, x=y",
     [("replica_groups", "mesh['a'=2,'b'=2] {'a'}"), ("x", "y")]),
    ("replica_groups=mesh['a'=2], device_ids=([2]T(0)) {'a'}, x=y",
     [("replica_groups", "mesh['a'=2], device_ids=([2]T(0)) {'a'}"), ("x", "y")]),
    ("dim_labels=?b01f_0?1io->b01?f", [("dim_labels", "?b01f_0?1io->b01?f")]),
    ("padding=0_0x-1_0_2", [("padding", "0_0x-1_0_2")]),
    ("a={/* } */ 1}, b=2", [("a", "{/* } */ 1}"), ("b", "2")]),
    ("a={{{{{{{{1}}}}}}}}, b=2", [("a", "{{{{{{{{1}}}}}}}}"), ("b", "2")]),
    ("to_apply={\n  a = f32[] parameter(0), metadata={}\n}, b=2",
     [("to_apply", "{\n  a = f32[] parameter(0), metadata={}\n}"), ("b", "2")]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "parts"), CASES, ids=[text for text, _ in CASES])
def test_lists_are_split(text: str, parts: list[tuple[str, str]]) -> None:
    found = split_attributes(text)
    assert [(name, value) for name, value, _ in found] == parts
    assert all(text.startswith(name, at) for name, _, at in found)


ERRORS = [
    (", a", 2, "expected `name=value`, found `a`"),
    (", a=1, {b}", 7, "expected `name=value`"),
    (", a=, b=2", 2, "attribute `a` has no value"),
    (", a={1", 4, "`{` is not closed"),
    (", a={1)", 6, "`)` closes `{`"),
    (", a=1}", 5, "`}` closes nothing"),
    (', a="x', 4, "string is not closed"),
]


@pytest.mark.parametrize(("text", "start", "message"), ERRORS)
def test_errors_say_where(text: str, start: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        split_attributes(text)
    assert message in caught.value.message
    assert caught.value.span is not None
    assert caught.value.span.start == start


def test_errors_move_to_their_place_in_the_file() -> None:
    source = Source("m.hlo", "x = f32[] add(y), a={1")
    with pytest.raises(ParseError) as caught:
        split_attributes(source.text[16:])
    placed = error_in_source(caught.value, source, 16)
    assert str(placed).startswith("m.hlo:1:21: error: `{` is not closed")


def test_a_value_ends_with_its_bracket() -> None:
    assert part_end("(a, b), c", 0, stop_at_comma=False) == 6
    with pytest.raises(ParseError):
        part_end("(a, b", 0, stop_at_comma=False)


values = st.recursive(
    st.one_of(st.integers().map(str), st.text("ab, {}()\\\"", max_size=6).map(
        lambda s: '"' + s.replace("\\", "\\\\").replace('"', '\\"') + '"')),
    lambda inner: st.lists(inner, max_size=4).map(lambda parts: f"{{{','.join(parts)}}}"),
)  # fmt: skip


@settings(max_examples=60)
@given(st.lists(st.tuples(st.from_regex(r"[a-z_][a-z0-9_-]{0,5}", fullmatch=True), values)))
def test_joined_attributes_are_split_again(parts: list[tuple[str, str]]) -> None:
    text = "".join(f", {name}={value}" for name, value in parts)
    assert [(name, value) for name, value, _ in split_attributes(text)] == parts


@settings(max_examples=60)
@given(st.lists(values, min_size=1, max_size=5))
def test_joined_lists_are_split_again(parts: list[str]) -> None:
    text = ", ".join(parts)
    found = split_list(text)
    assert [part for part, _ in found] == parts
    assert all(text.startswith(part, at) for part, at in found)


@pytest.mark.parametrize(
    ("a", "b", "steps"), [("", "", 0), ("", "ab", 2), ("kitten", "sitting", 3), ("ab", "ba", 2)]
)
def test_distance(a: str, b: str, steps: int) -> None:
    assert distance(a, b) == distance(b, a) == steps


def test_only_near_names_are_suggested() -> None:
    known = ["dimensions", "to_apply"]
    assert near("dimenson", known) == "dimensions"
    assert near("to_aply", known) == "to_apply"
    assert near("window", known) is None
    assert near("x", ["a"]) is None
