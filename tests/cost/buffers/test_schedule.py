"""The order of a program, moments of values, and what has none."""

from __future__ import annotations

import pytest

from hloscope.cost.buffers import NoMomentsError, ProgramMemory, schedule_of
from hloscope.hlo_parser import parse_hlo
from tests.cost.buffers.programs import buffer_with, memory_of, scheduled
from tests.cost.buffers.test_dataflow import ADD, BRANCHES, CHOICE, loop

CALLED = """f { a = f32[8]{0} parameter(0) ROOT n = f32[8]{0} negate(a) }
g { b = f32[8]{0} parameter(0) ROOT m = f32[8]{0} call(b), to_apply=f }"""


def order(text: str) -> str:
    return " ".join(ins.name for ins in schedule_of(parse_hlo(text)).instructions)


def test_what_is_called_comes_before_the_call() -> None:
    body = "p = f32[8]{0} parameter(0)\nROOT c = f32[8]{0} call(p), to_apply=g"
    assert order(scheduled(body, before=CALLED)) == "p b a n m c"


def test_the_condition_of_a_loop_comes_before_its_body() -> None:
    assert order(loop("x, y")) == "p q z t0 t i n c u j x y one k r w"


def test_branches_come_in_order() -> None:
    before = BRANCHES.format(first="negate", second="sine")
    assert order(scheduled(CHOICE, before=before)) == "p s a m b n c"


def test_a_short_asynchronous_form_has_places_for_what_it_wraps() -> None:
    body = (
        "p = f32[8]{0} parameter(0)\nn = f32[8]{0} parameter(1)\n"
        "s = ((f32[8]{0}, f32[8]{0}), (f32[4]{0}, f32[4]{0})) reduce-scatter-start(p, n),"
        " dimensions={0}, to_apply=add\n"
        "ROOT d = (f32[4]{0}, f32[4]{0}) reduce-scatter-done(s)"
    )
    assert order(scheduled(body, before=ADD)) == ("p n s parameter 0 s parameter 1 s wrapped s d")


def test_what_runs_asynchronously_lives_until_it_is_done() -> None:
    body = (
        "p = f32[8]{0} parameter(0)\n"
        "s = ((f32[8]{0}), f32[8]{0}, u32[]) async-start(p), calls=f\n"
        "m = f32[8]{0} sine(p)\nd = f32[8]{0} async-done(s)\nROOT r = f32[8]{0} add(d, m)"
    )
    before = "f { a = f32[8]{0} parameter(0) b = f32[8]{0} cosine(a) ROOT n = f32[8]{0} negate(b) }"
    memory = memory_of(scheduled(body, before=before))
    assert order(scheduled(body, before=before)) == "p a b n s m d r"
    assert buffer_with(memory, "b").intervals == ((2, 6),)
    assert buffer_with(memory, "n").intervals == ((3, 7),)


def test_computations_inside_an_instruction_have_no_places() -> None:
    body = "p = f32[8]{0} parameter(0)\nz = f32[] constant(0)\n"
    body += "ROOT r = f32[] reduce(p, z), dimensions={0}, to_apply=add"
    assert order(scheduled(body, before=ADD)) == "p z r"


def test_an_unscheduled_program_has_no_moments_but_sums() -> None:
    text = (
        "HloModule m\nENTRY e { p = f32[8]{0} parameter(0)\n"
        "n = f32[16]{0} concatenate(p, p), dimensions={0}\n"
        "ROOT t = (f32[16]{0}, f32[8]{0}) tuple(n, p) }"
    )
    memory = ProgramMemory(parse_hlo(text))
    assert "no schedule" in memory.reason
    assert (memory.sums.parameters, memory.sums.outputs) == (32, 96)
    assert [(ins.name, count) for _, ins, count in memory.sums.largest] == [("n", 64)]
    with pytest.raises(NoMomentsError, match="no schedule"):
        _ = memory.buffers


@pytest.mark.parametrize(
    ("body", "before", "says"),
    [
        (
            "p = f32[8]{0} parameter(0)\nc = f32[8]{0} call(p), to_apply=f\n"
            "ROOT d = f32[8]{0} call(c), to_apply=f",
            CALLED,
            "`f` is run by `c` and `d`",
        ),
        (
            "p = f32[8]{0} parameter(0)\ns = s32[] parameter(1)\n"
            "ROOT c = f32[8]{0} conditional(s, p, p), branch_computations={f, f}",
            CALLED,
            "`f` is run by `c` and `c`",
        ),
    ],
)
def test_a_computation_with_several_callers_has_no_moments(
    body: str, before: str, says: str
) -> None:
    memory = memory_of(scheduled(body, before=before))
    assert says in memory.reason
    assert memory.sums.parameters


def test_a_parameter_lives_until_the_end_unless_a_result_takes_its_memory() -> None:
    body = "p = f32[8]{0} parameter(0)\nn = f32[8]{0} negate(p)\n"
    body += "ROOT r = f32[8]{0} reverse(n), dimensions={0}"
    kept = memory_of(scheduled(body))
    donated = memory_of(scheduled(body, header=", input_output_alias={ {}: (0, {}, may-alias) }"))
    assert buffer_with(kept, "p").intervals == ((0, 3),)
    assert buffer_with(donated, "p").intervals == ((0, 1), (2, 3))
    assert (kept.lower, donated.lower) == (96, 64)
