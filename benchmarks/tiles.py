"""Tiles: random maps against enumeration, a sweep of 1,000 tilings, shapes that explode elsewhere.

python benchmarks/tiles.py [--json] [--pairs 10000]
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from hloscope.hlo_parser import parse_hlo  # noqa: E402
from hloscope.tiling import Fused, Refusal, SymbolicTiles, Tiler, sweep, symbolic_tiles  # noqa: E402
from tests.indexing.test_tiles import compare, random_map  # noqa: E402
from tests.tiling.programs import HARD, PROGRAMS  # noqa: E402

TILINGS: Final = 1000


def symbolic(text: str) -> SymbolicTiles:
    """The symbolic tiles of a program's root."""
    found = symbolic_tiles(Fused.of(parse_hlo(text).entry.root))
    assert not isinstance(found, Refusal), found
    return found


def hard() -> dict[str, Any]:
    """Rank 16 through ten reshapes: from the text to concrete tiles, in processor seconds."""
    begin = time.process_time()
    tiles = Tiler(symbolic(HARD))
    tiled = tiles.tiled([2] * 16)
    seconds = time.process_time() - begin
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "hard_seconds": round(seconds, 3),
        "hard_megabytes": round(megabytes),
        "hard_is_tiled": not isinstance(tiled, Refusal),
    }


def swept() -> dict[str, Any]:
    """1,000 tilings of a softmax, in processor seconds."""
    tiles = symbolic(PROGRAMS["softmax"])
    table = Random(0)
    tilings = np.array([[table.randint(1, 6), table.randint(1, 16)] for _ in range(TILINGS)])
    begin = time.process_time()
    sweep(tiles, tilings)
    return {"tilings": TILINGS, "sweep_seconds": round(time.process_time() - begin, 4)}


def pairs(count: int) -> dict[str, Any]:
    """Random maps and tile sizes: image, holes, overlaps and counts against enumeration."""
    random, wrong, undecided = Random(20261123), [], 0
    for _ in range(count):
        m = random_map(random)
        sizes = tuple([random.randint(1, v.interval.size + 1) for v in m.dims])
        try:
            undecided += not compare(m, sizes)
        except AssertionError:
            wrong.append(f"{m} by {sizes}")
    return {"pairs": count, "wrong": wrong, "undecided": undecided}


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument("--pairs", type=int, default=10_000, metavar="N", help="random pairs")
    options = parser.parse_args()
    found = hard() | swept() | pairs(options.pairs)
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:16} {value}")


if __name__ == "__main__":
    main()
