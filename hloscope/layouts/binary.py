"""Matrices over the field of two elements. Bit `i` of a column is its entry in row `i`."""

from __future__ import annotations

from typing import TypeAlias

Columns: TypeAlias = tuple[int, ...]


def _reduced(columns: Columns) -> tuple[dict[int, tuple[int, int]], list[int]]:
    """Eliminate column by column (Gaussian elimination).

    Returns:
        By highest bit, each pivot and the set of columns that sum up to it; and for each column
        that is not a pivot, a set of columns that sum up to 0.
    """
    pivots: dict[int, tuple[int, int]] = {}
    zeros = []
    for k, column in enumerate(columns):
        of = 1 << k
        while column:
            top = column.bit_length() - 1
            if top not in pivots:
                pivots[top] = column, of
                break
            # Subtraction is xor: the highest bit disappears, and `of` follows which columns were
            # added.
            column ^= pivots[top][0]
            of ^= pivots[top][1]
        else:
            zeros.append(of)
    return pivots, zeros


def rank(columns: Columns) -> int:
    """Return the number of independent columns.

    >>> rank((0b01, 0b11, 0b10))
    2
    """
    return len(_reduced(columns)[0])


def kernel(columns: Columns) -> Columns:
    """Return a basis of the sets of columns that sum up to 0.

    Bit `k` is set if column `k` is in it.

    >>> kernel((0b01, 0b11, 0b10))
    (7,)
    """
    return tuple(_reduced(columns)[1])


def inverse(columns: Columns) -> Columns:
    """Return the inverse of a square matrix of full rank, as columns.

    >>> inverse((0b01, 0b11))
    (1, 3)
    """
    pivots, _ = _reduced(columns)
    found = []
    for row in range(len(columns)):
        rest, of = 1 << row, 0
        while rest:
            column, members = pivots[rest.bit_length() - 1]
            rest ^= column
            of ^= members
        found.append(of)
    return tuple(found)
