"""All elements of an instance's sources and outputs on all devices, numbered through."""

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
"""An output, a source and a leaf of the source."""

PAIRS: Final = 1 << 21
"""Pairs of an output element and a source element that are looked at together."""


class Leaf(Struct, frozen=True, eq=False):
    """A tensor of a source on a device, and where its elements stand among those of all.

    Attributes:
        device: On which device it is.
        source: Number of the source.
        value: Number of the source's value among those of all devices.
        number: Which tensor of the source.
        type: Its type.
        shape: Its shape, dynamic sizes by their bounds.
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
        """The number after its last element."""
        return self.first + prod(self.shape)


class Elements:
    """The columns, elements of sources, and the rows, some elements of outputs.

    Attributes:
        leaves: The tensors of the sources, device by device.
        size: How many columns there are.
        shapes: Of the outputs, device by device.
        chosen: Which elements of each: all where these are few.
        starts: The first row of each output, and the number of rows.
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
        """How many rows there are."""
        return self.starts[-1]

    def has(self, source: int, leaf: int) -> bool:
        """Is it a tensor with elements to change?"""
        return (source, leaf) in self._by_tensor

    def rows_of(self, output: int) -> Ints:
        """The rows of an output, on all devices."""
        numbers = range(output, len(self.shapes), self.outputs)
        return np.concatenate([np.arange(self.starts[k], self.starts[k + 1]) for k in numbers])

    def leaves_of(self, source: int, leaf: int) -> list[Leaf]:
        """A tensor of a source, on each device."""
        return self._by_tensor[source, leaf]

    def columns_of(self, source: int, leaf: int) -> Ints:
        """The columns of a tensor of a source, on all devices."""
        return np.concatenate([np.arange(x.first, x.end) for x in self.leaves_of(source, leaf)])

    def leaf_at(self, column: int) -> Leaf:
        """The tensor that a column is an element of."""
        return self.leaves[bisect_right(self.leaves, column, key=lambda x: x.end)]

    def element(self, row: int) -> tuple[int, tuple[int, ...]]:
        """The output, among those of all devices, and the index of a row."""
        number = bisect_right(self.starts, row) - 1
        at = int(self.chosen[number][row - self.starts[number]])
        return number, unflat(at, self.shapes[number])

    def output_of(self, row: int) -> int:
        """Which output a row is an element of, on whatever device."""
        return (bisect_right(self.starts, row) - 1) % self.outputs

    def moved(self, before: Sequence[Any], after: Sequence[Any]) -> Bools:
        """Which rows differ between two runs."""
        parts = [
            spread(_within(moved(a, b), shape), shape)[chosen]
            for a, b, shape, chosen in zip(before, after, self.shapes, self.chosen, strict=True)
        ]
        found: Bools = np.concatenate(parts)
        return found


def _leaves(instance: Instance) -> list[Leaf]:
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
    """The flags of elements inside the shape."""
    return flags[tuple([slice(0, n) for n in shape])]


def points_of(flat: Ints, shape: tuple[int, ...]) -> Ints:
    """Indices of elements by their number."""
    if not shape:
        return np.zeros((len(flat), 0), np.int64)
    return np.stack(unravel(flat, shape), axis=1).astype(np.int64)


def unflat(at: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of an element by its number."""
    return tuple([int(i) for i in unravel(np.int64(at), shape)])


def nothing(rows: int, columns: int) -> Bools:
    """No pair of a row and a column."""
    return np.zeros((rows, columns), np.bool_)
