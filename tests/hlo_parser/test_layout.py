"""Texts whose lines were joined are read by lines: the same program, at its places in the text."""

from __future__ import annotations

import pytest

from hloscope.errors import ParseError
from hloscope.hlo_parser import parse_hlo, parse_hlo_all, print_hlo
from hloscope.hlo_parser.detection import in_lines
from hloscope.support.source import Source

HEADER = 'HloModule m, entry_computation_layout={(f32[8]{0})->f32[8]{0}}, x="y = 1 %z = {"'
TABLES = (
    'FileNames\n1 "a b.py"\n2 "c = d.py"\n\nFunctionNames\n1 "f"\n\nFileLocations\n'
    "1 {file_name_id=1 function_name_id=1 line=7 end_line=7 column=1 end_column=2}\n\n"
    "StackFrames\n1 {file_location_id=1 parent_frame_id=1}\n"
)
TOLD = 'metadata={op_name="a %b = c } %d (" stack_frame_id=1}'


def printed(mark: str = "%", count: int = 3000) -> str:
    """A module of some length, as XLA prints it."""
    lines = [
        f"{HEADER}\n\n{TABLES}\n\n{mark}f (q: f32[8]) -> f32[8] {{",
        f"  {mark}q = f32[8]{{0}} parameter(0)",
        f"  ROOT {mark}n = f32[8]{{0}} negate({mark}q), {TOLD}",
        f"}}\n\nENTRY {mark}e (p: f32[8]) -> f32[8] {{",
        f"  {mark}p.0 = f32[8]{{0}} parameter(0)",
    ]
    for k in range(count):
        lines.append(f"  {mark}p.{k + 1} = f32[8]{{0}} add({mark}p.{k}, {mark}p.0), {TOLD}")
    lines.append(f"  {mark}t = (f32[8], f32[8]) tuple({mark}p.{count}, /*index=1*/{mark}p.0)")
    lines.append(f"  {mark}g = f32[8]{{0}} get-tuple-element({mark}t), index=0")
    lines.append(f"  {mark}c = pred[8] compare({mark}g, {mark}p.1), direction=LT")
    lines.append(f"  ROOT {mark}r = f32[8]{{0}} fusion({mark}g), kind=kLoop, calls={mark}f")
    return "\n".join([*lines, '}, execution_thread="main"', ""])


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("mark", ["", "%"])
@pytest.mark.parametrize("joined", [lambda t: t.replace("\n", " "), lambda t: " ".join(t.split())])
def test_a_joined_text_is_the_same_program(joined, mark: str) -> None:  # type: ignore[no-untyped-def]
    text = printed(mark)
    whole, one = parse_hlo(text, strict=True), parse_hlo(joined(text), strict=True)
    assert print_hlo(one).split() == print_hlo(whole).split()
    for a, b in zip(whole.entry, one.entry, strict=True):
        assert (a.name, a.extras) == (b.name, b.extras)
    assert print_hlo(parse_hlo_all(joined(text))[0]) == print_hlo(one)


def test_places_are_those_of_the_text_as_given() -> None:
    text = printed().replace("\n", " ")
    ins = parse_hlo(text).entry["p.2000"]
    assert ins.span is not None
    assert ins.span.line_col == (1, text.index("%p.2000 = ") + 1)
    source = in_lines(Source("joined", text))
    assert source.text != text
    assert source.shown == text
    assert source.text.split() == text.split()


def test_errors_stand_in_the_text_as_given() -> None:
    text = printed().replace("\n", " ").replace("add(%p.1999,", "add(%gone,")
    with pytest.raises(ParseError) as found:
        parse_hlo(text, strict=True)
    assert found.value.span is not None
    assert found.value.span.line_col == (1, text.index("%gone") + 1)
    assert "\n" not in found.value.span.source.shown


def test_where_a_text_ends_is_a_line_of_the_text_as_given() -> None:
    joined = printed().replace("\n", " ")
    with pytest.raises(ParseError, match=r"the text ends in line 1; is it cut\?\n"):
        parse_hlo(joined[: joined.rindex("(") + 1], strict=True)


@pytest.mark.parametrize(
    "text",
    [
        printed(count=3),
        printed(),
        printed().replace("\n", " ") + "// the end",
        printed().replace("\n", " ") + '"',
        printed().replace("\n", " ") + "/* the end",
    ],
    ids=["short", "lines", "a comment", "a string", "an open comment"],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    source = Source("other", text)
    assert in_lines(source) is source


def test_strings_and_comments_are_left_alone() -> None:
    text = printed().replace("\n", " ").replace('"f"', r'"\" %f = 1"').replace("/*i", "/* %a = i")
    found = in_lines(Source("strings", text)).text
    for piece in (r'"\" %f = 1"', "/* %a = index=1*/", '"y = 1 %z = {"'):
        assert found.count(piece) == text.count(piece) == 1
