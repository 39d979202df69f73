"""Device meshes with named axes, and device numbers in transposed order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Final

from msgspec import Struct

from hloscope.ir import Dims

MOST_DEVICES: Final = 1 << 24
"""Maximum number of devices; longer lists are refused before they are made."""


class DeviceIota(Struct, frozen=True):
    """The numbers 0, 1, 2 … in an array of sizes `source`, transposed by `permutation`.

    >>> DeviceIota((2, 3), (1, 0)).values
    (0, 3, 1, 4, 2, 5)
    """

    source: Dims
    permutation: Dims

    @property
    def values(self) -> Dims:
        """The numbers in row-major order of the transposed array."""
        strides = [prod(self.source[i + 1 :]) for i in range(len(self.source))]
        ranges = [range(0, self.source[p] * strides[p], strides[p]) for p in self.permutation]
        return tuple(map(sum, product(*ranges)))

    def __str__(self) -> str:
        text = f"[{','.join(map(str, self.source))}]"
        if self.permutation != tuple(range(len(self.source))):
            text += f"T({','.join(map(str, self.permutation))})"
        return text


class AxisRef(Struct, frozen=True):
    """An axis of a mesh, or a sub-axis of `size` elements.

    `before` is the product of the sizes of all coarser sub-axes.
    """

    name: str
    before: int = 1
    size: int | None = None

    def __str__(self) -> str:
        part = "" if self.size is None else f":({self.before}){self.size}"
        return f"'{self.name}'{part}"


class Mesh(Struct, frozen=True):
    """Named axes with sizes, and the device at each point, in row-major order of the axes."""

    axes: tuple[tuple[str, int], ...]
    device_ids: DeviceIota | Dims | None = None

    @property
    def devices(self) -> Dims:
        """The devices in row-major order of the axes."""
        if self.device_ids is None:
            return tuple(range(prod(size for _, size in self.axes)))
        return (
            self.device_ids.values if isinstance(self.device_ids, DeviceIota) else self.device_ids
        )

    def size(self, axis: AxisRef) -> int:
        """Return the number of devices along an axis or a part of it."""
        return dict(self.axes)[axis.name] if axis.size is None else axis.size

    def groups(self, along: Sequence[AxisRef]) -> tuple[Dims, ...]:
        """Return the groups of devices that differ only in the axes `along`.

        Within a group the first axis of `along` varies slowest.

        >>> Mesh((("x", 2), ("y", 2))).groups([AxisRef("x")])
        ((0, 2), (1, 3))
        """
        # Each piece is a digit of the row-major point number, with the product of the later sizes
        # as its weight.  A group varies the digits of `along`; the others number the groups.
        pieces = self._pieces(along)
        strides = [prod(size for _, size in pieces[i + 1 :]) for i in range(len(pieces))]
        at = {ref: (size, stride) for (ref, size), stride in zip(pieces, strides, strict=True)}
        inner = [_steps(*at[ref]) for ref in along]
        chosen = set(along)
        outer = [_steps(size, stride) for ref, (size, stride) in at.items() if ref not in chosen]
        devices = self.devices
        members = list(map(sum, product(*inner)))
        return tuple(
            tuple(devices[base + step] for step in members) for base in map(sum, product(*outer))
        )

    def _pieces(self, along: Sequence[AxisRef]) -> list[tuple[AxisRef, int]]:
        """Split the axes at the parts that `along` names; `(piece, size)`, slowest first."""
        pieces: list[tuple[AxisRef, int]] = []
        for name, total in self.axes:
            # Sub-axes of one axis, coarsest first; gaps between them become pieces of their own.
            refs = sorted((r for r in along if r.name == name), key=lambda ref: ref.before)
            at = 1
            for ref in refs:
                if ref.before > at:
                    pieces.append((AxisRef(name, at, ref.before // at), ref.before // at))
                pieces.append((ref, self.size(ref)))
                at = ref.before * self.size(ref)
            if at < total:
                rest = total // at
                pieces.append((AxisRef(name, at, rest), rest))
        return pieces

    def __str__(self) -> str:
        axes = ",".join(f"'{name}'={size}" for name, size in self.axes)
        text = f"mesh[{axes}]"
        if isinstance(self.device_ids, DeviceIota):
            text += f", device_ids=({self.device_ids})"
        elif self.device_ids is not None:
            text += f", device_ids=({','.join(map(str, self.device_ids))})"
        return text


class NamedSharding(Struct, frozen=True):
    """A sharding of an array along the axes of a mesh.

    Attributes:
        mesh: The mesh, or its name.
        dimensions: Axes that divide each dimension; the first axis divides coarsest.
        open_dimensions: Dimensions that may be divided further (`?`).
        others: Axes by role: `replicated`, `unreduced`, `manual`.
    """

    mesh: Mesh | str
    dimensions: tuple[tuple[AxisRef, ...], ...]
    open_dimensions: tuple[int, ...] = ()
    others: tuple[tuple[str, tuple[AxisRef, ...]], ...] = ()


def _steps(size: int, stride: int) -> range:
    """Weighted values of a digit of this size and weight."""
    return range(0, size * stride, stride)
