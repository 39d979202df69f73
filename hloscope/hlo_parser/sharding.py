"""Shardings of arrays over devices, from `sharding={…}`.

All versions are read: `{replicated}`, `{maximal device=0}`, `{devices=[2,1]0,1}`,
`{devices=[2,2]<=[4] last_tile_dim_replicate}`, named axes `{mesh['x'=2], [{'x'}, {}]}`, and tuples.

Source: XLA docs "Sharding", Shardy docs "Sharding representation".
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Final, TypeAlias

from msgspec import Struct

from hloscope.hlo_parser.attributes import inside, part_end, shortened, split_list
from hloscope.hlo_parser.devices import read_axes, read_axis, read_iota, read_mesh
from hloscope.hlo_parser.scanner import fail
from hloscope.hlo_parser.values import read_dims
from hloscope.ir import Dims
from hloscope.lazy import pattern
from hloscope.ops import AxisRef, DeviceIota, NamedSharding

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
    """The whole array on every device (`replicated`), or `manual`, `unreduced`, `unknown`."""

    kind: str


class MaximalSharding(Struct, frozen=True):
    """The whole array on one device."""

    device: int


class TileSharding(Struct, frozen=True):
    """An array split into tiles, each on one or several devices.

    Attributes:
        tiles: Number of parts along each dimension, then the sizes of the subgroup dimensions.
        devices: Device of each part in row-major order, or an iota of them.
        subgroups: What the last dimensions of `tiles` mean (`replicated`, `manual`,
            `unreduced`).
    """

    tiles: Dims
    devices: Dims | DeviceIota
    subgroups: tuple[str, ...] = ()

    @property
    def device_list(self) -> Dims:
        """Device of each part in row-major order."""
        return self.devices.values if isinstance(self.devices, DeviceIota) else self.devices

    @property
    def rank(self) -> int:
        """Rank of the array."""
        return len(self.tiles) - len(self.subgroups)


class TupleSharding(Struct, frozen=True):
    """Shardings of the leaves of a tuple."""

    elements: tuple[Sharding, ...]


Sharding: TypeAlias = WholeSharding | MaximalSharding | TileSharding | NamedSharding | TupleSharding


# Programs repeat a few shardings on all instructions, and several questions ask for them.
@lru_cache(maxsize=1 << 10)
def read_sharding(text: str) -> Sharding:
    """Return the sharding `{…}`; groups (`shard_as`) and metadata are checked and dropped.

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
    """Read the options after a sharding; return the meanings of the last tile dimensions."""
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
