"""HLO as people paste it: from logs, mails, issues and terminals, whole or in parts."""

from __future__ import annotations

import pytest

import hloscope
from hloscope.errors import ParseError
from hloscope.hlo_parser import parse_hlo, print_hlo, print_type
from hloscope.ir import TensorType
from hloscope.ops import UnknownOp

PROGRAM = """\
HloModule m

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %z = f32[] add(%x, %y)
}

ENTRY %e (p: f32[4,6]) -> f32[4] {
  %p = f32[4,6]{1,0} parameter(0), metadata={op_name="a -> b"}
  %c = f32[] constant(0)
  ROOT %r = f32[4]{0} reduce(%p, %c), dimensions={1}, to_apply=%add
}
"""
PREFIXES = {
    "quotes": "> ",
    "quotes of quotes": "> > ",
    "absl": "I0000 00:00:1786717167.{n:06} {n} gpu_compiler.cc:100] ",
    "glog": "I0805 19:26:48.{n:06}  {n} gpu_compiler.cc:{n}] ",
    "TensorFlow": "2019-08-05 19:26:48.{n:06}: E tensorflow/xla_util.cc:72] ",
    "ranks": "[rank{n}]: ",
    "processes": "(worker pid={n}) ",
    "lines": "{n}: ",
    "comments": "# ",
    "a log of a log": "2024-01-02T03:04:{n}Z stderr F I0805 19:26:48.{n}  7 compiler.cc:100] ",
}


def same(text: str) -> None:
    """The pasted text is read as the program, with a note."""
    module = parse_hlo(text, strict=True)
    assert print_hlo(module) == print_hlo(parse_hlo(PROGRAM))
    assert module.notes
    assert {note.severity for note in module.notes} == {"note"}
    assert hloscope.verify(text) == []


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
@pytest.mark.parametrize("around", ["", "some words\n", "a: b\n\n"])
def test_what_stands_before_each_line_is_left_out(prefix: str, around: str) -> None:
    lines = PROGRAM.splitlines()
    text = "\n".join(f"{prefix.format(n=n + 10)}{line}".rstrip() for n, line in enumerate(lines))
    same(around + text + "\n")


def test_lines_of_other_writers_in_a_log_are_left_out() -> None:
    lines = [f"I0805 19:26:48.1{n} 7 a.cc:1] {line}" for n, line in enumerate(PROGRAM.split("\n"))]
    lines.insert(5, "W0805 19:26:48.123  9 other.cc:77] something = happened()")
    same("\n".join(lines))


def test_lines_that_a_log_has_broken_are_one_instruction() -> None:
    lines = [f"[{n}] {line}" for n, line in enumerate(PROGRAM.splitlines())]
    same("\n".join(lines).replace("reduce(%p, ", "reduce(%p, \n"))


@pytest.mark.parametrize("fence", ["```", "~~~", "```hlo"])
def test_a_program_in_a_message_is_what_stands_between_the_fences(fence: str) -> None:
    same(f"Hello (all), see:\n\n{fence}\n{PROGRAM}{fence[:3]}\n\nThanks = much!\n")


def test_words_around_a_program_are_left_out() -> None:
    same(f"I see a slow reduce, here is the dump:\n\n{PROGRAM}\nThanks!\n")


def test_entities_of_html_are_characters() -> None:
    escaped = PROGRAM.replace("&", "&amp;").replace(">", "&gt;").replace('"', "&quot;")
    same(escaped)


@pytest.mark.parametrize("colour", ["\x1b[31m", "\x1b[1;38;5;9m", "\x1b[K", "\x1b]0;title\x07"])
def test_the_colours_of_a_terminal_are_left_out(colour: str) -> None:
    same(PROGRAM.replace("reduce(", f"{colour}reduce\x1b[0m("))


def test_errors_in_a_pasted_text_have_the_lines_of_the_text() -> None:
    text = "Look:\n" + "".join(f"> {line}\n" for line in PROGRAM.splitlines())
    with pytest.raises(ParseError) as error:
        parse_hlo(text.replace("constant(0)", "konstant(0)"), strict=True)
    assert error.value.span is not None
    assert error.value.span.line == PROGRAM[: PROGRAM.index("constant(0)")].count("\n") + 2


def test_a_program_as_it_is_has_no_notes() -> None:
    assert parse_hlo(PROGRAM).notes == ()
    assert parse_hlo("// a comment\n" + PROGRAM).notes == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import jax\n" + PROGRAM, "this is Python source"),
        ("nothing of HLO: at all", "expected"),
        ("some words\n\nand more words\n", "expected"),
    ],
)
def test_what_is_no_program_is_still_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_hlo(text, strict=True)


@pytest.mark.parametrize("elided", ["...", "…", "[...]", "......"])
def test_lines_that_were_left_out_are_named_where_they_were(elided: str) -> None:
    inside = PROGRAM.replace("  %c = f32[] constant(0)\n", f"  {elided}\n")
    between = PROGRAM.replace("\nENTRY", f"{elided}\nENTRY")
    for text in (inside, between):
        with pytest.raises(ParseError, match="stands for lines that were left out") as error:
            parse_hlo(text, strict=True)
        assert error.value.span is not None
        assert error.value.span.line == text[: text.index(elided)].count("\n") + 1


# --------------------------------------------------------------------------------------- parts


def test_instructions_that_stand_in_no_computation_are_read() -> None:
    module = parse_hlo("a = f32[2] abs(f32[2] x)\n  ROOT b = f32[2] negate(a)\n")
    assert [ins.name for ins in module.entry] == ["x", "a", "b"]
    assert module.entry.root.name == "b"


def test_an_operand_that_is_not_there_is_named() -> None:
    with pytest.raises(ParseError, match="`x` is not defined: in a part of a computation"):
        parse_hlo("a = f32[2] abs(x)\nb = f32[2] negate(a)\n")


CALLERS = {
    "fusion": ("f32[4] fusion(p), kind=kLoop, calls=%f", ["f32[4,6]"], "f32[4]"),
    "reduce": ("f32[4] reduce(p, c), dimensions={1}, to_apply=f", ["f32[]", "f32[]"], "f32[]"),
    "sort": ("f32[4,6] sort(p), dimensions={1}, to_apply=f", ["f32[]", "f32[]"], "pred[]"),
    "map": ("s32[4,6] map(p, p), dimensions={0,1}, to_apply=f", ["f32[]", "f32[]"], "s32[]"),
    "all-reduce": ("f32[4,6] all-reduce(p), replica_groups={}, to_apply=f", ["f32[]"] * 2, "f32[]"),
    "call": ("(f32[], s8[2]) call(p, c), to_apply=f", ["f32[4,6]", "f32[]"], "(f32[], s8[2])"),
    "condition": ("f32[4,6] while(p), condition=f, body=g", ["f32[4,6]"], "pred[]"),
}


@pytest.mark.parametrize(("caller", "takes", "returns"), CALLERS.values(), ids=CALLERS)
def test_a_computation_that_is_not_in_a_part_takes_and_returns_what_its_caller_says(
    caller: str, takes: list[str], returns: str
) -> None:
    text = (
        f"ENTRY e {{\n  p = f32[4,6] parameter(0)\n  c = f32[] constant(0)\n  ROOT r = {caller}\n}}"
    )
    module = parse_hlo(text)
    callee = module.computations["f"]
    assert [print_type(type) for type in callee.arguments] == takes
    assert [print_type(type) for type in callee.results] == [returns]
    assert isinstance(callee.root.op, UnknownOp)
    assert any("`f` is not in the text" in note.message for note in module.notes)
    assert hloscope.verify(text) == []


def test_one_name_with_other_types_is_two_stand_ins() -> None:
    text = (
        "ENTRY e {\n  p = f32[4] parameter(0)\n  q = s32[4] parameter(1)\n"
        "  a = f32[4] fusion(p), kind=kLoop, calls=f\n  b = f32[4] fusion(p), kind=kLoop, calls=f\n"
        "  c = s32[4] fusion(q), kind=kLoop, calls=f\n  ROOT t = (f32[4], s32[4]) tuple(b, c)\n}"
    )
    module = parse_hlo(text)
    assert [*module.computations] == ["f", "f.1", "e"]
    calls = [ins.calls[0].name for ins in module.entry if ins.calls]
    assert calls == ["f", "f", "f.1"]
    (result,) = module.computations["f.1"].results
    assert isinstance(result, TensorType)
    assert result.element.name == "s32"


def test_a_name_like_that_of_a_computation_is_a_mistake() -> None:
    text = "adder { ROOT a = f32[] parameter(0) }\nENTRY e { p = f32[] parameter(0)\n"
    with pytest.raises(ParseError, match=r"no computation `addr`; did you mean `adder`\?"):
        parse_hlo(text + "  ROOT b = f32[] call(p), to_apply=addr }", strict=True)


def test_a_module_has_all_its_computations() -> None:
    with pytest.raises(ParseError, match="there is no computation `other`"):
        parse_hlo(PROGRAM.replace("to_apply=%add", "to_apply=%other"), strict=True)


def test_the_version_that_xla_prints_and_does_not_read_is_noted() -> None:
    text = (
        'ENTRY e {\n  ROOT c = f32[] custom-call(), custom_call_target="F",'
        " api_version=API_VERSION_UNSPECIFIED\n}"
    )
    (note,) = parse_hlo(text).notes
    assert "API_VERSION_UNSPECIFIED" in note.message
    assert note.span is not None
    assert note.span.line == 2
    assert hloscope.verify(text) == []
