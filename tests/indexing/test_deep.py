"""Maps of results many divisions deep: composed right, of a number of parts that grows slowly."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import pytest

import hloscope
from benchmarks.growth import rearrangements
from hloscope.affine import Dim, Expr, Interval, meaning, postorder
from hloscope.indexing import IndexingMap, compose_deep, is_deep, prove_inverse
from hloscope.indexing.compose import compose

SHAPES = {
    48: [(48,), (6, 8), (4, 12), (2, 3, 8), (4, 3, 4), (2, 2, 12), (16, 3)],
    60: [(60,), (5, 12), (4, 15), (3, 4, 5), (6, 10), (2, 5, 6)],
}


class Chain:
    """Random operations that move elements, as a program's text and as numpy does them.

    The array holds the position of each element in the parameter, so that what an element of the
    result reads is written in it.
    """

    def __init__(self, seed: int, rounds: int, *, at_run_time: bool = False) -> None:
        self.random = random.Random(seed)
        self.size = self.random.choice([*SHAPES])
        self.shape = self.random.choice(SHAPES[self.size])
        self.start = self.shape
        self.held = np.arange(self.size).reshape(self.shape)
        self.name, self.lines = "p", [f"p = f32[{_sizes(self.shape)}] parameter(0)"]
        self.at = self.random.randrange(0, 5)
        if at_run_time:
            self.lines += ["i = s32[] parameter(1)", "z = s32[] constant(0)"]
        for k in range(rounds):
            self.rearrange(k)
            if at_run_time and k % 5 == 2:
                self.cut(k)
            if self.random.random() < 0.1:
                self.turn(k)

    def add(self, name: str, value: Any, text: str) -> None:
        self.lines.append(f"{name} = f32[{_sizes(value.shape)}] {text}")
        self.name, self.held = name, value

    def rearrange(self, k: int) -> None:
        split = self.random.choice(SHAPES[self.size])
        order = self.random.sample(range(len(split)), len(split))
        joined = self.random.choice(SHAPES[self.size])
        self.add(f"a{k}", self.held.reshape(split), f"reshape({self.name})")
        dims = _sizes(tuple(order))
        self.add(f"b{k}", self.held.transpose(order), f"transpose(a{k}), dimensions={{{dims}}}")
        self.add(f"c{k}", self.held.reshape(joined), f"reshape(b{k})")

    def turn(self, k: int) -> None:
        axis = self.random.randrange(self.held.ndim)
        value = np.flip(self.held, axis)
        self.add(f"r{k}", value, f"reverse({self.name}), dimensions={{{axis}}}")

    def cut(self, k: int) -> None:
        """Half of each, from a row that is read at run time, twice."""
        flat = self.held.reshape(2, -1)
        self.add(f"f{k}", flat, f"reshape({self.name})")
        half = flat.shape[1] // 2
        start = min(self.at, flat.shape[1] - half)
        part = flat[:, start : start + half]
        sizes = f"2,{half}"
        self.add(f"s{k}", part, f"dynamic-slice(f{k}, z, i), dynamic_slice_sizes={{{sizes}}}")
        value = np.concatenate([part, part], 1)
        self.add(f"v{k}", value, f"concatenate(s{k}, s{k}), dimensions={{1}}")
        last = self.random.choice(SHAPES[self.size])
        self.add(f"w{k}", self.held.reshape(last), f"reshape(v{k})")

    def text(self, *, at_run_time: bool = False) -> str:
        """A program of one fusion."""
        body = "\n".join(self.lines[:-1]) + f"\nROOT {self.lines[-1]}"
        head = f"p = f32[{_sizes(self.start)}] parameter(0)"
        operands = "p"
        if at_run_time:
            head += "\ni = s32[] parameter(1)"
            operands = "p, i"
        kind = f"f32[{_sizes(self.held.shape)}] fusion({operands}), kind=kLoop, calls=f"
        return f"HloModule m\nf {{\n{body}\n}}\nENTRY e {{\n{head}\nROOT r = {kind}\n}}"


def _sizes(shape: tuple[int, ...]) -> str:
    return ",".join(map(str, shape))


def grid(shape: tuple[int, ...]) -> list[Any]:
    return [*np.meshgrid(*map(np.arange, shape), indexing="ij")]


@pytest.fixture(scope="module")
def deep() -> IndexingMap:
    found = hloscope.read(rearrangements(64)).root.indexing().map
    assert found is not None
    return found


@pytest.mark.slow(keep=2)
@pytest.mark.timeout(60)
@pytest.mark.parametrize("seed", range(24))
def test_random_chains_read_what_numpy_reads(seed: int) -> None:
    chain = Chain(seed, rounds=seed % 12 + 3)
    access = hloscope.read(chain.text()).root.indexing()
    m = access.map
    assert m is not None
    at = grid(chain.held.shape)
    assert m.satisfies_array(at).all()
    found = np.ravel_multi_index(m.evaluate_array(at), chain.start)
    assert (found == chain.held).all()
    assert IndexingMap.parse(str(m)) == m


@pytest.mark.slow(keep=1)
@pytest.mark.timeout(60)
@pytest.mark.parametrize("seed", range(4))
def test_chains_that_read_where_to_read(seed: int) -> None:
    """Two halves are joined: what is read is in one of the maps where its domain is."""
    chain = Chain(seed, rounds=8, at_run_time=True)
    answer = hloscope.read(chain.text(at_run_time=True)).root.indexing(operand=0)
    at = grid(chain.held.shape)
    found = np.full(chain.held.shape, -1)
    for access in [access for operand in answer for access in operand]:
        m = access.map
        assert m is not None
        assert not m.ranges
        values = [min(chain.at, v.values.hi) for v in m.runtime]
        here = m.satisfies_array(at, (), values)
        assert (found[here] == -1).all()
        read = np.ravel_multi_index(m.evaluate_array(at, (), values), chain.start, mode="clip")
        found[here] = read[here]
    assert (found == chain.held).all()


@pytest.mark.timeout(60)
def test_the_graph_grows_with_the_rounds_not_with_the_paths() -> None:
    sizes = []
    for n in (16, 32, 64):
        m = hloscope.read(rearrangements(n)).root.indexing().map
        assert m is not None
        assert is_deep(m)
        sizes.append(len(postorder(*m.results, *[e for e, _ in m.constraints])))
    assert all(b < 2.5 * a for a, b in pairwise(sizes))


@pytest.mark.timeout(60)
def test_bounds_of_shared_parts_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    of_node = meaning.bounds_of_node
    monkeypatch.setattr(
        meaning, "bounds_of_node", lambda x, *more: found.append(x) or of_node(x, *more)
    )
    counts = []
    for n in (32, 64, 128):
        meaning._deep_bounds.cache_clear()
        hloscope.read(rearrangements(n)).root.indexing()
        counts.append(len(found))
        found.clear()
    assert counts[0] > 32
    assert all(b < 2.5 * a for a, b in pairwise(counts))


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_questions_about_deep_maps_end(deep: IndexingMap) -> None:
    x = np.arange(64 * 48).reshape(64, 48)
    for _ in range(64):
        x = x.reshape(4, 16, 3, 16).transpose(1, 2, 0, 3).reshape(64, 48)
    row, column = np.divmod(x, 48)
    assert deep.card() == x.size
    assert deep.is_injective()
    assert deep.is_bijective((64, 48))
    assert not deep.is_bijective((64, 49))
    assert deep.evaluate((3, 5)) == (row[3, 5], column[3, 5])
    assert deep.points((7, 11)) == {(row[7, 11], column[7, 11])}
    assert deep.simplify(exact=True).equals(deep)
    assert not deep.equals(IndexingMap.identity((64, 48)))
    assert deep.implies(deep.with_(constraints=()))
    back = deep.inverse()
    assert not prove_inverse([deep], [back]).is_refuted
    twice = deep.compose(deep).simplify()
    assert twice.evaluate((3, 5)) == deep.evaluate(deep.evaluate((3, 5)))
    assert deep.tiles([8, 8]).shape is not None


@pytest.mark.timeout(60)
def test_answers_about_deep_maps_are_written_with_names_for_parts(deep: IndexingMap) -> None:
    view = hloscope.read(rearrangements(64)).root
    answer = view.indexing()
    for text in (str(answer), answer.to_latex(), answer.to_html(), str(answer.to_json())):
        assert len(text) < 100_000
    assert ", where t0 = " in str(deep)
    assert IndexingMap.parse(str(deep)) == deep
    assert IndexingMap.parse(deep.text("mlir")) == deep
    with pytest.raises(hloscope.HloscopeError, match="written out, it has"):
        deep.text(plain=True)
    with pytest.raises(hloscope.HloscopeError, match="written out, it has"):
        answer.to_print_indexing()
    few = hloscope.read(rearrangements(8)).root.indexing().map
    assert few is not None
    assert "where" not in few.text(plain=True)
    assert IndexingMap.parse(few.text(plain=True)) == few


# ------------------------------------------------------------------------- compositions, forced


def pairs(count: int) -> Iterator[tuple[IndexingMap, IndexingMap]]:
    """Maps that follow each other, with range and runtime variables and constraints."""
    rng = random.Random(7)

    def expr(variables: list[Expr], depth: int) -> Expr:
        if not depth or rng.random() < 0.1:
            return rng.choice(variables) * rng.choice([1, 1, 2, 5, -1]) + rng.randrange(3)
        a, b = expr(variables, depth - 1), expr(variables, depth - 1)
        c = rng.choice([2, 3, 4, 6])
        return rng.choice([a // c * 3 + b, a % c + b, (a + b) // c, (a * 2 + b) % c])

    def one(deep: int) -> IndexingMap:
        ranges, runtime = rng.randrange(2), rng.randrange(2)
        head = f"(d0, d1){'[s0]' * ranges}{'{rt0}' * runtime} -> (d0, d1)"
        limits = ["d0 in [0, 6]", "d1 in [0, 5]"]
        limits += ["s0 in [0, 2]"] * ranges + ["rt0 in [0, 3]"] * runtime
        m = IndexingMap.parse(f"{head}, domain: {', '.join(limits)}")
        some: list[Expr] = [*m.box]
        results = [expr(some, deep) % 7, expr(some, deep) % 6]
        facts = [(expr(some, rng.choice([1, deep])) % 5, Interval(0, 3))]
        return m.with_(results=results, constraints=facts * rng.randrange(2))

    for _ in range(count):
        yield one(5), one(2)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_composed_by_the_outermost_divisions_is_the_composition() -> None:
    deep_ones = 0
    for first, second in pairs(60):
        deep_ones += is_deep(first)
        direct, found = compose(first, second), compose_deep(first, second)
        assert len(found.dims) == 2
        assert not found.verify()
        if found.is_known_empty:
            found = direct.with_(constraints=[(direct.results[0] * 0 + 1, Interval(0, 0))])
        assert _pairs(found) == _pairs(direct)
    assert deep_ones > 30


def _pairs(m: IndexingMap) -> set[tuple[int, ...]]:
    """Index, values of runtime variables and result, for all points in the domain."""
    if m.is_known_empty:
        return set()
    sizes = [range(i.lo, i.hi + 1) for i in m.box.values()]
    assert prod(map(len, sizes)) <= 1 << 16
    at = [a.ravel() for a in np.meshgrid(*sizes, indexing="ij")]
    n, r = len(m.dims), len(m.dims) + len(m.ranges)
    inside = m.satisfies_array(at[:n], at[n:r], at[r:])
    every = [*at[:n], *at[r:], *m.evaluate_array(at[:n], at[n:r], at[r:])]
    columns = [np.broadcast_to(c, inside.shape)[inside].tolist() for c in every]
    return set(zip(*columns, strict=True))


def test_names_of_inner_parts_do_not_stay() -> None:
    first, second = next(pairs(1))
    found = compose_deep(first, second)
    assert all(v.index < 2 for e in found.results for v in postorder(e) if isinstance(v, Dim))
