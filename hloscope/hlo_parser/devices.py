"""Lists of devices in HLO text: shardings, replica groups, iota lists, named meshes."""

from __future__ import annotations

from math import prod
from typing import Final, TypeAlias

from msgspec import Struct

from hloscope.errors import UnsupportedError
from hloscope.hlo_parser.scanner import fail, inside, part_end, shortened, split_list
from hloscope.hlo_parser.values import read_devices, read_dims, write_dims
from hloscope.ir import Dims
from hloscope.ops import (
    MOST_DEVICES,
    AxisRef,
    DeviceIota,
    Groups,
    Mesh,
    MeshGroups,
    NamedSharding,
    WrittenGroups,
)
from hloscope.support.lazy import pattern

# --------------------------------------------------------------------------------------------------
# Shardings of arrays over devices, from `sharding={…}`.
#
# All versions are read: `{replicated}`, `{maximal device=0}`, `{devices=[2,1]0,1}`,
# `{devices=[2,2]<=[4] last_tile_dim_replicate}`, named axes `{mesh['x'=2], [{'x'}, {}]}`, and
# tuples.
#
# Source: XLA docs "Sharding", Shardy docs "Sharding representation".


_WHOLE: Final = ("replicated", "manual", "unreduced", "unknown")
_SUBGROUPS: Final = ("manual", "replicated", "unreduced")
_MAXIMAL: Final = pattern(r"maximal\s+device\s*=\s*(\d+)")
_WORD: Final = pattern(r"\w+")
_TILES: Final = pattern(r"devices\s*=\s*\[([\d,\s]*)\]\s*(<=)?\s*")
_DEVICES: Final = pattern(r"\d+(?:\s*,\s*\d+)*")
_TAIL: Final = pattern(
    r"\s*(?:(last_tile_dim_replicate)|last_tile_dims\s*=\s*\{([\w,\s]*)\}"
    r"|shard_(as|like)\s+(\d+)|(metadata\s*=\s*))"
)


class WholeSharding(Struct, frozen=True):
    """A sharding without tiles.

    The kind `replicated` means the whole array on every device; the others are `manual`,
    `unreduced` and `unknown`.
    """

    kind: str


class MaximalSharding(Struct, frozen=True):
    """A sharding that puts the whole array on the one device with number `device`."""

    device: int


class TileSharding(Struct, frozen=True):
    """An array split into tiles, each on one or several devices.

    Attributes:
        tiles: Number of parts along each dimension, then the sizes of the subgroup dimensions.
        devices: Device of each part in row-major order, or an iota of them.
        subgroups: Kinds of the subgroup dimensions, the last ones of `tiles`: `replicated`,
            `manual`, `unreduced`.
    """

    tiles: Dims
    devices: Dims | DeviceIota
    subgroups: tuple[str, ...] = ()

    @property
    def device_list(self) -> Dims:
        """The number of the device of each tile, in row-major order of the tiles."""
        return self.devices.values if isinstance(self.devices, DeviceIota) else self.devices

    @property
    def rank(self) -> int:
        """The rank of the sharded array: the number of `tiles`, without the sizes of subgroups."""
        return len(self.tiles) - len(self.subgroups)


class TupleSharding(Struct, frozen=True):
    """The shardings of the leaves of a tuple, in order."""

    elements: tuple[Sharding, ...]


Sharding: TypeAlias = WholeSharding | MaximalSharding | TileSharding | NamedSharding | TupleSharding


def read_sharding(text: str) -> Sharding:
    """Return the sharding of a text `{…}`.

    Groups (`shard_as`) and metadata are checked and dropped.

    >>> read_sharding("{devices=[2,1,2]<=[4] last_tile_dim_replicate}").subgroups
    ('replicated',)

    Raises:
        ParseError: The text is not a sharding, or device counts do not match.
    """
    text = text.strip()
    inner = inside(text).strip()
    if inner.startswith("{") or not inner:
        return TupleSharding(tuple(read_sharding(part) for part, _ in split_list(inner)))
    if inner.startswith("mesh["):
        return _read_named(inner)
    if inner.startswith("devices"):
        return _read_tiles(inner)
    maximal = _MAXIMAL.match(inner)
    if maximal is not None:
        _read_tail(inner, maximal.end())
        return MaximalSharding(int(maximal[1]))
    word = _WORD.match(inner)
    if word is None or word[0] not in _WHOLE:
        fail(f"expected a sharding, found `{shortened(inner)}`", text, 0, len(text))
    _read_tail(inner, word.end())
    return WholeSharding(word[0])


def _read_tiles(text: str) -> TileSharding:
    found = _TILES.match(text)
    if found is None:
        fail("expected `devices=[sizes]`", text, 0, len(text))
    tiles = read_dims(f"{{{found[1]}}}")
    devices: Dims | DeviceIota
    if found[2]:
        devices, end = read_iota(text, found.end())
        count = prod(devices.source)
    else:
        listed = _DEVICES.match(text, found.end())
        if listed is None:
            fail("expected device numbers, or `<=[sizes]`", text, found.end(), len(text))
        devices, end = read_dims(f"{{{listed[0]}}}"), listed.end()
        count = len(devices)
    if count != prod(tiles):
        fail(f"expected {prod(tiles)} devices for these tiles, found {count}", text, 0, end)
    return TileSharding(tiles, devices, _read_tail(text, end))


def _read_tail(text: str, at: int) -> tuple[str, ...]:
    """Read the options that follow the device list of a sharding, from offset `at` to the end.

    Return the kinds of its subgroup dimensions, the last ones of the tile sizes.
    """
    subgroups: tuple[str, ...] = ()
    while text[at:].strip():
        found = _TAIL.match(text, at)
        if found is None:
            fail(f"unknown part of a sharding: `{shortened(text[at:])}`", text, at, len(text))
        if found[1]:
            subgroups = ("replicated",)
        elif found[2] is not None:
            subgroups = tuple(part.strip() for part in found[2].split(",") if part.strip())
            for kind in subgroups:
                if kind not in _SUBGROUPS:
                    fail(f"unknown kind of subgroup `{kind}`", text, found.start(2), found.end(2))
        at = part_end(text, found.end(), stop_at_comma=False) if found[5] else found.end()
    return subgroups


def _read_named(text: str) -> NamedSharding:
    mesh, at = read_mesh(text)
    dimensions: list[tuple[AxisRef, ...]] = []
    open_: list[int] = []
    others: list[tuple[str, tuple[AxisRef, ...]]] = []
    for part, offset in split_list(text, at + (text[at : at + 1] == ",")):
        if part.startswith("["):
            for number, (entry, _) in enumerate(split_list(inside(part, "[", "]"))):
                names = [name for name, _ in split_list(inside(entry))]
                if names and names[-1] == "?":
                    open_.append(number)
                    names.pop()
                dimensions.append(tuple(read_axis(name, mesh) for name in names))
            continue
        role, _, axes = part.partition("=")
        if role.strip() not in _SUBGROUPS or (not axes and role != "replicated"):
            message = f"expected dimensions or axes, found `{shortened(part)}`"
            fail(message, text, offset, offset + len(part))
        others.append((role.strip(), read_axes(axes, mesh) if axes else ()))
    return NamedSharding(mesh, tuple(dimensions), tuple(open_), tuple(others))


# --------------------------------------------------------------------------------------------------
# Compact lists of devices: iota `[2,4]<=[4,2]T(1,0)`, and named meshes.
#
# Source: XLA docs "Sharding" (tile assignments), Shardy docs "Sharding representation" (meshes,
# sub-axes).


_IOTA: Final = pattern(r"\[([\d,\s]*)\]\s*(?:T\(([\d,\s]*)\))?")
_IOTA_TILES: Final = pattern(r"\[([\d,\s]*)\]\s*<=\s*")
_AXIS: Final = pattern(r"""\s*['"]([^'"]+)['"]\s*=\s*(\d+)\s*""")
_REF: Final = pattern(r"""['"]([^'"]+)['"](?::\((\d+)\)(\d+))?""")
_IDS: Final = pattern(r"\s*,\s*device_ids\s*=\s*\(")


def read_iota(text: str, start: int = 0) -> tuple[DeviceIota, int]:
    """Return the iota `[4,2]T(1,0)` that begins at offset `start` of a text, and its end."""
    found = _IOTA.match(text, start)
    if found is None:
        fail("expected `[sizes]` or `[sizes]T(permutation)`", text, start, len(text))
    source = read_dims(f"{{{found[1]}}}")
    permutation = read_dims(f"{{{found[2]}}}") if found[2] else tuple(range(len(source)))
    if sorted(permutation) != list(range(len(source))):
        fail(f"expected a permutation of {len(source)} dimensions", text, found.start(2))
    if not all(source):
        fail("a size is 0", text, start, found.end())
    _limit(prod(source), text, start, found.end())
    return DeviceIota(source, permutation), found.end()


def read_tiles(text: str, start: int = 0) -> tuple[Dims, DeviceIota, int]:
    """Return the sizes and the iota of `[2,4]<=[4,2]T(1,0)` at offset `start`, and its end."""
    found = _IOTA_TILES.match(text, start)
    if found is None:
        fail("expected `[sizes]<=[sizes]`", text, start, len(text))
    sizes = read_dims(f"{{{found[1]}}}")
    iota, end = read_iota(text, found.end())
    if prod(sizes) != prod(iota.source):
        have = prod(iota.source)
        fail(f"expected {prod(sizes)} devices for these sizes, found {have}", text, start, end)
    return sizes, iota, end


def read_mesh(text: str, start: int = 0) -> tuple[Mesh, int]:
    """Return the mesh `mesh['x'=2,'y'=4], device_ids=(…)` at offset `start`, and its end."""
    if not text.startswith("mesh[", start):
        fail("expected `mesh[…]`", text, start, len(text))
    end = text.find("]", start)
    if end < 0:
        fail("`[` is not closed", text, start + 4)
    axes: list[tuple[str, int]] = []
    for part, at in split_list(text, start + 5, end):
        axis = _AXIS.fullmatch(part)
        if axis is None:
            fail(f"expected `'axis'=size`, found `{part}`", text, at, at + len(part))
        if axis[1] in dict(axes):
            fail(f"axis `{axis[1]}` occurs twice", text, at, at + len(part))
        if not int(axis[2]):
            fail(f"axis `{axis[1]}` has size 0", text, at, at + len(part))
        axes.append((axis[1], int(axis[2])))
    total = prod(size for _, size in axes)
    _limit(total, text, start, end)
    end += 1
    ids = _IDS.match(text, end)
    if ids is None:
        return Mesh(tuple(axes)), end
    device_ids: DeviceIota | Dims
    if text.startswith("[", ids.end()):
        device_ids, end = read_iota(text, ids.end())
        count = prod(device_ids.source)
    else:
        end = text.find(")", ids.end())
        device_ids = read_dims(f"{{{text[ids.end() : end]}}}")
        count = len(device_ids)
    if not text.startswith(")", end):
        fail("expected `)` after the device ids", text, ids.end(), len(text))
    if count != total:
        fail(f"expected {total} device ids, found {count}", text, ids.end(), end)
    return Mesh(tuple(axes), device_ids), end + 1


def read_axis(text: str, mesh: Mesh) -> AxisRef:
    """Return the axis `'x'` of a mesh, or the sub-axis `'x':(2)4`.

    The sub-axis has size 4, after coarser sub-axes of total size 2.
    """
    found = _REF.fullmatch(text.strip())
    if found is None:
        fail(f"expected `'axis'` or `'axis':(before)size`, found `{text}`", text, 0, len(text))
    name = found[1]
    total = dict(mesh.axes).get(name)
    if total is None:
        fail(f"the mesh has no axis `{name}`", text, 0, len(text))
    if found[2] is None:
        return AxisRef(name)
    before, size = int(found[2]), int(found[3])
    if not before or not size or total % (before * size):
        fail(f"axis `{name}` of size {total} has no such part", text, 0, len(text))
    return AxisRef(name, before, size)


def read_axes(text: str, mesh: Mesh) -> tuple[AxisRef, ...]:
    """Return the axes of a mesh in the text `{'x', 'y':(1)2}`.

    Raises:
        ParseError: Two of the axes overlap.
    """
    refs = tuple(read_axis(part, mesh) for part, _ in split_list(inside(text.strip())))
    for number, ref in enumerate(refs):
        for other in refs[:number]:
            if other.name == ref.name and _overlap(mesh, ref, other):
                fail(f"axis `{ref.name}` occurs twice", text, 0, len(text))
    return refs


def _overlap(mesh: Mesh, a: AxisRef, b: AxisRef) -> bool:
    """Do two references to one axis of a mesh overlap? Each covers the axis or a sub-axis of it."""
    # A sub-axis covers the half-open range `[before, before * size)` of the axis' factors; two
    # ranges overlap unless one ends before the other begins.
    return a.before < b.before * mesh.size(b) and b.before < a.before * mesh.size(a)


def _limit(count: int, text: str, start: int, end: int) -> None:
    if count > MOST_DEVICES:
        fail(f"{count} devices are more than {MOST_DEVICES}", text, start, end)


# --------------------------------------------------------------------------------------------------
# Replica groups of collectives, in three notations.
#
# `{{0,1},{2,3}}` lists them. `[2,2]<=[4]` gives their number, their size, and the order of devices.
# `mesh['x'=2,'y'=2] {'y'}` groups devices that differ only along the given axes.
#
# Source: XLA docs "Operation semantics" (`AllReduce`), Shardy docs "Sharding representation".


class HloGroups(WrittenGroups):
    """Replica groups of HLO, read from their text on demand."""

    __slots__ = ()

    @property
    def rows(self) -> tuple[Dims, ...]:
        """The groups, each a tuple of device numbers.

        The result is empty if the text `{}` says that one group has all devices.
        """
        return read_replica_groups(self.written)


def groups_text(groups: Groups) -> str:
    """Return the text of replica groups.

    A mesh that StableHLO refers to by name is printed by name, which HLO does not have: `@mesh
    {'x'}`.

    HLO's text is returned as written; StableHLO's groups are printed as lists or axes of a mesh.
    """
    if isinstance(groups, MeshGroups):
        try:
            mesh, axes = groups.mesh, ",".join(map(str, groups.axes))
        except UnsupportedError:
            return str(groups)
        return f"{f'@{mesh}' if isinstance(mesh, str) else mesh} {{{axes}}}"
    return str(groups) if isinstance(groups, HloGroups) else print_replica_groups(groups.rows)


def read_replica_groups(text: str) -> tuple[Dims, ...]:
    """Return the replica groups in a text; an empty result means one group of all devices.

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
    """Return replica groups as the text of nested lists.

    >>> print_replica_groups(((0, 2), (1, 3)))
    '{{0,2},{1,3}}'
    """
    return f"{{{','.join(map(write_dims, groups))}}}"
