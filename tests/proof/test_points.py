"""Rows of elements: which are different, and what only one side has."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hloscope.indexing import distinct_rows
from hloscope.proof.relations import first_difference

NEAR = st.integers(-2, 2)
FAR = st.sampled_from([-(1 << 62), -1, 0, (1 << 62) - 1])
"""Numbers so far apart that two columns of them do not fit into one integer."""
TABLES = st.integers(1, 4).flatmap(
    lambda columns: st.lists(st.tuples(*[st.one_of(NEAR, FAR)] * columns), min_size=1, max_size=12)
)


@given(TABLES)
def test_different_rows_are_told_in_order_however_far_apart_they_are(
    table: list[tuple[int, ...]],
) -> None:
    assert distinct_rows(np.array(table, np.int64)).tolist() == [[*row] for row in sorted({*table})]


@given(TABLES, st.data())
def test_a_row_that_one_side_has_alone_is_found_however_far_apart_rows_are(
    table: list[tuple[int, ...]], data: st.DataObject
) -> None:
    others = data.draw(st.lists(st.sampled_from(table), min_size=1))
    found = first_difference({(): np.array(table)}, {(): np.array(others)})
    missing = {*table} - {*others}
    assert found in missing if missing else found is None


@pytest.mark.parametrize("step", [1, 1 << 62])
def test_many_rows_are_compared_column_by_column(step: int) -> None:
    rows = np.stack([np.arange(1 << 16) % 7, np.arange(1 << 16) // 7], axis=1)
    rows[:, 0] = np.where(rows[:, 0] == 3, -step, rows[:, 0])
    assert len(distinct_rows(rows)) == len(rows)
    assert first_difference({(): rows}, {(): rows[::-1]}) is None
    assert first_difference({(): rows}, {(): rows[1:]}) == tuple(rows[0])
