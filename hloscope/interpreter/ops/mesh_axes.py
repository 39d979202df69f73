"""Device meshes that a program defines, and groups along their axes.

Source: StableHLO's `ReplicaGroupMeshAxesAttr`; Shardy's meshes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from hloscope.interpreter.values import EvaluationError
from hloscope.interpreter.world import World
from hloscope.ir import Dims, frontend_attributes, value_of
from hloscope.ops import MOST_DEVICES, AxisRef, Mesh, MeshGroups


def meshes(attributes: Iterable[tuple[str, str]]) -> Mapping[str, Mesh]:
    """Return the meshes that attributes of a module define, by name."""
    given = list(attributes)
    said = [value_of([pair], "sdy.mesh") for pair in given]
    said.append(frontend_attributes(given).get("xla.sdy.meshes"))
    return {name: mesh for each in said if isinstance(each, Mapping) for name, mesh in each.items()}


def defined_mesh(given: Mesh | str, known: Mapping[str, Mesh]) -> Mesh:
    """Return the mesh, or the mesh of that name.

    Raises:
        EvaluationError: The name is not defined, or devices and axis sizes do not match.
    """
    if isinstance(given, str):
        if given not in known:
            raise EvaluationError(f"there is no mesh @{given}")
        given = known[given]
    count = prod(size for _, size in given.axes)
    ids = given.device_ids
    wrong = isinstance(ids, tuple) and (len(ids) != count or len(set(ids)) != count)
    if wrong or not 0 < count <= MOST_DEVICES or any(size < 1 for _, size in given.axes):
        raise EvaluationError(f"a mesh of {count} devices cannot be right")
    return given


def check_axes(mesh: Mesh, axes: Iterable[AxisRef]) -> None:
    """Check that the mesh has these axes, or parts of axes.

    Raises:
        EvaluationError: An axis or part does not exist.
    """
    sizes = dict(mesh.axes)
    for axis in axes:
        if axis.name not in sizes:
            known = ", ".join(sizes) or "none"
            raise EvaluationError(f"the mesh has no axis `{axis.name}`; its axes are {known}")
        part = axis.before * mesh.size(axis)
        if axis.size is not None and (part < 1 or sizes[axis.name] % part):
            raise EvaluationError(
                f"axis `{axis.name}` of size {sizes[axis.name]} has no part"
                f" ({axis.before}){axis.size}"
            )


def mesh_groups(groups: MeshGroups, world: World) -> tuple[Dims, ...]:
    """Return the groups of `#stablehlo.replica_group_mesh_axes<mesh = …, axes = […]>`.

    Raises:
        EvaluationError: The mesh or one of its axes does not exist.
    """
    mesh = defined_mesh(groups.mesh, meshes(world.attributes))
    check_axes(mesh, groups.axes)
    return mesh.groups(groups.axes)
