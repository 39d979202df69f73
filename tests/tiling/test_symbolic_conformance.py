"""Symbolic tiles and constraints against the expectations of XLA's tests."""

from __future__ import annotations

import re
from itertools import islice, product
from typing import Any, Final

import pytest

from hloscope.affine import ZERO, AffineMap, Dim, Interval, Range, Runtime, evaluate, substitute
from hloscope.fusion import Analysis
from hloscope.hlo_parser import parse_hlo
from hloscope.indexing import IndexingMap
from hloscope.tiling import ConstraintExpression, Refusal, SymbolicTile, symbolic_tile
from tests.conftest import needs_shared
from tests.tiling.corpus import constraint, load

pytestmark = needs_shared

EXACT_HERE: Final = {
    # XLA covers with the operand what the update overwrites; the map here leaves that out.
    "symbolic_tile_test::CanPropagateTileThroughDynamicUpdateSlice::0",
}
NOT_READ_HERE: Final = {
    # A start that can only be 0 is not read; XLA reads it.
    "symbolic_tile_test::CanPropagateTileThroughDynamicSlice::2",
}
WITHIN_BOUNDS: Final = {
    # A dimension of one element is no variable here: equal for all sizes that it can have.
    "symbolic_tile_test::CanPropagateTileThroughTrivialReshape::0",
}
POINTS: Final = 300


def cases(name: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in load(name)]


def in_v(text: str) -> str:
    """The text with variables as these tests name them."""
    return re.sub(r"\bd(\d)", r"v\1", text)


def maps_of(case: dict[str, Any]) -> list[IndexingMap]:
    if "input" in case:
        return [IndexingMap.parse(case["input"])]
    root = parse_hlo(case["hlo"]).entry.root
    found = Analysis(convention="xla").output_to_input(root)
    accesses = found.get((case["operand"], 0), ())
    return [access.map for access in accesses if access.map is not None]


def tilings(bounds: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Sizes within the bounds: powers of two, the whole, and some that divide nothing."""
    some = [
        sorted({1, 2, 3, 4, 6, 8, 17, 24, n // 2 or 1, n} & set(range(1, n + 1))) for n in bounds
    ]
    return list(islice(product(*some), 5000))


@pytest.mark.parametrize("case", cases("symbolic_tile_test"))
def test_a_symbolic_tile_is_xlas(case: dict[str, Any]) -> None:
    maps = maps_of(case)
    if case["id"] in EXACT_HERE:
        assert len(maps) == 2
        return
    if case["id"] in NOT_READ_HERE:
        assert not maps
        return
    (only,) = maps
    tile = symbolic_tile(only)
    expected = case["expected"]
    if expected is None:
        assert isinstance(tile, Refusal), tile
        assert tile.reason
        return
    assert isinstance(tile, SymbolicTile), tile
    symbols = {Runtime(i): Range(i) for i in range(len(tile.runtime))}
    offsets = AffineMap.parse(expected["offset_map"]).results
    bounds = [f"s{i} in {v.interval}" for i, v in enumerate(tile.runtime)]
    assert bounds == expected.get("rt_vars", [])
    only_0 = {Range(i): ZERO for i, v in enumerate(tile.runtime) if v.interval == Interval(0, 0)}
    mine = [substitute(e, symbols) for e in tile.offsets]
    assert [substitute(e, only_0) for e in mine] == [substitute(e, only_0) for e in offsets]
    wanted = expected.get("constraints", "always satisfied")
    if case["id"] not in WITHIN_BOUNDS:
        assert str(tile.constraints.expand()) == wanted
    assert_same_values(tile, expected, constraint(wanted))
    for given in case.get("stride_evaluations", ()):
        assert list(tile.strides_at(given["tile_sizes"])) == given["strides"]


def assert_same_values(
    tile: SymbolicTile, expected: dict[str, Any], wanted: ConstraintExpression
) -> None:
    sizes, strides = (AffineMap.parse(expected[k]).results for k in ("size_map", "stride_map"))
    compared = 0
    for tiling in tilings(tile.bounds):
        assert tile.constraints.holds(tiling) == wanted.holds(tiling), tiling
        if not wanted.holds(tiling):
            continue
        at = {Dim(i): size for i, size in enumerate(tiling)}
        mine = tile.sizes_at(tiling)
        assert mine == tuple([evaluate(e, at) for e in sizes]), tiling
        for size, stride, e in zip(mine, tile.strides_at(tiling), strides, strict=True):
            assert size == 1 or stride == evaluate(e, at), tiling
        compared += 1
        if compared == POINTS:
            break
    assert compared


@pytest.mark.parametrize("case", cases("constraint_expression_test"))
def test_a_constraint_expression_is_xlas(case: dict[str, Any]) -> None:
    found, expected = constraint(case["input"]), case["expected"]
    match case["kind"].removeprefix("constraint_"):
        case "build":
            assert in_v(str(found)) == expected["text"]
        case "simplify":
            assert in_v(str(found.simplify())) == expected["text"]
        case "satisfied_by":
            assert found.holds(case["values"]) == expected["value"]
        case "satisfiable":
            assert found.is_satisfiable == expected["value"]
        case "always_satisfied":
            assert found.is_always_satisfied == expected["value"]
        case "print_unsatisfied":
            text = in_v(found.unsatisfied(case["values"]))
            assert all(part in text for part in expected["contains"]), text
            assert not any(part in text for part in expected["not_contains"])
        case other:
            raise AssertionError(other)
