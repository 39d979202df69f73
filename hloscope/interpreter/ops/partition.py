"""Values divided among the devices of a mesh: Shardy's ops and custom calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from hloscope.errors import UnsupportedError
from hloscope.interpreter.calls.custom_call import implements
from hloscope.interpreter.parallel import Process, run_grid
from hloscope.interpreter.registry import Kernel, Region, Site, evaluates
from hloscope.interpreter.values import PROCESS, Array, EvaluationError, Value, World
from hloscope.ir import Dims, frontend_attributes, value_of
from hloscope.ops import (
    MOST_DEVICES,
    AxisRef,
    CustomCall,
    ManualComputation,
    Mesh,
    MeshGroups,
    NamedSharding,
    ShardingConstraint,
)

# --------------------------------------------------------------------------------------------------
# Values divided among the devices of a mesh: Shardy's ops and custom calls.
#
# A manual computation runs as one process for each device of its mesh.  Each gets its part of the
# operands along the manual axes, and the parts of the results are joined. Source: Shardy's
# `manual_computation` and sharding attributes.


class Division(NamedTuple):
    """How an array is divided among the devices of a mesh.

    For each dimension, `dimensions` has the mesh axes that divide it, the coarsest first.
    """

    mesh: Mesh
    dimensions: tuple[tuple[AxisRef, ...], ...]

    def part(self, array: Array, device: int) -> Array:
        """Return the part of an array that is on a device.

        Raises:
            EvaluationError: A size is not divisible by the number of parts.
        """
        for dimension, axes in enumerate(self.dimensions):
            count = self._count(axes)
            size = array.shape[dimension]
            if size % count:
                raise EvaluationError(
                    f"dimension {dimension} of size {size} cannot be divided by {count} devices"
                )
            first = self._number(axes, device) * (size // count)
            array = array[(slice(None),) * dimension + (slice(first, first + size // count),)]
        return array

    def joined(self, parts: Mapping[int, Array]) -> Array:
        """Return the whole array, joined from its parts.

        `parts` has the part of each device, by device number.
        """
        some = next(iter(parts.values()))
        counts = list(map(self._count, self.dimensions))
        counts += [1] * (some.ndim - len(counts))
        at = {
            # Devices may hold equal copies; reversed, the part of the first device is the one used.
            tuple(self._number(axes, device) for axes in self.dimensions): part
            for device, part in reversed(list(parts.items()))
        }
        result = np.empty([n * c for n, c in zip(some.shape, counts, strict=True)], some.dtype)
        for index in product(*(range(c) for c in counts)):
            slices = [slice(i * n, (i + 1) * n) for i, n in zip(index, some.shape, strict=True)]
            result[tuple(slices)] = at[index[: len(self.dimensions)]]
        return result

    def place(self, device: int) -> tuple[int, ...]:
        """Return the index of a device's part along each dimension, counted from 0."""
        return tuple([self._number(axes, device) for axes in self.dimensions])

    def _count(self, axes: tuple[AxisRef, ...]) -> int:
        """Return the number of parts into which `axes` divide a dimension."""
        return prod(map(self.mesh.size, axes))

    def _number(self, axes: tuple[AxisRef, ...], device: int) -> int:
        """Return the index, from 0, of a device's part along a dimension that `axes` divide."""
        number = 0
        for axis in axes:
            size = self.mesh.size(axis)
            # A sub-axis `(before)size` is a digit of the coordinate: `after` is the weight of that
            # digit.
            after = self.mesh.size(AxisRef(axis.name)) // (axis.before * size)
            number = number * size + _coordinate(self.mesh, axis.name, device) // after % size
        return number


def _coordinate(mesh: Mesh, axis: str, device: int) -> int:
    """Return the coordinate of a device along an axis of the mesh, counted from 0."""
    names = [name for name, _ in mesh.axes]
    later = prod(size for _, size in mesh.axes[names.index(axis) + 1 :])
    number = device if mesh.device_ids is None else mesh.devices.index(device)
    return number // later % mesh.size(AxisRef(axis))


def divided(
    sharding: NamedSharding, known: Mapping[str, Mesh], manual: Sequence[str] | None = None
) -> Division:
    """Return the division of an array that a sharding describes.

    Args:
        sharding: The sharding.
        known: The meshes of the module.
        manual: Names of the axes that divide; all axes by default.

    Raises:
        EvaluationError: The mesh or one of the axes does not exist.
    """
    mesh = defined_mesh(sharding.mesh, known)
    check_axes(mesh, (axis for axes in sharding.dimensions for axis in axes))
    kept = [
        tuple(axis for axis in axes if manual is None or axis.name in manual)
        for axes in sharding.dimensions
    ]
    return Division(mesh, tuple(kept))


def _divisions(
    in_shardings: Any, out_shardings: Any, manual_axes: Any, world: World
) -> tuple[list[Division], list[Division]]:
    """Return how the operands, and how the results, are divided among devices.

    Args:
        in_shardings: Shardings of the operands; `None` gives an empty list.
        out_shardings: Shardings of the results; `None` gives an empty list.
        manual_axes: Names of the mesh axes along which values are divided.
        world: Context with the meshes.
    """
    known = meshes(world.attributes)
    ins, outs = (
        [divided(s, known, manual_axes or ()) for s in shardings or ()]
        for shardings in (in_shardings, out_shardings)
    )
    return ins, outs


@evaluates(ShardingConstraint)
def _sharding_constraint(op: ShardingConstraint, at: Site) -> Kernel:
    return lambda value: value


@evaluates(ManualComputation)
def _manual_computation(op: ManualComputation, at: Site) -> Kernel:
    """Return the kernel of `manual_computation`, which runs the body on every device of the mesh.

    In a grid of the mesh's size, each process runs the body on its own part.  Otherwise the op
    makes a grid of its own.
    """
    world, (body,) = at.world, at.ins.calls
    ins, outs = _divisions(
        op.in_shardings.value, op.out_shardings.value, op.manual_axes.value, world
    )
    if not [*ins, *outs]:
        raise UnsupportedError(f"`{op.name}` has no mesh")
    mesh = [*ins, *outs][0].mesh
    if len(ins) != len(at.ins.operands) or len(outs) != len(at.results):
        raise UnsupportedError(f"`{op.name}` has no sharding of every operand and result")
    order = sorted(mesh.devices)

    def kernel(regions: tuple[Region, ...], *values: Any) -> Value:
        process = _in_grid(world, mesh)
        if process is not None:
            # Every process of the grid has the whole operands; the partition number is its
            # device.  It takes its part, and the parts of the results are exchanged.
            own = [s.part(v, process.id[1]) for s, v in zip(ins, values, strict=True)]
            results = _gathered(process, at, outs, regions[0](*own))
        else:
            parts = [[s.part(v, d) for s, v in zip(ins, values, strict=True)] for d in order]
            found = run_grid([[body] * len(order)], parts, world, regions[0].outer)
            results = _joined_results(outs, dict(zip(order, found, strict=True)))
        return at.value(results)

    return kernel


def _in_grid(world: World, mesh: Mesh) -> Process | None:
    """Return the process of `world` if its grid has one partition for each device of `mesh`.

    Return `None` if it has not, or if the mesh has only one device.
    """
    process = world.extra.get(PROCESS)
    is_in = isinstance(process, Process) and process.grid.partitions == len(mesh.devices) > 1
    return process if is_in else None


def _joined_results(
    outs: Sequence[Division], found: Mapping[int, tuple[Value, ...]]
) -> tuple[Value, ...]:
    """Return the whole results, joined from the results of all devices.

    `found` has the results of each device, by device number; `outs` says how each result is
    divided.
    """
    return tuple(
        s.joined({device: values[i] for device, values in found.items()})  # type: ignore[misc]
        for i, s in enumerate(outs)
    )


def _gathered(
    process: Process, at: Site, outs: Sequence[Division], values: tuple[Value, ...]
) -> tuple[Value, ...]:
    """Return the whole results, joined from the `values` of all processes of this replica.

    All of these processes must call this function; each gets the whole results. `outs` says how
    each result is divided.
    """
    group = tuple(id for id in process.grid.processes if id[0] == process.id[0])
    devices = [partition for _, partition in group]

    def combine(brought: list[tuple[Value, ...]]) -> tuple[Value, ...]:
        return _joined_results(outs, dict(zip(devices, brought, strict=True)))

    found: tuple[Value, ...] = process.rendezvous(group, -id(at.ins), at.ins, values, combine)
    return found


def _of_call(at: Site) -> tuple[list[Division], list[Division]]:
    """Return how the frontend attributes of a custom call divide its operands and its results."""
    said = frontend_attributes(at.ins.extras)
    given = [said.get(f"xla.sdy.{n}") for n in ("in_shardings", "out_shardings", "manual_axes")]
    ins, outs, manual = (entry if isinstance(entry, tuple) else () for entry in given)
    return _divisions(ins, outs, manual, at.world)


@implements("xla.sdy.GlobalToLocalShape")
def _global_to_local(op: CustomCall, at: Site) -> Kernel:
    """Return a kernel whose value is the part of each operand on the device of this process."""
    ins, _ = _of_call(at)
    process = _required_process(op, at.world, ins)

    def kernel(*values: Any) -> Value:
        return at.value(tuple(s.part(v, process.id[1]) for s, v in zip(ins, values, strict=True)))

    return kernel


@implements("xla.sdy.LocalToGlobalShape")
def _local_to_global(op: CustomCall, at: Site) -> Kernel:
    """Return a kernel whose value is the whole results, joined from all parts.

    The parts are those of all processes of the replica.
    """
    _, outs = _of_call(at)
    process = _required_process(op, at.world, outs)
    return lambda *values: at.value(_gathered(process, at, outs, values))


def _required_process(op: CustomCall, world: World, divided: Sequence[Division]) -> Process:
    """Return the process of `world`; its grid must have one partition per device of the mesh.

    `divided` are the divisions of the operands or results, which name the mesh.

    Raises:
        UnsupportedError: No shardings are given, or the grid has another size.
    """
    if not divided:
        raise UnsupportedError(f"custom call `{op.call_target_name}` says nothing about shardings")
    mesh = divided[0].mesh
    process = _in_grid(world, mesh)
    if process is None:
        raise UnsupportedError(
            f"custom call `{op.call_target_name}` needs {len(mesh.devices)} partitions"
        )
    return process


# --------------------------------------------------------------------------------------------------
# Device meshes that a program defines, and groups along their axes.
#
# Source: StableHLO's `ReplicaGroupMeshAxesAttr`; Shardy's meshes.


def meshes(attributes: Iterable[tuple[str, str]]) -> Mapping[str, Mesh]:
    """Return the meshes that module attributes, pairs (name, text), define, by the mesh's name."""
    given = list(attributes)
    said = [value_of([pair], "sdy.mesh") for pair in given]
    said.append(frontend_attributes(given).get("xla.sdy.meshes"))
    return {name: mesh for each in said if isinstance(each, Mapping) for name, mesh in each.items()}


def defined_mesh(given: Mesh | str, known: Mapping[str, Mesh]) -> Mesh:
    """Return the mesh `given`; if it is a name, the mesh in `known` with that name.

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
    """Check that the mesh has these axes and sub-axes.

    Raises:
        EvaluationError: An axis or a sub-axis does not exist.
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
    """Return the groups of device numbers of `#stablehlo.replica_group_mesh_axes<…>`.

    Raises:
        EvaluationError: The mesh or one of its axes does not exist.
    """
    mesh = defined_mesh(groups.mesh, meshes(world.attributes))
    check_axes(mesh, groups.axes)
    return mesh.groups(groups.axes)
