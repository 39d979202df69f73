"""How far apart two arrays are."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from hloscope.interpreter.shown import FAR, exactly, ulps, within, within_ulps

INF, NAN = np.inf, np.nan


def test_equality_is_that_of_ieee_754() -> None:
    assert exactly(np.array([0.0, INF]), np.array([-0.0, INF])) is None
    found = exactly(np.array([1.0, NAN]), np.array([1.0, NAN]))
    assert found is not None
    assert (found.count, found.index) == (1, (1,))
    assert exactly(np.array([1 + 2j]), np.array([1 + 3j])) is not None
    assert exactly(np.zeros((0, 2)), np.zeros((0, 2))) is None


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (1.0, 1.0001, True),
        (1.0, 1.0002, False),
        (NAN, NAN, True),
        (NAN, 1.0, False),
        (INF, INF, True),
        (INF, -INF, False),
        (INF, 1e300, False),
        (1e300, -1e300, False),
    ],
)
def test_tolerance_is_absolute_and_infinities_match_themselves(
    a: float, b: float, same: bool
) -> None:
    assert (within(np.array(a), np.array(b), 1.0001e-4) is None) == same


def test_parts_of_complex_numbers_are_compared_apart() -> None:
    assert within(np.array([complex(NAN, 1)]), np.array([complex(NAN, 1)]), 0.1) is None
    assert within(np.array([1 + 1j]), np.array([1 + 1.2j]), 0.1) is not None


def test_integers_have_no_tolerance() -> None:
    assert within(np.array([1]), np.array([2]), 5.0) is not None
    four = np.array([1], ml_dtypes.int4)
    assert within(four, np.array([2], ml_dtypes.int4), 5.0) is not None
    assert within(four, four, 0.0) is None


def test_the_worst_element_is_told() -> None:
    found = within(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 2.5], [3.0, 7.0]]), 0.1)
    assert str(found) == (
        "2 of 4 elements differ; the worst at [1, 1]: found 4.0, expected 7.0"
        " (off by 3, tolerance 0.1)"
    )
    assert str(exactly(np.array(1), np.array(2))) == "found 1, expected 2"


@pytest.mark.parametrize(
    ("name", "a", "b", "distance"),
    [
        ("float32", 1.0, np.nextafter(np.float32(1), np.float32(2)), 1),
        ("float64", 0.0, -0.0, 0),
        ("float64", 5e-324, -5e-324, 2),
        ("float32", NAN, NAN, 0),
        ("float32", NAN, 1.0, FAR),
        ("float64", INF, INF, 0),
        ("float64", INF, -INF, FAR),
        ("float16", 5.0, 5.01, 3),
        ("bfloat16", 1.0, 1.0078125, 1),
        ("float8_e4m3fn", 1.0, 1.125, 1),
        ("float8_e4m3fn", 0.0, -0.001953125, 1),
        ("float8_e8m0fnu", 1.0, 4.0, 2),
        ("float6_e2m3fn", 1.0, -1.0, 16),
        ("float4_e2m1fn", 1.0, 2.0, 2),
        ("int32", 3, -4, 7),
        ("uint8", 3, 250, 247),
    ],
)
def test_distance_in_units_in_the_last_place(name: str, a: float, b: float, distance: int) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    found = ulps(np.array([a]).astype(dtype), np.array([b]).astype(dtype))
    assert found.tolist() == [distance]


def test_distance_of_complex_numbers_is_that_of_the_larger_part() -> None:
    a = np.array([1 + 1j], "complex64")
    b = np.array([complex(1.0000001, 1.0000002)], "complex64")
    assert ulps(a, b).tolist() == [2]
    assert within_ulps(a, b, most=2) is None
    assert within_ulps(a, b, most=1) is not None
    assert within_ulps(a, b, most=9, least=3) is not None


def test_rank_0() -> None:
    assert ulps(np.array(1.0), np.array(1.0)).tolist() == 0
    assert within_ulps(np.array(1.0), np.array(1.5), most=1) is not None


def test_integers_are_apart_by_their_difference() -> None:
    for dtype in (np.int8, np.int32, np.uint8, np.uint64):
        a, b = np.array([3, 100, 0], dtype), np.array([5, 1, 0], dtype)
        assert ulps(a, b).tolist() == ulps(b, a).tolist() == [2, 99, 0]
    assert ulps(np.int8([-128]), np.int8([127])).tolist() == [255]
