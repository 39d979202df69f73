"""Symbolic tiles are the images of tiles at the origin, wherever their constraints hold."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

import hloscope
from hloscope.affine import Dim, Interval, evaluate, variables
from hloscope.errors import UnsupportedError
from hloscope.indexing import IndexingMap
from hloscope.tiling import (
    ConstraintExpression,
    Divides,
    OneSign,
    Refusal,
    Run,
    SymbolicTile,
    TileConstraints,
    TiledComputation,
    Within,
    symbolic_tile,
)
from tests.indexing.test_tiles import random_map

COLLAPSE = (
    "(d0, d1, d2) -> (d0 * 24 + d1 * 6 + d2), domain: d0 in [0, 1], d1 in [0, 3], d2 in [0, 5]"
)
CASES = [
    # map, sizes, strides, offsets, tile sizes
    ("(d0) -> (d0), domain: d0 in [0, 9]", (4,), (4,), (1,), (0,)),
    ("(d0) -> (d0 * 3 + 2), domain: d0 in [0, 9]", (4,), (4,), (3,), (2,)),
    ("(d0) -> (9 - d0), domain: d0 in [0, 9]", (4,), (4,), (-1,), (9,)),
    ("(d0)[s0] -> (d0, s0), domain: d0 in [0, 9], s0 in [0, 6]", (4,), (4, 7), (1, 1), (0, 0)),
    ("(d0) -> (d0 / 6, d0 mod 6), domain: d0 in [0, 47]", (12,), (2, 6), (1, 1), (0, 0)),
    ("(d0) -> (d0 / 6, d0 mod 6), domain: d0 in [0, 47]", (3,), (1, 3), (1, 1), (0, 0)),
    ("(d0) -> ((d0 / 2) mod 4), domain: d0 in [0, 47]", (8,), (4,), (1,), (0,)),
    (COLLAPSE, (1, 1, 6), (6,), (1,), (0,)),
    (COLLAPSE, (1, 3, 6), (18,), (1,), (0,)),
    (COLLAPSE, (1, 3, 1), (3,), (6,), (0,)),
    (COLLAPSE, (2, 1, 1), (2,), (24,), (0,)),
    (COLLAPSE, (2, 4, 6), (48,), (1,), (0,)),
    ("(d0){rt0} -> (d0 + rt0), domain: d0 in [0, 9], rt0 in [0, 5]", (4,), (4,), (1,), ("rt0",)),
    ("(d0) -> (d0 - 5), domain: d0 in [5, 9]", (4,), (4,), (1,), (-5,)),
    ("(d0) -> (), domain: d0 in [0, 9]", (4,), (), (), ()),
]
REFUSED = [
    ("(d0) -> ((d0 * 5) / 6), domain: d0 in [0, 9]", "a quotient of something else"),
    ("(d0) -> ((d0 * 5) mod 6), domain: d0 in [0, 9]", "a remainder of something else"),
    ("(d0, d1) -> (d0 * 7 + d1), domain: d0 in [0, 3], d1 in [0, 5]",
     "size 6 times stride 1 is 6, but the next stride is 7"),
    ("(d0) -> (d0 + d0 / 2), domain: d0 in [0, 9]", "a sum of more than single dimensions"),
    ("(d0)[s0] -> (s0), domain: d0 in [0, 9], s0 in [2, 5]", "does not begin at 0"),
    ("(d0) -> (d0), domain: d0 in [0, 9], d0 mod 2 in [0, 0]", "does not cut a result"),
    ("(d0) -> (d0), domain: d0 in [0, 9], d0 in [20, 30]", "domain is empty"),
    ("(d0, d1) -> (min(d0, d1)), domain: d0 in [0, 9], d1 in [0, 9]", "no tile of"),
    ("(d0, d1) -> (d0 * d1), domain: d0 in [0, 9], d1 in [0, 9]", "no tile of"),
    ("(d0){rt0} -> (d0 * rt0), domain: d0 in [0, 9], rt0 in [0, 9]", "no tile of"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "tiling", "sizes", "strides", "offsets"), CASES)
def test_a_tile_has_these_sizes_strides_and_offsets(
    text: str,
    tiling: tuple[int, ...],
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    offsets: tuple[object, ...],
) -> None:
    tile = symbolic_tile(IndexingMap.parse(text))
    assert isinstance(tile, SymbolicTile)
    assert tile.constraints.holds(tiling)
    assert (tile.sizes_at(tiling), tile.strides_at(tiling)) == (sizes, strides)
    assert [str(e) for e in tile.offsets] == [str(e) for e in offsets]
    many = np.array([tiling])
    assert tuple(tile.sizes_array(many)[0]) == sizes
    assert tuple(tile.strides_array(many)[0]) == strides


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_a_refusal_says_why(text: str, reason: str) -> None:
    found = symbolic_tile(IndexingMap.parse(text))
    assert isinstance(found, Refusal)
    assert reason in found.reason
    assert found.expr is not None or found.constraint is not None or "empty" in reason


@pytest.mark.parametrize("sizes", [(1, 2, 6), (2, 2, 6), (2, 4, 3), (2, 1, 6), (1, 4, 5)])
def test_partly_taken_runs_are_told_from_whole_ones(sizes: tuple[int, ...]) -> None:
    tile = symbolic_tile(IndexingMap.parse(COLLAPSE))
    assert isinstance(tile, SymbolicTile)
    expected = sizes == (1, 2, 6)
    assert tile.constraints.holds(sizes) is expected
    assert tile.constraints.expand().holds(sizes) is expected


def test_a_tile_is_the_image_of_the_tile_at_the_origin(full: bool) -> None:
    """It holds the image always, and is it where no variable is in two results."""
    random, compared = Random(7), 0
    for _ in range(8000 if full else 800):
        m = random_map(random)
        tile = symbolic_tile(m)
        if isinstance(tile, Refusal) or m.constraints:
            continue
        sizes = tuple([random.randint(1, v.interval.size) for v in m.dims])
        if not (tile.constraints & tile.dropped).holds(sizes):
            continue
        boxes = [range(n) for n in sizes] + [v.interval for v in m.ranges]
        image = {
            tuple([evaluate(e, dict(zip(m.box, point, strict=True))) for e in m.results])
            for point in product(*boxes)
        }
        offsets = [evaluate(e, {}) for e in tile.offsets]
        parts = zip(offsets, tile.sizes_at(sizes), tile.strides_at(sizes), strict=True)
        told = {*product(*[[o + k * s for k in range(n)] for o, n, s in parts])}
        assert told >= image, f"{m} by {sizes}"
        used = [v for e in m.simplify().results for v in variables(e)]
        if len(used) == len(set(used)):  # results are tiled one by one, as if independent
            assert told == image, f"{m} by {sizes}"
            compared += 1
    assert compared > 100


def test_clauses_and_their_normal_form_say_the_same_of_all_sizes() -> None:
    every = np.array([*product(range(1, 9), range(1, 7), range(1, 5))])
    clauses = [
        Run((Dim(0), Dim(1), Dim(2)), (8, 6, 4)),
        Divides((Dim(0) + 1) // 2, 4),
        OneSign((Dim(0),), (Dim(1), Dim(2))),
        Within(Dim(0) * Dim(1), Interval(3, 20)),
    ]
    for some in ([clause] for clause in clauses):
        check(TileConstraints.of(*some), every)
    check(TileConstraints.of(*clauses[:3]), every)
    check(TileConstraints.of(*clauses), every)


def check(constraints: TileConstraints, every: np.ndarray) -> None:
    found = constraints.holds_array(every)
    normal = constraints.expand()
    assert [constraints.holds(row) for row in every.tolist()] == found.tolist()
    assert [normal.holds(row) for row in every.tolist()] == found.tolist()
    assert constraints.is_satisfiable == normal.is_satisfiable


def test_constraints_that_exclude_each_other_are_unsatisfiable() -> None:
    both = TileConstraints.of(Within(Dim(0), Interval(1, 1)), Within(Dim(0), Interval(4, 4)))
    assert not both.is_satisfiable
    assert not both.expand().is_satisfiable
    assert str(ConstraintExpression()) == "unsatisfiable"


@pytest.mark.slow
def test_many_runs_are_satisfiable_at_once_but_not_written_out() -> None:
    runs = [Run(tuple(map(Dim, range(k, k + 16))), (2,) * 16) for k in range(12)]
    constraints = TileConstraints.of(*runs)
    assert constraints.is_satisfiable
    assert constraints.holds([1] * 28)
    with pytest.raises(UnsupportedError, match="more than 20,000 conjunctions"):
        constraints.expand()


def test_what_xla_forgets_under_a_multiplication_is_kept() -> None:
    reversed_ = IndexingMap.parse("(d0) -> (7 - d0 / 6, 5 - d0 mod 6), domain: d0 in [0, 47]")
    tile = symbolic_tile(reversed_)
    assert isinstance(tile, SymbolicTile)
    assert tile.constraints.holds((17,))
    assert not tile.dropped.holds((17,))
    assert reversed_.tiles((17,)).verdict == "holes"


PADDED = """
add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }
f { p = f32[6] parameter(0)
  z = f32[] constant(0)
  ROOT w = f32[8] reduce-window(p, z), window={size=1 pad=1_1}, to_apply=add }
ENTRY e { p = f32[6] parameter(0) ROOT x = f32[8] fusion(p), kind=kLoop, calls=f }
"""


def test_a_tile_that_begins_in_padding_is_not_left_out() -> None:
    """The first of two elements reads nothing, the second does."""
    view = hloscope.read(PADDED).root
    two, one = [view.tiles([size]).report.tiled for size in (2, 1)]
    assert isinstance(two, Refusal)
    assert "not divisible by tile size 2" in two.reason
    assert isinstance(one, TiledComputation)
    (read,) = [t for t in one.instructions if t.instruction.name == "p"]
    assert str(read.offsets) == "(pid_0) -> (pid_0 - 1), domain: pid_0 in [1, 6]"


DILATED = PADDED.replace("pad=1_1", "lhs_dilate=2").replace("[6]", "[7]").replace("[8]", "[13]")
STEPPED = """
f { p = f32[3] parameter(0)
  n = f32[3] negate(p)
  s = f32[2] slice(n), slice={[0:3:2]}
  e = f32[2] exponential(s)
  ROOT t = (f32[2], f32[3]) tuple(e, n) }
ENTRY e { p = f32[3] parameter(0) ROOT x = (f32[2], f32[3]) fusion(p), kind=kLoop, calls=f }
"""


def test_tiles_that_do_not_meet_what_is_dilated_are_refused() -> None:
    """Every other element reads; the second tile of three begins with one that does not."""
    view = hloscope.read(
        DILATED.replace("[13]", "[13,1]")
        .replace("[7]", "[7,1]")
        .replace("size=1 lhs_dilate=2", "size=1x1 lhs_dilate=2x1")
    ).root
    three, two = [view.tiles([size, 1]).report.tiled for size in (3, 2)]
    assert isinstance(three, Refusal)
    assert isinstance(two, TiledComputation)


def test_a_root_is_not_computed_by_a_tile_with_steps() -> None:
    refused = hloscope.read(STEPPED).root.tiles([4]).report.tiled
    assert isinstance(refused, Refusal)
    assert "no tile can be taken over" in refused.reason


JOINED = """
f { p = f32[2,4] parameter(0)
  q = f32[4,3] parameter(1)
  r = f32[2,3] parameter(2)
  d = f32[2,3] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[4,3] concatenate(d, r), dimensions={0}
  ROOT t = f32[3,4] transpose(c), dimensions={1,0} }
ENTRY e { p = f32[2,4] parameter(0) q = f32[4,3] parameter(1) r = f32[2,3] parameter(2)
  ROOT x = f32[3,4] fusion(p, q, r), kind=kLoop, calls=f }
"""


def test_loops_in_an_operand_of_a_concatenate_count_all_programs() -> None:
    """Of each row of four tiles, the first two compute the product, in four steps each."""
    tiled = hloscope.read(JOINED).root.tiles([1, 1, 1]).report.tiled
    assert isinstance(tiled, TiledComputation)
    (read,) = [t for t in tiled.every() if t.instruction.name == "p"]
    found = [[*read.offsets.points((pid,))] for pid in range(3 * 4 * 4)]
    wanted = [
        [(row, step)] if row < 2 else [] for _ in range(3) for row in range(4) for step in range(4)
    ]
    assert found == wanted
