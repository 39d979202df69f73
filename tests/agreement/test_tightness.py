"""Answers about loops, scatters and select-and-scatters: none too small, exact where proved."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.agreement.tightness import MAKERS, Case, answers, sweep


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("op", MAKERS)
def test_nothing_that_is_seen_is_left_out(op: str, full: bool) -> None:
    found = Counter(answer.verdict for answer in sweep(op, 200 if full else 8, seed=1))
    assert found["wrong"] == found["unknown"] == 0
    assert found["exact"] > 2 * found["tight"]


BODY = "f {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] {} }}\n"
ROW = """ENTRY e {{ p = f32[{whole}] parameter(0) u = f32[{part}] parameter(1)
  i = {index} parameter(2)
  ROOT r = f32[{whole}] scatter(p, i, u), update_window_dims={{{window}}},
    inserted_window_dims={{{gone}}}, scatter_dims_to_operand_dims={{{to}}}, index_vector_dim=1,
    to_apply=f }}"""
ROWS = {
    "an element": {"whole": "4", "part": "1", "index": "s32[1,1]", "window": "", "gone": "0",
                   "to": "0"},
    "a window": {"whole": "5", "part": "1,2", "index": "s32[1,1]", "window": "1", "gone": "",
                 "to": "0"},
    "an unsigned index": {"whole": "3", "part": "1,2", "index": "u8[1,1]", "window": "1",
                          "gone": "", "to": "0"},
    "a box": {"whole": "3,4", "part": "1,2,3", "index": "s32[1,2]", "window": "1,2", "gone": "",
              "to": "0,1"},
    "a row": {"whole": "3,2", "part": "1,2", "index": "s32[1,1]", "window": "1", "gone": "0",
              "to": "0"},
}  # fmt: skip


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("body", ["copy(b)", "negate(b)", "constant(7)"])
@pytest.mark.parametrize("name", ROWS)
def test_what_one_row_overwrites_is_left_out_exactly(name: str, body: str) -> None:
    case = Case(BODY.format(body) + ROW.format(**ROWS[name]), name, (2,))
    found = [answer.verdict for answer in answers(case, Random(name + body))]
    assert found == ["exact"] * 2
