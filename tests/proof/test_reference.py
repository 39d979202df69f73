"""Comparison of maps with reference relations: which side has a pair that the other lacks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import hloscope
from hloscope.affine import Dim, Interval
from hloscope.indexing import Access, Accesses, IndexingMap, Precision
from hloscope.proof.reference import Question, Reference
from hloscope.proof.relations import StepsThroughBodies
from hloscope.simplifier import BUDGET, UndecidedError

TURNED = """
f { p = f32[6,4] parameter(0)
  a = f32[4,6] transpose(p), dimensions={1,0} b = f32[6,4] transpose(a), dimensions={1,0}
  c = f32[4,6] transpose(b), dimensions={1,0} ROOT r = f32[4,6] negate(c) }
ENTRY e { p = f32[6,4] parameter(0) ROOT r = f32[4,6] fusion(p), kind=kLoop, calls=f }"""
SLICES = """
f { p = f32[9] parameter(0) i = s32[] parameter(1) j = s32[] parameter(2)
  a = f32[3] dynamic-slice(p, i), dynamic_slice_sizes={3}
  b = f32[3] dynamic-slice(p, j), dynamic_slice_sizes={3} ROOT r = f32[3] add(a, b) }
ENTRY e { p = f32[9] parameter(0) i = s32[] parameter(1) j = s32[] parameter(2)
  ROOT r = f32[3] fusion(p, i, j), kind=kLoop, calls=f }"""


def question(text: str, change: Callable[[Accesses], Accesses] = tuple) -> Question:
    """The maps from the root of a program to its operand 0, after a change."""
    view = hloscope.read(text).root
    truth = Reference(StepsThroughBodies(), view.ir, 0, None, view.ir.operands, 0, BUDGET)
    accesses = view.indexing().operands[0].accesses
    return Question(truth, 0, 0, change(accesses), "logical", inverse=False)


RIGHT = IndexingMap.parse("(d0, d1) -> (d1, d0), domain: d0 in [0, 3], d1 in [0, 5]")
SMALLER = RIGHT.bounded([3, 6])
LARGER = IndexingMap.parse(
    "(d0, d1)[s0] -> (d1 + s0, d0), domain: d0 in [0, 3], d1 in [0, 5], s0 in [0, 1], "
    "d1 + s0 in [0, 5]"
)


@pytest.mark.parametrize(
    ("m", "precision", "only_in"),
    [
        (RIGHT, Precision.EXACT, None),
        (RIGHT, Precision.OVER, None),
        (SMALLER, Precision.EXACT, 1),
        (SMALLER, Precision.OVER, 1),
        (LARGER, Precision.EXACT, 0),
        (LARGER, Precision.OVER, None),
    ],
)
def test_an_example_says_which_side_has_it(
    m: IndexingMap, precision: Precision, only_in: int | None
) -> None:
    reason = "" if precision is Precision.EXACT else "said so"
    asked = question(TURNED, lambda _: (Access(m, precision, reason),))
    by_points = asked.at_points()
    assert (by_points.means, by_points.is_whole) == ("enumerated 24", True)
    for example in (asked.by_isl(), by_points.example):
        assert (None if example is None else example.only_in) == only_in
        if example is not None:
            row, column = example.dims
            assert (example.results == (column, row)) == (only_in == 1)
            assert (example.results in m.points(example.dims)) == (only_in == 0)


CHANGES: dict[str, tuple[Callable[[Accesses], Accesses], bool]] = {
    "none": (lambda maps: maps, True),
    "order": (lambda maps: maps[::-1], True),
    "all left out": (lambda maps: (), False),
    "one left out": (lambda maps: maps[:1], False),
    "the other left out": (lambda maps: maps[1:], False),
    "one twice": (lambda maps: maps[:1] * 2, False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_read_at_one_value_is_not_read_at_another(name: str) -> None:
    change, is_right = CHANGES[name]
    asked = question(SLICES, change)
    for example in (asked.by_isl(), asked.at_points().example):
        assert (example is None) == is_right
        assert example is None or example.only_in == 1


def test_a_result_tells_its_method_and_pair_as_json() -> None:
    assert question(TURNED).isl_json() == ["isl", True, None]
    assert question(TURNED).everywhere_json() == ["enumerated 24", True, None]
    shifted = RIGHT.add_constraint(Dim(0), Interval(0, 2))
    means, is_whole, (dims, results, only_in) = question(
        TURNED, lambda _: (Access(shifted),)
    ).isl_json()
    assert (means, is_whole, only_in) == ("isl", True, 1)
    assert (dims[0], results) == (3, dims[::-1])


def test_what_is_unknown_on_the_way_is_undecided() -> None:
    text = """
    f { p = f32[4] parameter(0)
      c = f32[4] custom-call(p), custom_call_target="f" ROOT r = f32[4] negate(c) }
    ENTRY e { p = f32[4] parameter(0) ROOT r = f32[4] fusion(p), kind=kLoop, calls=f }"""
    asked = question(text)
    for compare in (asked.by_isl, asked.at_points):
        with pytest.raises(UndecidedError, match="unknown on the way"):
            compare()
