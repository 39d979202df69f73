"""Tiles carried through single ops, against XLA's own tests."""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import product
from typing import Any

import pytest

from hloscope.affine import Const, Dim, Interval, evaluate
from hloscope.ir import Instruction
from hloscope.tiling import (
    DimTile,
    Propagated,
    Refusal,
    Tile,
    TilingSpace,
    expression_text,
    propagate_to_operands,
    propagate_to_outputs,
    read_expression,
)
from hloscope.tiling.propagation.registry import CarriedTile
from hloscope.tiling.propagation.reshape import through_reshape
from tests.conftest import SHARED, needs_shared
from tests.tiling.spaces import read, space_of, squeezed, synthetic

FOLDER = SHARED / "conformance" / "xla"
REORDERED = ("tile_propagation_test::CanPropagateToInputsForScaledDotOp::0",)
"""Tiles with a sum whose terms stand in another order here, that of the normal form."""


@cache
def _file(name: str) -> dict[str, dict[str, Any]]:
    path = FOLDER / name
    if not path.is_file():
        return {}
    return {case["id"]: case for case in json.loads(path.read_text())["cases"]}


def _params(name: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in _file(name).values()]


# ------------------------------------------------------------------------- single instructions


def _asked(case: dict[str, Any]) -> tuple[Instruction, TilingSpace]:
    """The instruction of a question, and the space of the root of its program."""
    root = read(case["hlo"]).entry.root
    space = space_of(root)
    if "assigned_tile_sizes" in case:
        space = space.with_sizes(case["assigned_tile_sizes"])
    ins = root
    for step in case["instruction"].removeprefix("root").split(".")[1:]:
        ins = ins.operands[int(step.removeprefix("operand(").removesuffix(")"))]
    return ins, space


def _sizes_of(case: dict[str, Any], root: Instruction) -> tuple[int, ...]:
    what = case["tile"]
    if "shape" in what:
        return tuple(what["shape"])
    path = what["shape_of"]
    ins = root.operands[int(path[-2])] if "operand" in path else root
    array = getattr(ins.type, "elements", (ins.type,))[0]
    return tuple(array.shape)


def _given_tile(case: dict[str, Any], root: Instruction, space: TilingSpace) -> Tile:
    what = case["tile"]
    if what["kind"] == "result":
        before = _answer(_file("tile_propagation_test.json")[what["of"]])
        assert isinstance(before, Propagated), before
        return before.tiles[what["index"]]
    if what["kind"] == "root_tile":
        return space.root_tiles[0]
    shape = _sizes_of(case, root)
    bounds = [
        read_expression(text, len(space.dimensions), len(space.runtime))
        for text in what.get("upper_bounds", ())
    ]
    return synthetic(shape, bounds)


def _answer(case: dict[str, Any]) -> Propagated | Refusal:
    root = read(case["hlo"]).entry.root
    ins, space = _asked(case)
    tile = _given_tile(case, root, space)
    if case["kind"] == "tile_to_input":
        return propagate_to_operands(space, ins, tile, case["output_index"])
    return propagate_to_outputs(space, ins, tile, case["input_index"])


def fields_of(tile: Tile) -> dict[str, Any]:
    """The expressions of a tile in the form of the data."""
    found: dict[str, Any] = {n.replace(" ", "_"): list(t) for n, t in tile.fields()}
    if tile.replicas:
        replicas = {n.replace(" ", "_"): list(t) for n, t in tile.replica_fields()}
        found["replica_ids"] = replicas
    return found


def _respelled(wanted: dict[str, Any], space: TilingSpace) -> dict[str, Any]:
    """The same expressions in normal form."""
    return {
        name: [expression_text(read_expression(text, len(space.dimensions))) for text in texts]
        for name, texts in wanted.items()
    }


@needs_shared
@pytest.mark.parametrize("case", _params("tile_propagation_test.json"))
def test_tiles_are_carried_as_by_xla(case: dict[str, Any]) -> None:
    found, expected = _answer(case), case["expected"]
    if not expected["ok"]:
        assert isinstance(found, Refusal)
        assert found.code == expected["code"]
        assert expected.get("message_contains", case.get("message_contains", "")) in found.reason
        return
    assert isinstance(found, Propagated), found
    for tile, wanted in zip(found.tiles, expected.get("tiles", found.tiles), strict=True):
        if "tiles" in expected:
            wanted = {k: v for k, v in wanted.items() if k not in ("operand", "variables")}
            if case["id"] in REORDERED:
                wanted = _respelled(wanted, _asked(case)[1])
            assert fields_of(tile) == wanted


@needs_shared
@pytest.mark.parametrize("case", _params("tile_propagation_test.json"))
def test_tiling_spaces_of_propagation_have_the_numbers_of_xla(case: dict[str, Any]) -> None:
    wanted = case.get("tiling_space")
    space = _asked(case)[1]
    assert not wanted or wanted == {
        "num_dimensions": len(space.dimensions),
        "num_parallel_dimensions": len(space.parallel),
        "num_rt_vars": len(space.runtime),
    }


# ------------------------------------------------------------------------------------ reshapes


def _reshaped(given: dict[str, Any]) -> tuple[Tile, TilingSpace, CarriedTile | Refusal]:
    shape = ",".join(map(str, given["from"]))
    text = f"ENTRY e {{\n  p = f32[{shape}] parameter(0)\n  ROOT c = f32[{shape}] copy(p)\n}}"
    space = space_of(read(text).entry.root).with_sizes(given["tile_sizes"])
    rank = len(given["from"])
    sizes = {f"ts_{i}": str(n) for i, n in enumerate(given["tile_sizes"])}
    covered = {
        Dim(i): 0
        for i, (n, size) in enumerate(zip(given["from"], given["tile_sizes"], strict=True))
        if size >= n
    }

    def number(text: str) -> Any:
        for name, value in sizes.items():
            text = text.replace(name, value)
        return read_expression(text, rank)

    columns = zip(
        given["offsets"],
        given["tile_sizes"],
        given["strides"],
        given["upper_bounds"],
        strict=True,
    )
    tile = Tile(
        tuple(
            [
                DimTile(number(offset), Const(size), Const(stride), number(bound))
                for offset, size, stride, bound in columns
            ]
        )
    ).substituted(covered)
    return tile, space, through_reshape(space, tile, tuple(given["from"]), tuple(given["to"]))


_EXPRESSION = re.compile(r"(?:(?<=offset )|(?<=size )|(?<=stride )|(?<=bound ))\[([^]]*)\]")


def _same_message(wanted: str, found: str) -> None:
    """Expressions may be simplified further: they are equal for every tile."""
    assert _EXPRESSION.sub("[]", wanted) == _EXPRESSION.sub("[]", found)
    pairs = zip(_EXPRESSION.findall(wanted), _EXPRESSION.findall(found), strict=True)
    for before, after in pairs:
        for tid in range(3):
            values = [evaluate(read_expression(e, 1), {Dim(0): tid}) for e in (before, after)]
            assert values[0] == values[1], (before, after)


def _accessed(tile: Tile, shape: list[int], at: dict[Any, int]) -> list[int]:
    found = []
    for index in product(*tile.indices(at)):
        position = 0
        for i, n in zip(index, shape, strict=True):
            position = position * n + i
        found.append(position)
    return found


@needs_shared
@pytest.mark.parametrize("case", _params("reshape_tile_propagation_test.json"))
def test_reshaped_tiles_have_the_same_elements_in_the_same_order(case: dict[str, Any]) -> None:
    tile, space, found = _reshaped(case["input"])
    expected = case["expected"]
    if not expected["ok"]:
        assert isinstance(found, Refusal)
        if "message_text" in expected:
            _same_message(squeezed(expected["message_text"]).replace("v0", "tid_0"), str(found))
        assert expected.get("message_contains", "") in found.reason
        return
    assert isinstance(found, CarriedTile), found
    boxes = [range(space.box.get(Dim(i), Interval(0, 0)).hi + 1) for i in range(len(tile.dims))]
    for tids in product(*boxes):
        at = {Dim(i): tid for i, tid in enumerate(tids)}
        read_ = _accessed(tile, case["input"]["from"], at)
        assert _accessed(found.tile, case["input"]["to"], at) == read_
