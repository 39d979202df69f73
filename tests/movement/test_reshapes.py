"""Reshapes fall apart into the smallest ones, as XLA's own tests have it and as the laws say."""

from __future__ import annotations

import json
from math import prod
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hloscope.movement import ReshapeCategory, minimal_reshapes
from tests.conftest import SHARED

FILE = SHARED / "conformance/xla/reshape_analysis_test.json"
UPSTREAM = json.loads(FILE.read_text())["cases"] if FILE.exists() else []

CASES = [
    ((), (), ""),
    ((), (1, 1), "IncreaseRank"),
    ((1,), (), "DecreaseRank"),
    ((1,), (1,), "Identity"),
    ((6, 1, 4), (6, 1, 4), "Identity Identity Identity"),
    ((6, 4), (6, 4, 1), "Identity IncreaseRank"),
    ((1, 6, 4), (6, 4), "DecreaseRank Identity"),
    ((6, 4), (2, 3, 2, 2), "ExpandShape ExpandShape"),
    ((2, 3, 2, 2), (6, 4), "CollapseShape CollapseShape"),
    ((2, 3, 4), (4, 3, 2), "Generic"),
    ((8, 5, 4), (2, 4, 20), "ExpandShape CollapseShape"),
    ((0, 4), (0, 4), "Identity Identity"),
    ((0, 4), (0, 1, 4), "IncreaseRank"),
    ((4, 0), (4, 7, 0), "Generic"),
    ((0,), (3, 0, 5), "ExpandShape"),
    ((3, 0, 5), (0,), "CollapseShape"),
    ((1 << 40, 1 << 40), (1 << 20, 1 << 60), "Generic"),
]
"""Sizes before, sizes after, categories."""


@pytest.mark.parametrize("case", UPSTREAM, ids=lambda case: case["test"])
def test_groups_are_those_of_xla(case: dict[str, Any]) -> None:
    found = [
        {
            "input": [group.source.start, len(group.source)],
            "output": [group.target.start, len(group.target)],
            "category": group.category.value,
        }
        for group in minimal_reshapes(case["input"]["from"], case["input"]["to"])
    ]
    assert found == case["expected"]["reshapes"]


@pytest.mark.parametrize(("here", "there", "categories"), CASES)
def test_categories(here: tuple[int, ...], there: tuple[int, ...], categories: str) -> None:
    assert " ".join(group.category for group in minimal_reshapes(here, there)) == categories


@st.composite
def pairs(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes of the same number of elements: the same factors, cut differently, and some 1s."""
    factors = draw(st.lists(st.sampled_from([1, 2, 3, 5, 0]), max_size=8))

    def cut() -> tuple[int, ...]:
        sizes = [1]
        for factor in factors:
            if draw(st.booleans()):
                sizes.append(factor)
            else:
                sizes[-1] *= factor
        return tuple(sizes[draw(st.integers(0, sizes[0] == 1)) :])

    return cut(), cut()


@given(pairs())
def test_every_dimension_is_in_one_group_that_keeps_its_elements(
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    here, there = shapes
    groups = minimal_reshapes(here, there)
    assert [k for group in groups for k in group.source] == [*range(len(here))]
    assert [k for group in groups for k in group.target] == [*range(len(there))]
    for group in groups:
        before = [here[k] for k in group.source]
        after = [there[k] for k in group.target]
        assert prod(before) == prod(after)
        real = [[s for s in sizes if s != 1] for sizes in (before, after)]
        ranks = {
            ReshapeCategory.IDENTITY: len(before) == len(after),
            ReshapeCategory.INCREASE_RANK: len(before) < len(after),
            ReshapeCategory.DECREASE_RANK: len(before) > len(after),
        }
        assert (real[0] == real[1]) == (group.category in ranks)
        assert ranks.get(group.category, True)
        assert (group.category is ReshapeCategory.GENERIC) == (
            real[0] != real[1] and min(map(len, real)) != 1
        )


@given(pairs())
def test_no_group_falls_apart(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    here, there = shapes
    for group in minimal_reshapes(here, there) if 0 not in here else ():
        before = {prod(here[group.source.start : k]) for k in group.source[1:]}
        after = {prod(there[group.target.start : k]) for k in group.target[1:]}
        whole = prod(here[k] for k in group.source)
        assert not before & after - {1, whole}


@given(pairs())
def test_the_other_way_has_the_same_groups_where_no_size_is_1(
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    here, there = (tuple(size for size in shape if size != 1) for shape in shapes)
    back = {(group.target, group.source) for group in minimal_reshapes(there, here)}
    assert back == {(group.source, group.target) for group in minimal_reshapes(here, there)}


@pytest.mark.parametrize(
    ("here", "there", "said"),
    [((2, 3), (5,), "6 elements"), ((0,), (1,), "0 elements"), ((-2, -3), (6,), "size -2")],
)
def test_what_is_no_reshape_is_refused(
    here: tuple[int, ...], there: tuple[int, ...], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        minimal_reshapes(here, there)
