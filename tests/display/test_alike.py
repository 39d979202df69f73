"""Outputs that read very much: what is alike is told once, and nothing is lost."""

from __future__ import annotations

import re

import pytest

import hloscope
from hloscope.display.text import MAX_NAMED

MANY = MAX_NAMED + 36


def training_step() -> hloscope.Program:
    """Outputs 0 and 2 read every parameter alike, output 1 some; every third parameter is a row."""
    types = ["f32[4]" if k % 3 == 0 else "f32[2,4]" for k in range(MANY)]
    lines = [f"  p{k} = {type} parameter({k})" for k, type in enumerate(types)]
    total = "zero"
    for k in range(MANY):
        dimensions = "0" if k % 3 == 0 else "0,1"
        lines += [
            f"  r{k} = f32[] reduce(p{k}, zero), dimensions={{{dimensions}}}, to_apply=plus",
            f"  s{k} = f32[] add({total}, r{k})",
        ]
        total = f"s{k}"
    text = "\n".join(
        [
            "HloModule m",
            "plus { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }",
            "ENTRY e {",
            "  zero = f32[] constant(0)",
            *lines,
            f"  one = f32[5] broadcast({total}), dimensions={{}}",
            "  two = f32[5] negate(one)",
            "  ROOT all = (f32[5], f32[4], f32[5]) tuple(one, p0, two)",
            "}",
        ]
    )
    return hloscope.read(text)


def blocks(text: str) -> dict[int, tuple[str, str]]:
    """Type and maps of each parameter, as told of the first output."""
    found = {}
    section = text.partition("Element (d0) of output 1")[0]
    for numbers, type, body in re.findall(
        r"^  parameters? ([\d, -]+?)  (\S+)[^\n]*\n((?:    .*\n?)+)", section, re.MULTILINE
    ):
        for run in numbers.split(", "):
            first, _, last = run.partition("-")
            for number in range(int(first), int(last or first) + 1):
                assert number not in found
                found[number] = type, body.strip()
    return found


def test_every_parameter_is_told_once_with_its_type_and_maps() -> None:
    answer = training_step().root.to_parameters(None)
    told = blocks(str(answer))
    operands = answer.answer.outputs[0].touched
    assert {o.number for o in operands} == set(told) == set(range(MANY))
    for operand in operands:
        type, body = told[operand.number]
        assert type == str(operand.type).partition("{")[0]
        assert body.startswith(f"{operand.accesses[0].map}".partition(", domain")[0])


def test_an_output_that_reads_what_another_does_says_so() -> None:
    text = str(training_step().root.to_parameters(None))
    assert "Element (d0) of output 2, f32[5], reads the same as that of output 0" in text
    assert "Element (d0) of output 1, f32[4], reads\n" in text
    assert len(text) < 3_000


@pytest.mark.parametrize("output", [0, 2])
def test_an_output_asked_alone_is_told_whole(output: int) -> None:
    assert len(blocks(str(training_step().root.to_parameters(output)))) == MANY
