"""Tuples of many outputs and operands: what is out of reach is proved together."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

import hloscope
from hloscope.api import Indexing
from hloscope.api.indexing import TOGETHER
from hloscope.display.answer import OperandAnswer
from hloscope.proof import Check, Execution, Outcome, Prover
from hloscope.proof.allowance import Isolated
from hloscope.proof.check import Executed
from hloscope.proof.reference import Question, Reference
from tests.large import wide_tuple

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


@pytest.mark.slow(keep=1)
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
    found = (root.to_parameters(None) if to_parameters else root.indexing(None)).prove()
    # Parts of a tuple that are alike are one question.
    assert len(asked) == (1 if kind == "tuple" and not to_parameters else COUNT)
    assert len(found.checks) == COUNT * COUNT
    assert all(check.outcome is Outcome.PROVED for check in found.checks)
    (first, *_) = found.to_json()["outputs"]
    assert first["unread"] == COUNT - 1
    assert [p["count"] for p in first["proofs_of_nothing"]] == [COUNT - 1]
    assert "proof: out of reach" in str(found)


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("to_parameters", [False, True])
@pytest.mark.parametrize("seconds", [inf, 1e-9])
def test_each_output_of_a_wide_operand_asks_about_the_tensor_that_it_reaches(
    seconds: float, to_parameters: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    check_outputs = Prover.check_outputs

    def counted(self: Prover, ins: Any, outputs: Any, **options: Any) -> list[list[Check]]:
        asked.extend([len(some) for _, some in outputs])
        return check_outputs(self, ins, outputs, **options)

    monkeypatch.setattr(Prover, "check_outputs", counted)
    root = hloscope.read(wide_tuple(COUNT)).root
    answer = root.to_parameters(None) if to_parameters else root.indexing(None)
    found = answer.prove(prover=Prover(total=seconds))
    assert asked == [1] * (COUNT + 1)
    outcome = Outcome.PROVED if seconds == inf else Outcome.UNDECIDED
    read = [o.check for output in found.answer.outputs for o in output.touched]
    assert {check.outcome for check in read if check} == {outcome}
    rest = {output.proved_together for output in found.answer.outputs} - {None}
    if to_parameters:
        assert not rest, "there is one parameter"
    else:  # what a tuple puts elsewhere is known without a walk, which would take time
        assert {together[0].outcome for together in rest if together} == {Outcome.PROVED}


def test_alike_parts_of_a_wide_operand_are_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their maps differ by the number of the tensor only, which the question is not about."""
    asked: list[tuple[int, int]] = []
    made = Question.__init__

    def counted(self: Question, *args: Any) -> None:
        asked.append(args[1:3])
        made(self, *args)

    monkeypatch.setattr(Question, "__init__", counted)
    found = hloscope.read(wide_tuple(COUNT)).root.indexing(None).prove()
    assert asked == [(0, 0)]
    assert {check.outcome for check in found.checks} == {Outcome.PROVED}


def test_a_tensor_of_a_wide_operand_that_is_reached_and_left_out_is_refuted() -> None:
    root = hloscope.read(wide_tuple(COUNT)).root
    found = root.indexing(None)
    output = found.answer.outputs[7]
    (operand,) = output.touched
    moved = replace(operand, accesses=tuple([replace(a, leaf=9) for a in operand.accesses]))
    operands = type(output.operands)(root.ir.operands, range(2), {1: moved})  # type: ignore[call-arg, arg-type]
    outputs = [replace(output, operands=operands)]
    checked = Indexing(replace(found.answer, outputs=outputs)).prove()
    assert [check.outcome for check in checked.checks] == [Outcome.PROVED, Outcome.REFUTED]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tuple", "fusion"])
@pytest.mark.parametrize("to_parameters", [False, True])
def test_one_run_tells_of_all_that_is_out_of_reach(
    kind: str, to_parameters: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []
    check = Execution.check

    def counted(self: Execution, output: int, operand: int, *rest: Any, **options: Any) -> Executed:
        asked.append((output, operand))
        return check(self, output, operand, *rest, **options)

    monkeypatch.setattr(Execution, "check", counted)
    # A busy machine must not end the runs early.
    monkeypatch.setattr("hloscope.proof.execution.SECONDS", inf)
    root = program(kind).root
    answer = root.to_parameters(None) if to_parameters else root.indexing(None)
    found = answer.prove(by_execution=True)
    assert asked == [(k, k) for k in range(COUNT)]
    runs = {check.executed.runs for check in found.checks if check.executed is not None}
    assert len(runs) == 1
    assert min(runs) > 5
    assert "proof: out of reach; executed" in str(found)


@pytest.mark.slow
def test_what_is_out_of_reach_and_moves_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Reference, "reached", lambda self: frozenset())
    undecided = Check(Outcome.UNDECIDED, reason="left out")
    monkeypatch.setattr("hloscope.proof.prover._check_of", lambda *_: undecided)
    wrong = without(program("tuple").root.indexing(None), 7)
    (missed,) = wrong.prove(by_execution=True).answer.outputs[7].checked_untouched
    assert missed.number == 7
    assert missed.check is not None
    assert missed.check.is_refuted
    assert missed.check.executed is not None


def test_what_there_was_no_time_for_is_told() -> None:
    found = program("tuple").root.indexing(None)
    checked = found.prove(prover=Prover(by_execution=True, total=1e-9))
    assert not any(check.executed and check.executed.runs for check in checked.checks)
    together = checked.answer.outputs[0].proved_together
    assert together is not None
    assert "are over" in str(together[0].executed)


def without(found: Indexing, number: int) -> Indexing:
    """The answer with an output that reads nothing."""
    output = found.answer.outputs[number]
    operands = output.operands
    nothing: dict[int, OperandAnswer] = {}
    wrong = replace(output, operands=type(operands)(operands._values, range(COUNT), nothing))  # type: ignore[attr-defined, call-arg]
    outputs = [*found.answer.outputs[:number], wrong, *found.answer.outputs[number + 1 :]]
    return Indexing(replace(found.answer, outputs=outputs))


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("kind", ["tuple", "fusion"])
def test_what_is_reached_and_left_out_is_refuted(kind: str) -> None:
    checked = without(program(kind).root.indexing(None), 7).prove()
    (missed,) = checked.answer.outputs[7].checked_untouched
    assert missed.number == 7
    assert missed.check is not None
    assert missed.check.is_refuted


@pytest.mark.slow
@pytest.mark.parametrize("to_parameters", [False, True])
def test_one_process_of_isl_answers_for_many_outputs(
    to_parameters: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    start = Isolated._start
    monkeypatch.setattr(Isolated, "_start", lambda self: started.append(self) or start(self))
    root = program("fusion").root
    found = root.to_parameters(None) if to_parameters else root.indexing(None)
    checks = found.prove(prover=Prover(total=inf)).checks
    assert {check.by[0] for check in checks if check.by} == {"isl", "out of reach"}
    assert 0 < len(started) <= COUNT // TOGETHER + 1
