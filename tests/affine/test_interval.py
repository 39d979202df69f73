import operator
from itertools import product

import pytest

from hloscope.affine import NEG_INF, POS_INF, Interval

SMALL = [Interval(lo, hi) for lo, hi in product(range(-4, 5), repeat=2) if lo <= hi]


@pytest.mark.parametrize("op", [operator.add, operator.sub, operator.mul], ids=str)
def test_arithmetic_is_exact(op):
    for a, b in product(SMALL, repeat=2):
        values = [op(x, y) for x in a for y in b]
        assert op(a, b) == Interval(min(values), max(values))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("floordiv", lambda x, y: x // y),
        ("ceildiv", lambda x, y: -(-x // y)),
        ("mod", lambda x, y: x % abs(y)),
    ],
)
def test_division_holds_every_value(name, value):
    for a, b in product(SMALL, repeat=2):
        found = getattr(a, name)(b)
        values = [value(x, y) for x in a for y in b if y]
        assert found.is_empty == (not values)
        if values:
            assert found.contains(Interval(min(values), max(values)))
            if name != "mod":
                assert found == Interval(min(values), max(values))


def test_mod_by_a_constant_is_exact_where_it_does_not_wrap():
    assert Interval(53, 71).mod(42) == Interval(11, 29)
    assert Interval(-5, -1).mod(5) == Interval(0, 4)
    assert Interval(0, 3).mod(7) == Interval(0, 3)
    assert Interval(0, 9).mod(Interval(4, 20)) == Interval(0, 9)
    assert Interval(0, POS_INF).mod(8) == Interval(0, 7)


@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_comparisons_have_three_values(op):
    compare = getattr(operator, op)
    for a, b in product(SMALL, repeat=2):
        values = {compare(x, y) for x in a for y in b}
        assert getattr(a, op)(b) == (values.pop() if len(values) == 1 else None)


def test_limits_act_as_infinities():
    top = Interval(0, POS_INF)
    assert top + 5 == Interval(5, POS_INF)
    assert top - 5 == Interval(-5, POS_INF)
    assert -top == Interval(NEG_INF, 0)
    assert top * top == top
    assert Interval.EVERYTHING + Interval.EVERYTHING == Interval.EVERYTHING
    assert Interval(0, 0) == Interval.EVERYTHING * 0
    assert top.floordiv(3) == top
    assert top.floordiv(-3) == Interval(NEG_INF, 0)
    assert Interval(2**40, 2**40) * Interval(2**40, 2**40) == Interval(POS_INF, POS_INF)


def test_empty_intervals():
    empty = Interval(3, 2)
    for found in (empty + 1, empty * 2, empty & Interval(0, 9), empty.mod(3), empty.floordiv(2)):
        assert found.is_empty
    assert empty | Interval(1, 2) == Interval(1, 2)
    assert Interval(0, 1) & Interval(5, 6) == Interval.EMPTY
    assert empty.size == 0
    assert Interval(0, 9).contains(empty)


def test_text_and_membership():
    i = Interval.of_size(10)
    assert str(i) == "[0, 9]"
    assert 9 in i
    assert 10 not in i
    assert i.size == 10
    assert list(Interval(2, 4)) == [2, 3, 4]
    assert i.within(0, 10)
    assert not i.within(0, 9)
    assert Interval.point(3).is_point


def test_divisors_past_64_bits_have_quotients():
    wide = Interval(0, 2**90)
    assert wide.floordiv(2**80) == Interval(0, 2**10)
    assert wide.floordiv(-(2**80)) == Interval(-(2**10), 0)
    assert Interval(2**89, 2**90).floordiv(2**88) == Interval(2, 4)
    assert Interval(0, POS_INF).floordiv(2**80) == Interval(0, POS_INF)
