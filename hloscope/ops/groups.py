"""Who takes part in a collective: groups of devices as a table, and what typing asks of it."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias

from hloscope.errors import UnsupportedError
from hloscope.ir import Dims
from hloscope.ops.devices import AxisRef, Mesh
from hloscope.ops.infer_util import require


class Table(NamedTuple):
    """Integers as StableHLO writes them: `dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>`.

    Attributes:
        shape: Sizes of the tensor, whatever its rank.
        values: Its elements, row by row; of a splat of very many one.
    """

    shape: Dims
    values: Dims = ()

    @classmethod
    def of(cls, rows: Iterable[Iterable[int]]) -> Table:
        """Rows as a table, the shorter ones filled up with `-1`.

        >>> Table.of([[0, 1], [2]])
        Table(shape=(2, 2), values=(0, 1, 2, -1))
        """
        lists = [list(row) for row in rows]
        width = max(map(len, lists), default=0)
        flat = [n for row in lists for n in [*row, *[-1] * (width - len(row))]]
        return cls((len(lists), width), tuple(flat))

    @property
    def elements(self) -> Dims:
        """All elements; of a splat at most two, which is enough to see that it repeats itself."""
        size = prod(self.shape)
        return self.values * min(size, 2) if len(self.values) == 1 else self.values[:size]

    @property
    def rows(self) -> tuple[Dims, ...]:
        """The rows, without the `-1`s that fill them up.

        >>> Table((2, 2), (0, 1, 2, -1)).rows
        ((0, 1), (2,))
        """
        if len(self.shape) != 2 or len(self.values) != prod(self.shape):
            return (self.elements,) if self.elements else ()
        count, size = self.shape
        found = [self.values[i * size : (i + 1) * size] for i in range(count)]
        return tuple(tuple(n for n in row if n >= 0) for row in found)


class WrittenGroups:
    """Groups of numbers: as rows, or in a notation of a front end, which reads them when asked.

    Attributes:
        written: In a form of its language: a text, or an attribute of MLIR; else the rows.
    """

    __slots__ = ("written",)

    def __init__(self, written: Any = ()) -> None:
        self.written = written

    @property
    def rows(self) -> tuple[Dims, ...]:
        """The groups; none stands for one of all devices.

        Raises:
            ParseError: They are written in no notation.
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
"""Where none are written."""


class MeshGroups(WrittenGroups):
    """Groups of devices that differ along some axes of a mesh, in StableHLO's notation."""

    __slots__ = ()

    @property
    def mesh(self) -> Mesh | str:
        """The mesh, or its name."""
        raise UnsupportedError("the mesh of the replica groups is not known")

    @property
    def axes(self) -> tuple[AxisRef, ...]:
        """The axes."""
        raise UnsupportedError("the axes of the replica groups are not known")


Groups: TypeAlias = Table | WrittenGroups
"""Replica groups: a table from StableHLO, else as written."""


class GroupRules(NamedTuple):
    """Labels of the constraints on replica groups.

    Attributes:
        rank: They are a matrix.
        unique: No device is in two groups.
        inside: Devices are numbered from 0 without gaps.
        size: How large a group is.
    """

    rank: str
    unique: str
    inside: str
    size: str = ""


def from_mlir(groups: Groups) -> bool:
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
    """Check the groups of a collective; those given by mesh axes are right by construction.

    Args:
        groups: The groups.
        rules: Labels of the constraints.
        same_size: All groups are of one size, so that `-1` must not fill them up.
        global_ids: Groups hold flattened device ids, so that there have to be some.
        group_size: Size that a group must have, if it is known.

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
    for device in range(len(seen)):
        require(device in seen, rules.inside, f"replica id #{device} not seen in replica groups")
    require(
        group_size is None or groups.shape[1] == group_size,
        rules.size,
        f"group size of replica_groups must be {group_size}",
    )


def check_senders(groups: Groups, rules: GroupRules) -> None:
    """Check the groups of a broadcast: devices are numbers, each in one group at most."""
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
    """Labels: pairs are a matrix, of two columns, unique sources, unique targets, no negatives."""

    rank: str
    columns: str
    sources: str
    targets: str
    inside: str


def check_pairs(pairs: Table, rules: PairRules) -> None:
    """Check (source, target) pairs: each device sends once and receives once at most."""
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
