"""Tiles as text, against XLA's own tests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hloscope.affine import Const, Dim, Range, Runtime
from hloscope.tiling import DimTile, Tile, read_expression
from tests.conftest import SHARED, needs_shared
from tests.tiling.spaces import squeezed

FILE = SHARED / "conformance" / "xla" / "tile_test.json"


def _cases() -> list[Any]:
    if not FILE.is_file():
        return []
    return [pytest.param(c, id=c["id"]) for c in json.loads(FILE.read_text())["cases"]]


@needs_shared
@pytest.mark.parametrize("case", _cases())
def test_tiles_are_printed_as_by_xla(case: dict[str, Any]) -> None:
    given = case["input"]
    names = "offset", "size", "stride", "upper_bound"
    is_one = case["kind"] == "dim_tile_print"
    columns = [[given[n]] if is_one else given[f"{n}s"] for n in names]
    dims = [DimTile(*[read_expression(e, 2, 1) for e in row]) for row in zip(*columns, strict=True)]
    found = str(dims[0]) if is_one else Tile(tuple(dims)).text(2, 1)
    # Sums have an order of their own, that of the normal form.
    wanted = squeezed(case["expected"]["text"]).replace(
        "rt_0 + tid_1 * ts_1", "tid_1 * ts_1 + rt_0"
    )
    assert found == wanted


def test_indices_are_those_that_are_kept() -> None:
    offset, size, step, bound = Dim(0), Range(0), Runtime(0), Runtime(1)
    tile = DimTile(offset, size, step, bound)
    for o in range(-7, 8):
        for n in range(5):
            for s in (-3, -1, 0, 1, 2):
                for b in (0, 1, 6):
                    at = {offset: o, size: n, step: s, bound: b}
                    wanted = {o + k * s for k in range(n) if 0 <= o + k * s < b}
                    assert set(tile.indices(at)) == wanted, (o, n, s, b)


def test_positions_in_groups_are_printed_after_the_tile() -> None:
    whole = DimTile(Const(0), Const(4), Const(1), Const(4))
    assert str(Tile((whole,), (whole,))).endswith(
        "upper bounds [4] replica ids { offsets [0] sizes [4] strides [1] upper bounds [4] }"
    )
