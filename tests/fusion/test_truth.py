"""Real fusions against what they read when they were executed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

import pytest

from hloscope.fusion import Analysis
from hloscope.hlo_parser import parse_hlo
from hloscope.indexing import Access, Precision
from tests.conftest import SHARED, needs_shared
from tests.fusion.truth import Point, Values

pytestmark = needs_shared

MORE: Final[set[str]] = set()
"""Fusions whose exact maps touch more than execution showed, and why that is right."""


@cache
def fusions() -> tuple[dict[str, Any], ...]:
    path = SHARED / "real/fusion_truth.jsonl"
    return tuple(json.loads(line) for line in path.read_text().splitlines())


def name(fusion: dict[str, Any]) -> str:
    return f"{fusion['program']}{fusion['form']}/{fusion['fusion']}"


def compare(
    found: Iterable[Access], at: Point, values: Values, seen: Iterable[list[int]], is_traced: bool
) -> str:
    """`equal`, `over` or `missing`; integers were not traced, so that more may be touched."""
    accesses = tuple(found)
    if any(access.map is None for access in accesses):
        return "unknown"
    points, wanted = values.points(accesses, at), {tuple(index) for index in seen}
    if not wanted <= points:
        return "missing"
    return "equal" if points == wanted or not is_traced else "over"


def backward(fusion: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What every query from an output says of each parameter."""
    entry = parse_hlo(fusion["hlo"]).entry
    analysis, values = Analysis(), Values(fusion.get("int_values") or {})
    for query in fusion["queries"]:
        flows = analysis.summary(entry, query["output"])
        for k, (element, _) in enumerate(fusion["params"]):
            accesses = [a for flow in flows if flow.operand == k for a in flow.accesses or ()]
            seen = query["inputs"].get(str(k), [])
            is_traced = element[0] in "fbc"
            verdict = compare(accesses, tuple(query["index"]), values, seen, is_traced)
            yield verdict, f"{name(fusion)} output {query['output']} parameter {k}"


def forward(fusion: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What every query from a parameter says of each output."""
    entry = parse_hlo(fusion["hlo"]).entry
    analysis, values = Analysis(), Values(fusion.get("int_values") or {})
    for query in fusion["forward"]:
        k = query["param"]
        flows = analysis.spread(entry, k, 0)
        is_traced = fusion["params"][k][0][0] in "fbc"
        for output in range(len(fusion["outputs"])):
            accesses = [a for flow in flows if flow.leaf == output for a in flow.accesses or ()]
            seen = query["outputs"].get(str(output), [])
            verdict = compare(accesses, tuple(query["index"]), values, seen, is_traced)
            yield verdict, f"{name(fusion)} parameter {k} output {output}"


@pytest.mark.slow
@pytest.mark.parametrize("direction", [backward, forward])
def test_execution_reads_what_the_maps_say(direction: Any) -> None:
    verdicts: Counter[str] = Counter()
    wrong = []
    for fusion in fusions():
        for verdict, where in direction(fusion):
            verdicts[verdict] += 1
            if verdict != "equal" and name(fusion) not in MORE:
                wrong.append(f"{verdict}: {where}")
    assert not wrong
    assert verdicts["equal"] > 2000


@pytest.mark.slow
def test_every_access_of_the_executed_fusions_is_claimed_exact() -> None:
    for fusion in fusions():
        entry = parse_hlo(fusion["hlo"]).entry
        for output in range(len(fusion["outputs"])):
            for flow in Analysis().summary(entry, output):
                for access in flow.accesses or ():
                    assert access.precision is Precision.EXACT, name(fusion)
