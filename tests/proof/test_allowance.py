"""The time of all proofs together: what is not decided in it is undecided, and says why."""

from __future__ import annotations

import os

import pytest
from click.testing import CliRunner, Result

import hloscope
from hloscope.api.equality import FEW, SECONDS, SECONDS_EACH, prover_of
from hloscope.cli.app import app
from hloscope.proof import Outcome, Prover
from hloscope.proof.allowance import Allowance, cpu_seconds
from hloscope.proof.graph import Steps, Walker
from hloscope.proof.reference import ComparisonResult, Question, ReachabilityFollower, Reference
from hloscope.simplifier.isl_relations import UndecidedError


def chain(count: int) -> str:
    """A chain of slices of different sizes, none of which is like another."""
    lines = [f"  s{k} = f32[{2000 - k}] slice(s{k - 1}), slice={{[1:{2001 - k}]}}"
             for k in range(1, count)]  # fmt: skip
    last = (
        f"  ROOT s{count} = f32[{2000 - count}] slice(s{count - 1}), slice={{[1:{2001 - count}]}}"
    )
    return "\n".join(["ENTRY e {", "  s0 = f32[2000] parameter(0)", *lines, last, "}"])


def asked(*options: str, count: int = 3) -> Result:
    return CliRunner().invoke(app, ["index", "-", "--all", "--verify", *options], chain(count))


def test_no_time_is_undecided_and_names_the_option() -> None:
    result = asked("--seconds", "1e-9")
    assert result.exit_code == 0
    said = result.stderr.splitlines()
    assert said[-2:] == [
        "verified 3 operands: 3 undecided",
        "the 1e-09 s for all proofs are over; --seconds gives them more",
    ]
    assert asked("--seconds", "1e-9", "--strict").exit_code == 4
    assert asked("--seconds", "1e-9", "--by-execution").stderr.splitlines()[-2:] == said[-2:]


def test_much_time_is_not_spoken_of() -> None:
    result = asked("--seconds", "1000")
    assert result.exit_code == 0
    assert result.stderr.splitlines()[-1] == "verified 3 operands: 3 proved"


def test_the_time_grows_with_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def total(count: int, seconds: float | None = None) -> float:
        program = hloscope.read(chain(count))
        prover = prover_of(program, seconds, convention="structural", seed=0, by_execution=False)
        return prover.allowance.total

    assert total(3) == total(FEW - 1) == SECONDS
    assert total(FEW - 1 + 100) == pytest.approx(SECONDS + 100 * SECONDS_EACH)
    assert total(FEW - 1 + 100, 7.0) == 7.0
    monkeypatch.setattr("hloscope.api.equality.SECONDS_MOST", SECONDS + 1.0)
    assert total(FEW - 1 + 1000) == SECONDS + 1.0
    assert total(3, 100.0) == 100.0


def test_isl_has_no_more_than_what_is_left() -> None:
    allowance = Allowance(3.0, 24.0, 0.5)
    assert 0 < allowance.ready(allowance.first) <= 0.5
    spent = Allowance(3.0, 24.0, 1e-9)
    assert spent.is_spent
    assert spent.ready(spent.first) == 0.0


def test_processor_time_is_that_of_the_process_and_of_its_ended_children(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hloscope.proof.allowance.process_time", lambda: 1.0)
    times = os.times_result((64.0, 128.0, 2.0, 4.0, 256.0))  # own ones, the children's, the clock
    monkeypatch.setattr("hloscope.proof.allowance.os.times", lambda: times)
    assert cpu_seconds() == 7.0


def test_the_time_of_proofs_begins_with_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("hloscope.proof.allowance.cpu_seconds", lambda: now[0])
    allowance = Allowance(3.0, 24.0, 2.0)
    now[0] += 10.0  # maps are made
    assert allowance.left() == 2.0
    now[0] += 1.5
    assert allowance.left() == 0.5
    now[0] += 1.0
    assert allowance.is_spent


def test_without_a_total_nothing_is_left_out() -> None:
    program = hloscope.read(chain(3))
    prover = Prover()
    for view in program.entry:
        for check in view.indexing().prove(prover=prover).checks:
            assert check.outcome is Outcome.PROVED
    assert not prover.allowance.is_spent


@pytest.mark.slow
def test_looking_at_all_elements_is_stopped_when_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_points = Question.at_points

    def endless(self: Question, *, everywhere: bool = False) -> ComparisonResult:
        while everywhere:
            pass
        return at_points(self)

    def undecided(_: Question) -> None:
        raise UndecidedError("left out")

    monkeypatch.setattr(Question, "at_points", endless)
    monkeypatch.setattr(Question, "by_isl", undecided)
    program = hloscope.read(chain(1))
    prover = Prover(total=0.5)
    check = program.root.indexing().prove(prover=prover).checks[0]
    assert check.outcome is Outcome.SAMPLED


def test_a_walk_that_takes_too_long_is_not_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hloscope.proof.graph.MAX_STEPS", 5)
    begun: list[object] = []
    walk = Reference.walk
    monkeypatch.setattr(
        Reference, "walk", lambda self, *rest: begun.append(rest) or walk(self, *rest)
    )
    program = hloscope.read(chain(10))
    (check,) = program.root.to_parameters().prove().checks
    assert str(check) == "undecided: the walk takes more than 5 steps"
    assert len(begun) == 1


def test_a_walk_has_no_more_time_than_all_proofs() -> None:
    program = hloscope.read(chain(3))
    walker: Walker[bool] = Walker(Steps(), ReachabilityFollower(), 0.0)
    with pytest.raises(UndecidedError, match="the walk takes more than 0 s"):
        walker.parameters(program.root.ir, 0, True, program.entry.ir)


def test_seconds_are_those_of_proofs() -> None:
    result = CliRunner().invoke(app, ["index", "-", "--seconds", "3"], chain(3))
    assert result.exit_code == 2
    assert "--verify" in result.stderr


def test_the_clock_is_not_asked_once_all_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    allowance = Allowance(1.0, total=1e-9)
    while not allowance.is_spent:
        pass

    def asked() -> float:
        raise AssertionError("the clock was asked")

    monkeypatch.setattr("hloscope.proof.allowance.cpu_seconds", asked)
    assert (allowance.left(), allowance.is_spent, allowance.ready(allowance.first)) == (0, True, 0)
