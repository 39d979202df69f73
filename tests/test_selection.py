"""The quick run guards every package, and the choice of its tests is stable."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.selection import MOST_EXAMPLES, draw_few_examples, quick, spread

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(path.parent.name for path in (ROOT / "hloscope").glob("*/__init__.py"))
FOLDERS = sorted(path.parent.name for path in (ROOT / "tests").glob("*/__init__.py"))


def functions(items: list[pytest.Item]) -> Counter[tuple[str, str]]:
    """How many test functions and docstrings are in each folder of `tests` and `hloscope`."""
    names = {item.nodeid.partition("[")[0] for item in items}
    return Counter((name.split("/")[0], name.split("/")[1]) for name in names)


@pytest.fixture(scope="module")
def collected(request: pytest.FixtureRequest) -> Counter[tuple[str, str]]:
    """All tests that were collected; skips where only some were asked for."""
    found = functions(request.session.items)
    if not all(found["tests", folder] for folder in FOLDERS) or not found["hloscope", "ir"]:
        pytest.skip("needs the whole suite to be collected")
    return found


@pytest.fixture(scope="module")
def guarding(request: pytest.FixtureRequest) -> Counter[tuple[str, str]]:
    """The tests of the quick run."""
    return functions(quick(request.session.items))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_has_tests_in_the_quick_run(
    package: str, collected: Counter[tuple[str, str]], guarding: Counter[tuple[str, str]]
) -> None:
    assert guarding["tests", package] + guarding["hloscope", package] > 0
    if package in FOLDERS:
        assert guarding["tests", package] >= collected["tests", package] / 2


@pytest.mark.parametrize("keep", [0, 1, 3, 100])
def test_a_spread_has_as_many_names_whatever_their_order(keep: int) -> None:
    names = [f"test[{n}-{language}]" for n in range(20) for language in ("hlo", "mlir")]
    kept = spread(names, keep)
    assert len(kept) == min(keep, len(names))
    assert kept <= set(names)
    assert kept == spread(names[::-1], keep)


def test_a_name_that_is_added_changes_at_most_one_of_a_spread() -> None:
    names = [f"test[{n}]" for n in range(50)]
    before = spread(names[:-1], 5)
    after = spread(names, 5)
    assert len(before - after) <= 1


def test_a_spread_favors_no_value_of_a_parameter() -> None:
    kept = spread([f"test[{n}-{kind}]" for n in range(50) for kind in ("hlo", "mlir")], 20)
    assert 4 < sum("hlo" in name for name in kept) < 16


@pytest.mark.parametrize("stated", [3, 300])
def test_the_quick_run_draws_few_examples_whatever_a_test_states(stated: int) -> None:
    drawn = []

    @settings(max_examples=stated)
    @given(st.integers())
    def law(number: int) -> None:
        drawn.append(number)

    draw_few_examples(law)
    law()
    assert len(drawn) == min(stated, MOST_EXAMPLES)
