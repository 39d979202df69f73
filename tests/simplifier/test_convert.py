import pytest
from hypothesis import given, settings

from hloscope.affine import Dim, Range, evaluate, maximum, minimum, parse_expr
from hloscope.errors import UnsupportedError
from hloscope.simplifier import from_sympy, to_latex, to_sympy
from tests.strategies import VARS, boxes_and_points, exprs

sympy = pytest.importorskip("sympy")
d0, d1, s0 = Dim(0), Dim(1), Range(0)


@given(exprs, boxes_and_points())
@settings(max_examples=60, deadline=None)
def test_sympy_and_back_keeps_the_value(e, box_and_point):
    _, at = box_and_point
    assert evaluate(from_sympy(to_sympy(e)), at) == evaluate(e, at)


@pytest.mark.parametrize("e", [d0 % 3 * 2 % 3, d0 % 3 * 4 % 6, (d0 % 4 * 6 + d1) % 9 % 6], ids=str)
def test_remainders_of_remainders_keep_their_values_in_sympy(e):
    """SymPy itself takes the outer one away where a factor stands before the inner one."""
    back = from_sympy(to_sympy(e))
    for i in range(36):
        at = {d0: i, d1: i // 5}
        assert evaluate(back, at) == evaluate(e, at)


@given(exprs, boxes_and_points())
@settings(max_examples=60, deadline=None)
def test_sympy_computes_the_same_value(e, box_and_point):
    """An independent check of what floordiv, ceildiv and mod mean."""
    _, at = box_and_point
    symbols = {sympy.Symbol(str(v), integer=True): at[v] for v in VARS}
    assert int(to_sympy(e).subs(symbols)) == evaluate(e, at)


def test_names_are_the_callers():
    e = to_sympy(d0 * 2 + d1, {d0: "tid", d1: "lane"})
    assert str(e) == "lane + 2*tid"
    assert from_sympy(e, {"tid": d0, "lane": d1}) is d0 * 2 + d1


def test_what_is_not_integer_arithmetic_is_refused():
    x = sympy.Symbol("d0", integer=True)
    with pytest.raises(UnsupportedError, match=r"SymPy's sin\(d0\)"):
        from_sympy(sympy.sin(x))
    with pytest.raises(UnsupportedError, match="SymPy's d0/2"):
        from_sympy(x / 2)


@pytest.mark.parametrize(
    ("e", "latex"),
    [
        (d0 + 1, r"d_{0} + 1"),
        (d0 * -2 - d1, r"-2 d_{0} - d_{1}"),
        ((d0 * 8 + s0) // 4, r"\left\lfloor \frac{8 d_{0} + s_{0}}{4} \right\rfloor"),
        (parse_expr("d0 ceildiv 4"), r"\left\lceil \frac{d_{0}}{4} \right\rceil"),
        ((d0 + 1) % 4 * 3, r"3 \left(\left(d_{0} + 1\right) \bmod 4\right)"),
        (d0 * d1, r"d_{0} \cdot d_{1}"),
        (minimum(d0, maximum(d1, 3)), r"\min\left(\max\left(d_{1}, 3\right), d_{0}\right)"),
        (5 - d0 % 2, r"-\left(d_{0} \bmod 2\right) + 5"),
    ],
    ids=str,
)
def test_latex(e, latex):
    assert to_latex(e) == latex


def test_latex_names():
    assert to_latex(d0 + d1, {d0: "th_x", d1: "pid"}) == r"\mathit{th}_{x} + \mathit{pid}"
    assert to_latex(parse_expr("rt0")) == r"\mathit{rt}_{0}"
