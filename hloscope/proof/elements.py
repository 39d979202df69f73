"""Numbering of all elements of a test program's sources and outputs, over all devices."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import prod
from typing import Any, Final, TypeAlias

from msgspec import Struct

from hloscope.arrays import Bools, Ints, np
from hloscope.fusion import leaf_types
from hloscope.indexing import unravel
from hloscope.ir import TensorType
from hloscope.proof.instance import Instance
from hloscope.proof.running import moved, spread, whole_shapes
from hloscope.proof.size_rules import shape_of

Place: TypeAlias = tuple[int, int, int]
"""Numbers of an output, of a source and of a leaf of the source."""

PAIRS: Final = 1 << 21
"""Maximum number of pairs of an output element and a source element in one table."""


class Leaf(Struct, frozen=True, eq=False):
    """A tensor of a source on one device, and the numbers of its elements.

    Attributes:
        device: Number of the device.
        source: Number of the source.
        value: Number of the source's value among those of all devices.
        number: Number of the tensor in the source.
        type: Type of the tensor.
        shape: Its shape, with bounds for dynamic sizes.
        first: Number of its first element.
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
        """Number after that of the last element."""
        return self.first + prod(self.shape)


class Elements:
    """Columns: elements of sources.  Rows: elements of outputs, or a sample of them.

    Attributes:
        leaves: Tensors of the sources, device by device.
        size: Number of columns.
        shapes: Shapes of the outputs, device by device.
        chosen: Flat indices of the rows of each output: all if they are few.
        starts: First row of each output, and the number of rows.
    """

    def __init__(self, instance: Instance, seed: int) -> None:
        devices = range(instance.devices.count)
        self.leaves: Final = _leaves(instance)
        self._by_tensor: dict[tuple[int, int], list[Leaf]] = {}
        for leaf in self.leaves:
            self._by_tensor.setdefault((leaf.source, leaf.number), []).append(leaf)
        self.size: Final = self.leaves[-1].end if self.leaves else 0
        own = whole_shapes(instance)
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
        """Number of rows."""
        return self.starts[-1]

    def has(self, source: int, leaf: int) -> bool:
        """Does the leaf have elements?"""
        return (source, leaf) in self._by_tensor

    def rows_of(self, output: int) -> Ints:
        """Return the rows of an output, on all devices."""
        numbers = range(output, len(self.shapes), self.outputs)
        return np.concatenate([np.arange(self.starts[k], self.starts[k + 1]) for k in numbers])

    def leaves_of(self, source: int, leaf: int) -> list[Leaf]:
        """Return a tensor of a source on each device."""
        return self._by_tensor[source, leaf]

    def columns_of(self, source: int, leaf: int) -> Ints:
        """Return the columns of a tensor of a source, on all devices."""
        return np.concatenate([np.arange(x.first, x.end) for x in self.leaves_of(source, leaf)])

    def leaf_at(self, column: int) -> Leaf:
        """Return the tensor of a column."""
        return self.leaves[bisect_right(self.leaves, column, key=lambda x: x.end)]

    def element(self, row: int) -> tuple[int, tuple[int, ...]]:
        """Return the output number, counted over all devices, and the index of a row."""
        number = bisect_right(self.starts, row) - 1
        at = int(self.chosen[number][row - self.starts[number]])
        return number, unflat(at, self.shapes[number])

    def output_of(self, row: int) -> int:
        """Return the output number of a row, the same on all devices."""
        return (bisect_right(self.starts, row) - 1) % self.outputs

    def moved(self, before: Sequence[Any], after: Sequence[Any]) -> Bools:
        """Return which rows differ between two runs. Shape `[rows]`."""
        parts = [
            spread(_within(moved(a, b), shape), shape)[chosen]
            for a, b, shape, chosen in zip(before, after, self.shapes, self.chosen, strict=True)
        ]
        found: Bools = np.concatenate(parts)
        return found


def _leaves(instance: Instance) -> list[Leaf]:
    """Number the tensors of all sources on all devices."""
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
    """Return the flags inside the shape."""
    return flags[tuple([slice(0, n) for n in shape])]


def points_of(flat: Ints, shape: tuple[int, ...]) -> Ints:
    """Return the indices of elements given by flat index. Shape `[n, rank]`."""
    if not shape:
        return np.zeros((len(flat), 0), np.int64)
    return np.stack(unravel(flat, shape), axis=1).astype(np.int64)


def unflat(at: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the index of an element given by flat index."""
    return tuple([int(i) for i in unravel(np.int64(at), shape)])


def nothing(rows: int, columns: int) -> Bools:
    """Return a relation without pairs. Shape `[rows, columns]`."""
    return np.zeros((rows, columns), np.bool_)
