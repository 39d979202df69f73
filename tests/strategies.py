"""Random expressions, boxes and points."""

from __future__ import annotations

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

VARS: tuple[Var, ...] = (Dim(0), Dim(1), Range(0), Runtime(0))
divisors = st.integers(1, 12)
small = st.integers(-12, 12)
leaves = st.sampled_from(VARS) | small.map(Const)


def _compound(children: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    binary = st.sampled_from([minimum, maximum])
    return st.one_of(
        st.builds(lambda a, b: a + b, children, children),
        st.builds(lambda a, k: a * k, children, small),
        st.builds(lambda a, k: a // k, children, divisors),
        st.builds(lambda a, k: a % k, children, divisors),
        st.builds(lambda a, k: a // k, children, small.filter(bool)),
        st.builds(lambda a, k: a % k, children, small.filter(bool)),
        st.builds(lambda a, k: ceildiv(a, k), children, small.filter(bool)),
        st.builds(lambda f, a, b: f(a, b), binary, children, children),
    )


exprs: st.SearchStrategy[Expr] = st.recursive(leaves, _compound, max_leaves=12)
affine_exprs: st.SearchStrategy[Expr] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, k: a * k, inner, small),
        st.builds(lambda a, k: a // k, inner, divisors),
        st.builds(lambda a, k: a % k, inner, divisors),
    ),
    max_leaves=12,
)
"""Only sums, quotients and remainders."""


@st.composite
def boxes(draw: st.DrawFn) -> dict[Var, Interval]:
    box: dict[Var, Interval] = {}
    for v in VARS:
        lo = draw(st.integers(-20, 20))
        box[v] = Interval(lo, lo + draw(st.integers(0, 40)))
    return box


@st.composite
def boxes_and_points(draw: st.DrawFn) -> tuple[dict[Var, Interval], dict[Var, int]]:
    box = draw(boxes())
    return box, {v: draw(st.integers(i.lo, i.hi)) for v, i in box.items()}
