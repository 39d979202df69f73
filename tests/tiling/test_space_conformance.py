"""Tiling spaces against XLA's own tests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hloscope.affine import Dim, Interval, evaluate, parse_expr
from hloscope.display import space_text
from hloscope.hlo_parser import print_instruction
from hloscope.simplifier import Domain
from hloscope.tiling import Fused, Refusal, Roots, TilingSpace
from tests.conftest import SHARED, needs_shared
from tests.tiling.spaces import read, squeezed

FILE = SHARED / "conformance" / "xla" / "tiling_space_test.json"
FOLDED = (
    "tiling_space_test::TilingSpaceSimplifyExpressionTest.FloorDivFactorsDivisor::0",
    "tiling_space_test::TilingSpaceSimplifyExpressionTest.NestedFloorDivFactorsDivisor::0",
)
"""Quotients that are 0 on the whole domain: here they are told as 0."""
ROOTS = {
    "triton_multi_output_fusion": Roots.OWN,
    "same_shape_multi_output_fusion": Roots.SHARED,
}


def _cases(kind: str) -> list[Any]:
    if not FILE.is_file():
        return []
    cases = json.loads(FILE.read_text())["cases"]
    return [pytest.param(c, id=c["id"]) for c in cases if c["kind"] == kind]


def described(space: TilingSpace) -> dict[str, Any]:
    """A space in the form of the data."""
    found: dict[str, Any] = {
        "dimensions": [
            {
                "id": i,
                "type": str(d.kind),
                "size": d.size,
                "dim_position": d.position,
                "hlo": line(d.instruction),
                **({} if d.tile_size is None else {"tile_size": d.tile_size}),
            }
            for i, d in enumerate(space.dimensions)
        ]
    }
    if space.runtime:
        found["rt_vars"] = [
            {"id": i, "bounds": [v.bounds.lo, v.bounds.hi], "hlo": line(v.origin)}
            for i, v in enumerate(space.runtime)
        ]
    found["root_tiles"] = [fields(tile) for tile in space.root_tiles]
    return found


def fields(tile: Any) -> dict[str, list[str]]:
    """The expressions of a tile in the form of the data."""
    return {name.replace(" ", "_"): list(texts) for name, texts in tile.fields()}


def line(ins: Any) -> str:
    """An instruction as XLA prints it."""
    return print_instruction(ins)


@needs_shared
@pytest.mark.parametrize("case", _cases("tiling_space"))
def test_spaces_are_those_of_xla(case: dict[str, Any]) -> None:
    flags = [ROOTS[name] for name, on in case["flags"].items() if on] or [Roots.REFUSED]
    root = read(case["hlo"]).entry.root
    found = TilingSpace.of(Fused.of(root), flags[0])
    expected = case["expected"]
    if expected.get("ok") is False:
        assert isinstance(found, Refusal)
        assert found.code == expected["code"]
        assert expected["message_contains"] in found.reason
    else:
        assert isinstance(found, TilingSpace)
        assert described(found) == expected
        assert squeezed(space_text(found)) == squeezed(case["expected_text"])


@needs_shared
@pytest.mark.parametrize("case", _cases("tiling_space_simplify"))
def test_expressions_are_simplified_as_by_xla_or_more(case: dict[str, Any]) -> None:
    box = {Dim(int(name[1:])): Interval(*ends) for name, ends in case["domain"].items()}
    given, expected = parse_expr(case["input"]), parse_expr(case["expected"]["text"])
    found = Domain(box).simplify(given)
    if case["id"] in FOLDED:
        assert str(found) == "0"
        points = [{Dim(0): i, Dim(1): j} for i in range(7) for j in range(5)]
        assert all(evaluate(expected, at) == 0 for at in points)
    else:
        assert str(found) == case["expected"]["text"]
