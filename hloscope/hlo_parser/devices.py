"""Compact lists of devices: iota `[2,4]<=[4,2]T(1,0)`, and named meshes.

Source: XLA docs "Sharding" (tile assignments), Shardy docs "Sharding representation" (meshes,
sub-axes).
"""

from __future__ import annotations

from math import prod
from typing import Final

from hloscope.hlo_parser.attributes import inside, split_list
from hloscope.hlo_parser.scanner import fail
from hloscope.hlo_parser.values import read_dims
from hloscope.ir import Dims
from hloscope.lazy import pattern
from hloscope.ops import MOST_DEVICES, AxisRef, DeviceIota, Mesh

_IOTA: Final = pattern(r"\[([\d,\s]*)\]\s*(?:T\(([\d,\s]*)\))?")
_TILES: Final = pattern(r"\[([\d,\s]*)\]\s*<=\s*")
_AXIS: Final = pattern(r"""\s*['"]([^'"]+)['"]\s*=\s*(\d+)\s*""")
_REF: Final = pattern(r"""['"]([^'"]+)['"](?::\((\d+)\)(\d+))?""")
_IDS: Final = pattern(r"\s*,\s*device_ids\s*=\s*\(")


def read_iota(text: str, start: int = 0) -> tuple[DeviceIota, int]:
    """Return the iota `[4,2]T(1,0)` at `start`, and its end."""
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
    """Return sizes and iota of `[2,4]<=[4,2]T(1,0)` at `start`, and their end."""
    found = _TILES.match(text, start)
    if found is None:
        fail("expected `[sizes]<=[sizes]`", text, start, len(text))
    sizes = read_dims(f"{{{found[1]}}}")
    iota, end = read_iota(text, found.end())
    if prod(sizes) != prod(iota.source):
        have = prod(iota.source)
        fail(f"expected {prod(sizes)} devices for these sizes, found {have}", text, start, end)
    return sizes, iota, end


def read_mesh(text: str, start: int = 0) -> tuple[Mesh, int]:
    """Return the mesh `mesh['x'=2,'y'=4], device_ids=(…)` at `start`, and its end."""
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
    """Return an axis `'x'` of a mesh, or part of one, `'x':(2)4`."""
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
    """Return the axes of `{'x', 'y':(1)2}`.

    Raises:
        ParseError: Two of them overlap.
    """
    refs = tuple(read_axis(part, mesh) for part, _ in split_list(inside(text.strip())))
    for number, ref in enumerate(refs):
        for other in refs[:number]:
            if other.name == ref.name and _overlap(mesh, ref, other):
                fail(f"axis `{ref.name}` occurs twice", text, 0, len(text))
    return refs


def _overlap(mesh: Mesh, a: AxisRef, b: AxisRef) -> bool:
    # A sub-axis covers the half-open range `[before, before * size)` of the axis' factors; two
    # ranges overlap unless one ends before the other begins.
    return a.before < b.before * mesh.size(b) and b.before < a.before * mesh.size(a)


def _limit(count: int, text: str, start: int, end: int) -> None:
    if count > MOST_DEVICES:
        fail(f"{count} devices are more than {MOST_DEVICES}", text, start, end)
