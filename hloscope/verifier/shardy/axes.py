"""Mesh axes as intervals of their sizes, for the checks of shardings and collectives.

Source: Shardy `shardy/dialect/sdy/ir/verifiers.cc` and `dialect.cc` (`AxisRefAttr`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Final, NamedTuple, TypeAlias

from hloscope.errors import VerifyError
from hloscope.mlir import StringAttr, attribute_text
from hloscope.ops import AxisRef, Mesh


class Axis(NamedTuple):
    """A part of an axis: digits of the device number whose weights are in `[before, after)`.

    Attributes:
        name: Name of the axis.
        before: Product of the sizes of the larger parts, Shardy's pre-size.
        after: `before` times the size of the part; the size of the axis for a whole axis.
        whole: Is the axis written without a part?
    """

    name: str
    before: int
    after: int
    whole: bool

    def __str__(self) -> str:
        name = attribute_text(StringAttr(self.name.encode("utf-8", "surrogateescape")))
        return name if self.whole else f"{name}:({self.before}){self.after // self.before}"

    def overlaps(self, other: Axis) -> bool:
        """Do both parts contain a digit in common?"""
        named_alike = self.name == other.name
        return named_alike and self.before < other.after and other.before < self.after


Axes: TypeAlias = tuple[Axis, ...]


class Grid:
    """A mesh with access to its axes by name."""

    def __init__(self, mesh: Mesh) -> None:
        """Create from a mesh that `check_mesh` accepts."""
        # Device ids in order are the default; without them, equal meshes compare equal.
        in_order = mesh.axes and mesh.devices == tuple(range(len(mesh.devices)))
        self.mesh = Mesh(mesh.axes) if in_order else mesh
        self.sizes: Final = dict(mesh.axes)
        self._order: Final = {name: i for i, (name, _) in enumerate(mesh.axes)}

    @property
    def is_maximal(self) -> bool:
        """Does the mesh consist of a single device?"""
        return not self.mesh.axes and self.mesh.device_ids is not None

    @property
    def devices(self) -> tuple[int, ...] | None:
        """Device ids of the mesh; `None` if they are in the default order."""
        return None if self.mesh.device_ids is None else self.mesh.devices

    def axis(self, ref: AxisRef) -> Axis:
        """Return the axis, or part of an axis, that a reference names.

        Raises:
            VerifyError: The mesh has no such axis.
        """
        size = self.sizes.get(ref.name)
        if size is None:
            raise VerifyError(f'unknown axis name: "{ref.name}"')
        if ref.size is None:
            return Axis(ref.name, 1, size, whole=True)
        if ref.before < 1:
            text = f'"{ref.name}":({ref.before}){ref.size}'
            raise VerifyError(f"sub-axis pre-size must be at least 1: {text}")
        return Axis(ref.name, ref.before, ref.before * ref.size, whole=False)

    def is_sorted(self, refs: Sequence[AxisRef]) -> bool:
        """Are the axes in the order of the mesh, and parts of one axis by pre-size?"""
        keys = [(self._order.get(r.name, -1), r.before, r.size or 0) for r in refs]
        return keys == sorted(keys)

    def merged(self, axes: Iterable[Axis], more: Iterable[Axis] = ()) -> Axes:
        """Append `more` to `axes`; a part that continues the last one is joined with it."""
        found = list(axes)
        for axis in more:
            last = found[-1] if found else None
            if last is not None and last.name == axis.name and last.after == axis.before:
                whole = last.before == 1 and axis.after == self.sizes[axis.name]
                found[-1] = Axis(axis.name, last.before, axis.after, whole)
            else:
                found.append(axis)
        return tuple(found)

    def set_of(self, axes: Iterable[Axis]) -> Axes:
        """Return the axes in the order of the mesh, with adjacent parts joined."""
        return self.merged((), sorted(axes, key=lambda a: (self._order[a.name], a.before)))


def ways(axes: Iterable[Axis]) -> int:
    """Return the number of pieces into which the axes divide a dimension."""
    return prod([axis.after // axis.before for axis in axes])


class SeenAxes:
    """Axis references of one sharding or collective, collected list by list to find duplicates.

    Source: `verifyAxisRefList` and `verifySubAxes`.
    """

    def __init__(self, grid: Grid) -> None:
        """Start with no axes of the mesh `grid`."""
        self._grid = grid
        self._seen: dict[AxisRef, None] = {}

    def add(self, refs: Sequence[AxisRef]) -> Axes:
        """Check a list of axes and return it: axes are known, distinct, and maximal parts.

        Two consecutive parts of one axis that could be written as one part are an error.

        Raises:
            VerifyError: With Shardy's message.
        """
        last: AxisRef | None = None
        for ref in refs:
            if ref.name not in self._grid.sizes:
                raise VerifyError(f'unknown axis name: "{ref.name}"')
            if ref in self._seen:
                raise VerifyError(f"duplicate axis ref: {ref_text(ref)}")
            self._seen[ref] = None
            if last is not None and _continues(last, ref):
                raise VerifyError(
                    f"two consecutive sub-axes can be merged: {ref_text(last)}, {ref_text(ref)}"
                )
            last = ref
        return tuple([Axis(*_interval(ref, self._grid)) for ref in refs])

    def check_parts(self) -> None:
        """Check all parts of axes: sizes divide the axis, no overlap, no whole axis with parts.

        Raises:
            VerifyError: With Shardy's message.
        """
        parts: dict[str, list[AxisRef]] = {}
        for ref in self._seen:
            if ref.size is not None:
                parts.setdefault(ref.name, []).append(ref)
        for name, refs in parts.items():
            if AxisRef(name) in self._seen:
                raise VerifyError(f'both sub-axis and full-axis are used for axis name: "{name}"')
            _check_parts(sorted(refs, key=lambda r: (r.before, r.size)), self._grid.sizes[name])


def _continues(last: AxisRef, ref: AxisRef) -> bool:
    """Are both parts of one axis, and does `ref` begin where `last` ends?"""
    if last.size is None or ref.size is None or last.name != ref.name:
        return False
    return last.before * last.size == ref.before


def _interval(ref: AxisRef, grid: Grid) -> tuple[str, int, int, bool]:
    if ref.size is None:
        return ref.name, 1, grid.sizes[ref.name], True
    return ref.name, ref.before, ref.before * ref.size, False


def _check_parts(refs: Sequence[AxisRef], total: int) -> None:
    """Check the parts of one axis of size `total`; `refs` are sorted by pre-size."""
    last: AxisRef | None = None
    for ref in refs:
        text, size = ref_text(ref), ref.size or 0
        if ref.before < 1:
            raise VerifyError(f"sub-axis pre-size must be at least 1: {text}")
        if size <= 1:
            raise VerifyError(f"sub-axis sizes must be greater than 1: {text}")
        # The parts are sorted, so that an overlap, if there is one, is between neighbours.
        if total % (ref.before * size):
            raise VerifyError(
                f"sub-axis next pre-size {ref.before * size} doesn't divide the size of the full"
                f" axis {total}: {text}"
            )
        if size == total:
            raise VerifyError(f"sub-axis size is equal to the full axis size: {text}")
        if last is not None and last.before * (last.size or 0) > ref.before:
            raise VerifyError(f"overlapping sub-axes: {ref_text(last)}, {text}")
        last = ref


def ref_text(ref: AxisRef) -> str:
    """Return the axis in Shardy's notation.

    >>> ref_text(AxisRef("x", 2, 4)), ref_text(AxisRef("y"))
    ('"x":(2)4', '"y"')
    """
    name = attribute_text(StringAttr(ref.name.encode("utf-8", "surrogateescape")))
    return name if ref.size is None else f"{name}:({ref.before}){ref.size}"


def check_mesh(mesh: Mesh) -> None:
    """Check the sizes, names and device ids of a mesh.

    Source: `MeshAxisAttr::verify`, `MeshAttr::verify`.

    Raises:
        VerifyError: With Shardy's message.
    """
    names: set[str] = set()
    # All sizes are checked before names, and names before devices, as in Shardy.
    for _, size in mesh.axes:
        if size < 1:
            raise VerifyError(f"axis size must be at least 1, got: {size}")
    for name, _ in mesh.axes:
        if name in names:
            raise VerifyError(f'duplicate axis name: "{name}"')
        names.add(name)
    if mesh.device_ids is None:
        return
    ids, total = mesh.devices, prod([size for _, size in mesh.axes])
    for device in ids:
        if device < 0:
            raise VerifyError(f"device id must be non-negative, got: {device}")
    # A mesh without axes has one device, whose id is arbitrary.
    if not mesh.axes:
        if len(ids) > 1:
            raise VerifyError("axes is empty and device_ids has more than one element")
        return
    if total != len(ids):
        raise VerifyError(
            "total product of axis sizes must match total number of device ids, got:"
            f" {total} != {len(ids)}"
        )
    if sorted(ids) != list(range(total)):
        listed = ", ".join(map(str, sorted(ids)))
        raise VerifyError(f"sorted device ids must be iota(product(axes)), got: {listed}")
