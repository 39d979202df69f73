"""Tuples of many outputs and operands: what is out of reach is proved together."""

from __future__ import annotations

from dataclasses import replace

import pytest

import hloscope
from hloscope.api import Indexing
from hloscope.display.answer import OperandAnswer
from hloscope.proof import Outcome
from hloscope.proof.question import Question

COUNT = 100


def program(kind: str) -> hloscope.Program:
    """As many outputs as parameters, each of which reads one."""
    inside = "\n".join(
        [f"p{k} = f32[4] parameter({k}) n{k} = f32[4] negate(p{k})" for k in range(COUNT)]
    )
    type = f"({', '.join(['f32[4]'] * COUNT)})"
    root = f"ROOT r = {type} tuple({', '.join(f'n{k}' for k in range(COUNT))})"
    if kind == "tuple":
        return hloscope.read(f"ENTRY e {{ {inside} {root} }}")
    own = " ".join(f"p{k} = f32[4] parameter({k})" for k in range(COUNT))
    names = ", ".join(f"p{k}" for k in range(COUNT))
    return hloscope.read(f"""f {{ {inside} {root} }}
      ENTRY e {{ {own} ROOT r = {type} fusion({names}), kind=kLoop, calls=f }}""")


@pytest.mark.parametrize("kind", ["tuple", "fusion"])
@pytest.mark.parametrize("to_parameters", [False, True])
def test_only_what_is_reached_is_asked_about(
    kind: str, to_parameters: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []
    at_points = Question.at_points

    def counted(self: Question, **options: bool) -> object:
        asked.append(self.place)
        return at_points(self, **options)

    monkeypatch.setattr(Question, "at_points", counted)
    root = program(kind).root
    found = (root.to_parameters(None) if to_parameters else root.indexing(None)).verify()
    assert len(asked) == COUNT
    assert len(found.checks) == COUNT * COUNT
    assert all(check.outcome is Outcome.PROVED for check in found.checks)
    (first, *_) = found.to_json()["outputs"]
    assert first["unread"] == COUNT - 1
    assert [p["count"] for p in first["proofs_of_nothing"]] == [COUNT - 1]
    assert "proof: out of reach" in str(found)


@pytest.mark.parametrize("kind", ["tuple", "fusion"])
def test_what_is_reached_and_left_out_is_refuted(kind: str) -> None:
    found = program(kind).root.indexing(None)
    output = found.answer.outputs[7]
    operands = output.operands
    nothing: dict[int, OperandAnswer] = {}
    wrong = replace(output, operands=type(operands)(operands._values, range(COUNT), nothing))  # type: ignore[attr-defined, call-arg]
    outputs = [*found.answer.outputs[:7], wrong, *found.answer.outputs[8:]]
    checked = Indexing(replace(found.answer, outputs=outputs)).verify()
    (missed,) = checked.answer.outputs[7].checked_untouched
    assert missed.number == 7
    assert missed.check is not None
    assert missed.check.is_refuted
