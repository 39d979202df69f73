"""A layout given for a Triton fusion holds each load on the load's own tile."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

import hloscope
from hloscope.errors import UnsupportedError

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "dump"
SOFTMAX: Final = (
    EXAMPLE / "module_0001.jit_softmax.sm_9.0a_gpu_after_optimizations.txt"
).read_text()
BLOCKED: Final = (
    "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 32], warpsPerCTA = [1, 4], "
    "order = [1, 0]}>"
)


def test_loads_of_a_reduction_are_counted_on_their_own_tile() -> None:
    # 1,024 requests and 16,000 sectors each were counted by executing the kernel's PTX.
    answer = hloscope.read(SOFTMAX)["triton_softmax.2"].coalescing(thread_map=BLOCKED)
    assert str(answer.kernel.launch) == "128 threads × 64 blocks"
    for array in answer.arrays:
        assert array.traffic is not None
        assert (array.traffic.requests, array.traffic.sectors) == (1024, 16000)


def test_tiles_that_a_program_does_not_state_are_given_with_the_layout() -> None:
    text = SOFTMAX.replace('"block_level_fusion_config"', '"another"')
    assert text != SOFTMAX
    program = hloscope.read(text)
    with pytest.raises(UnsupportedError, match="give them with --tile"):
        program["triton_softmax.2"].coalescing(thread_map=BLOCKED)
    answer = program["triton_softmax.2"].coalescing(thread_map=BLOCKED, tile=(2, 1000))
    assert answer.arrays[0].traffic is not None
    assert answer.arrays[0].traffic.sectors == 16000


@pytest.mark.parametrize(
    ("layout", "reason"),
    [
        ("#ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], "
         "order = [0]}>", "the layout has rank 1, the tile of `x.1` 2"),
        ("- lane=1 -> (0, 1)\nwhere out dims are: [a (size 2), b (size 2)]",
         "a linear layout has a tile of its own, that of `x.1` is 2x1024"),
        ("((4,8),2):((32,1),16)", "a CuTe layout does not say"),
    ],
)  # fmt: skip
def test_a_layout_that_does_not_fit_a_tile_is_refused(layout: str, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        hloscope.read(SOFTMAX)["triton_softmax.2"].coalescing(thread_map=layout)
