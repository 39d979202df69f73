"""Requests of warps by enumeration of every lane: no shortcut, plain integers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from hloscope.indexing import IndexingMap
from hloscope.memory import Launch


class Enumerated(NamedTuple):
    """What all requests of an access move."""

    requests: int
    sectors: int
    lines: int
    asked: int
    histogram: dict[int, int]


def enumerated(
    map: IndexingMap, bits: int, launch: Launch, warp: int, vector: int, loop: int | None
) -> Enumerated:
    """Count every lane.

    Args:
        map: From threads to an address in elements.
        bits: Of an element.
        launch: Launch dimensions.
        warp: Lanes of a warp.
        vector: Elements of one request of a lane.
        loop: The range variable along which they stand.
    """
    histogram: Counter[int] = Counter()
    sectors = lines = asked = 0
    for lanes in _requests(map, launch, warp, vector, loop):
        if not lanes:
            continue
        touched = {b // 8 for a in lanes for b in range(a * bits, (a + 1) * bits)}
        here = {byte // 32 for byte in touched}
        sectors += len(here)
        lines += len({byte // 128 for byte in touched})
        asked += len(touched)
        histogram[len(here)] += 1
    return Enumerated(histogram.total(), sectors, lines, asked, dict(sorted(histogram.items())))


def _requests(
    map: IndexingMap, launch: Launch, warp: int, vector: int, loop: int | None
) -> Iterator[set[int]]:
    x, y, _ = launch.threads
    loops = [range(v.interval.lo, v.interval.hi + 1) for v in map.ranges]
    if loop is not None:
        loops[loop] = range(0, map.ranges[loop].interval.hi + 1, vector)
    warps = range(-(-launch.block_size // warp))
    for bz, by, bx in product(*[range(n) for n in reversed(launch.blocks)]):
        for w, *values in product(warps, *loops):
            lanes: set[int] = set()
            for thread in range(w * warp, min((w + 1) * warp, launch.block_size)):
                ids = thread % x, thread // x % y, thread // (x * y), bx, by, bz
                for k in range(vector if loop is not None else 1):
                    at = list(values)
                    if loop is not None:
                        at[loop] += k
                    if map.satisfies(ids, at):
                        lanes.add(map.evaluate(ids, at)[0])
            yield lanes
