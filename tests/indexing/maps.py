"""Random maps over small boxes, and their relations by enumeration."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from hypothesis import strategies as st

from hloscope.affine import (
    Const,
    Dim,
    Expr,
    Interval,
    Range,
    Runtime,
    Var,
    ceildiv,
    maximum,
    minimum,
)
from hloscope.indexing import IndexingMap, RuntimeVariable, Variable

Pair = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]

divisors = st.sampled_from([1, 2, 3, 4, 6, 8, -1, -2, -3])
small = st.integers(-6, 6)


def exprs(variables: Sequence[Var], max_leaves: int = 6) -> st.SearchStrategy[Expr]:
    leaves: st.SearchStrategy[Expr] = st.builds(Const, small)
    if variables:
        leaves = st.sampled_from(variables) | leaves

    def grow(sub: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        return st.one_of(
            st.builds(lambda a, b: a + b, sub, sub),
            st.builds(lambda a, b: a - b, sub, sub),
            st.builds(lambda a, k: a * k, sub, small),
            st.builds(lambda a, k: a // k, sub, divisors),
            st.builds(lambda a, k: a % k, sub, divisors),
            st.builds(ceildiv, sub, divisors),
            st.builds(minimum, sub, sub),
            st.builds(maximum, sub, sub),
        )

    return st.recursive(leaves, grow, max_leaves=max_leaves)


intervals = st.builds(lambda lo, n: Interval(lo, lo + n), st.integers(-3, 3), st.integers(0, 5))
conditions = st.builds(lambda lo, n: Interval(lo, lo + n), st.integers(-8, 8), st.integers(0, 8))


@st.composite
def maps(
    draw: st.DrawFn,
    *,
    num_dims: int | None = None,
    num_results: int | None = None,
    runtime: int = 1,
    ranges: int = 2,
    constraints: int = 2,
    max_leaves: int = 6,
) -> IndexingMap:
    n = draw(st.integers(0, 2)) if num_dims is None else num_dims
    dims = [Variable(draw(intervals)) for _ in range(n)]
    range_vars = [Variable(draw(intervals)) for _ in range(draw(st.integers(0, ranges)))]
    rts = [RuntimeVariable(draw(intervals)) for _ in range(draw(st.integers(0, runtime)))]
    variables: list[Var] = [Dim(i) for i in range(n)]
    variables += [Range(i) for i in range(len(range_vars))]
    variables += [Runtime(i) for i in range(len(rts))]
    some = exprs(variables, max_leaves)
    count = draw(st.integers(0, 2)) if num_results is None else num_results
    return IndexingMap(
        dims,
        range_vars,
        rts,
        [draw(some) for _ in range(count)],
        [(draw(some), draw(conditions)) for _ in range(draw(st.integers(0, constraints)))],
    )


def relation(
    m: IndexingMap,
    dims: Sequence[Interval] | None = None,
    runtime: Sequence[Interval] | None = None,
) -> set[Pair]:
    """All `(runtime values, index, result)`, over the given boxes or the map's own."""
    dims = [v.interval for v in m.dims] if dims is None else dims
    runtime = [v.interval for v in m.runtime] if runtime is None else runtime
    return {
        (rt, index, result)
        for rt in product(*runtime)
        for index in product(*dims)
        for result in m.points(index, rt)
    }
