"""Bytes of tilings against counting every tile's elements; rankings against `--sizes`."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hloscope.affine import Dim, Range, Var, evaluate
from hloscope.fusion import Analysis
from hloscope.hlo_parser import parse_hlo
from hloscope.ir import TensorType
from hloscope.support.devices import limits_of
from hloscope.tiling import (
    Fused,
    Refusal,
    SymbolicTiles,
    TiledComputation,
    Tiler,
    search,
    symbolic_tiles,
    tile_report,
)
from hloscope.tiling.sweeping import arrays_of
from tests.tiling.programs import PROGRAMS

TRANSACTION = 64


def brute_force(symbolic: SymbolicTiles, tiled: TiledComputation) -> int:
    """Bytes of all transactions, from each element that each tile of each program touches.

    Each tile is moved so that it begins at a border.  What lies beyond the output is cut off by
    taking the image of the indices that there are, not of tile sizes.
    """
    total = 0
    sizes = tiled.sizes
    seen: set[tuple[object, ...]] = set()
    for node, region, of_root in arrays_of(symbolic):
        type = node.instruction.type
        assert isinstance(type, TensorType)
        spans = []
        for p, v in enumerate(node.map.dims):
            lo, hi = region.root.map.dims[p].interval.lo, region.root.map.dims[p].interval.hi
            if p in region.active:
                first, last = lo // sizes[p], hi // sizes[p]
                spans.append([range(max(t * sizes[p], lo), min((t + 1) * sizes[p], hi + 1))
                              for t in range(first, last + 1)])  # fmt: skip
            else:
                spans.append([range(v.interval.lo, v.interval.lo + 1)])
        for at, tile in enumerate(product(*spans)):
            axes = [*tile, *[range(v.interval.lo, v.interval.hi + 1) for v in node.map.ranges]]
            names: list[Var] = [
                *map(Dim, range(len(tile))),
                *map(Range, range(len(node.map.ranges))),
            ]
            elements = {
                tuple(evaluate(e, dict(zip(names, index, strict=True))) for e in node.map.results)
                for index in product(*axes)
            }
            inside = [range(n) for n in type.shape]
            elements = {e for e in elements if all(map(range.__contains__, inside, e))}
            key = (node.instruction, id(region.root), at, frozenset(elements))
            if of_root < 0 and key in seen:
                continue  # one load for both
            seen.add(key)
            order = np.array([*elements], dtype=np.int64).reshape(len(elements), len(type.shape))
            steps = [prod(type.shape[d + 1 :]) for d in range(len(type.shape))]
            bytes_ = (order @ np.array(steps, dtype=np.int64)) * (type.element.bits // 8)
            if len(bytes_):
                total += len({*((bytes_ - bytes_.min()) // TRANSACTION).tolist()}) * TRANSACTION
    return total


def fusion(body: list[str], shapes: list[str], result: str) -> str:
    inside = [f"p{k} = {shape} parameter({k})" for k, shape in enumerate(shapes)]
    outside = [f"a{k} = {shape} parameter({k})" for k, shape in enumerate(shapes)]
    names = ", ".join(f"a{k}" for k in range(len(shapes)))
    add = "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT s = f32[] add(x, y) }"
    root = f"ROOT x = {result} fusion({names}), kind=kLoop, calls=f"
    lines = [add, "f {", *inside, *body[:-1], f"ROOT {body[-1]}", "}"]
    return "\n".join([*lines, "ENTRY e {", *outside, root, "}"])


@st.composite
def fusions(draw: st.DrawFn) -> str:
    """A random fusion: movements, reductions, concatenates and products of small arrays."""
    kind = draw(st.sampled_from(["move", "concatenate", "softmax", "dot", "slice", "reshape"]))
    size = st.integers(1, 20)
    m, n = draw(size), draw(size)
    if kind == "move":
        return fusion([f"t = f32[{n},{m}] transpose(p0), dimensions={{1,0}}",
                       f"r = f32[{n},{m}] add(t, p1)"],
                      [f"f32[{m},{n}]", f"f32[{n},{m}]"], f"f32[{n},{m}]")  # fmt: skip
    if kind == "concatenate":
        k = draw(size)
        return fusion([f"r = f32[{m},{n + k}] concatenate(p0, p1), dimensions={{1}}"],
                      [f"f32[{m},{n}]", f"f32[{m},{k}]"], f"f32[{m},{n + k}]")  # fmt: skip
    if kind == "softmax":
        return fusion(["z = f32[] constant(0)",
                       f"s = f32[{m}] reduce(p0, z), dimensions={{1}}, to_apply=add",
                       f"b = f32[{m},{n}] broadcast(s), dimensions={{0}}",
                       f"r = f32[{m},{n}] divide(p0, b)"],
                      [f"f32[{m},{n}]"], f"f32[{m},{n}]")  # fmt: skip
    if kind == "dot":
        k = draw(st.integers(1, 8))
        return fusion([f"r = f32[{m},{n}] dot(p0, p1), lhs_contracting_dims={{1}}, "
                       "rhs_contracting_dims={0}"],
                      [f"f32[{m},{k}]", f"f32[{k},{n}]"], f"f32[{m},{n}]")  # fmt: skip
    if kind == "slice":
        step, start = draw(st.integers(1, 20)), draw(st.integers(0, 3))
        whole = start + step * (n - 1) + 1
        return fusion([f"r = f32[{m},{n}] slice(p0), slice={{[0:{m}],[{start}:{whole}:{step}]}}"],
                      [f"f32[{m},{whole}]"], f"f32[{m},{n}]")  # fmt: skip
    return fusion([f"r = f32[{m * n}] reshape(p0)"], [f"f32[{m},{n}]"], f"f32[{m * n}]")


@settings(max_examples=60, deadline=None)
@given(fusions(), st.data())
def test_ranked_tilings_are_accepted_and_their_bytes_are_those_counted(
    text: str, data: st.DataObject
) -> None:
    ins = parse_hlo(text).entry.root
    symbolic = symbolic_tiles(Fused.of(ins))
    assert isinstance(symbolic, SymbolicTiles)
    ranking = search(symbolic, limits_of("h100"), top=40)
    tiler = Tiler(symbolic)
    for choice in (*ranking.best, *ranking.refused):
        tiled = tiler.tiled(choice.sizes)
        assert isinstance(tiled, TiledComputation), (choice, tiled)
    if ranking.best:
        choice = data.draw(st.sampled_from(ranking.best))
        tiled = tiler.tiled(choice.sizes)
        assert isinstance(tiled, TiledComputation)
        assert choice.bytes_moved == brute_force(symbolic, tiled), choice.sizes
        analysis = Analysis()
        report = tile_report(ins, analysis, Analysis(convention="xla"), choice.sizes)
        assert report.refusal is None


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_all_that_is_ranked_is_accepted_and_nothing_else_is_called_valid(name: str) -> None:
    symbolic = symbolic_tiles(Fused.of(parse_hlo(PROGRAMS[name]).entry.root))
    if isinstance(symbolic, Refusal):
        return
    ranking = search(symbolic, limits_of("h100"), top=1000)
    tiler = Tiler(symbolic)
    accepted = [s for s in tiler.valid_tilings() if not isinstance(tiler.tiled(s), Refusal)]
    if all(p.size for p in symbolic.parameters):
        assert ranking.valid == len(accepted)
    for choice in ranking.best:
        assert choice.sizes in accepted
