"""The memory of two programs compared: rows, their order, their words, and their sum."""

from __future__ import annotations

import pytest

from hloscope.cost.buffers import NoMomentsError
from hloscope.display import plain_op_name
from tests.cost.buffers.programs import answer_of, scheduled
from tests.cost.buffers.test_answers import ADD, TRAIN, at


def rows(before: str, after: str) -> list[str]:
    found = answer_of(before).difference(answer_of(after))
    assert sum(change.bytes for change in found.changes) == found.bytes
    assert found.bytes == answer_of(after).estimate - answer_of(before).estimate
    return found.lines()


def test_a_program_has_the_buffers_that_it_has() -> None:
    assert rows(TRAIN, TRAIN)[1:] == ["XLA holds the same buffers for both"]


def test_buffers_that_appear_are_counted_with_their_line() -> None:
    h3 = f"h3 = f32[256,1024]{{1,0}} tanh(h2), {at(3, 'jvp()/tanh')}\n"
    after = TRAIN.replace("c1 = ", h3 + "c1 = ").replace("multiply(d2, h1)", "multiply(d2, h3)")
    after = after.replace("d1 = ", "d0 = f32[256,1024]{1,0} multiply(d2, h1)\nROOT d1 = ", 1)
    after = after.replace("ROOT ROOT", "ROOT").replace("ROOT d0", "d0")
    found = rows(TRAIN, after)
    assert found[0] == (
        "XLA holds about 7.001 MiB → 8.001 MiB (+1 MiB); at least 7.001 MiB → 8.001 MiB live at "
        "once"
    )
    assert found[1] == "+1 MiB m.py:3 jvp()/tanh, 1 buffer → 2"


def test_buffers_that_live_longer_are_told_with_their_moments() -> None:
    before = TRAIN.replace("multiply(d2, h1)", "multiply(d2, d2)")
    found = rows(before, TRAIN)
    assert found[1] == "+1 MiB m.py:3 jvp()/tanh, the same 2 buffers, now live 1..8 instead of 1..7"


def test_a_row_of_another_line_is_found_by_its_op() -> None:
    after = TRAIN.replace("jit(f)/", "jit(g)/").replace("source_line=4", "source_line=7")
    after = after.replace("f32[256,4096]", "f32[256,2048]").replace("(h2, h2, h2, h2)", "(h2, h2)")
    assert rows(TRAIN, after)[1] == "-2 MiB m.py:4 jvp()/concat, 1 buffer, 4 MiB → 2 MiB"


def test_a_donation_takes_an_output_away() -> None:
    body = (
        "p = f32[1024]{0} parameter(0)\nn = f32[1024]{0} reverse(p), dimensions={0}\n"
        f"ROOT r = f32[1024]{{0}} reverse(n), dimensions={{0}}, {at(9, 'rev')}"
    )
    header = ", input_output_alias={ {}: (0, {}, may-alias) }"
    found = rows(scheduled(body), scheduled(body, header=header))
    assert found[1] == "-4 KiB m.py:9 rev, 1 buffer that the second program does not have"


def test_values_without_an_origin_are_matched_by_kind_and_type() -> None:
    body = (
        "p = f32[1024]{{0}} parameter(0)\nn = f32[1024]{{0}} reverse(p), dimensions={{0}}\n"
        "{more}z = f32[] constant(0)\n"
        "ROOT r = f32[] reduce({last}, z), dimensions={{0}}, to_apply=add"
    )
    more = "m = f32[1024]{0} reverse(n), dimensions={0}\n"
    found = rows(
        scheduled(body.format(more="", last="n"), before=ADD),
        scheduled(body.format(more=more, last="m"), before=ADD),
    )
    assert found[1] == "+4 KiB f32[1024]{0}, 1 buffer → 2"


def test_rows_that_are_left_out_are_summed() -> None:
    found = answer_of(TRAIN).difference(answer_of(TRAIN.replace("256", "512")))
    assert len(found.lines(1)) == 3
    assert found.lines(1)[-1].endswith("more rows")


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("jit(f)/jvp()/mul", "jvp()/mul"),
        ("jit(f)/transpose(jvp(checkpoint))/rematted_computation/mul", "transpose(jvp())/mul"),
        ("mul", "mul"),
        ("", ""),
    ],
)
def test_names_are_compared_without_function_and_rematerialisation(text: str, plain: str) -> None:
    assert plain_op_name(text) == plain


def test_a_program_without_moments_is_not_compared() -> None:
    text = TRAIN.replace(", is_scheduled=true", "")
    with pytest.raises(NoMomentsError, match="no moments to compare"):
        answer_of(TRAIN).difference(answer_of(text))
