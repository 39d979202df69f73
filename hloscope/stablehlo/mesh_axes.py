"""`#stablehlo.replica_group_mesh_axes<…>` as replica groups.

Source: StableHLO's `ReplicaGroupMeshAxesAttr`.
"""

from __future__ import annotations

from hloscope.errors import UnsupportedError
from hloscope.mlir import ArrayAttr, DenseAttr, StringAttr, StructAttr, SymbolAttr, expanded
from hloscope.ops import AxisRef, Mesh, MeshGroups


class AttributeGroups(MeshGroups):
    """Groups along the axes of a mesh: their attribute."""

    __slots__ = ()

    @property
    def mesh(self) -> Mesh | str:
        """The mesh, or its name."""
        mesh = _field(self.written, "mesh")
        if isinstance(mesh, SymbolAttr):
            return mesh.root
        axes = [(_text(a), _number(_field(a, "size"))) for a in _elements(_field(mesh, "axes"))]
        ids = _field(mesh, "device_ids")
        return Mesh(tuple(axes), expanded(ids) if isinstance(ids, DenseAttr) else None)

    @property
    def axes(self) -> tuple[AxisRef, ...]:
        """The axes, or parts of them."""
        return tuple(map(_axis, _elements(_field(self.written, "axes"))))


def _axis(attribute: object) -> AxisRef:
    part, name = _field(attribute, "sub_axis_info"), _text(attribute)
    if isinstance(part, StructAttr):
        return AxisRef(name, _number(part.get("pre_size")), _number(part.get("size")))
    return AxisRef(name)


def _field(attribute: object, name: str) -> object:
    if not isinstance(attribute, StructAttr):
        raise UnsupportedError("replica groups in a notation that nobody knows")
    return attribute.get(name)


def _elements(attribute: object) -> tuple[object, ...]:
    return attribute.elements if isinstance(attribute, ArrayAttr) else ()


def _text(axis: object) -> str:
    value = _field(axis, "name")
    return value.text if isinstance(value, StringAttr) else str(value)


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise UnsupportedError("replica groups in a notation that nobody knows")
    return value
