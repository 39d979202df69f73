"""Answers as pictures and text, where the command's tests do not look."""

from __future__ import annotations

import pytest

import hloscope as hs
from hloscope.display.latex import escaped
from hloscope.display.parts import access_parts
from hloscope.display.reads import element, touched
from hloscope.indexing import Access, IndexingMap, prove_equal


def test_the_middle_is_drawn_where_no_element_is_given() -> None:
    program = hs.read("ENTRY e { p = f32[5,9] parameter(0) ROOT n = f32[5,9] negate(p) }")
    assert "What n[2, 4] reads" in program.root.indexing().to_svg()
    assert "What p[2, 4] reaches" in program.root.indexing_from(0).to_svg()
    assert "What n[1, 1] reads" in program.root.indexing().to_html(at=[1, 1])


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ((1,), "1 index for a tensor with 2 dimensions"),
        ((0, 9), "dimension 1: index 9"),
        ((-1, 0), "-1"),
    ],
)
def test_an_element_that_is_not_there_is_refused(at: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        element((5, 9), at)


def test_all_of_a_large_tensor_is_drawn_in_blocks() -> None:
    program = hs.read(
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
        "ENTRY e { p = f32[4096,4096] parameter(0) z = f32[] constant(0)\n"
        "  ROOT r = f32[] reduce(p, z), dimensions={0,1}, to_apply=add }"
    )
    picture = program.root.indexing().to_svg()
    assert "(s0, s1): 16,777,216" in picture
    assert "[0:171, 0:128]: 21,888 of 21,888 elements" in picture
    assert len(picture) < 200_000


def test_too_much_to_draw_is_said_in_words() -> None:
    program = hs.read(
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
        "ENTRY e { p = f32[4096,4096] parameter(0) z = f32[] constant(0)\n"
        "  q = f32[8,2048,1024] reshape(p)\n"
        "  ROOT r = f32[8] reduce(q, z), dimensions={1,2}, to_apply=add }"
    )
    assert "not drawn" in program.root.to_parameters().to_svg()


def test_a_long_tuple_is_cut_in_the_headline() -> None:
    names = ", ".join(["p"] * 12)
    program = hs.read(f"ENTRY e {{ p = f32[5] parameter(0) ROOT t = tuple({names}) }}")
    first = str(program.root.indexing(0)).splitlines()[0]
    assert "f32[5], …, f32[5]; 12 in all) tuple(p, p, p, p, p, p, …, p)" in first


def test_nothing_is_touched_from_outside_the_domain() -> None:
    m = IndexingMap.parse("(d0) -> (d0), domain: d0 in [2, 3]")
    assert touched(Access(m), (2,)) == {(2,)}
    assert touched(Access(m), (0,)) == set()
    assert touched(Access.unknown("why"), (0,)) is None


def test_conditions_are_those_that_the_shape_does_not_imply() -> None:
    m = IndexingMap.parse("(d0, d1) -> (d0), domain: d0 in [0, 7], d1 in [0, 3], d0 + d1 in [0, 8]")
    assert access_parts(Access(m), (8, 4)).where == ("d0 + d1 in [0, 8]",)
    assert access_parts(Access(m), (9, 4)).where == ("d0 in [0, 7]", "d0 + d1 in [0, 8]")


def test_an_empty_map_has_no_conditions() -> None:
    m = IndexingMap.parse("(d0) -> (d0), domain: d0 in [0, -1]")
    assert access_parts(Access(m), (8,)).arrow == "KNOWN EMPTY"
    assert access_parts(Access(m), (8,)).where == ()


@pytest.mark.parametrize("text", list("\\~^_{}&%$#"))
def test_latex_special_characters_are_escaped(text: str) -> None:
    assert escaped(f"a{text}b").startswith("a\\")
    assert escaped("plain") == "plain"


def test_reprs_say_what_things_are() -> None:
    program = hs.read(
        "ENTRY e { p = f32[4,8] parameter(0) ROOT t = f32[8,4] transpose(p), dimensions={1,0} }"
    )
    answer = program.root.indexing()
    access = answer[0].accesses[0]
    assert repr(answer.answer) == "<Answer t, output to input: 1 outputs>"
    assert repr(access) == (
        "<Access exact; (d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, 3]>"
    )
    assert repr(program.root.ir.type) == "TensorType('f32[8,4]')"
    assert repr(program.root.ir.type.element) == "ElementType('f32')"  # type: ignore[union-attr]
    assert repr(prove_equal([answer.map], [answer.map])) == "<Proof proved>"
    assert repr(answer.answer.outputs) == "[<Output 0 f32[8,4]: p>]"
    assert repr(answer[0]) == (
        "<Operand 0 p: exact (d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, 3]>"
    )
    checked = answer.prove()[0]
    assert repr(checked).endswith("; proved>")
    assert repr(checked.check).startswith("<Check proved by isl")


def test_latex_states_what_all_maps_share_once() -> None:
    text = hs.read("examples/softmax.hlo").root.indexing().to_latex()
    assert text.count(r"0 \le d_{0} \le 7") == 1
    assert text.count(r"0 \le s_{0} \le 31") == 2  # of two maps of five
