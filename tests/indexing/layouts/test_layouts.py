"""Maps become layouts and come back; the algebra of layouts is that of maps, which isl knows."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from random import Random

import pytest

from hloscope.affine import Dim
from hloscope.errors import HloscopeError, ParseError, UnsupportedError
from hloscope.indexing import IndexingMap, prove_equal
from hloscope.indexing.layouts import (
    Blocked,
    CuteLayout,
    Iterators,
    LinearLayout,
    Side,
    Swizzle,
    cute_of,
    form_of,
    iterators_of,
    layout_text,
    linear_of,
    parse_layout,
    thread_map,
)


def same(a: IndexingMap, b: IndexingMap) -> bool:
    return prove_equal([a], [b]).is_proved


def random_linear(random: Random, *, square: bool = False) -> LinearLayout:
    """A random matrix; or one of full rank, made of swaps and sums of columns."""
    outs = [random.randint(0, 3) for _ in range(random.randint(1, 3))]
    if square:
        bits = sum(outs)
        columns = [1 << k for k in range(bits)]
        for _ in range(3 * bits):
            a, b = random.randrange(bits), random.randrange(bits)
            if a != b:
                columns[a] ^= columns[b]
    else:
        columns = [random.randrange(1 << sum(outs)) for _ in range(random.randint(0, 6))]
    bases = []
    for column in columns:
        basis = []
        for width in outs:
            basis.append(column & ((1 << width) - 1))
            column >>= width
        bases.append(tuple(basis))
    cut = random.randint(0, len(bases))
    ins = (Side("lane", tuple(bases[:cut])), Side("register", tuple(bases[cut:])))
    return LinearLayout(ins, tuple((f"dim{k}", 1 << w) for k, w in enumerate(outs)))


def random_cute(random: Random, depth: int = 0) -> CuteLayout:
    """Nested modes with strides that may be anything."""
    if depth == 2 or random.random() < 0.4:
        return CuteLayout(random.randint(1, 6), random.choice((0, 1, 1, 2, 3, 4, 6, 8, 12, 24)))
    parts = [random_cute(random, depth + 1) for _ in range(random.randint(1, 3))]
    return CuteLayout(tuple(p.shape for p in parts), tuple(p.stride for p in parts))


def random_sum(random: Random) -> IndexingMap:
    """A map whose results are sums of digits of its variables."""
    dims = [random.choice((1, 2, 6, 8, 12)) for _ in range(random.randint(1, 3))]
    ranges = [random.choice((2, 3, 4)) for _ in range(random.randint(0, 2))]
    m = IndexingMap.of_sizes(dims, ranges)
    results = []
    for _ in range(random.randint(1, 3)):
        value = Dim(0) * 0 + random.randint(-5, 5)
        for v in m.box:
            lower = random.choice([d for d in range(1, 13) if m.box[v].size % d == 0])
            rest = m.box[v].size // lower
            extent = random.choice([d for d in range(1, 13) if rest % d == 0])
            value = value + (v // lower) % extent * random.randint(-3, 9)
        results.append(value)
    return m.with_(results=results).simplify(replace_points=False)


def check_linear(random: Random) -> None:
    layout = random_linear(random)
    m = layout.to_map(["register"])
    back = linear_of(m)
    assert back.ins == layout.ins
    assert same(back.to_map(["register"]), m)
    assert parse_layout(layout_text(layout)) == layout
    for _ in range(4):
        lane, register = (random.randrange(n) for n in layout.size_of.values())
        assert layout(lane=lane, register=register) == m.evaluate((lane,), (register,))
    for change in layout.kernel():
        at = {name: random.randrange(size) for name, size in layout.size_of.items()}
        moved = {name: value ^ change.get(name, 0) for name, value in at.items()}
        assert change
        assert layout(**moved) == layout(**at)
    assert len(layout.kernel()) + layout.rank == len(layout.columns)


def check_inverse(random: Random) -> None:
    layout = random_linear(random, square=True)
    back = layout.inverse()
    assert layout.is_injective
    assert layout.is_surjective
    assert same(layout.compose(back).to_map(), _identity(layout))
    assert same(layout.to_map().compose(back.to_map()), layout.compose(back).to_map())


def _identity(layout: LinearLayout) -> IndexingMap:
    return IndexingMap.identity(tuple(layout.size_of.values()))


def check_cute(random: Random) -> None:
    layout = random_cute(random)
    assert CuteLayout.parse(str(layout)) == layout
    m = layout.to_map(by_mode=True)
    assert same(cute_of(m).to_map(by_mode=len(m.dims) != 1), m)
    assert same(cute_of(layout.to_map()).to_map(), layout.to_map())
    assert same(layout.coalesce().to_map(), layout.to_map())
    for _ in range(3):
        x = random.randrange(layout.size)
        assert layout.to_map().evaluate((x,)) == (layout(x),)


def check_sums(random: Random) -> None:
    m = random_sum(random)
    found = iterators_of(m)
    assert same(found.to_map(), m)
    read = tuple([type(s).parse(str(s)) for s in found.sums])
    assert same(Iterators(found.dims, found.ranges, read).to_map(), m)


def check_composition(random: Random) -> None:
    a, b = random_cute(random), random_cute(random)
    try:
        both = a.compose(b)
    except UnsupportedError:
        return
    assert same(both.to_map(), b.to_map().compose(a.to_map()))
    assert both.size == b.size


def check_division(random: Random) -> None:
    a, tiler = random_cute(random), random_cute(random).coalesce()
    if a.size > 600 or tiler.size > 600:
        return
    try:
        rest = tiler.complement(a.size)
        both = CuteLayout((tiler.shape, rest.shape), (tiler.stride, rest.stride))
        values = sorted(both(x) for x in range(both.size))
        divided = a.logical_divide(tiler)
    except UnsupportedError:
        return
    distinct = [v for k, v in enumerate(values) if not k or v != values[k - 1]]
    assert distinct[: a.size] == [*range(len(distinct[: a.size]))]
    assert [divided(x) for x in range(divided.size)] == [a(both(x)) for x in range(both.size)]


CHECKS = {
    check_linear: 60,
    check_inverse: 8,
    check_cute: 60,
    check_sums: 60,
    check_composition: 60,
    check_division: 60,
}
"""Checks, and of how many random layouts by default."""


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_random_layouts_there_and_back(check: Callable[[Random], None], full: bool) -> None:
    for seed in range(2000 if full else CHECKS[check]):
        random = Random(seed)
        try:
            check(random)
        except Exception as error:
            raise AssertionError(f"{check.__name__}: seed {seed}") from error


def test_enough_random_compositions_are_admissible() -> None:
    count = 0
    for seed in range(200):
        random = Random(seed)
        a, b = random_cute(random), random_cute(random)
        try:
            count += a.compose(b).size > 1
        except UnsupportedError:
            continue
    assert count > 30


def test_modes_that_carry_into_each_other_are_no_composition() -> None:
    """Each mode by itself would be admissible; `1 + 4` is in the next mode of the outer layout."""
    outer, inner = CuteLayout.parse("(5,6):(3,15)"), CuteLayout.parse("(5,3):(1,1)")
    assert [outer.compose(inner)(x) for x in range(15)] == [outer(inner(x)) for x in range(15)]
    with pytest.raises(UnsupportedError, match="carry"):
        CuteLayout.parse("(5,6):(4,3)").compose(inner)


@pytest.mark.parametrize("swizzle", [Swizzle(2, 0, 3), Swizzle(3, 0, 3), Swizzle(2, 1, -2)])
def test_swizzles_are_linear_over_bits(swizzle: Swizzle) -> None:
    layout = CuteLayout((8, 8), (8, 1), swizzle)
    m = layout.to_map()
    assert [m.evaluate((x,))[0] for x in range(64)] == [layout(x) for x in range(64)]
    assert linear_of(m).is_injective
    assert CuteLayout.parse(str(layout)) == layout
    with pytest.raises(UnsupportedError):
        cute_of(m)


BLOCKED = [
    (Blocked((1, 4), (8, 4), (4, 1), (1, 0)), (32, 32), 4096),
    (Blocked((1, 4), (8, 4), (4, 1), (1, 0)), (16, 16), 512 * 2),
    (Blocked((2, 2), (4, 8), (2, 2), (0, 1)), (64, 16), 1024),
    (Blocked((4,), (32,), (4,), (0,)), (128,), 512),
]


@pytest.mark.parametrize(("blocked", "shape", "_"), BLOCKED)
def test_a_blocked_layout_covers_its_tensor(
    blocked: Blocked, shape: tuple[int, ...], _: int
) -> None:
    assert Blocked.parse(str(blocked)) == blocked
    layout = blocked.to_linear(shape)
    assert layout.is_surjective
    assert parse_layout(layout_text(layout)) == layout
    held = prod(layout.size_of.values())
    assert held == prod(shape) << len(layout.kernel())


def test_a_thread_map_reaches_every_element_once() -> None:
    layout = Blocked((1, 4), (8, 4), (4, 1), (1, 0)).to_linear((32, 16))
    m = thread_map(layout, (50, 40))
    assert [v.name for v in (*m.dims, *m.ranges)] == ["th_x", "bl_x", "register"]
    assert m.is_injective()
    assert m.image().card() == 50 * 40


REFUSED = [
    (linear_of, "(d0) -> (d0), domain: d0 in [0, 5]", "not a power of two"),
    (linear_of, "(d0) -> (d0 * 3), domain: d0 in [0, 7]", "not linear over bits"),
    (linear_of, "(d0) -> (d0 + 1), domain: d0 in [0, 7]", "offset"),
    (linear_of, "(d0) -> (d0), domain: d0 in [0, 7], d0 mod 2 in [0, 0]", "not linear"),
    (linear_of, "(d0) -> (d0 - 8), domain: d0 in [0, 7]", "negative"),
    (linear_of, "(d0) -> (d0), domain: d0 in [1, 8]", "from 0 on"),
    (linear_of, "(d0){rt0} -> (rt0), domain: d0 in [0, 7], rt0 in [0, 7]", "run time"),
    (cute_of, "(d0) -> (d0 + 1), domain: d0 in [0, 7]", "offset the pointer"),
    (cute_of, "(d0) -> (d0, d0), domain: d0 in [0, 7]", "linearise"),
    (cute_of, "(d0, d1) -> ((d0 + d1) / 2), domain: d0 in [0, 7], d1 in [0, 7]", "no sum"),
    (iterators_of, "(d0) -> (d0), domain: d0 in [0, 7], d0 mod 3 in [0, 0]", "no sum"),
    (iterators_of, "KNOWN EMPTY", "without any element"),
]


@pytest.mark.parametrize(("ask", "text", "said"), REFUSED)
def test_what_is_no_layout_is_refused(
    ask: Callable[[IndexingMap], object], text: str, said: str
) -> None:
    with pytest.raises(UnsupportedError, match=said):
        ask(IndexingMap.parse(text))


def test_an_offset_whose_bits_are_no_basis_stays() -> None:
    m = IndexingMap.parse("(d0) -> (d0 * 2 + 16), domain: d0 in [0, 7]")
    layout = linear_of(m)
    assert layout.offset == (16,)
    assert same(layout.to_map(), m)
    with pytest.raises(UnsupportedError, match="offset"):
        layout_text(layout)


@pytest.mark.parametrize(
    "text", ["", "4", "(4:1", "4:1:1", "(4,2):1", "0:1", "(" * 90 + ")" * 90 + ":1", "a:b", "1:(,)"]
)
def test_no_cute_layout(text: str) -> None:
    with pytest.raises(ParseError):
        CuteLayout.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- lane=2 -> (1)\nwhere out dims are: [x (size 4)]",
        "- lane=1 -> (9)\nwhere out dims are: [x (size 4)]",
        "- lane=1 -> (1)\nwhere out dims are: [x (size 3)]",
        "- lane=1 -> (1)",
        "where out dims are: [x (size 99999999999999999999)]",
    ],
)
def test_no_linear_layout(text: str) -> None:
    with pytest.raises(HloscopeError):
        parse_layout(text)


def test_one_wrong_value_is_found() -> None:
    m = IndexingMap.parse("(d0) -> (d0 / 4 + d0 mod 4 * 8 + d0 / 31), domain: d0 in [0, 31]")
    assert form_of(m) is None
