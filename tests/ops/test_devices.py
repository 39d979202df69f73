"""Meshes of devices: their order, and groups along axes and parts of axes."""

from __future__ import annotations

import pytest

from hloscope.ops.groups import AxisRef, DeviceIota, Mesh

GRID = (("x", 2), ("y", 3))


@pytest.mark.parametrize(
    ("mesh", "devices"),
    [
        (Mesh(GRID), (0, 1, 2, 3, 4, 5)),
        (Mesh(GRID, (5, 4, 3, 2, 1, 0)), (5, 4, 3, 2, 1, 0)),
        (Mesh(GRID, DeviceIota((3, 2), (1, 0))), (0, 2, 4, 1, 3, 5)),
    ],
    ids=str,
)
def test_devices_are_in_the_order_that_the_mesh_says(mesh: Mesh, devices: tuple[int, ...]) -> None:
    assert mesh.devices == devices
    assert mesh.groups([AxisRef("x")]) == tuple(zip(devices[:3], devices[3:], strict=True))


@pytest.mark.parametrize(
    ("along", "groups"),
    [
        ([AxisRef("x", 2, 2)], ((0, 2), (1, 3), (4, 6), (5, 7))),
        ([AxisRef("x", 1, 2), AxisRef("x", 4, 2)], ((0, 1, 4, 5), (2, 3, 6, 7))),
        ([AxisRef("x", 4, 2), AxisRef("x", 1, 2)], ((0, 4, 1, 5), (2, 6, 3, 7))),
        ([AxisRef("x", 1, 8)], ((0, 1, 2, 3, 4, 5, 6, 7),)),
    ],
)
def test_groups_along_parts_of_an_axis(
    along: list[AxisRef], groups: tuple[tuple[int, ...], ...]
) -> None:
    """Device `4 * a + 2 * b + c` is at `a`, `b`, `c` of the parts of 2 of an axis of 8."""
    assert Mesh((("x", 8),)).groups(along) == groups
