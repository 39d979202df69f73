"""What 689 real fusions read when they were executed: which elements, how often, and by whom.

Integers were not traced, so that their parameters are left out where shares are counted.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import pytest

from hloscope.hlo_parser import parse_hlo
from tests.conftest import needs_shared
from tests.fusion.test_truth import MORE, backward, forward, fusions, name
from tests.fusion.truth import Point, Values
from tests.proof.counting import Counts

pytestmark = needs_shared

TRACED: Final = "fbc"
"""First letters of the element types whose elements were traced."""


def sample(full: bool) -> tuple[dict[str, Any], ...]:
    """All fusions, or every eighth and those that are not equal."""
    return tuple(f for i, f in enumerate(fusions()) if full or i % 8 == 0 or name(f) in MORE)


@pytest.mark.slow
@pytest.mark.parametrize("direction", [backward, forward])
def test_all_that_is_read_is_claimed_and_nearly_nothing_else(direction: Any, full: bool) -> None:
    verdicts: Counter[str] = Counter()
    others = set()
    for fusion in sample(full):
        for verdict, where in direction(fusion):
            verdicts[verdict] += 1
            if verdict != "equal":
                others.add(where.split()[0])
    print(f"{direction.__name__}: {dict(verdicts)}; not equal: {sorted(others)}")
    assert not verdicts["missing"]
    assert not verdicts["unknown"]
    assert verdicts["equal"] >= 0.99 * verdicts.total()
    assert others <= MORE


@pytest.mark.slow
def test_elements_are_read_as_often_as_they_were(full: bool) -> None:
    verdicts: Counter[str] = Counter()
    others = set()
    for fusion in sample(full):
        entry = parse_hlo(fusion["hlo"]).entry
        counts = Counts(entry, Values(fusion.get("int_values") or {}))
        for query in fusion["queries"]:
            found = counts.of(query["output"], tuple(query["index"]))
            for k, (element, _) in enumerate(fusion["params"]):
                places, reads = (query[key].get(str(k), []) for key in ("inputs", "reads"))
                if element[0] not in TRACED or len(places) != len(reads):
                    verdicts["not told"] += 1
                elif found.get(k, {}) == how_often(places, reads):
                    verdicts["equal"] += 1
                else:
                    verdicts["different"] += 1
                    others.add(name(fusion))
    print(f"read counts: {dict(verdicts)}; different: {sorted(others)}")
    assert others <= MORE
    assert verdicts["equal"] > (4500 if full else 500)
    assert verdicts["equal"] >= 0.99 * (verdicts["equal"] + verdicts["different"])


def how_often(places: list[list[int]], reads: list[int]) -> dict[Point, int]:
    return {tuple(place): n for place, n in zip(places, reads, strict=True)}
