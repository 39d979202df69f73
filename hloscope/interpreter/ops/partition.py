"""Values divided among the devices of a mesh: Shardy's ops, and the custom calls they become.

A manual computation has a process for each device of its mesh, which get their parts of the
operands along the manual axes; the parts of the results are put together again.
Source: Shardy's `manual_computation` and sharding attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from hloscope.errors import UnsupportedError
from hloscope.interpreter.calls.custom_call import implements
from hloscope.interpreter.parallel import PROCESS, Process, run_grid
from hloscope.interpreter.registry import Kernel, Region, Site, evaluates
from hloscope.interpreter.values import Array, EvaluationError, Value
from hloscope.interpreter.world import World
from hloscope.ir import TupleType
from hloscope.lazy import pattern
from hloscope.ops import CustomCall, ManualComputation, ShardingConstraint

_MESH: Final = pattern(
    r'@(?P<name>[\w.$-]+|"[^"]*") = (?:#sdy\.mesh)?<\[(?P<axes>[^\]]*)\]'
    r"(?:, device_ids=\[(?P<ids>[^\]]*)\])?"
)
_AXIS: Final = pattern(r'"([^"]*)"=(\d+)')
_SHARDING: Final = pattern(
    r"<(?:@(?P<name>[\w.$-]+)|mesh<\[(?P<axes>[^\]]*)\](?:, device_ids=\[(?P<ids>[^\]]*)\])?>), "
    r"\[(?P<dims>(?:\{[^{}]*\}(?:p\d+)?(?:, )?)*)\]"
)
_DIMENSION: Final = pattern(r"\{([^{}]*)\}")
_REFERENCE: Final = pattern(r'"([^"]*)"(?::\((\d+)\)(\d+))?')


class Mesh(NamedTuple):
    """Devices in a grid with named axes.

    Attributes:
        axes: Sizes by name, the axis along which device numbers differ most first.
        devices: Numbers of the devices in row-major order.
    """

    axes: Mapping[str, int]
    devices: tuple[int, ...]

    def place(self, axis: str, device: int) -> int:
        """The coordinate of a device along an axis."""
        names = list(self.axes)
        later = prod(self.axes[name] for name in names[names.index(axis) + 1 :])
        return self.devices.index(device) // later % self.axes[axis]


class Piece(NamedTuple):
    """An axis of a mesh, or the part of it that comes after `before` devices and has `size`."""

    axis: str
    before: int
    size: int


class Sharding(NamedTuple):
    """How a value is divided: along each dimension by these pieces of axes, the first coarsest."""

    mesh: Mesh
    dimensions: tuple[tuple[Piece, ...], ...]

    def along(self, axes: Sequence[str]) -> Sharding:
        """What it is when only some axes count."""
        kept = tuple(tuple(p for p in pieces if p.axis in axes) for pieces in self.dimensions)
        return Sharding(self.mesh, kept)

    def part(self, array: Array, device: int) -> Array:
        """What a device has of an array."""
        for dimension, pieces in enumerate(self.dimensions):
            count = prod(p.size for p in pieces)
            size = array.shape[dimension]
            if size % count:
                raise EvaluationError(
                    f"dimension {dimension} of size {size} cannot be divided by {count} devices"
                )
            first = self._number(pieces, device) * (size // count)
            array = array[(slice(None),) * dimension + (slice(first, first + size // count),)]
        return array

    def whole(self, parts: Mapping[int, Array]) -> Array:
        """The array that is made of the parts of the devices."""
        some = next(iter(parts.values()))
        counts = [prod(p.size for p in pieces) for pieces in self.dimensions]
        counts += [1] * (some.ndim - len(counts))
        at = {
            tuple(self._number(pieces, device) for pieces in self.dimensions): part
            for device, part in reversed(list(parts.items()))
        }
        result = np.empty([n * c for n, c in zip(some.shape, counts, strict=True)], some.dtype)
        for index in product(*(range(c) for c in counts)):
            slices = [slice(i * n, (i + 1) * n) for i, n in zip(index, some.shape, strict=True)]
            result[tuple(slices)] = at[index[: len(self.dimensions)]]
        return result

    def _number(self, pieces: tuple[Piece, ...], device: int) -> int:
        """Which part along a dimension a device has."""
        number = 0
        for axis, before, size in pieces:
            after = self.mesh.axes[axis] // (before * size)
            number = number * size + self.mesh.place(axis, device) // after % size
        return number


@cache
def _mesh(axes: str, ids: str) -> Mesh:
    sizes = {name: int(size) for name, size in _AXIS.findall(axes)}
    numbers = [int(n) for n in ids.split(",")] if ids else range(prod(sizes.values()))
    return Mesh(sizes, tuple(numbers))


@cache
def meshes(attributes: tuple[tuple[str, str], ...]) -> Mapping[str, Mesh]:
    """The meshes by name that attributes of a module define.

    >>> meshes((("sdy.mesh", 'sdy.mesh @m = <["x"=2, "y"=4]>'),))["m"].axes
    {'x': 2, 'y': 4}
    """
    found = {}
    for name, text in attributes:
        if name == "frontend_attributes":  # {xla.sdy.meshes={mesh = #sdy.mesh<…>, …}}
            text = re.sub(r"([\w.$-]+) = #sdy\.mesh", r"@\1 = #sdy.mesh", text)
        for match in _MESH.finditer(text):
            found[match["name"].strip('"')] = _mesh(match["axes"], match["ids"] or "")
    return found


def shardings(text: str, known: Mapping[str, Mesh]) -> list[Sharding]:
    """The shardings that a text lists.

    Raises:
        EvaluationError: One is on a mesh that nobody defines.

    >>> known = meshes((("sdy.mesh", 'sdy.mesh @m = <["x"=2, "y"=4]>'),))
    >>> [s.dimensions for s in shardings('<@m, [{"y":(2)2}, {}]>', known)]
    [((Piece(axis='y', before=2, size=2),), ())]
    """
    return list(_shardings(text, known))


def _shardings(text: str, known: Mapping[str, Mesh]) -> Iterator[Sharding]:
    for match in _SHARDING.finditer(text):
        name = match["name"]
        mesh = known.get(name) if name else _mesh(match["axes"], match["ids"] or "")
        if mesh is None:
            raise EvaluationError(f"there is no mesh @{name}")
        dimensions = []
        for dimension in _DIMENSION.findall(match["dims"]):
            pieces = [
                Piece(axis, int(before or 1), int(size or mesh.axes[axis]))
                for axis, before, size in _REFERENCE.findall(dimension)
            ]
            dimensions.append(tuple(pieces))
        yield Sharding(mesh, tuple(dimensions))


def _settings(texts: Mapping[str, str], world: World) -> tuple[list[Sharding], list[Sharding]]:
    """How operands and results are divided along manual axes."""
    known = meshes(world.attributes)
    manual = re.findall(r'[{ ]"([^"]*)"', texts.get("manual_axes", ""))
    ins, outs = (
        [s.along(manual) for s in shardings(texts.get(name, ""), known)]
        for name in ("in_shardings", "out_shardings")
    )
    return ins, outs


@evaluates(ShardingConstraint)
def _sharding_constraint(op: ShardingConstraint, at: Site) -> Kernel:
    return lambda value: value


@evaluates(ManualComputation)
def _manual_computation(op: ManualComputation, at: Site) -> Kernel:
    """In a grid of the mesh's size each process does its part; else there is a grid of its own."""
    world, (body,) = at.world, at.ins.calls
    ins, outs = _settings(dict(op.settings), world)
    several = isinstance(at.ins.type, TupleType)
    if not [*ins, *outs]:
        raise UnsupportedError(f"`{op.name}` has no mesh")
    mesh = [*ins, *outs][0].mesh
    if len(ins) != len(at.ins.operands) or len(outs) != len(at.results):
        raise UnsupportedError(f"`{op.name}` has no sharding of every operand and result")
    order = sorted(mesh.devices)

    def kernel(regions: tuple[Region, ...], *values: Any) -> Value:
        process = _in_grid(world, mesh)
        if process is not None:
            own = [s.part(v, process.id[1]) for s, v in zip(ins, values, strict=True)]
            results = _gathered(process, at, outs, regions[0](*own))
        else:
            parts = [[s.part(v, d) for s, v in zip(ins, values, strict=True)] for d in order]
            found = run_grid([[body] * len(order)], parts, world, regions[0].outer)
            results = _together(outs, dict(zip(order, found, strict=True)))
        return results if several else results[0]

    return kernel


def _in_grid(world: World, mesh: Mesh) -> Process | None:
    process = world.extra.get(PROCESS)
    is_in = isinstance(process, Process) and process.grid.partitions == len(mesh.devices) > 1
    return process if is_in else None


def _together(
    outs: Sequence[Sharding], found: Mapping[int, tuple[Value, ...]]
) -> tuple[Value, ...]:
    """The whole results, of those of each device."""
    return tuple(
        s.whole({device: values[i] for device, values in found.items()})  # type: ignore[misc]
        for i, s in enumerate(outs)
    )


def _gathered(
    process: Process, at: Site, outs: Sequence[Sharding], values: tuple[Value, ...]
) -> tuple[Value, ...]:
    """The whole results, in every process of the replica."""
    group = tuple(id for id in process.grid.processes if id[0] == process.id[0])
    devices = [partition for _, partition in group]

    def combine(brought: list[tuple[Value, ...]]) -> tuple[Value, ...]:
        return _together(outs, dict(zip(devices, brought, strict=True)))

    found: tuple[Value, ...] = process.meet(group, -id(at.ins), at.ins, values, combine)
    return found


def _attributes(at: Site) -> dict[str, str]:
    """What frontend_attributes say about shardings, by its name without `xla.sdy.`."""
    text = dict(at.ins.extras).get("frontend_attributes", "").replace('\\"', '"')
    pieces = re.split(r"xla\.sdy\.(\w+)=", text)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


@implements("xla.sdy.GlobalToLocalShape")
def _global_to_local(op: CustomCall, at: Site) -> Kernel:
    ins, _ = _settings(_attributes(at), at.world)
    process = _needed(op, at.world, ins)
    several = isinstance(at.ins.type, TupleType)

    def kernel(*values: Any) -> Value:
        own = tuple(s.part(v, process.id[1]) for s, v in zip(ins, values, strict=True))
        return own if several else own[0]

    return kernel


@implements("xla.sdy.LocalToGlobalShape")
def _local_to_global(op: CustomCall, at: Site) -> Kernel:
    _, outs = _settings(_attributes(at), at.world)
    process = _needed(op, at.world, outs)
    several = isinstance(at.ins.type, TupleType)

    def kernel(*values: Any) -> Value:
        whole = _gathered(process, at, outs, values)
        return whole if several else whole[0]

    return kernel


def _needed(op: CustomCall, world: World, divided: Sequence[Sharding]) -> Process:
    if not divided:
        raise UnsupportedError(f"custom call `{op.call_target_name}` says nothing about shardings")
    mesh = divided[0].mesh
    process = _in_grid(world, mesh)
    if process is None:
        raise UnsupportedError(
            f"custom call `{op.call_target_name}` needs {len(mesh.devices)} partitions"
        )
    return process
