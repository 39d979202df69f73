"""Triton fusions: tile sizes of dumps, their bytes, and what the tiles read."""

from __future__ import annotations

from pathlib import Path

import pytest

import hloscope
from hloscope.cost import TritonRatings, is_triton, triton_rating
from hloscope.support.devices import device_of
from hloscope.tiling import chosen_tiles
from tests.conftest import SHARED, needs_shared

GEMM = """
f { p = bf16[64,256] parameter(0) q = bf16[256,128] parameter(1)
  ROOT d = bf16[64,128] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0} DOT }
ENTRY e { a = bf16[64,256] parameter(0) b = bf16[256,128] parameter(1)
  ROOT g = bf16[64,128] fusion(a, b), kind=kCustom, calls=f,
  backend_config={"fusion_backend_config":{"kind":"KIND",CONFIG}} }
"""
NESTED = GEMM.replace("KIND", "__triton_nested_gemm_fusion").replace(
    "CONFIG",
    '"block_level_fusion_config":{"num_warps":"2","output_tiles":[{"sizes":["16","8"]}],'
    '"num_ctas":1,"num_stages":1}',
)
NAMED = NESTED.replace("DOT", ', backend_config={"sizes":["16"]}')
OLDER = (
    GEMM.replace("KIND", "__triton_gemm")
    .replace("DOT", "")
    .replace(
        "CONFIG",
        '"triton_gemm_config":{"block_m":"16","block_n":"8","block_k":"16","split_k":"1",'
        '"num_stages":"3","num_warps":"4","num_ctas":"1"}',
    )
)


@pytest.mark.parametrize("text", [NAMED, OLDER], ids=["sizes of the dot", "triton_gemm_config"])
def test_the_tile_of_what_a_dot_sums_over_is_read_from_the_dump(text: str) -> None:
    program = hloscope.read(text)
    answer = program.root.coalescing("h100")
    tiles = [array.tile for array in answer.arrays]
    assert [None if t is None else t.sizes for t in tiles] == [(16, 16), (16, 8), (16, 8)]
    assert [None if t is None else t.utilisation for t in tiles] == [0.5, 0.25, 0.25]
    # Rows of 32 and of 16 bytes in transactions of 64, for 4 x 16 programs of 16 iterations.
    assert [a.moved for a in answer.operands] == [64 * 16 * 16 * 64, 64 * 16 * 16 * 64]
    assert [a.asked for a in answer.operands] == [64 * 16 * 512, 64 * 16 * 256]
    assert [a.wasted for a in answer.operands] == [64 * 16 * 512, 64 * 16 * 768]


def test_a_dot_without_sizes_leaves_the_tiling_unknown_and_says_so() -> None:
    program = hloscope.read(NESTED.replace("DOT", ""))
    use = triton_rating(program.analysis, program.root.ir, device_of("h100"))
    assert not use.is_rated
    assert use.compiled is None
    assert "`d` sums over" in use.reason
    assert use.best is not None


def test_a_rating_places_the_tiling_of_the_dump_among_others() -> None:
    program = hloscope.read(NAMED)
    use = triton_rating(program.analysis, program.root.ir, device_of("h100"))
    assert use.is_rated
    assert use.sizes == (16, 16, 8)
    assert use.least == 2 * (64 * 256 + 256 * 128 + 64 * 128)
    assert use.best is not None
    assert use.compiled is not None
    assert use.rank is not None
    assert use.best.bytes_moved < use.compiled
    assert 1 < use.rank <= use.among
    assert use.compiled == sum(a.moved for a in use.arrays)
    told = str(program.root.tiles().search())
    assert "Tile sizes of the dump (__triton_nested_gemm_fusion): 16 x 16 x 8" in told
    assert f"rank {use.rank} of " in told


def test_kernels_that_differ_in_the_tile_of_a_dot_only_are_rated_apart() -> None:
    first, second = (
        hloscope.read(NAMED.replace('["16"]}', f'["{k}"]}}')).root.ir for k in (16, 32)
    )
    assert chosen_tiles(first) != chosen_tiles(second)


def dumps(names: str) -> list[Path]:
    found = sorted((SHARED / "real").glob(names))
    return [path for path in found if "__triton" in path.read_text()]


FEW = "models/transformer_*.gpu.opt.hlo.txt"
ALL = ("models/*.gpu.opt.hlo.txt", "big/*.gpu.opt.hlo.txt")


@pytest.mark.slow
@needs_shared
def test_triton_fusions_of_real_dumps_are_rated_and_what_their_tiles_read_is_decided(
    full: bool,
) -> None:
    paths = [path for names in (ALL if full else (FEW,)) for path in dumps(names)]
    assert paths
    rated = 0
    for path in paths:
        program = hloscope.read(path)
        ratings = TritonRatings(program.analysis, device_of("h100"))
        seen: set[str] = set()
        for view in program:
            if not is_triton(view.ir):
                continue
            use = ratings.of(view.ir)
            assert use.is_rated, (path.name, view.name, use.reason)
            assert use.compiled is not None
            assert use.asked is not None
            assert use.asked <= use.compiled
            rated += 1
            if use.name in seen:
                continue  # an equal kernel
            seen.add(use.name)
            report = view.tiles().report
            assert report.is_own
            assert report.refusal is None
            undecided = [o for o in report.operands if not o.exact.is_decided]
            assert not undecided, (path.name, view.name, [o.exact.reason for o in undecided])
    assert rated > 20
