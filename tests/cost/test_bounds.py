"""Lower bounds of time: the busiest unit decides, and nothing makes a bound too high."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given, strategies as st

from hloscope.cost import BoundError, bound_of
from hloscope.support.devices import ALL_DEVICES, Device, device_of

H100: Final = device_of("h100")
TYPES: Final = ("f64", "f32", "tf32", "f16", "bf16", "f8e4m3fn", "s8", "u8", "s4", "s32", "c64",
                "pred")  # fmt: skip
amounts = st.floats(0, 1e18, allow_nan=False)
works = st.dictionaries(
    st.tuples(st.sampled_from(["matrix", "vector"]), st.sampled_from(TYPES)), amounts, max_size=4
)
devices = st.sampled_from(list(ALL_DEVICES.values()))


def test_bytes_alone_are_limited_by_memory() -> None:
    bound = bound_of(3352.32e9, 3352.32e9, {}, H100)
    assert bound.limited_by == "memory"
    assert bound.seconds == pytest.approx(2)


def test_units_run_side_by_side_so_that_the_longest_decides() -> None:
    work = {("matrix", "bf16"): 989.4e12, ("vector", "f32"): 2 * 66.9e12}
    bound = bound_of(3352.32e9, 0, work, H100)
    assert (bound.limited_by, bound.seconds) == ("vector f32", pytest.approx(2))


def test_types_of_one_unit_run_one_after_the_other() -> None:
    work = {("matrix", "bf16"): 989.4e12, ("matrix", "f8e5m2"): 3 * 1978.9e12}
    bound = bound_of(0, 0, work, H100)
    assert (bound.limited_by, bound.seconds) == ("matrix f8e5m2", pytest.approx(4))


def test_products_of_f32_may_use_tf32_unless_the_precision_forbids_it() -> None:
    work = {("matrix", "f32"): 494.7e12}
    default, exact = (bound_of(0, 0, work, H100, exact_f32=exact) for exact in (False, True))
    assert default.seconds == pytest.approx(1)
    assert "tf32" in default.notes[0]
    assert exact.seconds == pytest.approx(494.7 / 66.9)


def peak_of(unit: str, element: str, device: Device, *, exact_f32: bool = False) -> float | None:
    return bound_of(0, 0, {(unit, element): 1}, device, exact_f32=exact_f32).parts[1].rate


def test_products_of_f32_on_a_tpu_take_the_peak_of_bf16_even_if_exact() -> None:
    tpu = device_of("tpu_v5e")
    assert peak_of("matrix", "f32", tpu) == peak_of("matrix", "f32", tpu, exact_f32=True) == 197e12


@pytest.mark.parametrize(
    ("device", "unit", "element", "tflops"),
    [
        ("v100", "matrix", "f32", 15.7),
        ("a100", "matrix", "f8e4m3fn", 624),
        ("h100", "matrix", "u8", 1978.9),
        ("h100", "matrix", "s4", 1978.9),
        ("b200", "matrix", "f4e2m1fn", 9000),
        ("h100", "matrix", "c64", 494.7),
        ("h100", "vector", "u32", 33.5),
        ("mi300x", "vector", "bf16", 2 * 163.4),
        ("mi210", "matrix", "f32", 45.3),
        ("h100", "vector", "pred", None),
        ("tpu_v4", "vector", "f32", None),
        ("cpu", "matrix", "f32", None),
    ],
)
def test_a_type_without_a_peak_takes_that_of_one_that_could_carry_it(
    device: str, unit: str, element: str, tflops: float | None
) -> None:
    found = peak_of(unit, element, device_of(device))
    assert found == (None if tflops is None else pytest.approx(tflops * 1e12))


def test_work_without_a_peak_is_left_out_and_named() -> None:
    bound = bound_of(1e9, 0, {("vector", "f32"): 1e15}, device_of("tpu_v4"))
    assert bound.limited_by == "memory"
    assert not bound.is_complete
    assert "`tpu_v4` has no peak of vector f32" in bound.notes[0]


def test_a_device_without_figures_bounds_nothing() -> None:
    bound = bound_of(1e9, 0, {("vector", "f32"): 1.0}, device_of("cpu"))
    assert (bound.seconds, bound.limited_by) == (0, "unknown")
    assert "no bandwidth" in bound.notes[0]


def test_transcendentals_are_shown_and_never_decide() -> None:
    bound = bound_of(1, 0, {}, H100, transcendentals=1e15)
    special = next(part for part in bound.parts if part.unit == "special")
    assert special.seconds == pytest.approx(1e15 / (16 * 132 * 1.98e9))
    assert (bound.limited_by, special.counts) == ("memory", False)


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf")])
def test_an_amount_that_is_no_amount_is_refused(wrong: float) -> None:
    with pytest.raises(BoundError):
        bound_of(wrong, 0, {}, H100)
    with pytest.raises(BoundError):
        bound_of(0, 0, {("matrix", "f32"): wrong}, H100)

    with pytest.raises(BoundError, match="no unit `tensor`"):
        bound_of(0, 0, {("tensor", "f32"): 1}, H100)


@given(works, amounts, amounts, devices)
def test_more_work_never_lowers_a_bound(
    work: dict[tuple[str, str], float], moved: float, more: float, device: object
) -> None:
    less = bound_of(moved, 0, work, device)  # type: ignore[arg-type]
    grown = {key: amount + more for key, amount in work.items()}
    assert bound_of(moved + more, 0, grown, device).seconds >= less.seconds  # type: ignore[arg-type]


@given(works, amounts, devices)
def test_a_bound_is_at_least_each_part_and_at_most_their_sum(
    work: dict[tuple[str, str], float], moved: float, device: object
) -> None:
    bound = bound_of(moved, 0, work, device)  # type: ignore[arg-type]
    times = [part.seconds for part in bound.parts if part.seconds is not None]
    assert max(times, default=0) <= bound.seconds * (1 + 1e-9)
    assert bound.seconds <= sum(times) * (1 + 1e-9)
    assert (bound.limited_by == "unknown") == (bound.seconds == 0)
