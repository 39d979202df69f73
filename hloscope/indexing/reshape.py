"""Row-major reshapes, split into the smallest independent groups of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hloscope.affine import ZERO, Const, Dim, Expr, first_dims, floordiv, linear, mod
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.variables import below
from hloscope.ir import Dims


def minimal_groups(here: Dims, there: Dims) -> tuple[tuple[slice, slice], ...]:
    """Return pairs of shortest runs of dimensions with the same number of elements.

    Both shapes have the same, positive number of elements.

    >>> [(here.stop, there.stop) for here, there in minimal_groups((2, 4, 8), (8, 4, 2))]
    [(2, 1), (3, 3)]
    """
    groups: list[tuple[slice, slice]] = []
    i = j = 0
    while i < len(here) and j < len(there):
        start_i, start_j = i, j
        a, b = here[i], there[j]
        i, j = i + 1, j + 1
        # The smaller product grows until both are equal: that is the first common boundary of the
        # shapes.
        while a != b:
            if a < b:
                a, i = a * here[i], i + 1
            else:
                b, j = b * there[j], j + 1
        groups.append((slice(start_i, i), slice(start_j, j)))
    if i < len(here) or j < len(there):  # only dimensions of size 1 are left
        last_i, last_j = groups.pop() if groups else (slice(0, 0), slice(0, 0))
        groups.append((slice(last_i.start, len(here)), slice(last_j.start, len(there))))
    return tuple(groups)


def linearize(index: Sequence[Expr], shape: Dims) -> Expr:
    """Return the row-major linear position of an index.

    >>> print(linearize(first_dims(2), (4, 8)))
    d0 * 8 + d1
    """
    terms: list[tuple[Expr, int]] = []
    stride = 1
    for e, size in zip(reversed(index), reversed(shape), strict=True):
        if size != 1:
            terms.append((e, stride))
            stride *= size
    return linear(*reversed(terms)) if terms else Const(0)


def delinearize(position: Expr, shape: Dims) -> list[Expr]:
    """Return the index at a row-major position inside the shape.

    >>> print(*delinearize(*first_dims(1), (4, 8)))
    d0 / 8 d0 mod 8
    """
    index: list[Expr] = []
    stride = before = prod(shape)
    for size in shape:
        if size == 1:
            index.append(ZERO)
            continue
        stride //= size
        part = position if stride == 1 else floordiv(position, stride)
        # The first dimension needs no remainder, since the position is inside the shape.
        index.append(part if stride * size == before else mod(part, size))
    return index


def reshaped(index: Sequence[Expr], here: Dims, there: Dims) -> list[Expr]:
    """Return the index in shape `there` of the element at `index` in shape `here`."""
    results: list[Expr] = []
    # Groups keep divisions apart: a dimension that only shifts its place gets none.
    for from_, to in minimal_groups(here, there):
        if here[from_] == there[to]:
            results.extend(index[from_])
        else:
            results.extend(delinearize(linearize(index[from_], here[from_]), there[to]))
    return results


def reshape_map(here: Dims, there: Dims) -> IndexingMap:
    """Return the simplified map from an index of shape `here` to the same element in `there`.

    >>> print(reshape_map((2, 4, 4), (4, 8)))
    (d0, d1, d2) -> (d0 * 2 + d1 / 2, (d1 mod 2) * 4 + d2), domain: d0 in [0, 1], d1 in [0, 3], \
d2 in [0, 3]
    """
    variables = [below(size) for size in here]
    if prod(here) == 0:
        return IndexingMap(variables, results=[Const(0)] * len(there))
    left = [k for k, size in enumerate(here) if size != 1]
    if [here[k] for k in left] == [size for size in there if size != 1]:
        rest = iter(left)  # most are like that: what differs is where dimensions of size 1 stand
        found = IndexingMap(
            variables, results=[0 if size == 1 else Dim(next(rest)) for size in there]
        )
        found.mark_simplified()
        return found
    index = reshaped(first_dims(len(here)), here, there)
    return IndexingMap(variables, results=index).simplify()
