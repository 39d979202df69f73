"""Random values for runs: each style and element type has the values that it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hloscope.errors import UnsupportedError
from hloscope.hlo_parser import parse_hlo
from hloscope.interpreter.values import TOKEN
from hloscope.ir import ELEMENT_TYPES, TensorType
from hloscope.proof.running import STYLES, Draw


def draw(style: str, seed: int = 0) -> Draw:
    return Draw(np.random.default_rng(seed), style)


def drawn(style: str, element: str, *shape: int, seed: int = 0) -> Any:
    return draw(style, seed).elements(ELEMENT_TYPES[element], shape)


@pytest.mark.parametrize("style", STYLES)
def test_elements_have_the_type_and_the_shape(style: str) -> None:
    for name in ("pred", "s4", "u4", "s8", "u64", "s64", "f16", "bf16", "f8e5m2", "f32", "c64"):
        array = drawn(style, name, 3, 2)
        assert (array.shape, array.dtype.itemsize) == (
            (3, 2),
            max(ELEMENT_TYPES[name].bits // 8, 1),
        )
        assert drawn(style, name).shape == ()
        assert drawn(style, name, 0, 2).shape == (0, 2)


def test_numbered_elements_are_distinct_positive_integers() -> None:
    for element, most in (("f64", 1 << 20), ("f32", 1 << 20), ("bf16", 128), ("f8e4m3fn", 8)):
        one = draw("numbered")
        found = [one.elements(ELEMENT_TYPES[element], (2, min(most // 8, 20))) for _ in range(4)]
        numbers = np.concatenate([part.astype(np.float64).reshape(-1) for part in found])
        assert sorted(set(numbers.tolist())) == sorted(numbers.tolist())
        assert numbers.min() >= 1
        assert numbers.max() <= most
        assert (numbers == np.round(numbers)).all()
    pair = draw("numbered").elements(ELEMENT_TYPES["c128"], (50,))
    assert len({*pair.real.tolist(), *pair.imag.tolist()}) == 100
    assert min(pair.real.min(), pair.imag.min()) >= 1


def test_floats_are_of_their_style() -> None:
    ties = drawn("ties", "f32", 500)
    assert set(ties.tolist()) == {0.0, 1.0, -1.0, 0.5, 2.0}
    special = drawn("special", "f32", 500)
    assert 0.05 < (~np.isfinite(special)).mean() < 0.15  # 3 of 10 are odd, a third of those
    assert {np.inf, -np.inf} <= set(special.tolist())
    assert np.isnan(special).any()
    assert np.signbit(special[special == 0]).any()
    assert not np.signbit(special[special == 0]).all()
    wide = np.abs(drawn("wide", "f64", 500))
    assert 1e-7 < wide.min() < 1e-3
    assert 1e3 < wide.max() < 1e5
    ordinary = drawn("ordinary", "f64", 500)
    assert abs(ordinary.mean()) < 0.2
    assert 0.8 < ordinary.std() < 1.2


INTEGERS = {
    ("ordinary", "s8"): {*range(6)},
    ("ordinary", "u64"): {*range(6)},
    ("ordinary", "s2"): {0, 1},
    ("ties", "s32"): {0, 1},
    ("wide", "s32"): {*range(-9, 13)},
    ("wide", "s4"): {*range(-8, 8)},
    ("wide", "u4"): {*range(13)},
    ("wide", "u2"): {*range(4)},
    ("special", "s8"): {-128, 127, 0, 1, 2, 3, 63, -1},
    ("special", "u8"): {255, 0, 1, 2, 3, 127},
    ("special", "s32"): {-(1 << 31), (1 << 31) - 1, 0, 1, 2, 3, (1 << 30) - 1, -1, 1000},
    ("special", "u64"): {(1 << 64) - 1, 0, 1, 2, 3, (1 << 63) - 1, 1000},
}


def test_integers_are_of_their_style() -> None:
    found = {case: set(map(int, drawn(*case, 500))) for case in INTEGERS}
    assert found == INTEGERS


def test_predicates_are_true_as_often_as_the_style_says() -> None:
    shares = {style: float(drawn(style, "pred", 4000).mean()) for style in STYLES}
    expected = {"ordinary": 0.5, "ties": 0.8, "special": 0.5, "wide": 0.2, "numbered": 0.5}
    assert shares == pytest.approx(expected, abs=0.05)


def test_dynamic_sizes_are_bounds_or_smaller_and_equal_for_equal_bounds() -> None:
    types = "s8[<=6,2,<=6], (s8[<=6], token[])"
    (parameter,) = parse_hlo(f"ENTRY e {{ ROOT p = ({types}) parameter(0) }}").entry.parameters
    sizes = set()
    for seed in range(40):
        first, (second, token) = draw("ties", seed).value(parameter.type)
        assert token is TOKEN
        size = second.shape[0]
        assert first.shape == (size, 2, size)
        sizes.add(size)
        first, (second, _) = draw("ordinary", seed).value(parameter.type)
        assert (first.shape, second.shape) == ((6, 2, 6), (6,))
    assert sizes == {*range(7)}


@pytest.mark.parametrize("bounds", [(), (None, None), (4, None)])
def test_dynamic_sizes_without_bounds_have_no_values(bounds: tuple[int | None, ...]) -> None:
    type_ = TensorType(ELEMENT_TYPES["f32"], (None, None), bounds=bounds)
    with pytest.raises(UnsupportedError, match="sizes without bounds"):
        draw("ordinary").value(type_)
