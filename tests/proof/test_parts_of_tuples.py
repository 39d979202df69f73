"""A part of a tuple is a tensor of one operand: asked about once, however many others there are."""

from __future__ import annotations

import pytest

import hloscope
from hloscope.indexing import Access, IndexingMap
from hloscope.proof import Outcome, Prover
from hloscope.proof.reference import Question

PARTS = 300


def _program(types: list[str]) -> hloscope.Program:
    parameters = [f"p{k} = {type} parameter({k})" for k, type in enumerate(types)]
    operands = ", ".join(f"p{k}" for k in range(len(types)))
    root = f"ROOT t = ({', '.join(types)}) tuple({operands})"
    return hloscope.read("ENTRY e { " + " ".join([*parameters, root]) + " }")


def test_equal_parts_are_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    made = Question.__init__
    monkeypatch.setattr(
        Question, "__init__", lambda self, *args: (asked.append(args), made(self, *args))[1]
    )
    program = _program(["f32[4]", "(f32[2], f32[4])"] * PARTS)
    text = str(program.root.indexing(None).prove())
    assert text.count("proof: isl; enumerated") == 3 * PARTS
    assert len(asked) == 2, "f32[4] and f32[2], in whichever operand they are"


@pytest.mark.slow
def test_each_part_of_a_tuple_is_refuted_alone() -> None:
    program = _program(["f32[4]", "f32[4]", "(f32[4], f32[4])", "f32[<=4]"])
    root = program.root.ir
    identity = (Access(IndexingMap.parse("(d0) -> (d0), domain: d0 in [0, 3]")),)
    places = [(0, 0), (1, 0), (2, 0), (2, 1), (3, 0)]
    for output, place in enumerate(places):
        prover = Prover()
        for operand, leaf in places:
            right = Outcome.PROVED if (operand, leaf) == place else Outcome.REFUTED
            assert prover.check(root, output, operand, leaf, identity).outcome is right
            wrong = Outcome.REFUTED if (operand, leaf) == place else Outcome.PROVED
            assert prover.check(root, output, operand, leaf, ()).outcome is wrong
