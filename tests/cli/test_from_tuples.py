"""From an operand that is a tuple: each of its tensors is asked from, not the first alone."""

from __future__ import annotations

import re
from typing import Any

import pytest

import hloscope as hs
from hloscope.api import InstructionView
from hloscope.errors import UnknownNameError
from tests.agreement.generated import SPELL, program_of

NESTED = """HloModule nested
pick { p = ((f32[3], f32[3]), (f32[5], s32[])) parameter(0)
  b = (f32[5], s32[]) get-tuple-element(p), index=1
  x = f32[5] get-tuple-element(b), index=0 k = s32[] get-tuple-element(b), index=1
  ROOT d = f32[2] dynamic-slice(x, k), dynamic_slice_sizes={2} }
ENTRY e { p = ((f32[3], f32[3]), (f32[5], s32[])) parameter(0)
  ROOT c = f32[2] call(p), to_apply=pick }
"""
FROM = ("index", "-", "--from-operand", "0")


def pairs(view: InstructionView) -> tuple[set[tuple[int, ...]], set[tuple[int, ...]]]:
    """Output, operand and tensor where anything is read, and where anything is reached."""
    reads = {
        (output.number, operand.number, access.leaf)
        for output in view.indexing(None).answer.outputs
        for operand in output.touched
        for access in operand.accesses
    }
    reaches = {
        (output.number, operand.number, operand.leaf)
        for k in {number for _, number, _ in reads} | {*range(len(view.operands))}
        for output in view.indexing_from(k).answer.outputs
        for operand in output.touched
    }
    return reads, reaches


@pytest.mark.parametrize("language", SPELL)
def test_what_reads_a_tensor_is_reached_from_it(language: str, full: bool) -> None:
    """Random programs that nest: one direction has the tensors that the other has."""
    beyond = 0
    for seed in range(2000 if full else 40):
        for view in hs.read(SPELL[language](program_of(seed, language))):
            reads, reaches = pairs(view)
            assert reads == reaches, f"seed {seed}: {view.name}"
            beyond += any(leaf for *_, leaf in reads)
    assert beyond > 20


def test_each_tensor_is_told_with_its_own_indices(run: Any) -> None:
    shown = run(*FROM, "--verify", "--by-execution", stdin=NESTED).stdout
    assert "Element (d0) of operand 0, f32[5] p{2}, reaches\n" in shown
    assert "Element of operand 0, s32[] p{3}, reaches\n" in shown
    assert "not reached: any output from any other tensor of operand 0\n    proof: isl" in shown
    assert "p{0}" not in shown


def test_every_form_tells_from_which_tensor(run: Any, ask: Any) -> None:
    answer = ask(*FROM, "--json", stdin=NESTED)
    assert [(o["operand"], o["leaf"]) for o in answer["operands"]] == [(0, 2), (0, 3)]
    assert [output["operands"] for output in answer["outputs"]] == [[0, 1]]
    lines = run(*FROM, "--format", "print_indexing", stdin=NESTED).stdout
    assert re.findall(r"operand 0(\S*):", lines) == ["{2}", "{3}"]
    assert r"c from p\{2\}" in run(*FROM, "--format", "latex", stdin=NESTED).stdout
    for form in ("svg", "html"):
        drawn = run(*FROM, "--format", form, "--at", "4", stdin=NESTED).stdout
        assert "What p{2}[4] reaches" in drawn
        assert "one of 2 tensors that reach an output" in drawn


def test_an_element_is_one_of_the_tensors_that_have_it(run: Any, ask: Any) -> None:
    shown = run(*FROM, "--at", "4", stdin=NESTED).stdout
    assert "Element (4) of operand 0, f32[5] p{2}, reaches" in shown
    (asked,) = ask(*FROM, "--at", "", "--json", stdin=NESTED)["outputs"]
    assert asked["from_leaf"] == 3
    assert asked["touched"][0]["count"] == 2
    assert run(*FROM, "--at", "9", stdin=NESTED).exit_code == 2


def test_a_tuple_without_tensors_reaches_nothing(run: Any, ask: Any) -> None:
    text = 'ENTRY e { p = () parameter(0) ROOT c = f32[] custom-call(p), custom_call_target="x" }'
    assert "The operand has no elements." in run(*FROM, stdin=text).stdout
    assert ask(*FROM, "--json", stdin=text)["unreached"] == 1
    assert ask(*FROM, "--at", "1", "--json", stdin=text)["outputs"] == []
    assert run(*FROM, "--format", "html", stdin=text).exit_code == 4


def test_one_tensor_may_be_chosen() -> None:
    root = hs.read(NESTED).root
    assert [o.leaf for o in root.indexing_from(0, leaf=3)] == [3]
    assert root.indexing_from(0, leaf=0).maps == ((),)
    with pytest.raises(UnknownNameError, match="has 4 leaves"):
        root.indexing_from(0, leaf=4)


def test_of_many_tensors_only_those_that_reach_take_room(ask: Any) -> None:
    count = 120
    shape = ", ".join(["f32[2]"] * count)
    text = f"ENTRY e {{ p = ({shape}) parameter(0) ROOT o = ({shape}) opt-barrier(p) }}"
    answer = ask(*FROM, "--json", "--verify", "--seconds", "60", stdin=text)
    leaves = [operand.get("leaf", 0) for operand in answer["operands"]]
    told = [(o["output"], [leaves[k] for k in o["operands"]]) for o in answer["outputs"]]
    assert told == [(k, [k]) for k in range(count)]
    assert answer["unreached"] == 0
    assert {o["proofs_of_nothing"][0]["count"] for o in answer["outputs"]} == {count - 1}
