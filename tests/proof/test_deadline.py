"""Runs, and the making of what is run, look at the clock; here it goes on by each look."""

from __future__ import annotations

from itertools import count

import pytest
from click.testing import CliRunner

import hloscope
from hloscope.cli.app import app
from hloscope.interpreter import World, evaluate
from hloscope.proof import Execution
from hloscope.proof.allowance import Deadline, TimeOverError
from hloscope.proof.elements import Touched
from hloscope.proof.execution import Evidence
from hloscope.proof.instance import instance_of
from hloscope.proof.sizes import MAX_SIZES, ShrinkError, choose

LOOP = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
cond { x = f32[4,4] parameter(0) ROOT c = pred[] constant(true) }
body { x = f32[4,4] parameter(0) ROOT r = f32[4,4] STEP }
ENTRY e { p = f32[4,4] parameter(0) ROOT w = f32[4,4] while(p), condition=cond, body=body }"""
STEPS = {
    "on one device": "negate(x)",
    "on several": "all-reduce(x), replica_groups={{0,1}}, to_apply=add",
}


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The clock goes on by a hundredth of a second whenever somebody looks; how often that was."""
    looks, numbers = [0], count()

    def now() -> float:
        looks[0] = next(numbers)
        return looks[0] / 100

    monkeypatch.setattr("hloscope.proof.allowance.process_time", now)
    return looks


@pytest.mark.parametrize("name", STEPS)
def test_a_loop_without_end_ends_with_the_time(name: str, ticks: list[int]) -> None:
    entry = hloscope.read(LOOP.replace("STEP", STEPS[name])).module.entry
    execution = Execution(entry.root, entry, seconds=0.5)
    assert execution.evidence is not None
    assert execution.evidence.runner.count <= 2
    assert "for running it are over" in execution.check(0, 0, 0).reason
    assert ticks[0] < 200


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_with_more_time_it_ends_with_the_steps(name: str) -> None:
    entry = hloscope.read(LOOP.replace("STEP", STEPS[name])).module.entry
    execution = Execution(entry.root, entry, seconds=1e9)
    assert "20,000 steps" in execution.check(0, 0, 0).reason or execution.evidence is None


def test_making_an_instance_ends_with_the_time(ticks: list[int]) -> None:
    lines = [f"s{k} = f32[{900 - k}] slice(s{k - 1}), slice={{[1:{901 - k}]}}"
             for k in range(1, 150)]  # fmt: skip
    text = (
        f"ENTRY e {{ s0 = f32[900] parameter(0) {' '.join(lines)} ROOT r = f32[751] copy(s149) }}"
    )
    entry = hloscope.read(text).module.entry
    with pytest.raises(TimeOverError):
        instance_of(entry.root, entry, Deadline(0.5))
    assert Execution(entry.root, entry, seconds=0.5).reason.endswith("for running it are over")


def test_more_different_sizes_than_are_chosen_are_refused() -> None:
    with pytest.raises(ShrinkError, match="different sizes"):
        choose([(n,) for n in range(2, MAX_SIZES + 4)], [], 80)


def test_steps_are_told_often_enough_for_slow_ones() -> None:
    told: list[int] = []
    module = hloscope.read(LOOP.replace("STEP", "negate(x)")).module
    with pytest.raises(hloscope.HloscopeError):
        evaluate(module, [[[1.0] * 4] * 4], World(max_steps=1000, on_step=told.append))
    assert len(told) > 10


def test_a_wrong_program_is_refused_before_anything_is_answered() -> None:
    text = """ENTRY e { p = f32[4] parameter(0) a = f32[4] negate(p)
      ROOT r = f32[9] slice(a), slice={[0:4]} }"""
    result = CliRunner().invoke(app, ["index", "-", "--all", "--verify"], text)
    assert result.exit_code == 3
    assert not result.stdout


class Looks(Deadline):
    """A time that is over after so many looks."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    def check(self, _: int = 0) -> None:
        self.looks -= 1
        if self.looks < 0:
            raise TimeOverError("the 0 s for running it are over")


def test_a_table_of_what_is_touched_ends_with_the_time() -> None:
    lines = [f"s{k} = f32[8] slice(p), slice={{[{k}:{k + 8}]}}" for k in range(3)]
    adds = "a = f32[8] add(s0, s1) ROOT r = f32[8] add(a, s2)"
    text = f"ENTRY e {{ p = f32[16] parameter(0) {' '.join(lines)} {adds} }}"
    entry = hloscope.read(text).module.entry
    all_of_it = Execution(entry.root, entry).evidence
    assert all_of_it is not None
    of = all_of_it.instance, all_of_it.elements, all_of_it.claims
    with pytest.raises(TimeOverError):
        Touched(*of, Looks(0)).relation(all_of_it.runs[0].base)
    ends = [Evidence(of[0], of[2], deadline=Looks(looks)) for looks in range(20)]
    assert not ends[0].runs
    assert all("are over" in e.failures[0] for e in ends if len(e.runs) < len(all_of_it.runs))
