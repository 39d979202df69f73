"""Exact tiles against enumeration: images, holes, overlaps and counts."""

from __future__ import annotations

from itertools import product
from math import gcd, prod
from random import Random

import pytest

import hloscope
from hloscope.affine import Dim, Expr, Interval, Range, evaluate
from hloscope.indexing import IndexingMap, TileVerdict, Variable, exact_tiles

Truth = dict[tuple[int, ...], set[tuple[int, ...]]]


def truth(m: IndexingMap, sizes: tuple[int, ...]) -> Truth:
    """For each tile the elements it touches, one by one."""
    names = [*m.box]
    found: Truth = {}
    for values in product(*[m.box[v] for v in names]):
        at = dict(zip(names, values, strict=True))
        if all(evaluate(e, at) in interval for e, interval in m.constraints):
            tile = tuple([at[Dim(i)] // size for i, size in enumerate(sizes)])
            found.setdefault(tile, set()).add(tuple([evaluate(e, at) for e in m.results]))
    return found


def hull(elements: set[tuple[int, ...]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    sizes, strides = [], []
    for column in zip(*elements, strict=True):
        step = gcd(*[x - min(column) for x in column])
        strides.append(step)
        sizes.append((max(column) - min(column)) // max(step, 1) + 1)
    return tuple(sizes), tuple(strides)


def random_map(random: Random) -> IndexingMap:
    """Collapses, expansions, windows, slices, reverses, broadcasts, gathers of several, masks."""
    dims = [random.choice([1, 2, 3, 4, 5, 6, 8, 12]) for _ in range(random.randint(1, 3))]
    ranges = [random.choice([1, 2, 3, 4]) for _ in range(random.choice([0, 0, 1, 2]))]
    free: list[Expr] = [*map(Dim, range(len(dims))), *map(Range, range(len(ranges)))]
    random.shuffle(free)
    results: list[Expr | int] = []
    while free and len(results) < 4:
        terms = [free.pop() for _ in range(min(len(free), random.choice([1, 1, 2, 3])))]
        e: Expr = terms[0] * random.choice([1, 1, 1, 2, 3, -1])
        for term in terms[1:]:
            e = e + term * random.choice([1, 1, 2, 3, 4, 6, 8, 12, -2])
        e = e + random.choice([0, 0, 1, 20])
        form = random.randrange(6)
        by = random.choice([2, 3, 4, 6])
        if form == 0:
            results += [e // by, e % by]
        elif form == 1:
            results.append(random.choice([e // by, e % by, (e // 2) % by]))
        else:
            results.append(e)
    if random.random() < 0.15:
        results.append(random.randrange(3))
    constraints = []
    if random.random() < 0.2 and isinstance(results[0], Expr):
        low = random.randrange(4)
        constraints.append((results[0], Interval(low, low + random.randrange(1, 9))))
    return IndexingMap.of_sizes(dims, ranges, results, constraints)


def begun_later(m: IndexingMap, random: Random) -> IndexingMap:
    """The same map of indices some of which begin at 1 or 3, as behind the low end of a pad."""
    first = [random.choice([0, 0, 0, 1, 3]) for _ in m.dims]
    sides = zip(first, m.dims, strict=True)
    return m.with_(dims=[Variable(Interval(lo, lo + v.interval.hi)) for lo, v in sides])


def compare(m: IndexingMap, sizes: tuple[int, ...], shape: tuple[int, ...] | None = None) -> bool:
    """Agrees with enumeration; was it decided?"""
    shape = shape or tuple([v.interval.hi + 1 for v in m.dims])
    mine, wanted = exact_tiles([m], sizes, shape=shape), truth(m, sizes)
    where = f"{m} by {sizes}: {mine}"
    if not mine.is_decided:
        return False
    if not wanted:
        assert mine.verdict is TileVerdict.EMPTY, where
        return True
    assert mine.tiles == len(wanted), where
    union = set().union(*wanted.values())
    assert (mine.total, mine.union) == (sum(map(len, wanted.values())), len(union)), where
    assert mine.least == min(map(len, wanted.values())), where
    assert mine.most == max(map(len, wanted.values())), where
    hulls = {tile: hull(elements) for tile, elements in wanted.items()}
    holes = sum(prod(hulls[tile][0]) - len(wanted[tile]) for tile in wanted)
    assert mine.holes == holes, where
    assert (mine.verdict is TileVerdict.HOLES) == bool(holes), where
    ends = [n // size for n, size in zip(shape, sizes, strict=True)]
    whole = {hulls[t] for t in wanted if all(k < n for k, n in zip(t, ends, strict=True))}
    if whole:
        assert mine.shape is not None, where
        assert tuple(mine.shape) in whole, where
        assert (len(whole) == 1) == (mine.verdict is TileVerdict.BOX) or holes, where
    ragged = [d for d, (n, size) in enumerate(zip(shape, sizes, strict=True)) if n % size]
    assert [r.dim for r in mine.ragged] == ragged, where
    several = [x for x in union if sum(x in some for some in wanted.values()) > 1]
    assert mine.shared in (None, len(several)), where
    assert mine.shared is not None or several, where
    if mine.missing is not None:
        tile, element = mine.missing
        elements = wanted[tile]
        assert element not in elements, where
        lows = [min(column) for column in zip(*elements, strict=True)]
        for x, low, size, stride in zip(element, lows, *hulls[tile], strict=True):
            assert low <= x <= low + (size - 1) * stride, where
            assert (x - low) % max(stride, 1) == 0, where
    assert (mine.missing is not None) == bool(holes), where
    if mine.overlap is not None:
        (a, b), element = mine.overlap
        assert a != b, where
        assert element in wanted[a] & wanted[b], where
    assert (mine.overlap is not None) >= (len(several) > 0 and mine.shared is not None), where
    return True


@pytest.mark.slow
def test_what_tiles_touch_is_what_enumeration_finds(full: bool) -> None:
    random, undecided, count = Random(20261123), 0, 10_000 if full else 500
    for _ in range(count):
        m = begun_later(random_map(random), random)
        sizes = tuple([random.randint(1, v.interval.size + 1) for v in m.dims])
        shape = tuple([v.interval.hi + 1 + random.choice([0, 0, 1, 4]) for v in m.dims])
        undecided += not compare(m, sizes, shape)
    assert undecided <= count // 100


def test_nothing_is_enumerated_where_progressions_or_periods_say_it() -> None:
    collapse = IndexingMap.parse(
        "(d0, d1) -> (d0 * 50304 + d1), domain: d0 in [0, 8191], d1 in [0, 50303]"
    )
    assert collapse.tiles((2, 50304)).verdict is TileVerdict.BOX
    assert collapse.tiles((2, 64)).verdict is TileVerdict.HOLES
    expand = IndexingMap.parse("(d0) -> (d0 / 50304, d0 mod 50304), domain: d0 in [0, 412090367]")
    whole, part, cut = (expand.tiles([size]) for size in (50304 * 2, 64, 640))
    assert [whole.verdict, part.verdict, cut.verdict] == ["box", "box", "holes"]
    assert whole.shape is not None
    assert whole.shape.sizes == (2, 50304)
    assert (part.union, part.total, part.shared) == (412090368, 412090368, 0)


@pytest.mark.parametrize("budget", [0, 10])
def test_what_is_too_large_is_undecided(budget: int) -> None:
    m = IndexingMap.parse(
        "(d0, d1) -> ((d0 * 48 + d1) / 64, (d0 * 48 + d1) mod 64), domain: d0 in [0, 9999], "
        "d1 in [0, 47]"
    )
    found = exact_tiles([m], (4, 4), budget=budget)
    assert found.verdict is TileVerdict.UNDECIDED
    assert "enumerated" in found.reason


def test_values_read_at_run_time_move_a_tile_or_leave_it_open() -> None:
    moved = IndexingMap.parse("(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 9], rt0 in [0, 5]")
    assert moved.tiles((4,)).verdict is TileVerdict.BOX
    open_ = IndexingMap.parse("(d0){rt0} -> (d0 * rt0), domain: d0 in [0, 9], rt0 in [0, 5]")
    assert open_.tiles((4,)).verdict is TileVerdict.UNDECIDED


def test_examples_are_elements_for_the_least_values_read_at_run_time() -> None:
    moved = IndexingMap.parse(
        "(d0, d1){rt0} -> (d1 - rt0 + 9), domain: d0 in [0, 1], d1 in [0, 3], rt0 in [2, 9]"
    )
    found = moved.tiles((1, 2))
    assert found.is_moved
    assert found.overlap is not None
    assert found.overlap.element[0] - found.overlap.tiles[0][1] * 2 in (7, 8)


UNIONS = {
    "two starts": ("dynamic-slice(p, j), dynamic_slice_sizes={4}", None),
    "a start and none": ("slice(p), slice={[4:8]}", None),
    "one start": ("dynamic-slice(q, i), dynamic_slice_sizes={4}", 4),
}


@pytest.mark.parametrize(("second", "union"), UNIONS.values(), ids=[*UNIONS])
def test_what_is_moved_apart_at_run_time_has_no_union(second: str, union: int | None) -> None:
    view = hloscope.read(f"""
    f {{ p = f32[8] parameter(0)
      i = s32[] parameter(1)
      j = s32[] parameter(2)
      q = f32[8] reverse(p), dimensions={{0}}
      r = f32[8] reverse(q), dimensions={{0}}
      a = f32[4] dynamic-slice(p, i), dynamic_slice_sizes={{4}}
      b = f32[4] {second.replace("q", "r")}
      t = f32[4] reverse(b), dimensions={{0}}
      ROOT c = f32[4] add(a, t) }}
    ENTRY e {{ p = f32[8] parameter(0)
      i = s32[] parameter(1)
      j = s32[] parameter(2)
      ROOT x = f32[4] fusion(p, i, j), kind=kLoop, calls=f }}
    """).root
    found = view.tiles([2]).report.operands[0].exact
    if union is None:
        assert found.verdict is TileVerdict.UNDECIDED
        assert "read at run time" in found.reason
    else:
        assert (found.union, found.is_moved) == (union, True)


def test_dimensions_that_are_not_divided_are_told() -> None:
    found = IndexingMap.identity((10, 8)).tiles((4, 4))
    assert [(r.dim, r.last) for r in found.ragged] == [(0, 2)]
    assert (found.tiles, found.least, found.most) == (6, 8, 16)


@pytest.mark.parametrize("sizes", [(4,), (0, 4), (-1, 2), (4, 4, 4)])
def test_wrong_sizes_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="positive numbers are needed"):
        IndexingMap.identity((10, 8)).tiles(sizes)


def test_tiles_that_a_pad_cuts_are_no_whole_ones() -> None:
    inside = IndexingMap.parse("(d0) -> (d0 - 3), domain: d0 in [3, 11]")
    found = exact_tiles([inside], (5,), shape=(16,))
    assert found.verdict is TileVerdict.VARYING  # 2, 5 and 2 elements
    assert [(r.size, r.last) for r in found.ragged] == [(16, 1)]
    assert exact_tiles([inside], (3,), shape=(12,)).verdict is TileVerdict.BOX
