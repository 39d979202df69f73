"""Tiled kernels against XLA's own tests: order, names, regions, tiles."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest

from hloscope.display import kernel_text, opcode_of
from hloscope.ops import Parameter
from hloscope.tiling import (
    Fused,
    Propagated,
    Refusal,
    RegionInstruction,
    TiledKernel,
    TilePrecision,
    TilingSpace,
    propagate_to_operands,
    tiled_kernel,
)
from tests.conftest import SHARED, needs_shared
from tests.tiling.spaces import read, space_of, squeezed, synthetic
from tests.tiling.test_propagation_conformance import fields_of
from tests.tiling.test_space_conformance import ROOTS, described

FILE = SHARED / "conformance" / "xla" / "tiled_hlo_test.json"
SIMPLER = ("tiled_hlo_test::TileAnalysisTest.ExplicitSimplify::0",)
"""`+ 64 - 256` is `- 192` here before anything is simplified: sums are in normal form."""


def _cases(kind: str) -> list[Any]:
    if not FILE.is_file():
        return []
    cases = json.loads(FILE.read_text())["cases"]
    return [pytest.param(c, id=c["id"]) for c in cases if c["kind"] == kind]


def _tiled(case: dict[str, Any]) -> TiledKernel | Refusal:
    flags = [ROOTS[name] for name, on in case["flags"].items() if on]
    space = TilingSpace.of(Fused.of(read(case["hlo"]).entry.root), *flags)
    if isinstance(space, Refusal):
        return space
    in_order = case.get("simplified_and_sorted", True)
    return tiled_kernel(space.with_sizes(case["tile_sizes"]), in_order=in_order)


class _Names:
    """`p0.tile_0`, `p0.tile_1` … in the order in which instructions are met."""

    def __init__(self) -> None:
        self.given: dict[RegionInstruction, str] = {}
        self.counts: Counter[str] = Counter()

    def give(self, instructions: Any) -> None:
        for tiled in instructions:
            base = tiled.instruction.name
            self.given[tiled] = f"{base}.tile_{self.counts[base]}"
            self.counts[base] += 1
            for region in tiled.regions:
                self.give(region.instructions)


def _listed(instructions: Any, names: _Names) -> list[dict[str, Any]]:
    found = []
    for tiled in instructions:
        ins = tiled.instruction
        entry: dict[str, Any] = {"name": names.given[tiled], "opcode": opcode_of(ins)}
        if isinstance(ins.op, Parameter):
            entry["parameter"] = ins.op.number
        else:
            entry["operands"] = [names.given[o] for o in tiled.operands]
        entry |= fields_of(tiled.tile)
        if tiled.regions:
            entry["regions"] = [_listed(r.instructions, names) for r in tiled.regions]
        found.append(entry)
    return found


@needs_shared
@pytest.mark.parametrize("case", _cases("tiled_hlo"))
def test_kernels_are_tiled_as_by_xla(case: dict[str, Any]) -> None:
    found, expected = _tiled(case), case["expected"]
    if expected.get("ok") is False:
        assert isinstance(found, Refusal)
        assert found.code == expected["code"]
        assert expected["message_contains"].rstrip(".") in found.reason
        return
    assert isinstance(found, TiledKernel)
    assert not found.refusals
    if case["id"] in SIMPLER:
        text = " ".join(str(tiled.tile) for tiled in found)
        assert expected["contains_after_simplify"] in text
        assert expected["contains_before_simplify"] not in text
        return
    names = _Names()
    names.give(found.region.instructions)
    got = described(found.space) | {"tiled_hlo": _listed(found.region.instructions, names)}
    assert got == expected
    text, _, notes = kernel_text(found).partition("\n\nNot exact:")
    assert squeezed(text) == squeezed(case["expected_text"])
    assert bool(notes) == any(tiled.fit is not TilePrecision.EXACT for tiled in found)


@needs_shared
@pytest.mark.parametrize("case", _cases("tiled_instruction_print"))
def test_tiled_instructions_are_printed_as_by_xla(case: dict[str, Any]) -> None:
    root = read(case["hlo"]).entry.root
    answer = propagate_to_operands(space_of(root), root, synthetic(root.type.shape))  # type: ignore[union-attr]
    assert isinstance(answer, Propagated)
    wanted = {k: v for k, v in case["expected"]["tile"].items() if k != "variables"}
    assert fields_of(answer.tiles[0]) == wanted
    text = re.sub(r"\s+", " ", case["expected_text"]).partition("-> ")[2].strip()
    assert str(answer.tiles[0]) == text
