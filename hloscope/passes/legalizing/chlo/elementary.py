"""Small elementwise functions: conjugates, squares, tests for infinities, `tan`."""

from __future__ import annotations

from typing import Final

from hloscope.passes.legalizing.chlo.expansions import Expansion
from hloscope.passes.legalizing.chlo.terms import Term, complex_, imag, is_finite, real, select


def same(x: Term) -> Term:
    """Return a real number, which is its own conjugate."""
    return x


def conj(z: Term) -> Term:
    """Return `x - iy`."""
    return complex_(real(z), -imag(z))


def square(x: Term) -> Term:
    """Return `x²`."""
    return x * x


def complex_square(z: Term) -> Term:
    """Return `(x - y)(x + y) + 2ixy`; equal finite parts give a real part of 0."""
    x = real(z)
    finite, size = is_finite(x), abs(x)
    y = imag(z)
    equal = finite & size.eq(abs(y))
    return complex_(select(equal, x.constant(0.0), (x - y) * (x + y)), x.constant(2.0) * (x * y))


def tan(x: Term) -> Term:
    """Create a `stablehlo.tan`."""
    return x.make("tan")


def is_inf(x: Term) -> Term:
    """Return whether elements are infinite, of either sign."""
    size = abs(x)
    return size.eq(size.limit("inf"))


def is_pos_inf(x: Term) -> Term:
    """Return whether elements are positive infinity."""
    return x.eq(x.limit("inf"))


def is_neg_inf(x: Term) -> Term:
    """Return whether elements are negative infinity."""
    return x.eq(x.limit("-inf"))


ROWS: Final = (
    Expansion("conj", same, complex=conj),
    Expansion("square", square, complex=complex_square),
    Expansion("tan", tan, complex=tan),
    Expansion("is_inf", is_inf),
    Expansion("is_pos_inf", is_pos_inf),
    Expansion("is_neg_inf", is_neg_inf),
)
