"""Selection of the source elements that are changed together, and their new values."""

from __future__ import annotations

from typing import Final

from hloscope.arrays import Bools, Floats, Ints, np
from hloscope.interpreter import Value
from hloscope.proof.draw import Draw
from hloscope.proof.elements import Elements
from hloscope.proof.running import Base, leaves_of, moved, spread, with_leaf

CANDIDATES: Final = 512
"""Maximum number of columns that are tried for one packing."""
_STYLES: Final = "wide", "ordinary", "special", "ties"


def complement(relation: Bools, kind: int, rng: np.random.Generator) -> Bools:
    """Return all columns that some rows do not depend on.

    The number of rows, one to half of all, follows from `kind`.

    Args:
        relation: Pairs of a row and a column that it depends on.
        kind: Number of the selection.
        rng: Chooses the rows.
    """
    rows = len(relation)
    count = (1, max(1, rows // 2), 2, max(1, rows // 8), 1)[kind % 5]
    some = rng.permutation(rows)[:count]
    found: Bools = np.logical_not(np.any(relation[some], axis=0))
    if not found.any() and count > 1:
        found = np.logical_not(relation[some[0]])
    return found


class Packings:
    """Sets of columns of which each row depends on one at most; least tried columns first."""

    def __init__(self, columns: int) -> None:
        self._tries = np.zeros(columns, np.int64)

    def next(self, relation: Bools, missing: Bools, rng: np.random.Generator) -> Bools:
        """Return another set, columns with `missing` pairs preferred."""
        columns = len(self._tries)
        wanted = missing.sum(axis=0) + rng.random(columns)
        # The last key is the primary one: least tried first, columns without missing pairs counted
        # as tried once more; then those with most missing pairs.
        order = np.lexsort((-wanted, self._tries + (wanted < 1)))[:CANDIDATES]
        taken = np.zeros(len(relation), np.bool_)
        found = np.zeros(columns, np.bool_)
        # Greedy: a column is added if none of its rows has a column of the set already.
        for column in order:
            image = relation[:, column]
            if not (taken & image).any():
                taken |= image
                found[column] = True
        self._tries += found
        return found


def changed_values(
    elements: Elements, base: Base, changed: Bools, kind: int, rng: np.random.Generator
) -> tuple[tuple[Value, ...], Bools]:
    """Return the sources' values with new values in `changed` columns, and which really differ."""
    values = list(base.values)
    really = np.zeros(elements.size, np.bool_)
    draw = Draw(rng, _STYLES[kind % 4])
    for leaf in elements.leaves:
        mine = changed[leaf.first : leaf.end]
        if not mine.any():
            continue
        old = np.asarray([*leaves_of(values[leaf.value])][leaf.number])
        flags = mine.reshape(leaf.shape)[tuple([slice(0, n) for n in old.shape])]
        new = np.where(flags, draw.elements(leaf.type.element, old.shape), old)
        # A drawn boolean equals the old one half of the time; a negated one never does.
        if leaf.type.element.kind == "pred":
            new = np.where(flags, ~old, old)
        differs = moved(old, new)
        if not differs.any():
            continue
        values[leaf.value] = with_leaf(values[leaf.value], leaf.number, new.astype(old.dtype))
        really[leaf.first : leaf.end] = spread(differs, leaf.shape)
    return tuple(values), really


def partly_changed(
    elements: Elements, base: Base, changed: tuple[Value, ...], columns: Ints
) -> tuple[Value, ...]:
    """Return the base values, with the `changed` values in the given columns only."""
    flags = np.zeros(elements.size, np.bool_)
    flags[columns] = True
    values = list(base.values)
    for leaf in elements.leaves:
        mine = flags[leaf.first : leaf.end]
        if not mine.any():
            continue
        old, new = (
            np.asarray([*leaves_of(v[leaf.value])][leaf.number]) for v in (base.values, changed)
        )
        here = mine.reshape(leaf.shape)[tuple([slice(0, n) for n in old.shape])]
        mixed = np.where(here, new, old).astype(old.dtype)
        values[leaf.value] = with_leaf(values[leaf.value], leaf.number, mixed)
    return tuple(values)


def copied_columns(elements: Elements, base: Base) -> Ints:
    """Return for each row the column with the same number, or -1. Shape `[rows]`.

    Values are numbered floats.  A row has -1 if no column, or more than one, has its number.
    """
    numbers: list[Floats] = []
    places: list[Ints] = []
    for leaf in elements.leaves:
        value = np.asarray([*leaves_of(base.values[leaf.value])][leaf.number])
        if value.dtype.kind == "f" and value.dtype.itemsize >= 4 and value.shape == leaf.shape:
            numbers.append(value.reshape(-1).astype(np.float64))
            places.append(np.arange(leaf.first, leaf.end))
    found = np.full(elements.rows, -1, np.int64)
    if not numbers:
        return found
    # Sorted keys, so that each output element is found by binary search.
    keys, place = np.concatenate(numbers), np.concatenate(places)
    order = np.argsort(keys, kind="stable")
    keys, place = keys[order], place[order]
    for k, (array, chosen, shape) in enumerate(
        zip(base.outputs, elements.chosen, elements.shapes, strict=True)
    ):
        if array.dtype.kind != "f" or array.shape != shape or not len(keys):
            continue
        mine = array.reshape(-1)[chosen].astype(np.float64)
        at = np.clip(np.searchsorted(keys, mine), 0, len(keys) - 1)
        twice = keys[np.minimum(at + 1, len(keys) - 1)] == mine
        is_one = (keys[at] == mine) & ~(twice & (at + 1 < len(keys)))
        found[elements.starts[k] : elements.starts[k + 1]] = np.where(is_one, place[at], -1)
    return found
