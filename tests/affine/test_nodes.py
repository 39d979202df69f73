import copy
import gc
import itertools
import operator
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hloscope.affine import (
    Const,
    Dim,
    FloorDiv,
    Max,
    Min,
    Mod,
    Product,
    Range,
    Runtime,
    Sum,
    ceildiv,
    children,
    compare,
    evaluate,
    floordiv,
    linear,
    maximum,
    minimum,
    order_key,
    parse_expr,
    plus,
    postorder,
    replace,
    scaled,
    substitute,
    sum_of,
    variables,
    with_terms,
)
from hloscope.affine.order import _KNOWN, DeepKey
from tests.strategies import VARS, exprs, small

d0, d1, s0, rt0 = Dim(0), Dim(1), Range(0), Runtime(0)
points = st.tuples(*[st.integers(-30, 30)] * len(VARS)).map(
    lambda values: dict(zip(VARS, values, strict=True))
)


@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))]
)
def test_equal_expressions_are_one_object(clone):
    e = (d0 * 8 + d1) // 4 + minimum(s0, 3) + d0 * d1 + 3
    assert e is 3 + d1 * d0 + minimum(3, s0) + (d1 + 8 * d0) // 4
    assert clone(e) is e


@given(exprs, small, points)
def test_operators_mean_what_python_ints_mean(e, k, at):
    """Both operand orders: a reflected operator is easy to get backwards."""
    value = evaluate(e, at)
    for op in (operator.add, operator.sub, operator.mul):
        assert evaluate(op(e, k), at) == op(value, k)
        assert evaluate(op(k, e), at) == op(k, value)
    assert evaluate(-e, at) == -value
    assert +e is e
    if k:
        assert evaluate(e // k, at) == value // k
        assert evaluate(e % k, at) == value % abs(k)
        assert evaluate(ceildiv(e, k), at) == -(-value // k)
    if value:
        assert evaluate(k // e, at) == k // value
        assert evaluate(k % e, at) == k % abs(value)


@given(exprs, exprs, points)
def test_operators_between_expressions(a, b, at):
    x, y = evaluate(a, at), evaluate(b, at)
    assert evaluate(a + b, at) == x + y
    assert evaluate(a - b, at) == x - y
    assert evaluate(a * b, at) == x * y
    assert evaluate(minimum(a, b), at) == min(x, y)
    assert evaluate(maximum(a, b), at) == max(x, y)
    assert a + b is b + a
    assert a * b is b * a
    assert minimum(a, b) is minimum(b, a)
    assert (a + b) - b is a


@given(exprs, exprs, exprs)
def test_order_is_total_and_independent_of_history(a, b, c):
    assert (compare(a, b) == 0) == (a is b)
    assert compare(a, b) == -compare(b, a)
    ordered = sorted([a, b, c])
    assert sorted([c, a, b]) == ordered
    assert all(compare(x, y) <= 0 for x, y in itertools.pairwise(ordered))


def key_in_parts(key: Any) -> Any:
    """The same key, all of whose parts remember what they were compared with."""
    return DeepKey(map(key_in_parts, key)) if isinstance(key, tuple) else key


@given(st.lists(exprs, min_size=2, max_size=6))
def test_keys_of_deep_expressions_compare_as_tuples_do(expressions):
    plain = [order_key(e) for e in expressions]
    deep = [key_in_parts(key) for key in plain]
    for (a, x), (b, y) in itertools.product(zip(plain, deep, strict=True), repeat=2):
        assert (x < y, x > y, x == y) == (a < b, a > b, a == b)
        assert (x < b, x > b, x == b) == (a < b, a > b, a == b)
        assert (a < y, a > y, a == y) == (a < b, a > b, a == b)


def test_sums_of_expressions_that_share_their_parts_are_sorted_part_by_part():
    def rounds(e, other):
        for k in range(200):
            e, other = (e * 3 + other + k) // 5, (e + other * 2) % (k + 7)
        return e, other

    first, second = rounds(d0 + s0, d1)
    assert first + second is second + first
    before = len(_KNOWN)
    assert compare(first, second) == -compare(second, first) != 0
    assert len(_KNOWN) <= before + 2000  # written out, the keys have more than 2 ** 200 parts


@given(exprs)
def test_every_node_is_in_normal_form(e):
    for x in postorder(e):
        match x:
            case Sum(terms, const):
                assert all(c and not isinstance(t, Sum | Const) for t, c in terms)
                assert len({t for t, _ in terms}) == len(terms)
                assert len(terms) > 1 or const or terms[0][1] != 1
                assert linear(*terms, (const, 1)) is x
            case Product(factors):
                assert len(factors) > 1
                assert not any(isinstance(f, Const | Product) for f in factors)
                assert list(factors) == sorted(factors)
            case Min(args) | Max(args):
                assert len(set(args)) == len(args) > 1
                assert list(args) == sorted(args)
            case _:
                assert all(order_key(y) is not None for y in children(x))


@pytest.mark.parametrize(
    "e",
    [Const(3), d0, s0, rt0, d0 + 1, d0 * d1, d0 // 4, ceildiv(d0, 4), d0 % 4, minimum(d0, d1),
     maximum(d0, d1)],
    ids=lambda e: type(e).__name__,
)  # fmt: skip
def test_nodes_are_frozen_and_small(e):
    for name in (*e.__match_args__, "_key", "_divisions", "by", "unheard_of"):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(e, name, 1)
        with pytest.raises(AttributeError, match="immutable"):
            delattr(e, name)
    assert not hasattr(e, "__dict__")


def test_only_a_quotient_by_a_positive_constant_has_a_divisor():
    assert [e.by for e in (d0 // 4, d0 // -4, d0 // 0, d0 // d1, d0 % 4, ceildiv(d0, 4), d0)] == [
        4, 0, 0, 0, 0, 0, 0
    ]  # fmt: skip


@pytest.mark.parametrize("make", [lambda: d0 // 2.0, lambda: d0 * 0.5, lambda: Const(1.5)])
def test_floats_are_refused(make):
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        make()


def test_integers_of_other_types_become_plain_ints():
    assert Const(True) is Const(1)
    assert type(Const(True).value) is int
    assert d0 * np.int64(3) is d0 * 3
    assert Dim(np.int32(0)) is d0
    assert type((d0 + np.int64(3)).const) is int


def test_positions_are_not_negative():
    with pytest.raises(ValueError, match="cannot be negative, got -1"):
        Dim(-1)


def test_kinds_of_variables_differ():
    assert len({Dim(0), Range(0), Runtime(0)}) == 3
    assert sorted([rt0, s0, d1, d0]) == [d0, d1, s0, rt0]


def test_nodes_can_be_matched():
    match d0 // 4:
        case FloorDiv(Dim(0), Const(4)):
            pass
        case other:
            pytest.fail(str(other))


def test_a_division_by_zero_is_kept():
    assert str(d0 // 0 + Const(5) % 0) == "d0 / 0 + 5 mod 0"
    with pytest.raises(ValueError, match="division by zero in d0 / 0"):
        evaluate(d0 // 0, {d0: 1})


def test_unused_nodes_are_released():
    gc.collect()
    before = len(Sum._live)
    e = Dim(12345) + 7
    assert len(Sum._live) > before
    del e
    gc.collect()
    assert len(Sum._live) == before


DEEP = 10_000


def deep_expression():
    e = d0
    for i in range(DEEP):
        e = (e * 3 + 1) // 2 if i % 2 else (e + s0) % 1000
    return e


@pytest.mark.slow
def test_deep_nesting_has_no_limit():
    e = deep_expression()
    at = {d0: 5, s0: 1}
    want = 5
    for i in range(DEEP):
        want = (want * 3 + 1) // 2 if i % 2 else (want + 1) % 1000
    assert evaluate(e, at) == want
    assert evaluate(substitute(e, {d0: 5, s0: d1}), {d1: 1}) == want
    assert variables(e) == {d0, s0}
    assert parse_expr(str(e)) is e
    assert replace(e, {s0: 1}) is not e
    other = substitute(e, {d0: d1})
    assert compare(e, other) == -compare(other, e) != 0
    assert e + other is other + e
    gc.collect()
    before = len(Mod._live)
    del e, other
    gc.collect()
    assert len(Mod._live) <= before - DEEP // 2


def test_long_sums_do_not_recurse():
    e = linear(*[(Range(i), i + 1) for i in range(3000)])
    assert len(e.terms) == 3000
    assert e // 2 + (e + 1) // 2 is (e + 1) // 2 + e // 2
    assert parse_expr(str(e)) is e


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        ((d0 + 3), "d0 + 3"),
        (s0 + d1 * 2, "d1 * 2 + s0"),
        (d0 - d0, "0"),
        (Mod(d0, 4) * 2 + d0 // 2, "(d0 mod 4) * 2 + d0 / 2"),
        (d0 * 2 + (d1 * 4 + s0) // 8, "d0 * 2 + (d1 * 4 + s0) / 8"),
        (-d0 % 2, "-d0 mod 2"),
        (-((d0 * -11 - d1 + 109) // 11) + 9, "-((d0 * -11 - d1 + 109) / 11) + 9"),
        (minimum(d0, d1) * 2, "min(d0, d1) * 2"),
        (d0 // 2 // -7, "d0 / 2 / -7"),
        ((d0 * 64) // 715 * 715, "((d0 * 64) / 715) * 715"),
        (d0 % 20 % 7, "d0 mod 20 mod 7"),
        (d0 * d1 * 2 + 1, "d0 * d1 * 2 + 1"),
        (Const(5) // d0, "5 / d0"),
        (d0 // (d1 + 1), "d0 / (d1 + 1)"),
        (minimum(d0, d1, 3), "min(min(d0, d1), 3)"),
        (ceildiv((d0 + 42) * maximum(minimum(d1, 2), 0) // 2, 2),
         "(((d0 + 42) * max(min(d1, 2), 0)) / 2) ceildiv 2"),
    ],
    ids=str,
)  # fmt: skip
def test_text(expr, text):
    assert str(expr) == text


def test_floordiv_by_minus_one_is_a_sum():
    assert floordiv(d0 + 1, -1) is -d0 - 1
    assert d0 % -1 is Const(0)
    assert ceildiv(d0, -1) is -d0


@pytest.mark.parametrize("value", [np.int64(987_654_321), np.uint8(201), True])
def test_constants_hold_plain_integers(value: Any) -> None:
    node = Const(value)
    assert type(node.value) is int
    assert node is Const(int(value))


@given(exprs, exprs, st.integers(-9, 9).filter(bool), st.integers(1, 9))
def test_short_cuts_build_the_same_nodes_as_the_operators(e, other, k, den):
    assert plus(e, other, k) is linear((e, 1), (other, k))
    assert scaled(e, k, den) is linear((e, k), (den, 1))
    assert FloorDiv(e, den) is FloorDiv(e, Const(den))
    whole = linear((e, k), (7, 1))
    if type(whole) is Sum:
        new = {t: linear((t, den), (other, 1)) for t, _ in whole.terms}
        written_out = linear(*[(new[t], c) for t, c in whole.terms], (whole.const, 1))
        assert with_terms(whole, new) is written_out
        assert sum_of(dict(whole.terms), whole.const) is linear((whole, 1))
