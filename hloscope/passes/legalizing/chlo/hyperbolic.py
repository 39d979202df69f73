"""`sinh` and `cosh`, with the factor ½ inside the exponential to avoid overflow.

Source: StableHLO `ChloLegalizeToStablehlo.cpp`.
"""

from __future__ import annotations

from typing import Final

from hloscope.passes.legalizing.chlo.expansions import ANY, Expansion
from hloscope.passes.legalizing.chlo.terms import Term, exp, expm1, log, select


def cosh(x: Term) -> Term:
    """Expand to `exp(x + log ½) + exp(log ½ - x)`."""
    half = log(x.number(0.5))
    return exp(x + half) + exp(half - x)


def large_sinh(x: Term) -> Term:
    """Expand to `exp(x + log ½) - exp(log ½ - x)`."""
    half = log(x.number(0.5))
    return exp(x + half) - exp(half - x)


def sinh(x: Term) -> Term:
    """Expand with `expm1` near 0, where the difference of exponentials cancels."""
    large = large_sinh(x)
    less = expm1(x)
    one = x.number(1.0)
    small = x.number(0.5) * (less + less / (less + one))
    return select(abs(x) < one, small, large)


ROWS: Final = (
    Expansion("cosh", cosh, complex=cosh, in_f32=ANY),
    Expansion("sinh", sinh, complex=large_sinh, in_f32=ANY),
)
