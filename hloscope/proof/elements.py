"""Elements of a test program's sources and outputs, pairs that maps claim, and changed values.

A row is an output element, a column a source element. A source is an operand or captured value of
the instruction, or a parameter.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any, Final, TypeAlias

from msgspec import Struct

from hloscope.affine import POS_INF, Expr, Interval, Range, Runtime, Var
from hloscope.fusion import leaf_types
from hloscope.indexing import (
    Access,
    Accesses,
    IndexingMap,
    Variable,
    joined,
    ravel,
    replaced,
    unravel,
)
from hloscope.interpreter import Value
from hloscope.ir import TensorType
from hloscope.proof.allowance import Deadline
from hloscope.proof.graph import OWN_NAMES
from hloscope.proof.instance import Instance
from hloscope.proof.relations import ElementFollower, points_of
from hloscope.proof.running import (
    Base,
    Draw,
    Observed,
    bounded_shapes,
    leaves_of,
    moved,
    spread,
    with_leaf,
)
from hloscope.proof.sizes import shape_of
from hloscope.simplifier import UndecidedError
from hloscope.support.arrays import Bools, Floats, Ints, np

# --------------------------------------------------------------------------------------------------
# Numbering of all elements of a test program's sources and outputs, over all devices.


Place: TypeAlias = tuple[int, int, int]
"""Key of a group of maps: numbers of an output, of a source, and of a leaf of the source."""

PAIRS: Final = 1 << 21
"""Largest number of pairs of an output and a source element in a table of one byte per pair."""


class Leaf(Struct, frozen=True, eq=False):
    """One tensor of a source on one device, with the columns of its elements.

    A source is an operand, captured value or parameter. All source elements are numbered; the
    number of one is its column.

    Attributes:
        device: Number of the device.
        source: Number of the source.
        value: Index of the source's value in a list of the sources' values, device by device.
        number: Number of the tensor in the source.
        type: Type of the tensor.
        shape: Its shape, with bounds for dynamic sizes.
        first: Column of its first element.
    """

    device: int
    source: int
    value: int
    number: int
    type: TensorType
    shape: tuple[int, ...]
    first: int

    @property
    def end(self) -> int:
        """Column after that of the last element."""
        return self.first + prod(self.shape)


class Elements:
    """The rows and columns of tables of pairs.

    A column is an element of a source, a row an element of an output. If there are many columns,
    the rows are only a sample of the output elements.

    Attributes:
        leaves: Tensors of the sources, device by device.
        size: Number of columns.
        shapes: Shapes of the outputs, device by device.
        chosen: For each output, the flat indices of the elements that are rows: all if they are
            few.
        starts: First row of each output; at the end, the number of all rows.
    """

    def __init__(self, instance: Instance, seed: int) -> None:
        devices = range(instance.devices.count)
        self.leaves: Final = _leaves(instance)
        self._by_tensor: dict[tuple[int, int], list[Leaf]] = {}
        for leaf in self.leaves:
            self._by_tensor.setdefault((leaf.source, leaf.number), []).append(leaf)
        self.size: Final = self.leaves[-1].end if self.leaves else 0
        own = bounded_shapes(instance)
        self.outputs: Final = len(own)
        self.shapes: Final = [shape for _ in devices for shape in own]
        rng = np.random.default_rng(seed)
        # The table of rows and columns has a bounded size: with many columns only some rows are
        # compared.
        most = max(4, PAIRS // max(1, self.size) // max(1, len(self.shapes)))
        counts = [prod(shape) for shape in self.shapes]
        self.chosen: Final[list[Ints]] = [
            np.arange(n) if n <= most else np.sort(rng.permutation(n)[:most]) for n in counts
        ]
        self.starts: Final = [0]
        for part in self.chosen:
            self.starts.append(self.starts[-1] + len(part))

    @property
    def rows(self) -> int:
        """Number of rows: output elements, of all outputs on all devices, that are compared."""
        return self.starts[-1]

    def has(self, source: int, leaf: int) -> bool:
        """Does tensor number `leaf` of a source have columns, elements that can be changed?"""
        return (source, leaf) in self._by_tensor

    def rows_of(self, output: int) -> Ints:
        """Return the rows (output elements) of an output, on all devices. Shape `[n]`."""
        numbers = range(output, len(self.shapes), self.outputs)
        return np.concatenate([np.arange(self.starts[k], self.starts[k + 1]) for k in numbers])

    def leaves_of(self, source: int, leaf: int) -> list[Leaf]:
        """Return tensor number `leaf` of a source, on each device."""
        return self._by_tensor[source, leaf]

    def columns_of(self, source: int, leaf: int) -> Ints:
        """Return the columns of tensor number `leaf` of a source, on all devices. Shape `[n]`.

        A column is the number of one source element.
        """
        return np.concatenate([np.arange(x.first, x.end) for x in self.leaves_of(source, leaf)])

    def leaf_at(self, column: int) -> Leaf:
        """Return the tensor of a source to which a source element, given by column, belongs."""
        return self.leaves[bisect_right(self.leaves, column, key=lambda x: x.end)]

    def element(self, row: int) -> tuple[int, tuple[int, ...]]:
        """Return the output of an output element, given by row, and the element's index.

        Outputs are numbered across devices.
        """
        number = bisect_right(self.starts, row) - 1
        at = int(self.chosen[number][row - self.starts[number]])
        return number, unflat(at, self.shapes[number])

    def output_of(self, row: int) -> int:
        """Return the number of the output to which an output element, given by row, belongs.

        It is the same on all devices.
        """
        return (bisect_right(self.starts, row) - 1) % self.outputs

    def moved(self, before: Sequence[Any], after: Sequence[Any]) -> Bools:
        """Return whether each output element differs between two runs. Shape `[rows]`.

        `before` and `after` are the output arrays of the runs, device by device.
        """
        parts = [
            spread(_within(moved(a, b), shape), shape)[chosen]
            for a, b, shape, chosen in zip(before, after, self.shapes, self.chosen, strict=True)
        ]
        found: Bools = np.concatenate(parts)
        return found


def _leaves(instance: Instance) -> list[Leaf]:
    """Return all tensors of the sources, device by device; their elements are numbered in order.

    The number of an element is its column.
    """
    found: list[Leaf] = []
    count = len(instance.sources)
    for device in range(instance.devices.count):
        for k, source in enumerate(instance.sources):
            for number, type_ in enumerate(leaf_types(source.type)):
                if isinstance(type_, TensorType):
                    first = found[-1].end if found else 0
                    value = device * count + k
                    found.append(Leaf(device, k, value, number, type_, shape_of(type_), first))
    return found


def _within(flags: Bools, shape: tuple[int, ...]) -> Bools:
    """Return the part of an array of flags at indices inside `shape`."""
    return flags[tuple([slice(0, n) for n in shape])]


def unflat(at: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the index of an element of a tensor; `at` is its row-major position."""
    return tuple([int(i) for i in unravel(np.int64(at), shape)])


def nothing(rows: int, columns: int) -> Bools:
    """Return a table of false: no row depends on any column. Shape `[rows, columns]`."""
    return np.zeros((rows, columns), np.bool_)


# --------------------------------------------------------------------------------------------------
# Pairs of elements that maps claim, for the run-time values of one run, as a boolean matrix.
#
# Rows are output elements on all devices, and columns elements of sources, as in `Elements`.


Claims: TypeAlias = Mapping[Place, Accesses]
"""Maps by output, source and leaf.

Without an entry the output depends on no element of the leaf.
"""


class Touched:
    """The pairs of an output and a source element that maps claim, given the values of a run.

    Attributes:
        claims: The maps.
        is_moving: Whether a map depends on values of the run.
    """

    def __init__(
        self, instance: Instance, elements: Elements, claims: Claims, deadline: Deadline
    ) -> None:
        self.claims: Final = claims
        self.is_moving: Final = any(is_moving(accesses) for accesses in claims.values())
        self._devices = instance.devices
        self._elements = elements
        self._deadline = deadline
        # Each relation is read for every run and every place, and costs an evaluation of all maps.
        self._whole: dict[int, Bools] = {}
        self._fixed: dict[Place, Bools | bool] = {}

    def relation(self, base: Base) -> Bools:
        """Return whether each output element depends on each source element, by the maps.

        The shape is `[rows, columns]`. `base` is the run whose values the maps may read.

        Raises:
            UndecidedError: A map cannot be evaluated.
            TimeOverError: The time limit is exceeded, and the table is not stored.
        """
        # Maps without runtime variables have the same pairs in every run.
        key = id(base) if self.is_moving else 0
        if key not in self._whole:
            elements = self._elements
            found = nothing(elements.rows, elements.size)
            for place, accesses in self.claims.items():
                self._deadline.check()
                if accesses and elements.has(*place[1:]):
                    block = np.ix_(elements.rows_of(place[0]), elements.columns_of(*place[1:]))
                    found[block] = self._stored_part(base, place, accesses)
            self._whole[key] = found
        return self._whole[key]

    def _stored_part(self, base: Base, place: Place, accesses: Accesses) -> Bools | bool:
        """Return whether each row of an output depends on each column of a source's tensor.

        The arguments are those of `part`. The result is stored if it is the same for all runs.
        """
        if is_moving(accesses):
            return self.part(base, place, accesses, False)
        if place not in self._fixed:
            self._fixed[place] = self.part(base, place, accesses, False)
        return self._fixed[place]

    def part(self, base: Base, place: Place, accesses: Accesses, inverse: bool) -> Bools | bool:
        """Return whether each element of an output depends on each element of a source's tensor.

        The table has shape `[rows of the output, columns of the tensor]`. `True` stands for all
        pairs, if a map is unknown.

        Args:
            base: The run whose values the maps may read.
            place: Numbers of the output, the source and its tensor.
            accesses: The maps.
            inverse: Whether they lead from the source to the output.

        Raises:
            UndecidedError: A map cannot be evaluated.
        """
        if any(a.map is None for a in accesses):
            return True
        elements = self._elements
        leaves = elements.leaves_of(*place[1:])
        width = prod(leaves[0].shape)
        found = nothing(len(elements.rows_of(place[0])), width * len(leaves))
        row = 0
        for device in range(self._devices.count):
            # Blocks are stacked device by device, as `rows_of` and `columns_of` number them.
            output = place[0] + device * elements.outputs
            count = len(elements.chosen[output])
            rows = found[row : row + count]
            row += count
            for access in accesses:
                for at, other, column in self._pairs(base, access, device, output, leaves, inverse):
                    rows[at, other * width + column] = True
        return found

    def _pairs(
        self,
        base: Base,
        access: Access,
        device: int,
        output: int,
        leaves: list[Leaf],
        inverse: bool,
    ) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Yield the pairs that one map claims: rows, devices of the source, and columns there.

        Rows are counted within the output on `device`, and columns within the leaf on the other
        device.

        Args:
            base: The run whose values the map may read.
            access: The map.
            device: Device of the output.
            output: Number of the output, counted across devices.
            leaves: The leaf of the source, on each device.
            inverse: Whether the map leads from the source to the output.
        """
        m = access.map
        assert m is not None
        if m.is_known_empty:
            return
        shape, chosen = self._elements.shapes[output], self._elements.chosen[output]
        source = leaves[0].shape
        starts = points_of(np.arange(prod(source)), source) if inverse else points_of(chosen, shape)
        ends = shape if inverse else source
        if (starts.shape[1], len(ends)) != (len(m.dims), len(m.results)):
            raise UndecidedError("the program is inconsistent: ranks differ")
        follower = ElementFollower(Observed(base, device, self._devices))
        both = with_every_position(joined(access), self._devices.count)
        start, results = follower.results(both, starts, OWN_NAMES)
        rank = len(ends)
        positions = [results[:, rank + k] for k in range(len(access.via))]
        others = self._devices.reached(device, access.via, positions)
        others = np.broadcast_to(others, start.shape)
        # An over-approximated map may leave the array, and a position may have no device: such
        # results are no pairs.
        inside = (results[:, :rank] >= 0).all(axis=1) & (others >= 0)
        inside &= (results[:, :rank] < np.asarray(ends, np.int64)).all(axis=1)
        start, others = start[inside], others[inside]
        end = np.zeros(len(start), np.int64)
        if rank:
            end = ravel(tuple(results[inside, :rank].T), ends)
        if not inverse:
            yield start, others, end
            return
        # Rows are a sample of the output, so elements reached by an inverse map are looked up in
        # it.
        position = np.full(prod(shape), -1)
        position[chosen] = np.arange(len(chosen))
        at = position[end]
        yield at[at >= 0], others[at >= 0], start[at >= 0]


def is_moving(accesses: Accesses) -> bool:
    """Does a map of `accesses` depend on values that the program reads at run time?"""
    return any(a.map is not None and a.map.runtime for a in accesses)


def with_every_position(m: IndexingMap, count: int) -> IndexingMap:
    """Return a map in which range variables of `count` values replace "every position of a group".

    A runtime variable that stands for every position of a device group becomes a range variable.
    Range variables without an upper bound get `count` values, too. A position that a group does not
    have leads to no device.
    """
    bounds = Variable(Interval(0, count - 1))
    ranges = [v if v.interval.hi < POS_INF else bounds for v in m.ranges]
    every = [k for k, v in enumerate(m.runtime) if v.is_every]
    left = [k for k in range(len(m.runtime)) if k not in every]
    new: dict[Var, Expr] = {Runtime(k): Runtime(i) for i, k in enumerate(left)}
    new |= {Runtime(k): Range(len(ranges) + i) for i, k in enumerate(every)}
    inside = [(Runtime(k), m.runtime[k].interval) for k in every]
    return replaced(
        m.with_(constraints=(*m.constraints, *inside)),
        new,
        dims=m.dims,
        ranges=[*ranges, *[bounds for _ in every]],
        runtime=[m.runtime[k] for k in left],
    )


# --------------------------------------------------------------------------------------------------
# Selection of the source elements that are changed together, and their new values.


CANDIDATES: Final = 512
"""Largest number of columns that are tried for one packing."""
_STYLES: Final = "wide", "ordinary", "special", "ties"


def complement(relation: Bools, kind: int, rng: np.random.Generator) -> Bools:
    """Return a flag for each column: true if none of some randomly chosen rows depends on it.

    Args:
        relation: Whether each row depends on each column. Shape `[rows, columns]`.
        kind: Selects the number of chosen rows, from one to half of all.
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
    """Chooses sets of source elements to change in one run: no row depends on two columns of a set.

    Columns that were chosen least often come first.
    """

    def __init__(self, columns: int) -> None:
        self._tries = np.zeros(columns, np.int64)

    def next(self, relation: Bools, missing: Bools, rng: np.random.Generator) -> Bools:
        """Return flags of the columns of the next set. Shape `[columns]`.

        Args:
            relation: Whether each row depends on each column. Shape `[rows, columns]`.
            missing: Pairs that no run has shown yet; columns with many of them are preferred. Same
                shape.
            rng: Decides between equal columns.
        """
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
    """Return the sources' values with new values in some columns, and the columns that differ.

    Args:
        elements: The rows and columns.
        base: The run whose values are changed.
        changed: Flags of the columns to change. Shape `[columns]`.
        kind: Number that selects the style of the new random values.
        rng: Source of randomness.

    Returns:
        The values, and flags of the columns whose value really differs.
    """
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
    """Return the values of the run `base`, with those of `changed` in some columns, `columns`."""
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
    """Return, for each output element, the source element with the same value. Shape `[rows]`.

    A row is an output element, and the result is the number of a column, a source element. It is -1
    if no column, or more than one, has the value of the row. Only floats are compared; those of the
    sources have at least 4 bytes, and are distinct in the run `base`.
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
