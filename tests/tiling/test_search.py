"""Sweeps and searches: what is said of many tilings is what is said of each."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from hloscope.hlo_parser import parse_hlo
from hloscope.support.devices import limits_of
from hloscope.tiling import (
    Fused,
    Refusal,
    SymbolicTiles,
    TiledComputation,
    Tiler,
    search,
    sweep,
    symbolic_tiles,
)
from tests.tiling.programs import HARD, PROGRAMS, TRANSPOSE


def symbolic(text: str) -> SymbolicTiles:
    found = symbolic_tiles(Fused.of(parse_hlo(text).entry.root))
    assert isinstance(found, SymbolicTiles), found
    return found


def test_a_tile_too_large_for_shared_memory_is_refused_with_both_numbers() -> None:
    tiles = symbolic(TRANSPOSE)
    both = sweep(tiles, [(32, 16, 128), (16, 16, 128)])
    too_large, fits = (both.choice(row, limits_of("r9700")) for row in range(2))
    assert too_large.excess == "131,072 B of shared memory needed, 65,536 there"
    assert (fits.shared, fits.excess) == (65536, "")
    ranking = search(tiles, limits_of("r9700"), top=50)
    assert (16, 16, 128) in [choice.sizes for choice in ranking.best]
    assert (32, 16, 128) in [choice.sizes for choice in ranking.refused]
    assert search(tiles, limits_of("h100")).best[0].programs < ranking.best[0].programs


OUTPUTS = """
b {{ p = f32[6,6] parameter(0)
  t = f32[6,6] transpose(p), dimensions={{1,0}} q = f32[36] reshape(p)
  ROOT r = (f32[6,6], f32[6,6], f32[36]) tuple(p, t, q) }}
f {{ p = f32[6,6] parameter(0)
  c = (f32[6,6], f32[6,6], f32[36]) call(p), to_apply=b
  ROOT g = {type} get-tuple-element(c), index={output} }}
ENTRY e {{ p = f32[6,6] parameter(0) ROOT x = {type} fusion(p), kind=kLoop, calls=f }}
"""


@pytest.mark.parametrize(
    ("output", "result", "sizes", "read"),
    [
        (0, "f32[6,6]", (2, 3), (2, 3)),
        (1, "f32[6,6]", (2, 3), (3, 2)),
        (2, "f32[36]", (12,), (2, 6)),
    ],
)
def test_each_output_of_an_instruction_has_maps_of_its_own(
    output: int, result: str, sizes: tuple[int, ...], read: tuple[int, ...]
) -> None:
    tiles = symbolic(OUTPUTS.format(output=output, type=result))
    (tile,) = [node.tile for node in tiles.nodes if node.instruction.name == "p"]
    assert tile.sizes_at(sizes) == read


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_sweep_says_of_each_tiling_what_its_tiles_say(name: str) -> None:
    found = symbolic_tiles(Fused.of(parse_hlo(PROGRAMS[name]).entry.root))
    if isinstance(found, Refusal):
        return
    tiler = Tiler(found)
    tilings = tiler.valid_tilings()[:: max(len(tiler.valid_tilings()) // 12, 1)]
    many = sweep(found, tilings)
    for row, tiling in enumerate(tilings):
        one = tiler.tiled(tiling)
        if isinstance(one, Refusal):
            assert not many.is_valid[row] or len(found.roots) > 1
            continue
        assert many.is_valid[row]
        assert isinstance(one, TiledComputation)
        assert many.programs[row] == one.programs
        largest = max(prod(1 << (n - 1).bit_length() for n in t.sizes) for t in one.every())
        assert many.elements[row] == largest
        assert many.bytes_moved[row] > 0


def test_every_tiling_of_a_ranking_fits_and_none_before_it_does() -> None:
    ranking = search(symbolic(PROGRAMS["dot"]), limits_of("a100"), stages=2)
    assert ranking.best
    assert not any(choice.excess for choice in ranking.best)
    assert all(choice.excess for choice in ranking.refused)
    moved = [choice.bytes_moved for choice in ranking.best]
    assert moved == sorted(moved)


def test_more_candidates_than_the_budget_are_thinned() -> None:
    ranking = search(symbolic(PROGRAMS["dot"]), budget=20)
    assert ranking.is_thinned
    assert ranking.looked_at <= 20


@pytest.mark.parametrize("tilings", [[(0,)], [()], [(4, 4)]])
def test_wrong_sizes_are_refused(tilings: list[tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match="positive sizes"):
        sweep(symbolic(PROGRAMS["reshape"]), tilings)


def test_rank_16_through_ten_reshapes_is_no_explosion() -> None:
    tiles = symbolic(HARD)
    assert tiles.constraints.holds([1] * 16)
    assert tiles.constraints.holds([2] * 16)
    rng = np.random.default_rng(0)
    table = rng.integers(1, 3, (1000, 16))
    some = sweep(tiles, table)
    assert [tiles.constraints.holds(row) for row in table.tolist()] == some.is_valid.tolist()
