"""Groups of devices that differ along some axes of a mesh, in StableHLO's notation.

Source: StableHLO's `ReplicaGroupMeshAxesAttr`.
"""

from __future__ import annotations

from math import prod

from hloscope.dialects.registry import DIALECTS
from hloscope.hlo_parser.devices import MOST_DEVICES, AxisRef, Mesh
from hloscope.interpreter.partition import meshes
from hloscope.interpreter.values import EvaluationError
from hloscope.interpreter.world import World
from hloscope.ir.types import Dims
from hloscope.mlir.attributes import (
    ArrayAttr,
    Attribute,
    DenseAttr,
    StringAttr,
    StructAttr,
    SymbolAttr,
)
from hloscope.mlir.literals import to_array
from hloscope.mlir.parser import parse_attribute


def mesh_groups(text: str, world: World) -> tuple[Dims, ...]:
    """The groups of `#stablehlo.replica_group_mesh_axes<mesh = …, axes = […]>`.

    Raises:
        EvaluationError: There is no such mesh, or the mesh has no such axis.
    """
    attribute = parse_attribute(text, dialects=DIALECTS)
    assert isinstance(attribute, StructAttr)
    mesh = _mesh(attribute.get("mesh"), world)
    sizes = dict(mesh.axes)
    along = [_axis(axis) for axis in _elements(attribute.get("axes"))]
    for axis in along:
        if axis.name not in sizes:
            known = ", ".join(sizes) or "none"
            raise EvaluationError(f"the mesh has no axis `{axis.name}`; its axes are {known}")
        if axis.size is not None and sizes[axis.name] % (axis.before * axis.size):
            raise EvaluationError(
                f"axis `{axis.name}` of size {sizes[axis.name]} has no part"
                f" ({axis.before}){axis.size}"
            )
    return mesh.groups(along)


def _mesh(attribute: object, world: World) -> Mesh:
    if isinstance(attribute, SymbolAttr):
        known = meshes(world.attributes)
        if attribute.root not in known:
            raise EvaluationError(f"there is no mesh @{attribute.root}")
        found = known[attribute.root]
        return Mesh(tuple(found.axes.items()), found.devices)
    assert isinstance(attribute, StructAttr)
    axes = [(_text(axis.get("name")), _number(axis.get("size"))) for axis in _structs(attribute)]
    ids = attribute.get("device_ids")
    devices = tuple(map(int, to_array(ids).reshape(-1))) if isinstance(ids, DenseAttr) else None
    count = prod(size for _, size in axes)
    if not 0 < count <= MOST_DEVICES or (devices is not None and len(devices) != count):
        raise EvaluationError(f"a mesh of {count} devices cannot be right")
    return Mesh(tuple(axes), devices)


def _structs(mesh: StructAttr) -> list[StructAttr]:
    return [axis for axis in _elements(mesh.get("axes")) if isinstance(axis, StructAttr)]


def _axis(attribute: Attribute) -> AxisRef:
    """An axis, or the part of one."""
    assert isinstance(attribute, StructAttr)
    part, name = attribute.get("sub_axis_info"), _text(attribute.get("name"))
    if isinstance(part, StructAttr):
        return AxisRef(name, _number(part.get("pre_size")), _number(part.get("size")))
    return AxisRef(name)


def _elements(attribute: object) -> tuple[Attribute, ...]:
    return attribute.elements if isinstance(attribute, ArrayAttr) else ()


def _text(value: object) -> str:
    return value.text if isinstance(value, StringAttr) else str(value)


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
