"""Replica groups of collectives, in three notations.

`{{0,1},{2,3}}` lists them. `[2,2]<=[4]` gives their number, their size, and the order of devices.
`mesh['x'=2,'y'=2] {'y'}` groups devices that differ only along the given axes.

Source: XLA docs "Operation semantics" (`AllReduce`), Shardy docs "Sharding representation".
"""

from __future__ import annotations

from hloscope.errors import UnsupportedError
from hloscope.hlo_parser.attributes import inside, split_list
from hloscope.hlo_parser.devices import read_axes, read_mesh, read_tiles
from hloscope.hlo_parser.scanner import fail
from hloscope.hlo_parser.values import read_devices, write_dims
from hloscope.ir import Dims
from hloscope.ops import Groups, MeshGroups, WrittenGroups


class HloGroups(WrittenGroups):
    """Replica groups of HLO, as text."""

    __slots__ = ()

    @property
    def rows(self) -> tuple[Dims, ...]:
        """The groups, as `read_replica_groups` returns them."""
        return read_replica_groups(self.written)


def groups_text(groups: Groups) -> str:
    """Return the text of groups: HLO's as written, StableHLO's as lists or axes of a mesh.

    A mesh that StableHLO refers to by name is printed by name, which HLO does not have: `@mesh
    {'x'}`.
    """
    if isinstance(groups, MeshGroups):
        try:
            mesh, axes = groups.mesh, ",".join(map(str, groups.axes))
        except UnsupportedError:
            return str(groups)
        return f"{f'@{mesh}' if isinstance(mesh, str) else mesh} {{{axes}}}"
    return str(groups) if isinstance(groups, HloGroups) else print_replica_groups(groups.rows)


def read_replica_groups(text: str) -> tuple[Dims, ...]:
    """Return the groups; an empty result means one group of all devices.

    >>> read_replica_groups("{{0,1},{2,3}}")
    ((0, 1), (2, 3))
    >>> read_replica_groups("[2,2]<=[2,2]T(1,0)")
    ((0, 2), (1, 3))
    >>> read_replica_groups("mesh['x'=2,'y'=2] {'x'}")
    ((0, 2), (1, 3))

    Raises:
        ParseError: The text has none of the notations.
    """
    text = text.strip()
    if text.startswith("["):
        return _iota_groups(text)
    if text.startswith("mesh["):
        mesh, end = read_mesh(text)
        return mesh.groups(read_axes(text[end:], mesh))
    return tuple(read_devices(part) for part, _ in split_list(inside(text))) if text else ()


def _iota_groups(text: str) -> tuple[Dims, ...]:
    sizes, iota, end = read_tiles(text)
    if text[end:].strip():
        fail("expected the end of the replica groups", text, end, len(text))
    if len(sizes) != 2:
        fail(f"expected `[groups,size]`, found {len(sizes)} sizes", text, 0, end)
    devices, size = iota.values, sizes[1]
    return tuple(devices[i * size : (i + 1) * size] for i in range(sizes[0]))


def print_replica_groups(groups: tuple[Dims, ...]) -> str:
    """Return the groups as lists.

    >>> print_replica_groups(((0, 2), (1, 3)))
    '{{0,2},{1,3}}'
    """
    return f"{{{','.join(map(write_dims, groups))}}}"
