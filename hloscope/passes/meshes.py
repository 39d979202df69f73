"""Device meshes that a module names, and device groups along their axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from hloscope.dialects import DIALECTS, meshes_in
from hloscope.errors import UnsupportedError
from hloscope.ir import Dims
from hloscope.mlir import (
    ArrayAttr,
    Attribute,
    DenseAttr,
    DictAttr,
    IntegerAttr,
    Operation,
    StringAttr,
    StructAttr,
    expanded,
    print_mlir,
)
from hloscope.ops import MOST_DEVICES, AxisRef, Mesh
from hloscope.stablehlo import AttributeGroups


def symbols_of(module: Operation) -> Mapping[str, Operation]:
    """Return the operations of a module that define a name, by name."""
    return {
        name.text: op for op in module.inside if isinstance(name := op.get("sym_name"), StringAttr)
    }


def mesh_named(module: Operation, name: str) -> Mesh | None:
    """Return the mesh of this name, in Shardy's notation or as an attribute; `None` if unknown."""
    symbol = symbols_of(module).get(name)
    if symbol is None:
        return None
    if symbol.name != "sdy.mesh":
        return mesh_of_symbol(symbol)
    try:
        return meshes_in(print_mlir(symbol, dialects=DIALECTS).strip()).get(name)
    except UnsupportedError:
        return None


def mesh_of_symbol(symbol: Operation) -> Mesh | None:
    """Return the mesh in the attribute `stablehlo.mesh`, a structure or a dictionary, or `None`."""
    attribute: Attribute | None = symbol.get("stablehlo.mesh")
    if isinstance(attribute, StructAttr):
        fields: Mapping[str, Any] = {"mesh": attribute, "axes": ArrayAttr(())}
        found = AttributeGroups(
            StructAttr("stablehlo", "replica_group_mesh_axes", tuple(fields.items()))
        ).mesh
        return found if isinstance(found, Mesh) else None
    if not isinstance(attribute, DictAttr):
        return None
    entries = dict(attribute.entries)
    listed, ids = entries.get("axes"), entries.get("device_ids")
    axes: list[tuple[str, int]] = []
    for axis in listed.elements if isinstance(listed, ArrayAttr) else ():
        fields_of_axis = dict(axis.entries) if isinstance(axis, DictAttr) else {}
        name, size = fields_of_axis.get("name"), fields_of_axis.get("size")
        if not isinstance(name, StringAttr) or not isinstance(size, IntegerAttr):
            return None
        axes.append((name.text, size.value))
    return Mesh(tuple(axes), expanded(ids) if isinstance(ids, DenseAttr) else None)


def rows_of(mesh: Mesh, axes: Sequence[AxisRef]) -> tuple[Dims, ...] | None:
    """Return the device groups along axes; `None` if the mesh lacks an axis or a part of one."""
    sizes = dict(mesh.axes)
    count = prod(sizes.values())
    wrong = any(size < 1 for size in sizes.values()) or not 0 < count <= MOST_DEVICES
    # A part of an axis must end at a divisor of the axis' size.
    parts = [(axis.before * (axis.size or sizes.get(axis.name, 0)), axis) for axis in axes]
    if wrong or any(not end or sizes.get(axis.name, 1) % end for end, axis in parts):
        return None
    # Each device and each axis counts once, or the groups would overlap.
    if len(mesh.devices) != count or len(set(axes)) != len(axes):
        return None
    return mesh.groups(axes)
