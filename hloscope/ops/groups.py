"""Groups of devices that take part in a collective, and meshes with named axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import Struct

from hloscope.errors import UnsupportedError
from hloscope.ir import Dims
from hloscope.ops.inference import require

# --------------------------------------------------------------------------------------------------
# Groups of devices that take part in a collective, and checks of them.


class Table(NamedTuple):
    """Integers as in StableHLO's `dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>`.

    Attributes:
        shape: Sizes of the tensor, of any rank.
        values: Its elements in row-major order; a large splat has a single value.
    """

    shape: Dims
    values: Dims = ()

    @classmethod
    def of(cls, rows: Iterable[Iterable[int]]) -> Table:
        """Return the matrix of `rows`, padded with `-1` to equal lengths.

        >>> Table.of([[0, 1], [2]])
        Table(shape=(2, 2), values=(0, 1, 2, -1))
        """
        lists = [list(row) for row in rows]
        width = max(map(len, lists), default=0)
        flat = [n for row in lists for n in [*row, *[-1] * (width - len(row))]]
        return cls((len(lists), width), tuple(flat))

    @property
    def elements(self) -> Dims:
        """All elements; for a splat at most two, which suffice to detect a repetition."""
        size = prod(self.shape)
        return self.values * min(size, 2) if len(self.values) == 1 else self.values[:size]

    @property
    def rows(self) -> tuple[Dims, ...]:
        """The rows of the matrix, without the `-1`s that pad them to equal lengths.

        >>> Table((2, 2), (0, 1, 2, -1)).rows
        ((0, 1), (2,))
        """
        if len(self.shape) != 2 or len(self.values) != prod(self.shape):
            return (self.elements,) if self.elements else ()
        count, size = self.shape
        found = [self.values[i * size : (i + 1) * size] for i in range(count)]
        return tuple(tuple(n for n in row if n >= 0) for row in found)


class WrittenGroups:
    """Replica groups as rows of numbers, or in a notation that a subclass of a front end reads.

    Attributes:
        written: The groups as the program has them: a text or an MLIR attribute; otherwise the
            rows.
    """

    __slots__ = ("written",)

    def __init__(self, written: Any = ()) -> None:
        self.written = written

    @property
    def rows(self) -> tuple[Dims, ...]:
        """The groups as rows of numbers; empty if one group has all devices.

        Raises:
            ParseError: The text is not in a known notation.
        """
        return tuple(self.written)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.written == other.written

    def __hash__(self) -> int:
        return hash(self.written)

    def __str__(self) -> str:
        return str(self.written)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


NO_GROUPS: Final = WrittenGroups()
"""Replica groups of an op that states none: one group has all devices."""


class MeshGroups(WrittenGroups):
    """Groups of devices along axes of a mesh, in StableHLO's notation."""

    __slots__ = ()

    @property
    def mesh(self) -> Mesh | str:
        """The mesh, or the name of a mesh that the module defines."""
        raise UnsupportedError("the mesh of the replica groups is not known")

    @property
    def axes(self) -> tuple[AxisRef, ...]:
        """The axes of the mesh in which the devices of a group differ."""
        raise UnsupportedError("the axes of the replica groups are not known")


Groups: TypeAlias = Table | WrittenGroups
"""Replica groups of an op: a table in StableHLO; otherwise in the notation of the program."""


class GroupRules(NamedTuple):
    """Labels of the constraints on replica groups.

    Attributes:
        rank: The groups are a matrix.
        unique: No device is in two groups.
        inside: Devices are numbered from 0 without gaps.
        size: Each group has the required size.
    """

    rank: str
    unique: str
    inside: str
    size: str = ""


def is_mlir_notation(groups: Groups) -> bool:
    """Are the groups in one of StableHLO's notations, a table or mesh axes?"""
    return isinstance(groups, Table | MeshGroups)


def check_groups(
    groups: Groups,
    rules: GroupRules,
    *,
    same_size: bool,
    global_ids: bool = False,
    group_size: int | None = None,
) -> None:
    """Check the groups of a collective; groups by mesh axes are valid by construction.

    Args:
        groups: The groups.
        rules: Labels of the constraints.
        same_size: Whether all groups must have one size.  Then padding (`-1`) is not allowed.
        global_ids: Whether the groups list flattened device ids.  Then there must be groups.
        group_size: Required size of a group, if it is known.

    Raises:
        VerifyError: A constraint is broken.
    """
    if not isinstance(groups, Table):
        return
    require(len(groups.shape) == 2, rules.rank, "replica groups should be a rank 2 tensor")
    require(
        not global_ids or prod(groups.shape) > 0,
        rules.rank,
        "if `use_global_device_ids` is set, the replica groups cannot be empty",
    )
    seen: set[int] = set()
    for device in groups.elements:
        if device == -1:
            require(not same_size, rules.inside, "Invalid replica id -1")
            continue
        require(device not in seen, rules.unique, f"replica id #{device} seen more than once")
        seen.add(device)
    # The devices are distinct, so they are 0 … n - 1 exactly if each of these numbers occurs.
    for device in range(len(seen)):
        require(device in seen, rules.inside, f"replica id #{device} not seen in replica groups")
    require(
        group_size is None or groups.shape[1] == group_size,
        rules.size,
        f"group size of replica_groups must be {group_size}",
    )


def check_senders(groups: Groups, rules: GroupRules) -> None:
    """Check the groups of a broadcast: each device number is in at most one group.

    Raises:
        VerifyError: A constraint is broken.
    """
    if not isinstance(groups, Table):
        return
    rank = len(groups.shape)
    require(
        rank == 2,
        rules.rank,
        f"replica groups should be a rank 2 tensor,but instead it is of rank {rank}",
    )
    seen: set[int] = set()
    for device in groups.elements:
        require(
            device >= 0,
            rules.inside,
            f"replica_groups values must be positive, but was given {device}",
        )
        require(device not in seen, rules.unique, f"replica id #{device} seen more than once")
        seen.add(device)


class PairRules(NamedTuple):
    """Labels of the constraints on (source, target) pairs.

    Attributes:
        rank: The pairs are a matrix.
        columns: It has two columns.
        sources: Sources are distinct.
        targets: Targets are distinct.
        inside: No number is negative.
    """

    rank: str
    columns: str
    sources: str
    targets: str
    inside: str


def check_pairs(pairs: Table, rules: PairRules) -> None:
    """Check (source, target) pairs: each device sends at most once and receives at most once.

    Raises:
        VerifyError: A constraint is broken.
    """
    rank = len(pairs.shape)
    require(
        rank == 2,
        rules.rank,
        f"expect source_target_pairs attribute to be of rank 2, but got rank {rank}",
    )
    shape = ", ".join(map(str, pairs.shape))
    require(
        pairs.shape[1] == 2,
        rules.columns,
        f"expect source_target_pairs attribute of shape (N, 2), but got ({shape})",
    )
    # For a splat, two pairs suffice to find a duplicate.
    values = pairs.values * min(prod(pairs.shape), 4) if len(pairs.values) == 1 else pairs.values
    seen: tuple[set[int], set[int]] = set(), set()
    for i, device in enumerate(values):
        require(device >= 0, rules.inside, "replica ids in source_target_pairs must be >= 0.")
        require(
            device not in seen[i % 2],
            rules.targets if i % 2 else rules.sources,
            f"duplicate {'targets' if i % 2 else 'sources'} not allowed.",
        )
        seen[i % 2].add(device)


# --------------------------------------------------------------------------------------------------
# Device meshes with named axes, and device numbers in transposed order.


MOST_DEVICES: Final = 1 << 24
"""Maximum number of devices; a longer list is refused before it is made."""


class DeviceIota(Struct, frozen=True):
    """The numbers 0, 1, 2 … as an array of sizes `source`, transposed by `permutation`.

    >>> DeviceIota((2, 3), (1, 0)).values
    (0, 3, 1, 4, 2, 5)
    """

    source: Dims
    permutation: Dims

    @property
    def values(self) -> Dims:
        """The numbers, in row-major order of the transposed array."""
        strides = [prod(self.source[i + 1 :]) for i in range(len(self.source))]
        ranges = [range(0, self.source[p] * strides[p], strides[p]) for p in self.permutation]
        return tuple(map(sum, product(*ranges)))

    def __str__(self) -> str:
        text = f"[{','.join(map(str, self.source))}]"
        if self.permutation != tuple(range(len(self.source))):
            text += f"T({','.join(map(str, self.permutation))})"
        return text


class AxisRef(Struct, frozen=True):
    """An axis of a mesh, or a sub-axis of it with `size` devices.

    `before` is the product of the sizes of all coarser sub-axes of the axis. Without a `size` it is
    the whole axis.
    """

    name: str
    before: int = 1
    size: int | None = None

    def __str__(self) -> str:
        part = "" if self.size is None else f":({self.before}){self.size}"
        return f"'{self.name}'{part}"


class Mesh(Struct, frozen=True):
    """Named mesh axes with their sizes, and the device at each point of the mesh.

    `device_ids` are in row-major order of the axes; `None` stands for 0, 1, 2, ….
    """

    axes: tuple[tuple[str, int], ...]
    device_ids: DeviceIota | Dims | None = None

    @property
    def devices(self) -> Dims:
        """The device numbers in row-major order of the axes."""
        if self.device_ids is None:
            return tuple(range(prod(size for _, size in self.axes)))
        return (
            self.device_ids.values if isinstance(self.device_ids, DeviceIota) else self.device_ids
        )

    def size(self, axis: AxisRef) -> int:
        """Return the number of devices along an axis or a sub-axis."""
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
        """Return the axes, split where `along` names sub-axes: (piece, size), slowest first."""
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
        dimensions: For each dimension of the array, the axes that divide it, the coarsest first.
        open_dimensions: Dimensions that may be divided further (`?`).
        others: Axes by role: `replicated`, `unreduced`, `manual`.
    """

    mesh: Mesh | str
    dimensions: tuple[tuple[AxisRef, ...], ...]
    open_dimensions: tuple[int, ...] = ()
    others: tuple[tuple[str, tuple[AxisRef, ...]], ...] = ()


def _steps(size: int, stride: int) -> range:
    """Return the multiples 0, `stride`, 2 `stride` …, of which there are `size`.

    They are what one digit of a mixed-radix number contributes to it.
    """
    return range(0, size * stride, stride)
