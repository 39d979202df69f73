"""The tiling analysis of fusions against the expectations of XLA's tests."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest

from hloscope.display import opcode_of
from hloscope.hlo_parser import parse_hlo
from hloscope.indexing import IndexingMap
from hloscope.indexing.proofs import prove_equal
from hloscope.ir import Instruction, Module, backend_config
from hloscope.tiling import (
    Fused,
    Refusal,
    SymbolicTiles,
    TiledComputation,
    TiledInstruction,
    Tiler,
    candidate_tilings,
    exchanged_by_transposed_dot,
    major_to_minor,
    symbolic_tiles,
    transposed,
)
from tests.conftest import needs_shared
from tests.tiling.corpus import load
from tests.tiling.symbolic_text import symbolic_text

pytestmark = needs_shared


def cases(name: str) -> list[Any]:
    return [pytest.param(case, id=case["id"]) for case in load(name)]


@cache
def module_of(text: str) -> Module:
    return parse_hlo(text)


def analysed(case: dict[str, Any]) -> SymbolicTiles | Refusal:
    root = module_of(case["hlo"]).entry.root
    config = backend_config(root.extras)
    kind = str(config.get("fusion_backend_config", {}).get("kind", ""))
    if "fusion_adaptor" in case:
        return symbolic_tiles(Fused.of_producer_consumer(root.operands[0], root), kind=kind)
    return symbolic_tiles(Fused.of(root), kind=kind)


def tiler(case: dict[str, Any]) -> Tiler:
    found = analysed(case)
    assert isinstance(found, SymbolicTiles), found
    return Tiler(found)


def sizes_of(case: dict[str, Any], symbolic: SymbolicTiles) -> list[int]:
    root = module_of(case["hlo"]).entry.root.calls[0].root
    given = {
        at(path.replace("fusion_root", "root"), root): sizes
        for path, sizes in case["tiling"].items()
    }
    return [size for ins, _ in symbolic.introduced for size in given.get(ins, ())]


def at(path: str, root: Instruction) -> Instruction:
    for number in re.findall(r"\.operand\((\d+)\)", path):
        root = root.operands[int(number)]
    return root


def tile_at(path: str, tiled: TiledComputation, module: Module) -> TiledInstruction:
    if entry := re.match(r"entry_parameter\[(\d+)\]", path):
        wanted = module.entry.parameters[int(entry[1])]
        return next(t for t in tiled.every() if t.instruction is wanted)
    found = tiled.roots[int(re.findall(r"^roots\[(\d+)\]", path)[0])]
    for step, _, number in re.findall(r"\.((operand)\((\d+)\)|runtime_variables\(\)\[\d+\])", path):
        if number:
            found = found.operands[int(number)]
        else:
            found = found.runtime[int(re.findall(r"\[(\d+)\]", step)[0])]
    return found


@pytest.mark.parametrize("case", cases("symbolic_tile_analysis_test"))
def test_the_analysis_is_xlas(case: dict[str, Any]) -> None:
    globals()[f"check_{case['kind']}"](case, case["expected"])


def check_tiled_computation(case: dict[str, Any], expected: dict[str, Any]) -> None:
    tiles = tiler(case)
    tiled = tiles.tiled(
        sizes_of(case, tiles.symbolic),
        schedule=case["schedule"],
        is_known_valid=case.get("constraints_are_known_satisfied", False),
    )
    if not expected["ok"]:
        assert isinstance(tiled, Refusal), tiled
        assert tiled.code == expected["code"], tiled
        assert expected.get("message_contains", "") in tiled.reason, tiled
        return
    assert isinstance(tiled, TiledComputation), tiled
    module = module_of(case["hlo"])
    for tile in expected.get("tiles", ()):
        check_tile(tile_at(tile["path"], tiled, module), tile)
    for first, *others in expected.get("same_tile", ()):
        for other in others:
            assert tile_at(first, tiled, module) is tile_at(other, tiled, module)
    for path, opcode in expected.get("hlo_opcodes", {}).items():
        mine = opcode_of(tile_at(path, tiled, module).instruction)
        assert mine.replace("-", "") == opcode.lower(), path
    for path, count in expected.get("runtime_variable_counts", {}).items():
        assert len(tile_at(path, tiled, module).runtime) == count
    for path, name in expected.get("hlo_names", {}).items():
        mine = tile_at(path, tiled, module).instruction.name
        assert mine == name.removesuffix(".1"), path  # XLA renames what is not unique
    if "root_has_offsets_indexing" in expected:
        assert tiled.roots[0].offsets.results


def check_tile(mine: TiledInstruction, tile: dict[str, Any]) -> None:
    assert list(mine.sizes) == tile["tile_sizes"], tile["path"]
    for size, stride, wanted in zip(mine.sizes, mine.strides, tile["tile_strides"], strict=True):
        assert size == 1 or stride == wanted, tile["path"]
    wanted = IndexingMap.parse(tile["tile_offsets_indexing"])
    both = [m.remove_unused_symbols().symbols_to_dims() for m in (wanted, mine.offsets)]
    assert prove_equal(both[:1], both[1:]).is_proved, (tile["path"], str(mine.offsets))


def check_tile_constraints(case: dict[str, Any], expected: dict[str, Any]) -> None:
    assert str(tiler(case).symbolic.constraints.expand()) == expected["text"]


def check_analyzable(case: dict[str, Any], expected: dict[str, Any]) -> None:
    found = analysed(case)
    assert isinstance(found, SymbolicTiles) == expected["value"], found
    if isinstance(found, Refusal):
        assert expected.get("message_contains", "") in found.reason


def check_parameters_satisfy_constraints(case: dict[str, Any], expected: dict[str, Any]) -> None:
    tiles = tiler(case)
    sizes = sizes_of(case, tiles.symbolic)
    wrong = tiles.refused(sizes)
    if "ok" in expected:
        assert wrong is not None
        assert wrong.code == expected["code"]
        return
    by_emitter = True
    if "emitter_constraint" in case:  # the only one: half of the dimension
        by_emitter = sizes[0] * 2 == tiles.symbolic.parameters[0].size
    assert (wrong is None and by_emitter) == expected["value"]


def check_flat_tilings(case: dict[str, Any], expected: dict[str, Any]) -> None:
    found = [list(tiling) for tiling in candidate_tilings(case["dims"])]
    if "tilings" in expected:
        assert found == expected["tilings"]
    else:
        assert found[-1] == expected["last"]


def check_valid_tilings(case: dict[str, Any], expected: dict[str, Any]) -> None:
    tiles = tiler(case)
    found = tiles.valid_tilings()
    assert bool(found) == expected["non_empty"]
    assert all(tiles.refused(tiling) is None for tiling in found)
    everything = candidate_tilings([p.size for p in tiles.symbolic.parameters])
    assert len(found) == sum(tiles.refused(tiling) is None for tiling in everything)


def check_num_tiling_parameters(case: dict[str, Any], expected: dict[str, Any]) -> None:
    assert len(tiler(case).symbolic.parameters) == expected["value"]


def check_symbolic_tiled_indexing(case: dict[str, Any], expected: dict[str, Any]) -> None:
    root = tiler(case).symbolic.nodes[-1]
    for path, text in expected["maps"].items():
        node = root
        for number in re.findall(r"\.operand\((\d+)\)", path):
            node = node.operands[int(number)]
        assert str(node.map) == text, path


def check_print(case: dict[str, Any], expected: dict[str, Any]) -> None:
    mine = symbolic_text(tiler(case).symbolic)
    expected_text = re.sub(r"\bp(\d)\.1\b", r"p\1", expected["text"])  # XLA makes names unique
    expected_text = expected_text.replace("{1,0}", "")  # a default layout that is not written
    assert mine.split() == expected_text.split()


# -------------------------------------------------------------------------------- schedules


@pytest.mark.parametrize("case", cases("tiled_hlo_schedule_test"))
def test_a_schedule_is_xlas(case: dict[str, Any]) -> None:
    globals()[f"check_{case['kind']}"](case, case["expected"])


def check_schedule_creatable(case: dict[str, Any], expected: dict[str, Any]) -> None:
    found = exchanged_by_transposed_dot(introduced(case))
    assert isinstance(found, Refusal) != expected["ok"]
    if isinstance(found, Refusal):
        assert found.code == expected["code"]
        assert expected["message_contains"] in found.reason


def introduced(case: dict[str, Any]) -> list[tuple[Instruction, int]]:
    """What brings parameters, also where a schedule is asked of what is not tiled."""
    return [*tiler(case).symbolic.introduced]


def check_schedule(case: dict[str, Any], expected: dict[str, Any]) -> None:
    tiles = IndexingMap.parse(case["input"])
    space = [(d["dim"], d["size"]) for d in case["iteration_space"]]
    if case["schedule"] == "transposed_dot":
        exchanged = exchanged_by_transposed_dot(introduced(case))
        assert not isinstance(exchanged, Refusal)
        found = transposed(tiles, space, exchanged)
    else:
        found = major_to_minor(tiles, space)
    if isinstance(found, Refusal):
        assert found.code == expected["code"]
        assert expected["message_contains"] in found.reason
    elif "map" in expected:
        assert str(found) == expected["map"]
    else:
        last_two = expected["last_two_results_at_pid_i"]
        formulas = [t.strip().replace("i", "pid_0") for t in last_two.split(",")]
        for pid in range(found.dims[0].interval.hi + 1):
            values = [
                IndexingMap.parse(f"(pid_0) -> ({text})").evaluate([pid])[0] for text in formulas
            ]
            assert list(found.evaluate([pid])[2:]) == values
        other = major_to_minor(tiles, space)
        assert isinstance(other, IndexingMap)
        assert found.results[:2] == other.results[:2]
