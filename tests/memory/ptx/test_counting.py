"""Requests, sectors, lines, bytes and bank conflicts agree with a count of sets."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, strategies as st

from hloscope.memory.ptx import bank_words, count_requests

LANES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 31), st.integers(0, 200)), min_size=1)


@given(LANES, st.sampled_from([1, 2, 4, 8, 16]))
def test_requests_are_counted_as_sets(lanes: list[tuple[int, int, int]], width: int) -> None:
    chosen = sorted({(warp, lane): at * width for warp, lane, at in lanes}.items())
    warps = np.array([warp for (warp, _), _ in chosen])
    offsets = np.array([at for _, at in chosen])
    found = count_requests(warps, offsets, width)
    each = [{int(o) for o in offsets[warps == warp]} for warp in sorted(set(warps.tolist()))]
    sectors = [len({o // 32 for o in request}) for request in each]
    assert found.requests == len(each)
    assert found.sectors == sum(sectors)
    assert found.lines == sum(len({o // 128 for o in request}) for request in each)
    assert found.bytes == sum(len(request) * width for request in each)
    assert found.sectors_per_request == dict(Counter(sectors))
    assert found.lane_bytes == {width: len(each)}


@given(LANES, st.sampled_from([1, 2, 4, 8, 16]))
def test_banks_are_counted_as_sets(lanes: list[tuple[int, int, int]], width: int) -> None:
    chosen = sorted({(warp, lane): at * width for warp, lane, at in lanes}.items())
    warps = np.array([warp for (warp, _), _ in chosen])
    numbers = np.array([lane for (_, lane), _ in chosen])
    offsets = np.array([at for _, at in chosen])
    _, found = bank_words(warps, numbers, offsets, width)
    phases: dict[tuple[int, int], set[int]] = {}
    for (warp, lane), at in chosen:
        phase = lane // (128 // max(width, 4))
        words = range(at // 4, max(at // 4 + 1, (at + width) // 4))
        phases.setdefault((warp, phase), set()).update(words)
    right = [max(Counter(w % 32 for w in words).values()) for _, words in sorted(phases.items())]
    assert found.tolist() == right
