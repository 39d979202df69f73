"""Floating-point instructions, including comparisons.

Results of `.approx` instructions are correctly rounded: hardware may differ from them in the last
bits, by no more than PTX allows.

Source: PTX ISA 8.8, "Floating-Point Instructions", "Half Precision Floating-Point Instructions",
"Comparison and Selection Instructions".
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Final

from hloscope.arrays import Array, np
from hloscope.ptx.rounding import (
    directed_f64,
    flushed,
    fused,
    narrow,
    saturated,
    to_odd,
    two_product,
    two_sum,
)
from hloscope.ptx.table import BITS, FLOATS, INTEGERS, Compute, mode_of, row
from hloscope.ptx.types import PtxType

_Mods = frozenset[str]
_ROUND: Final = "rn rz rm rp ftz sat"
_CANONICAL: Final = {2: 0x7FFF, 4: 0x7FFF_FFFF, 8: 0x7FFF_FFFF_FFFF_FFFF}
"""Bits of the NaN that minima and maxima return, by size."""


def _finished(compute: Compute, modifiers: _Mods) -> Compute:
    """Return a function that also flushes subnormals and clamps, for `.ftz` and `.sat`."""
    if not modifiers & {"ftz", "sat"}:
        return compute

    def whole(*sources: Array) -> Array:
        if "ftz" in modifiers:
            sources = tuple(map(flushed, sources))
        value = compute(*sources)
        value = flushed(value) if "ftz" in modifiers else value
        return saturated(value) if "sat" in modifiers else value

    return whole


def _rounded(
    plain: Callable[[Array, Array], Array],
    with_error: Callable[[Array, Array], tuple[Array, Array]],
    modifiers: _Mods,
    type_: PtxType,
) -> Compute:
    """Return the operation: numpy's to nearest, else rounded from its exact error in f64."""
    mode = mode_of(modifiers)
    if mode == "rn":
        return _finished(plain, modifiers)

    def directed(a: Array, b: Array) -> Array:
        value, error = with_error(a.astype(np.float64), b.astype(np.float64))
        if type_.element == "float64":
            return directed_f64(value, error, mode)
        return narrow(to_odd(value, error), type_, mode)

    return _finished(directed, modifiers)


@row("add", 2, FLOATS, _ROUND)
def _add(modifiers: _Mods, type_: PtxType) -> Compute:
    return _rounded(operator.add, two_sum, modifiers, type_)


@row("sub", 2, FLOATS, _ROUND)
def _sub(modifiers: _Mods, type_: PtxType) -> Compute:
    return _rounded(operator.sub, lambda a, b: two_sum(a, -b), modifiers, type_)


@row("mul", 2, FLOATS, _ROUND)
def _mul(modifiers: _Mods, type_: PtxType) -> Compute:
    return _rounded(operator.mul, two_product, modifiers, type_)


@row("fma", 3, FLOATS, f"{_ROUND} relu")
@row("mad", 3, "f32 f64", _ROUND)
def _fma(modifiers: _Mods, type_: PtxType) -> Compute:
    mode = mode_of(modifiers)
    compute = partial(fused, type_=type_, mode=mode)
    if "relu" in modifiers:
        return lambda a, b, c: np.maximum(compute(a, b, c), np.zeros((), type_.dtype))
    return _finished(compute, modifiers)


@row("div", 2, "f32 f64", f"{_ROUND} approx full")
def _div(modifiers: _Mods, type_: PtxType) -> Compute:
    mode = mode_of(modifiers)
    if mode == "rn":
        return _finished(operator.truediv, modifiers)
    # The quotient of two f32 in f64 is inexact by less than any f32 that it could be rounded to.
    return _finished(
        lambda a, b: narrow(a.astype(np.float64) / b.astype(np.float64), type_, mode), modifiers
    )


@row("abs", 1, FLOATS, "ftz")
def _abs(modifiers: _Mods, type_: PtxType) -> Compute:
    return _finished(np.abs, modifiers)


@row("neg", 1, FLOATS, "ftz")
def _neg(modifiers: _Mods, type_: PtxType) -> Compute:
    return _finished(np.negative, modifiers)


def _extreme(modifiers: _Mods, type_: PtxType, *, is_max: bool) -> Compute:
    """Return minimum or maximum. A NaN is skipped, or returned with `.NaN`; -0 is less than +0."""
    pick = np.maximum if is_max else np.minimum
    join = np.bitwise_and if is_max else np.bitwise_or
    size = type_.dtype.itemsize
    nan = np.array([_CANONICAL[size]], f"u{size}").view(type_.dtype)

    def compute(a: Array, b: Array) -> Array:
        a, b = np.broadcast_arrays(a, b)
        a_nan, b_nan = np.isnan(a), np.isnan(b)
        bits = join(a.view(f"u{size}"), b.view(f"u{size}")).view(type_.dtype)
        value = np.where(a == b, bits, pick(a, b))  # equal values differ in their sign at most
        if "NaN" in modifiers:
            return np.where(a_nan | b_nan, nan, value)
        value = np.where(a_nan, b, np.where(b_nan, a, value))
        return np.where(a_nan & b_nan, nan, value)

    return _finished(compute, modifiers)


@row("min", 2, FLOATS, "ftz NaN")
def _min(modifiers: _Mods, type_: PtxType) -> Compute:
    return _extreme(modifiers, type_, is_max=False)


@row("max", 2, FLOATS, "ftz NaN")
def _max(modifiers: _Mods, type_: PtxType) -> Compute:
    return _extreme(modifiers, type_, is_max=True)


_FUNCTIONS: Final[dict[str, Callable[[Array], Array]]] = {
    "rcp": lambda x: 1 / x,
    "sqrt": lambda x: np.sqrt(x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": lambda x: np.sin(x),
    "cos": lambda x: np.cos(x),
    "lg2": lambda x: np.log2(x),
    "ex2": lambda x: np.exp2(x),
    "tanh": lambda x: np.tanh(x),
}


def _register_functions() -> None:
    """Add the rows of functions of one value, computed in f64 and then rounded."""
    for name, function in _FUNCTIONS.items():
        types = "f32 f64" if name in ("rcp", "sqrt", "rsqrt") else "f32 f16 f16x2 bf16 bf16x2"

        @row(name, 1, types, f"{_ROUND} approx")
        def make(
            modifiers: _Mods, type_: PtxType, function: Callable[[Array], Array] = function
        ) -> Compute:
            mode = mode_of(modifiers)
            return _finished(
                lambda a: narrow(function(a.astype(np.float64)), type_, mode), modifiers
            )


_register_functions()


@row("copysign", 2, "f32 f64")
def _copysign(modifiers: _Mods, type_: PtxType) -> Compute:
    return lambda a, b: np.copysign(b, a)


@row("testp", 1, "f32 f64", "finite infinite number notanumber normal subnormal", result="pred")
def _testp(modifiers: _Mods, type_: PtxType) -> Compute:
    tiny = np.finfo(type_.dtype).tiny
    tests: dict[str, Callable[[Array], Array]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & (np.abs(a) >= tiny),
        "subnormal": lambda a: (np.abs(a) < tiny) & (a != 0),
    }
    return tests[next(iter(modifiers & set(tests)), "finite")]


_ORDERED: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "eq": operator.eq,
    "ne": lambda a, b: (a < b) | (a > b),
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "lo": operator.lt,
    "ls": operator.le,
    "hi": operator.gt,
    "hs": operator.ge,
    "num": lambda a, b: (a == a) & (b == b),
}
_UNORDERED: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "equ": lambda a, b: ~_ORDERED["ne"](a, b),
    "neu": operator.ne,
    "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b),
    "nan": lambda a, b: (a != a) | (b != b),
}
COMPARISONS: Final = _ORDERED | _UNORDERED
"""The comparisons of `setp` and `set`; integers use the ordered ones."""


def comparison_of(modifiers: _Mods) -> Compute:
    """Return the comparison that the modifiers name; KeyError if there is none."""
    name = next(iter(modifiers & COMPARISONS.keys()))
    return _finished_sources(COMPARISONS[name], modifiers)


def _finished_sources(compare: Compute, modifiers: _Mods) -> Compute:
    if "ftz" not in modifiers:
        return compare
    return lambda a, b: compare(flushed(a), flushed(b))


COMPARED: Final = f"{BITS} {INTEGERS} {FLOATS}".split()
"""Types that can be compared."""
