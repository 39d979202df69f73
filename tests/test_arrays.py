"""Numbers of arrays, sorted and looked up, are numpy's own; large sets take no hash table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hloscope.indexing import IndexingMap
from hloscope.indexing.evaluate import subset
from hloscope.simplifier import PROVED
from hloscope.support.arrays import is_among, sorted_unique

numbers = st.lists(st.integers(-4, 4) | st.integers(-(2**63), 2**63 - 1), max_size=20)


@given(numbers)
def test_every_number_is_kept_once_in_order(values: list[int]) -> None:
    array = np.array(values, np.int64)
    for given_ in (array, np.sort(array)):
        assert sorted_unique(given_).tolist() == sorted(set(values))


@given(numbers, numbers)
def test_numbers_are_found_among_others_in_any_order(values: list[int], others: list[int]) -> None:
    found = is_among(np.array(values, np.int64), np.array(others, np.int64))
    assert found.tolist() == [value in others for value in values]


def test_tables_of_pairs_far_apart_are_compared_without_hashing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hashed(*_: object, **__: object) -> None:
        raise AssertionError("a hash table of pairs: a hundred times as slow as sorting")

    monkeypatch.setattr(np, "isin", hashed)
    monkeypatch.setattr(np, "unique", hashed)
    results = ", ".join(f"d0 floordiv {k} * 65537 + d0 mod {k}" for k in (2, 3, 5))
    one, other = (
        IndexingMap.parse(f"(d0) -> ({results} + {more}), domain: d0 in [0, 4999]")
        for more in ("0", "d0 floordiv 4999 * 7")
    )
    assert subset([one], [one], both=True) == PROVED
    refuted = subset([one], [other])
    assert refuted is not None
    assert refuted.counter_example is not None
    assert refuted.counter_example.dims == (4999,)
