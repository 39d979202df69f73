"""Groups of devices that differ along some axes of a mesh, in StableHLO's notation.

Source: StableHLO's `ReplicaGroupMeshAxesAttr`.
"""

from __future__ import annotations

from math import prod

from hloscope.interpreter.ops.partition import meshes
from hloscope.interpreter.values import EvaluationError
from hloscope.interpreter.world import World
from hloscope.ir import Dims
from hloscope.ops import MOST_DEVICES, Mesh, MeshGroups


def mesh_groups(groups: MeshGroups, world: World) -> tuple[Dims, ...]:
    """The groups of `#stablehlo.replica_group_mesh_axes<mesh = …, axes = […]>`.

    Raises:
        EvaluationError: There is no such mesh, or the mesh has no such axis.
    """
    mesh = _mesh(groups.mesh, world)
    sizes = dict(mesh.axes)
    for axis in groups.axes:
        if axis.name not in sizes:
            known = ", ".join(sizes) or "none"
            raise EvaluationError(f"the mesh has no axis `{axis.name}`; its axes are {known}")
        if axis.size is not None and sizes[axis.name] % (axis.before * axis.size):
            raise EvaluationError(
                f"axis `{axis.name}` of size {sizes[axis.name]} has no part"
                f" ({axis.before}){axis.size}"
            )
    return mesh.groups(groups.axes)


def _mesh(given: Mesh | str, world: World) -> Mesh:
    if isinstance(given, str):
        known = meshes(world.attributes)
        if given not in known:
            raise EvaluationError(f"there is no mesh @{given}")
        found = known[given]
        return Mesh(tuple(found.axes.items()), found.devices)
    count = prod(size for _, size in given.axes)
    ids = given.device_ids
    if not 0 < count <= MOST_DEVICES or (isinstance(ids, tuple) and len(ids) != count):
        raise EvaluationError(f"a mesh of {count} devices cannot be right")
    return given
