"""Replica groups as `#stablehlo.replica_group_mesh_axes<…>`.

Source: StableHLO's `ReplicaGroupMeshAxesAttr`.
"""

from __future__ import annotations

from hloscope.dialects import axes_of, mesh_of
from hloscope.errors import UnsupportedError
from hloscope.mlir import StructAttr
from hloscope.ops import AxisRef, Mesh, MeshGroups


class AttributeGroups(MeshGroups):
    """Groups along the axes of a mesh, given by an attribute."""

    __slots__ = ()

    @property
    def mesh(self) -> Mesh | str:
        """The mesh, or its name."""
        return mesh_of(self._structure.get("mesh"))

    @property
    def axes(self) -> tuple[AxisRef, ...]:
        """The axes, or parts of them."""
        return axes_of(self._structure)

    @property
    def _structure(self) -> StructAttr:
        if not isinstance(self.written, StructAttr):
            raise UnsupportedError("replica groups in an unknown notation")
        return self.written
