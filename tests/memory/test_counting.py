"""Sectors, lines and bytes of requests against enumeration of every lane."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

from hloscope.affine import Dim, Expr, Interval, Range, Runtime, evaluate, floordiv, mod
from hloscope.errors import TooLargeError
from hloscope.indexing import IndexingMap, RuntimeVariable
from hloscope.memory import Launch, counting
from hloscope.memory.bounded import traffic_of
from hloscope.memory.requests import BOUNDS, EXACT, SAMPLED, Requests, requests_of, runtime_terms
from hloscope.support.arrays import Ints
from tests.memory.enumeration import enumerated

BITS = (4, 8, 16, 32, 64, 128)


def random_access(draw: random.Random) -> tuple[IndexingMap, Launch, int]:
    """A map from threads to addresses such as fusions have, and odder ones."""
    launch = draw.choice(
        [
            Launch.of(draw.choice([1, 7, 32, 64, 100]), draw.randint(1, 9)),
            Launch((draw.choice([4, 8, 33]), draw.choice([2, 3]), 1), (draw.randint(1, 4), 2, 1)),
        ]
    )
    loops = [draw.choice([2, 3, 4, 8]) for _ in range(draw.randint(0, 2))]
    unroll = loops[-1] if loops and draw.random() < 0.7 else 1
    linear: Expr = (Dim(3) * launch.block_size + Dim(0)) * unroll
    if loops:
        linear = linear + Range(len(loops) - 1)
    variables: list[Expr] = [Dim(0), Dim(1), Dim(3), Dim(4), linear, *map(Range, range(len(loops)))]

    def term() -> Expr:
        e = draw.choice(variables)
        kind = draw.randint(0, 3)
        size = draw.choice([2, 3, 4, 5, 8, 12, 32])
        if kind == 1:
            e = floordiv(e, size)
        elif kind == 2:
            e = mod(e, size)
        elif kind == 3:
            e = mod(floordiv(e, size), draw.choice([2, 3, 7]))
        return e * draw.choice([1, 1, 2, 3, 4, 16, 33, 100])

    address = term()
    for _ in range(draw.randint(0, 3)):
        address = address + term()
    if draw.random() < 0.5:
        address = linear + draw.choice([0, 0, 1, 4])
    inside = []
    if draw.random() < 0.5:
        e = draw.choice([linear, address, mod(linear, 7), Dim(0)])
        inside.append((e, draw.randint(1, 40)))
    map_ = launch.map(loops, [address])
    for e, hi in inside:
        map_ = map_.add_constraint(e, Interval(draw.choice([0, 0, 1, 3]), hi))
    return map_, launch, draw.choice(BITS)


def loop_of(requests: Requests) -> int | None:
    """The range variable whose loop was replaced by vectors."""
    if requests.vector == 1:
        return None
    before, after = requests.original.ranges, requests.map.ranges
    [loop] = [
        k
        for k, (a, b) in enumerate(zip(before, after, strict=True))
        if b.interval.hi + 1 != a.interval.hi + 1
    ]
    return loop


@pytest.mark.slow
def test_counts_equal_enumeration_of_every_lane(full: bool) -> None:
    draw = random.Random(5)
    vectors = shortened = 0
    for _ in range(1000 if full else 60):
        access, launch, bits = random_access(draw)
        warp = draw.choice([32, 32, 64])
        requests = requests_of(access, bits, launch, warp)
        found = traffic_of(requests)
        if access.is_known_empty:
            assert not found.requests
            continue
        true = enumerated(access, bits, launch, warp, requests.vector, loop_of(requests))
        told = found.requests, found.sectors, found.lines, found.asked, dict(found.histogram)
        assert told == tuple(true), f"{access}, {bits} bits, {launch}, {warp} lanes"
        assert found.precision == EXACT
        vectors += requests.vector > 1
        shortened += found.seen < requests.lanes_at_most
    assert vectors > 2
    assert shortened > 10


@pytest.mark.parametrize(
    ("blocks", "step", "most"), [(1 << 30, 1, 4), (1 << 30, 100, 32), (1 << 26, 3, 12)]
)
def test_huge_grids_are_counted_without_looking_at_all_of_them(
    blocks: int, step: int, most: int
) -> None:
    launch = Launch.of(128, blocks)
    linear = Dim(3) * 128 + Dim(0)
    access = launch.map((), [linear * step], [(linear, blocks * 128 - 5)])
    found = traffic_of(requests_of(access, 32, launch, 32))
    assert found.precision == EXACT
    assert found.requests == blocks * 4
    assert found.most in (most, most + 1)
    assert found.seen < 1 << 16
    assert found.lanes == blocks * 128 - 5


def test_what_does_not_repeat_is_sampled_and_said_so() -> None:
    launch = Launch.of(256, 1 << 16)
    linear = Dim(3) * 256 + Dim(0)
    access = launch.map((64,), [mod(linear, 1000003) * 1009 + mod(linear + Range(0), 999983)])
    found = traffic_of(requests_of(access, 32, launch, 32), budget=1 << 15)
    assert found.precision == SAMPLED
    assert found.requests == (1 << 16) * 8 * 64
    assert found.mean > 20
    assert found.seen == 1 << 14


def test_alignments_of_what_is_read_share_the_lanes_that_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launch = Launch.of(256, 1 << 16)
    linear = Dim(3) * 256 + Dim(0)
    address = mod(linear, 1000003) * 1009 + mod(linear * 3, 999983) + Runtime(0) * 3
    access = launch.map((), [address]).with_(runtime=[RuntimeVariable(Interval(0, 63), "t")])
    looked_at = []

    def numbers_of(self: Any, steps: Ints, size: int) -> Ints:
        looked_at.append(steps.size)
        return numbers(self, steps, size)

    numbers = counting.Counter.numbers
    monkeypatch.setattr(counting.Counter, "numbers", numbers_of)
    traffic_of(requests_of(access, 32, launch, 32), budget=1 << 15)
    assert 1 << 13 < sum(looked_at) // 2 < 1 << 15  # sectors and lines


def test_a_sample_stands_for_all_requests_at_best_and_at_worst() -> None:
    launch = Launch.of(256, 1 << 16)
    linear = Dim(3) * 256 + Dim(0)
    read = RuntimeVariable(Interval(0, 10**6), "t", None, (mod(linear, 999983),))
    access = launch.map((), [Runtime(0) * 8 + mod(linear, 1000003) * 16]).with_(runtime=[read])
    found = traffic_of(requests_of(access, 32, launch, 32), budget=1 << 13)
    assert found.precision == BOUNDS
    assert found.best is not None
    assert found.best.requests == found.requests == (1 << 16) * 8


@pytest.mark.parametrize("start", [0, 1 << 55, 1 << 62, 1 << 70])
@pytest.mark.parametrize("step", [1, 1 << 32, (1 << 57) + 1])
def test_addresses_of_any_size_are_counted_as_those_near_zero(start: int, step: int) -> None:
    launch = Launch.of(64, 1)
    for bits, sectors in ((6, 3), (8, 2), (64, 16)):
        access = launch.map((), [Dim(0) * step + start])
        found = traffic_of(requests_of(access, bits, launch, 32))
        assert found.precision == EXACT
        assert found.requests == 2
        assert found.sectors == (sectors if step == 1 else 64)


@pytest.mark.parametrize("times", [1 << 10, 1 << 50, 1 << 61])
def test_requests_of_any_number_are_counted_as_a_few(times: int) -> None:
    launch = Launch.of(64, 1)
    linear = Dim(0) * 2 + (Range(0) + Range(1)) * 128
    one, many = (
        traffic_of(requests_of(launch.map((turns, turns), [linear]), 32, launch, 32))
        for turns in (1, times)
    )
    assert many.precision == EXACT
    assert (many.requests, many.sectors) == (one.requests * times**2, one.sectors * times**2)
    assert (many.asked, many.lanes) == (one.asked * times**2, one.lanes * times**2)
    assert many.histogram == {n: k * times**2 for n, k in one.histogram.items()}


def test_of_addresses_that_int64_does_not_hold_fewer_are_looked_at() -> None:
    launch = Launch.of(64, 1)
    near, far = (
        launch.map((1 << 30,), [Dim(0) * scale + mod(Range(0) * 7, 1000003) * scale])
        for scale in (1, 1 << 70)
    )
    few, many = (traffic_of(requests_of(access, 32, launch, 32)).seen for access in (far, near))
    assert 0 < few < many


def test_numbers_that_int64_does_not_hold_are_refused() -> None:
    launch = Launch.of(64, 1)
    access = launch.map((1 << 64,), [Dim(0) + Range(0) * Range(0)])
    with pytest.raises(TooLargeError, match="2\\*\\*63"):
        traffic_of(requests_of(access, 32, launch, 32))


def test_values_of_run_time_that_no_address_reads_may_have_any_size() -> None:
    launch = Launch.of(64, 1)
    access = launch.map((), [Dim(0)])
    device = RuntimeVariable(Interval(1 << 63, 1 << 63))
    with_device = IndexingMap(access.dims, access.ranges, [device], access.results)
    found, plain = (traffic_of(requests_of(a, 32, launch, 32)) for a in (with_device, access))
    assert found == plain


def test_what_lies_within_63_bits_is_counted_without_pythons_integers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launch = Launch.of(32, 1)
    dtypes = []

    def numbers_of(counter: counting.Counter, steps: Ints, size: int) -> Ints:
        dtypes.append(steps.dtype)
        dtypes.append(kept(counter, steps, size).dtype)
        return kept(counter, steps, size)

    kept = counting.Counter.numbers
    monkeypatch.setattr(counting.Counter, "numbers", numbers_of)
    access = launch.map((), [Dim(0) * (1 << 55)])
    assert traffic_of(requests_of(access, 32, launch, 32)).sectors == 32
    assert dtypes == [np.int64] * 6  # steps, and numbers of sectors, lines and elements


def test_requests_that_are_alike_are_counted_as_one_by_one(
    monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    draw = random.Random(11)
    merged = 0
    for _ in range(600 if full else 80):
        access, launch, bits = random_access(draw)
        budget = draw.choice([1 << 20, 1 << 9])  # of many a sample is drawn
        requests = requests_of(access, bits, launch, 32)
        monkeypatch.setattr(counting, "FEW", 1 << 40)
        each = traffic_of(requests, budget)
        monkeypatch.setattr(counting, "FEW", 0)
        assert traffic_of(requests, budget) == each, f"{access}, {bits} bits, {launch}"
        merged += (
            each.requests > 1
            and counting.Counter(requests, budget)._distinguishing_terms is not None
        )
    assert merged > 20


class Extreme(NamedTuple):
    """Sectors, lines and bytes of a request, or of all requests."""

    sectors: int
    lines: int
    asked: int


@pytest.mark.slow
def test_bounds_are_those_of_each_group_of_lanes_at_its_own_alignment(full: bool) -> None:
    draw = random.Random(12)
    several = gaps = 0
    for _ in range(600 if full else 150):
        access, launch, bits = random_access(draw)
        where = draw.choice([Dim(0), Dim(3), mod(Dim(0), 5), floordiv(Dim(0), 8), Dim(0) * 0])
        read = RuntimeVariable(Interval(0, draw.choice([1, 3, 2000])), "t", None, (where,))
        step = draw.choice([1, 2, 7, 40])
        access = access.with_(runtime=[read], results=[access.results[0] + Runtime(0) * step])
        requests = requests_of(access, bits, launch, 32)
        if runtime_terms(requests.address) is None or requests.lanes_at_most <= 0:
            continue
        if access.is_known_empty or bits < 8 or requests.lanes_at_most > 1 << 11:
            continue
        found = traffic_of(requests)
        best, worst = by_group(requests, step)
        told = found.best or found
        assert (told.sectors, told.lines, told.asked) == best, f"{access}, {bits} bits, {launch}"
        assert (found.sectors, found.lines, found.asked) == worst, f"{access}, {bits}, {launch}"
        several += best != worst
        gaps += worst.sectors * 32 > worst.asked * 2
    assert several > 10
    assert gaps > 10


def by_group(requests: Requests, step: int) -> tuple[Extreme, Extreme]:
    """The bounds of an access by every lane, group and alignment, without a shortcut."""
    map = requests.map
    [read] = map.runtime
    values = range(min(read.interval.hi + 1, requests.modulus))  # others shift by whole lines
    totals = [Extreme(0, 0, 0), Extreme(0, 0, 0)]
    for at in product(*[range(i.lo, i.hi + 1) for _, i in requests.free]):
        groups: dict[int, set[int]] = {}
        for lane in range(requests.warp):
            point = dict(zip([x for x, _ in requests.free], at, strict=True)) | {Dim(0): lane}
            inside = map.dims[0].interval.lo <= lane <= map.dims[0].interval.hi
            if inside and all(evaluate(e, point) in i for e, i in map.constraints):
                [which] = [evaluate(e, point) for e in read.arguments]
                address = evaluate(requests.address, point | {Runtime(0): 0})
                groups.setdefault(which, set()).add(address)
        here = [extremes_of(group, requests, step, values) for group in groups.values()]
        best = Extreme(*[max([low[k] for low, _ in here], default=0) for k in range(3)])
        worst = Extreme(*[sum([high[k] for _, high in here]) for k in range(3)])
        totals = [
            Extreme(*[a + b for a, b in zip(total, one, strict=True)])
            for total, one in zip(totals, (best, worst), strict=True)
        ]
    return totals[0], totals[1]


def extremes_of(
    group: set[int], requests: Requests, step: int, values: Iterable[int]
) -> tuple[Extreme, Extreme]:
    """The fewest and the most blocks of one group, over what it may read."""
    unit = requests.bits // 8
    every = []
    for value in values:
        first = {(address + value * step) * unit for address in group}
        touched = {b for a in first for b in range(a, a + unit * requests.vector)}
        every.append(Extreme(len({b // 32 for b in touched}), len({b // 128 for b in touched}), 0))
    asked = len(group) * unit * requests.vector
    low = Extreme(min(e.sectors for e in every), min(e.lines for e in every), asked)
    return low, Extreme(max(e.sectors for e in every), max(e.lines for e in every), asked)


def test_a_vector_is_one_request_only_where_it_is_aligned() -> None:
    launch = Launch.of(32, 1)
    for start, vector in ((0, 4), (2, 1), (1, 1), (8, 4)):
        access = launch.map((4,), [Dim(0) * 4 + Range(0) + start])
        assert requests_of(access, 32, launch, 32).vector == vector
    halves = launch.map((4,), [Dim(0) * 4 + Range(0) + 2])
    assert requests_of(halves, 32, launch, 32, unroll=4).vector == 2
    eight = launch.map((4,), [Dim(0) * 4 + Range(0)])
    assert requests_of(eight, 64, launch, 32, unroll=4).vector == 2  # 16 bytes at most
    assert requests_of(eight, 64, launch, 32).vector == 1  # a loop that is no unrolled one
