"""`index --at` without a picture: the elements that are read, as boxes with true counts."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest

from hloscope.display.parts import Box, box_text, boxes_of
from hloscope.display.reads import touched, touched_of
from hloscope.indexing import Access, IndexingMap


def inside(boxes: tuple[Box, ...]) -> list[tuple[int, ...]]:
    return [point for box in boxes for point in product(*box)]


@pytest.mark.parametrize("seed", range(40))
def test_boxes_hold_the_points_and_no_others(seed: int) -> None:
    random = Random(seed)
    rank = random.randrange(4)
    sizes = [random.randrange(1, 7) for _ in range(rank)]
    points = {p for p in product(*map(range, sizes)) if random.random() < random.random()}
    found = inside(boxes_of(points))
    assert sorted(found) == sorted(points)


def test_regular_points_are_few_boxes() -> None:
    grid = {(i, j) for i in range(0, 100, 3) for j in range(5, 9)}
    assert [box_text(box) for box in boxes_of(grid)] == ["[0:100:3, 5:9]"]
    assert boxes_of({()}) == ((),)
    assert box_text(()) == "[]"
    assert boxes_of(set()) == ()


MAPS = [
    "(d0, d1)[s0] -> (d0, s0 * 2 + d1), domain: d0 in [0, 3], d1 in [0, 1], s0 in [0, 4]",
    "(d0)[s0, s1] -> (s0 * 4 + s1), domain: d0 in [0, 3], s0 in [0, 4], s1 in [0, 3]",
    "(d0)[s0] -> (s0, s0), domain: d0 in [0, 3], s0 in [0, 4]",
    "(d0)[s0] -> (s0), domain: d0 in [0, 3], s0 in [0, 4], d0 + s0 in [0, 3]",
    "(d0)[s0] -> (-s0 + 4), domain: d0 in [1, 3], s0 in [0, 4]",
    "(d0) -> (), domain: d0 in [0, 3]",
]


@pytest.mark.parametrize("text", MAPS)
def test_what_is_listed_is_what_is_touched(text: str) -> None:
    access = Access(IndexingMap.parse(text))
    assert access.map is not None
    for at in product(*(range(4) for _ in access.map.dims)):
        found = touched_of([access], at)
        truth = touched(access, at)
        assert truth is not None
        assert found.boxes is not None
        assert sorted(inside(found.boxes)) == sorted(truth)
        assert found.count == len(truth)


def test_large_tensors_are_counted_without_looking_at_every_element() -> None:
    whole = Access(IndexingMap.parse(
        "(d0)[s0, s1] -> (s0, s1), domain: d0 in [0, 9], s0 in [0, 99999], s1 in [0, 99999]"
    ))  # fmt: skip
    row = Access(IndexingMap.parse("(d0)[s0] -> (d0, s0), domain: d0 in [0, 9], s0 in [0, 99999]"))
    found = touched_of([row, whole, row], (3,))
    assert found.count == 10**10
    assert found.boxes == ((range(100000), range(100000)),)


SOFTMAX = "examples/softmax.hlo"


def test_the_elements_are_listed(run: Any, ask: Any) -> None:
    lines = run("index", SOFTMAX, "--at", "3,7,12").stdout.splitlines()
    assert lines[2] == "Element (3, 7, 12) of the output, bf16[8,16,32], reads"
    assert lines[4:] == [
        "  operand 0  bf16[8,16,32]  scores   32 elements",
        "    [3, 7, 0:32]",
        "",
        "  operand 1  pred[16,32]  mask   32 elements",
        "    [7, 0:32]",
        "",
        "  operand 2  f32[]  scale   1 element",
        "    []",
    ]
    answer = ask("index", SOFTMAX, "--at", "3,7,12", "--json")
    assert answer["schema"] == "hloscope.elements/1"
    first = answer["outputs"][0]["touched"][0]
    assert (first["count"], first["boxes"]) == (32, [[[3, 4, 1], [7, 8, 1], [0, 32, 1]]])


def test_the_other_direction_and_run_time_values(run: Any) -> None:
    out = run("index", "examples/transpose.hlo", "flipped", "--from-operand", "0", "--at", "3,5")
    assert "  output 0  f32[96,64]   1 element\n    [5, 3]" in out.stdout
    out = run("index", "examples/kv_cache.hlo", "recent_fusion", "--at", "1,2,3")
    assert "[1, 2, 3]\n    for rt0 = 0" in out.stdout


def test_an_element_that_is_not_there_is_refused(run: Any) -> None:
    result = run("index", SOFTMAX, "--at", "3,7,32")
    assert result.exit_code == 2
    assert "dimension 2: index 32 is not in [0, 31]" in result.stderr
    assert run("index", SOFTMAX, "--at", "3,7,1", "--format", "latex").exit_code == 2
