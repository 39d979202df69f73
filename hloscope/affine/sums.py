"""Sums in normal form: their terms, and operations on them that are cheaper than `linear`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from hloscope.affine.nodes import Const, Expr, Sum, sum_of

Terms: TypeAlias = tuple[tuple[Expr, int], ...]
"""Pairs of an expression and its coefficient."""


def as_sum(e: Expr) -> tuple[Terms, int]:
    """Return the terms and the constant of `e`.

    An expression that is not a sum is one term or one constant.

    >>> from hloscope.affine.nodes import Dim
    >>> as_sum(Dim(0) * 2 + 3), as_sum(Dim(0)), as_sum(Const(3))
    ((((<d0>, 2),), 3), (((<d0>, 1),), 0), ((), 3))
    """
    if type(e) is Sum:
        return e.terms, e.const
    if type(e) is Const:
        return (), e.value
    return ((e, 1),), 0


def sorted_sum(terms: Sequence[tuple[Expr, int]], const: int) -> Expr:
    """Return the sum of terms that are already sorted as in `Sum.terms`, plus `const`.

    Cheaper than `from_terms`.
    """
    if len(terms) == 1:
        if const == 0 and terms[0][1] == 1:
            return terms[0][0]
    elif not terms:
        return Const(const)
    return Sum(tuple(terms), const)


def scaled(e: Expr, k: int, add: int = 0) -> Expr:
    """Return `k * e + add` for nonzero `k`; cheaper than `linear`.

    >>> from hloscope.affine.nodes import Dim
    >>> print(scaled(Dim(0) + 1, -2, 7))
    d0 * -2 + 5
    """
    kind = type(e)
    if kind is Sum:
        terms: Terms = e.terms  # type: ignore[union-attr]
        # Scaling keeps the order of the terms, as they are stored in the order of `t` alone.
        if k != 1:
            terms = tuple([(t, c * k) for t, c in terms])
        return sorted_sum(terms, e.const * k + add)  # type: ignore[union-attr]
    if kind is Const:
        return Const(e.value * k + add)  # type: ignore[union-attr]
    return e if k == 1 and not add else Sum(((e, k),), add)


def plus(e: Expr, other: Expr, k: int) -> Expr:
    """Return `e + k * other` for nonzero `k`; cheaper than `linear`.

    >>> from hloscope.affine.nodes import Dim
    >>> print(plus(Dim(0) * 2 + 5, Dim(1) + 1, -3))
    d0 * 2 - d1 * 3 + 2
    """
    kind, other_kind = type(e), type(other)
    if other_kind is Const:
        return scaled(e, 1, k * other.value) if other.value else e  # type: ignore[union-attr]
    if kind is Const:
        return scaled(other, k, e.value)  # type: ignore[union-attr]
    if kind is Sum:
        return plus_terms(dict(e.terms), e.const, other, k)  # type: ignore[union-attr]
    return plus_terms({e: 1}, 0, other, k)


def plus_terms(coeffs: dict[Expr, int], const: int, other: Expr, k: int) -> Expr:
    """Return `coeffs + const + k * other` for nonzero `k`; `coeffs` is changed in place.

    `coeffs` has the coefficient of each term. No term of it is a sum or a constant.

    >>> from hloscope.affine.nodes import Dim
    >>> print(plus_terms({Dim(0): 2}, 5, Dim(1) - 1, 3))
    d0 * 2 + d1 * 3 + 2
    """
    kind = type(other)
    if kind is Const:
        return sum_of(coeffs, const + k * other.value)  # type: ignore[union-attr]
    if kind is Sum:
        const += k * other.const  # type: ignore[union-attr]
        terms: Terms = other.terms  # type: ignore[union-attr]
        for term, c in terms:
            if new := coeffs.get(term, 0) + k * c:
                coeffs[term] = new
            # A sum of 0 can only arise for a term that was there, as `k * c` is not 0.
            else:
                del coeffs[term]
    elif new := coeffs.get(other, 0) + k:
        coeffs[other] = new
    else:
        del coeffs[other]
    return sum_of(coeffs, const)


def with_terms(e: Sum, replacements: Mapping[Expr, Expr]) -> Expr:
    """Return the sum with each term `t` replaced by `replacements[t]`, in normal form.

    >>> from hloscope.affine.nodes import Dim
    >>> print(with_terms(Dim(0) * 2 + 5, {Dim(0): Dim(1) + 1}))
    d1 * 2 + 7
    """
    coeffs: dict[Expr, int] = {}
    const = e.const
    get = coeffs.get
    for t, k in e.terms:
        new = replacements[t]
        kind = type(new)
        if kind is Sum:
            const += k * new.const  # type: ignore[union-attr]
            for term, c in new.terms:  # type: ignore[union-attr]
                coeffs[term] = get(term, 0) + k * c
        elif kind is Const:
            const += k * new.value  # type: ignore[union-attr]
        else:
            coeffs[new] = get(new, 0) + k
    if 0 in coeffs.values():
        coeffs = {t: c for t, c in coeffs.items() if c}
    return sum_of(coeffs, const)
