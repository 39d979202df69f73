"""The model of kernels against kernels that were executed: launches, and each array's traffic."""

from __future__ import annotations

import pytest

from tests.memory.gpu_truth import PATH, STATED, compared, table

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PATH.exists(), reason="needs the executed kernels beside the checkout (../shared)"
    ),
]
SHARE = 0.97
"""Of kernels and of arrays, at least."""


@pytest.mark.timeout(300)
def test_launch_dimensions_are_those_of_xla() -> None:
    wrong = [f"{one.program} {one.kernel}: {one.launch}" for one in compared() if one.launch]
    assert not wrong


@pytest.mark.timeout(300)
def test_each_array_moves_what_was_executed_or_the_reason_is_stated() -> None:
    wrong = {(one.program, one.kernel) for one in compared() if one.others}
    assert wrong == set(STATED), table()


@pytest.mark.timeout(300)
def test_nearly_all_kernels_and_arrays_agree() -> None:
    every = compared()
    right = [one for one in every if not one.others]
    arrays = sum([one.equal + one.bounded for one in every])
    others = sum([len(one.others) for one in every])
    assert len(right) >= SHARE * len(every), table()
    assert arrays >= SHARE * (arrays + others), table()
    assert sum([one.bounded for one in every]) < (arrays + others) / 20  # bounds are no way out
