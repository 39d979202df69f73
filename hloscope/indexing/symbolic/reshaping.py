"""Row-major reshapes between shapes with symbolic sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from hloscope.affine import Const, Expr, linear
from hloscope.errors import UnsupportedError
from hloscope.indexing.symbolic.symbols import Shape, Symbols, constants, product_of

Places: TypeAlias = Sequence[Expr]
_APART = "the sizes of the reshape are not known to fall into groups"


def regrouped(symbols: Symbols, here: Shape, there: Shape, index: Places) -> list[Expr]:
    """Return the index in `there` of the element at `index` in `here`.

    Dimensions are grouped so that both sides of a group have the same number of elements. Inside a
    group, all strides are products of sizes; the size of the slowest dimension does not matter.

    Raises:
        UnsupportedError: The groups cannot be determined.
    """
    here = tuple([symbols.settled(size) for size in here])
    there = tuple([symbols.settled(size) for size in there])
    # Dimensions of size 1 always have the index 0, so they belong to no group.
    left = [k for k, size in enumerate(here) if size != Const(1)]
    right = [k for k, size in enumerate(there) if size != Const(1)]
    found: list[Expr] = [Const(0)] * len(there)
    while left and right:
        take = _group(symbols, [here[k] for k in left], [there[k] for k in right])
        if take is None:
            raise UnsupportedError(_APART)
        mine, theirs = left[: take[0]], right[: take[1]]
        part = _within(
            [here[k] for k in mine], [there[k] for k in theirs], [index[k] for k in mine]
        )
        for k, e in zip(theirs, part, strict=True):
            found[k] = e
        left, right = left[take[0] :], right[take[1] :]
    if left or right:
        raise UnsupportedError(_APART)
    return found


def _group(symbols: Symbols, here: list[Expr], there: list[Expr]) -> tuple[int, int] | None:
    """Return the numbers of dimensions of both sides in the first group; `None` if undetermined."""
    for total in range(2, len(here) + len(there) + 1):
        for i in range(1, total):
            j = total - i
            if i > len(here) or j > len(there):
                continue
            a, b = product_of(tuple(here[:i])), product_of(tuple(there[:j]))
            if symbols.equal(a, b):
                return i, j
    return None


def _within(here: list[Expr], there: list[Expr], index: list[Expr]) -> list[Expr]:
    if len(here) == len(there) == 1:
        return index
    position = _position(here, index)
    found: list[Expr] = []
    for k in range(len(there)):
        stride = product_of(tuple(there[k + 1 :]))
        part = position if stride == Const(1) else position // stride
        found.append(part if k == 0 else part % there[k])
    return found


def _position(shape: list[Expr], index: list[Expr]) -> Expr:
    """Return the row-major linear position of an index."""
    if constants(tuple(shape[1:])) is None:
        total: Expr = Const(0)
        for k, e in enumerate(index):
            total = total + e * product_of(tuple(shape[k + 1 :]))
        return total
    strides = [product_of(tuple(shape[k + 1 :])) for k in range(len(shape))]
    return linear(
        *[(e, s.value) for e, s in zip(index, strides, strict=True) if isinstance(s, Const)]
    )
