"""Comparison of maps with reference relations: which side has a pair that the other lacks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from msgspec.structs import replace

import hloscope
from hloscope.affine import Dim, Interval
from hloscope.indexing import Access, Accesses, IndexingMap, Precision
from hloscope.proof.reference import Order, Question, Reference
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


GATHERS = """
f { p = f32[4,6]{0,1} parameter(0)
  a = f32[8,6]{0,1} all-gather(p), replica_groups={{0,1}}, dimensions={0}
  ROOT b = f32[8,18]{0,1} all-gather(a), replica_groups={{0,1,2}}, dimensions={1} }
ENTRY e { p = f32[4,6]{0,1} parameter(0)
  ROOT r = f32[8,18]{0,1} fusion(p), kind=kLoop, calls=f }"""
LAID_OUT = """ENTRY e { p = f32[6,4]{0,1} parameter(0)
  ROOT r = f32[4,6]{1,0:T(2,4)} transpose(p), dimensions={1,0} }"""


def question(
    text: str,
    change: Callable[[Accesses], Accesses] = tuple,
    order: Order = "logical",
    inverse: bool = False,
) -> Question:
    """The maps from the root of a program to its operand 0, or back, after a change."""
    view = hloscope.read(text).root
    truth = Reference(StepsThroughBodies(), view.ir, 0, None, view.ir.operands, 0, BUDGET)
    ask = partial(view.indexing_from, 0) if inverse else view.indexing
    found = ask(physical=order == "physical", linear=order == "linear")
    return Question(truth, 0, 0, change(found.operands[0].accesses), order, inverse=inverse)


def shifted(accesses: Accesses) -> Accesses:
    """The maps with one more than the first index of the first one."""
    first, *others = accesses
    assert first.map is not None
    results = [first.map.results[0] + 1, *first.map.results[1:]]
    return (replace(first, map=first.map.with_(results=results)), *others)


@pytest.mark.parametrize("order", ["logical", "physical", "linear"])
@pytest.mark.parametrize("inverse", [False, True])
def test_maps_are_right_in_every_order_and_direction_and_others_are_not(
    order: Order, inverse: bool
) -> None:
    for name, text in (("turned", TURNED), ("slices", SLICES), ("laid out", LAID_OUT)):
        right = question(text, order=order, inverse=inverse)
        assert right.by_isl() is None, name
        found = right.at_points()
        assert (found.example, found.is_whole) == (None, not inverse and text != SLICES), name
        wrong = question(text, shifted, order, inverse)
        assert wrong.by_isl() is not None, name
        assert wrong.at_points().example is not None, name


@pytest.mark.parametrize("inverse", [False, True])
def test_positions_in_groups_are_compared_with_the_elements(inverse: bool) -> None:
    right, wrong = question(GATHERS, inverse=inverse), question(GATHERS, shifted, inverse=inverse)
    assert (right.by_isl(), right.at_points().example) == (None, None)
    assert wrong.by_isl() is not None
    assert wrong.at_points().example is not None


def test_a_large_output_is_sampled_unless_all_elements_are_asked_for() -> None:
    asked = question("ENTRY e { p = f32[9000] parameter(0) ROOT r = f32[9000] negate(p) }")
    assert asked.at_points().to_json() == ["sampled 32, seed 0", False, None]
    assert asked.everywhere_json() == ["enumerated 9000", True, None]


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
    fewer = RIGHT.add_constraint(Dim(0), Interval(0, 2))
    means, is_whole, (dims, results, only_in) = question(
        TURNED, lambda _: (Access(fewer),)
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
