"""Thread maps written as layouts of Triton and CuTe, against what each thread holds."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product
from math import prod

import pytest

import hloscope
from hloscope.errors import ParseError, UnsupportedError
from hloscope.indexing import IndexingMap
from hloscope.indexing.layouts import Blocked, CuteLayout, layout_text
from hloscope.memory import ThreadLayout, parse_thread_map

Held = Counter[tuple[int, int, tuple[int, ...]]]
"""Thread, block and element, each as often as the thread touches it."""

NEGATE = "ENTRY e { p = f32[64,512] parameter(0) ROOT n = f32[64,512] negate(p) }"
BLOCKED = (
    "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], "
    "order = [1, 0]}>"
)


def held_by(m: IndexingMap) -> Held:
    found: Held = Counter()
    spans = [range(v.interval.lo, v.interval.hi + 1) for v in (*m.dims, *m.ranges)]
    for point in product(*spans):
        dims, ranges = point[: len(m.dims)], point[len(m.dims) :]
        if m.satisfies(dims, ranges):
            found[dims[0], dims[1], m.evaluate(dims, ranges)] += 1
    return found


def over(text: str, shape: tuple[int, ...], tile: tuple[int, ...] | None = None) -> IndexingMap:
    layout = parse_thread_map(text, tile)
    assert isinstance(layout, ThreadLayout)
    return layout.over(shape, 32)[0]


def origins(tile: tuple[int, ...], shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Where the tiles of a tensor begin, in row-major order."""
    steps = [range(0, size, n) for size, n in zip(shape, tile, strict=True)]
    return list(product(*steps))


def place(number: int, sizes: tuple[int, ...], order: tuple[int, ...]) -> list[int]:
    """The index with this number, the dimensions of `order` from the fastest to the slowest."""
    index = [0] * len(sizes)
    for d in order:
        number, index[d] = divmod(number, sizes[d])
    return index


@pytest.mark.parametrize("seed", range(20))
def test_a_blocked_layout_is_what_triton_says(seed: int) -> None:
    chance = random.Random(seed)
    rank = chance.choice((1, 2, 2, 3))
    order = tuple(chance.sample(range(rank), rank))
    lanes = [1] * rank
    for _ in range(5):
        lanes[chance.randrange(rank)] *= 2
    each = tuple([chance.choice((1, 2)) for _ in range(rank)])
    warps = tuple([chance.choice((1, 2)) if d == order[0] else 1 for d in range(rank)])
    tile = tuple([a * b * c for a, b, c in zip(each, lanes, warps, strict=True)])
    shape = tuple([chance.randrange(1, 2 * n + 2) for n in tile])
    text = str(Blocked(each, tuple(lanes), warps, order))
    expected: Held = Counter()
    for block, origin in enumerate(origins(tile, shape)):
        for thread in range(32 * prod(warps)):
            lane = place(thread % 32, tuple(lanes), order)
            warp = place(thread // 32, warps, order)
            for inside in product(*map(range, each)):
                element = tuple(
                    [
                        begin + (warp[d] * lanes[d] + lane[d]) * each[d] + inside[d]
                        for d, begin in enumerate(origin)
                    ]
                )
                if all(at < size for at, size in zip(element, shape, strict=True)):
                    expected[thread, block, element] += 1
    assert held_by(over(text, shape)) == expected
    linear = layout_text(Blocked.parse(text).to_linear(tile))
    assert held_by(over(linear, shape)) == expected


@pytest.mark.parametrize(
    ("text", "tile", "shape"),
    [
        ("(32,4):(1,32)", (128,), (300,)),
        ("((4,8),2):((32,1),16)", (16, 8), (32, 20)),
        ("((4,8),(2,2)):((16,1),(8,64))", (8, 16), (8, 33)),
        ("(16,(2,2)):(4,(2,1))", (4, 4, 4), (5, 4, 7)),
        ("32:2", (8, 8), (16, 8)),
        ("(8,1):(1,0)", (8,), (8,)),
        ("Sw<2,0,2> o 0 o (16,1):(1,0)", (4, 4), (4, 4)),
    ],
)
def test_a_cute_layout_leads_to_places_of_the_tile(
    text: str, tile: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    layout = CuteLayout.parse(text)
    threads = layout.to_map(by_mode=True).dims[0].interval.hi + 1
    order = tuple(range(len(tile)))
    expected: Held = Counter()
    for block, origin in enumerate(origins(tile, shape)):
        for x in range(layout.size):
            inside = place(layout(x), tile, order)
            element = tuple([a + b for a, b in zip(origin, inside, strict=True)])
            if all(at < size for at, size in zip(element, shape, strict=True)):
                expected[x % threads, block, element] += 1
    assert held_by(over(text, shape, tile)) == expected


def test_neighbours_of_a_thread_are_one_vector() -> None:
    kernel = hloscope.read(NEGATE).root
    for text, tile, vector in (
        (BLOCKED, None, 4),
        (BLOCKED, (16, 256), 4),
        (layout_text(Blocked.parse(BLOCKED).to_linear((4, 128))), None, 4),
        ("((1,128),4):((0,4),1)", (1, 512), 4),
        (BLOCKED.replace("order = [1, 0]", "order = [0, 1]"), None, 4),
        (BLOCKED.replace("[1, 4]", "[4, 1]"), None, 1),
    ):
        (operand,) = kernel.coalescing(thread_map=text, tile=tile).operands
        assert operand.traffic is not None
        assert (operand.traffic.vector, operand.traffic.efficiency) == (vector, 1.0), text


@pytest.mark.parametrize(
    ("text", "tile", "said"),
    [
        (str(Blocked((1,), (32,), (4,), (0,))), None, "the tile has rank 1, the tensor 2"),
        (BLOCKED.replace("[1, 32]", "[2, 32]"), None, "64 lanes, and warps of 32"),
        (BLOCKED.replace("[4, 1]", "[64, 1]"), None, "2,048 threads are more than the 1024"),
        (BLOCKED, (4, 96), "powers of two"),
        (layout_text(Blocked.parse(BLOCKED).to_linear((4, 128))), (4, 64), "a tile of its own"),
        ("(32,4):(1,32)", None, "needs the sizes of its tile"),
        ("(32,4):(1,32)", (128,), "the tile has rank 1, the tensor 2"),
        ("(32,4):(1,33)", (8, 16), "place 130 of a tile of 128"),
        ("(2,2,2):(1,2,4)", (2, 4), "3 modes"),
        ("(2048,2):(1,2048)", (64, 64), "2,048 threads"),
    ],
)  # fmt: skip
def test_layouts_that_fit_nothing_are_refused(
    text: str, tile: tuple[int, ...] | None, said: str
) -> None:
    with pytest.raises(UnsupportedError, match=said):
        hloscope.read(NEGATE).root.coalescing(thread_map=text, tile=tile)


@pytest.mark.parametrize("text", ["", "4", "(4:2", "#ttg.blocked<{}>", "x:y", "where out dims are"])
def test_texts_of_no_layout_are_errors(text: str) -> None:
    with pytest.raises(ParseError):
        parse_thread_map(text)


def test_outputs_of_other_sizes_need_launches_of_their_own() -> None:
    program = hloscope.read("""f { p = f32[64,512] parameter(0) n = f32[64,512] negate(p)
      s = f32[32,512] slice(n), slice={[0:32], [0:512]}
      ROOT t = (f32[64,512], f32[32,512]) tuple(n, s) }
    ENTRY e { p = f32[64,512] parameter(0)
      ROOT r = (f32[64,512], f32[32,512]) fusion(p), kind=kLoop, calls=f }""")
    with pytest.raises(UnsupportedError, match="one launch for all outputs"):
        program.root.coalescing(thread_map=BLOCKED)
