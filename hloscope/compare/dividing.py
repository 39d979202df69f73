"""Arrays divided among partitions by the shardings that a program states.

Source: XLA docs "Sharding": a dimension of `n` elements in `k` parts has parts of `ceil(n / k)`,
the last ones padded; StableHLO `mhlo.sharding`; Shardy's `sdy.sharding`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from hloscope.dialects import shardy_value
from hloscope.errors import UnsupportedError
from hloscope.hlo_parser import Sharding, TileSharding, TupleSharding, WholeSharding, read_sharding
from hloscope.interpreter import Array, divided, meshes
from hloscope.ir import Computation, Dims, Module, TensorType, Type
from hloscope.mlir import ArrayAttr, DictAttr, StringAttr, VerbatimAttr, parse_attribute
from hloscope.ops import NamedSharding

_HLO: Final = "sharding"
_MHLO: Final = "mhlo.sharding"
_SDY: Final = "sdy.sharding"


class Cut(Struct, frozen=True):
    """Division of an array among partitions.

    Attributes:
        counts: Number of parts along each dimension; missing ones are 1.
        places: For each partition the index of its part.
    """

    counts: Dims = ()
    places: tuple[Dims, ...] = ()

    @property
    def is_cut(self) -> bool:
        """Have partitions different parts?"""
        return any(count > 1 for count in self.counts)

    def local(self, type: TensorType) -> TensorType:
        """Return the type of a part."""
        sizes = tuple(
            [
                None if size is None else -(-size // count)
                for size, count in zip(type.sizes, self._all(len(type.sizes)), strict=True)
            ]
        )
        return replace(type, sizes=sizes)

    def part(self, array: Array, partition: int) -> Array:
        """Return a partition's part of an array, without padding."""
        if not self.counts:
            return array
        slices = []
        place = (*self.places[partition], *[0] * array.ndim)
        for size, count, number in zip(array.shape, self._all(array.ndim), place, strict=False):
            each = -(-size // count)
            slices.append(slice(min(size, number * each), min(size, (number + 1) * each)))
        return array[tuple(slices)]

    def filled(self, array: Array, partition: int) -> Array:
        """Return a partition's part of an array, with zeros as padding of short parts."""
        part = self.part(array, partition)
        counts = self._all(array.ndim)
        sizes = [-(-size // count) for size, count in zip(array.shape, counts, strict=True)]
        if list(part.shape) == sizes:
            return part
        full = np.zeros(sizes, part.dtype)
        full[tuple(slice(0, n) for n in part.shape)] = part
        return full

    def _all(self, rank: int) -> Dims:
        """Return the number of parts along each of `rank` dimensions."""
        return (*self.counts, *[1] * (rank - len(self.counts)))


WHOLE: Final = Cut()
"""The whole array on every partition."""


def cuts_of(module: Module, entry: Computation, partitions: int) -> tuple[list[Cut | None], ...]:
    """Return the divisions of the tensors of parameters, and of results, among partitions.

    Returns:
        A division for each tensor; `None` if the program states no sharding for it.

    Raises:
        UnsupportedError: A sharding is of a kind that is not supported.
    """
    extras = dict(entry.extras)
    given: list[object] = []
    for parameter in entry.parameters:
        given += _spread(_stated(dict(parameter.extras)), parameter.type)
    results: list[object] = []
    if "res_attrs" in extras:
        attribute = parse_attribute(extras["res_attrs"])
        for element in attribute.elements if isinstance(attribute, ArrayAttr) else ():
            entries = dict(element.entries) if isinstance(element, DictAttr) else {}
            results.append(_stated(entries))
    if not results:
        results = _spread(_stated(dict(entry.root.extras)), entry.root.type)
    known = meshes(module.extras)
    return tuple([_cut(one, known, partitions) for one in some] for some in (given, results))


def _stated(extras: Mapping[str, Any]) -> object:
    """Return the sharding among attributes; `None` if there is none."""
    if _HLO in extras:
        return read_sharding(str(extras[_HLO]))
    if _SDY in extras:
        return shardy_value(_text(extras[_SDY]))
    if _MHLO in extras:
        return read_sharding(_text(extras[_MHLO]).strip('"'))
    return None


def _text(attribute: object) -> str:
    """Return the text of an attribute."""
    if isinstance(attribute, StringAttr):
        return attribute.value.decode("utf-8", "replace")
    return attribute.text if isinstance(attribute, VerbatimAttr) else str(attribute)


def _spread(sharding: object, type: Type) -> list[object]:
    """Return the sharding of each tensor of a type.

    Raises:
        UnsupportedError: The numbers of shardings and tensors differ.
    """
    count = len(tensors_of(type))
    if isinstance(sharding, TupleSharding):
        if len(sharding.elements) != count:
            raise UnsupportedError(f"{len(sharding.elements)} shardings of {count} tensors")
        return [*sharding.elements]
    return [sharding] * count


def tensors_of(type: Type) -> list[Type]:
    """Return the leaves of a type, with tuples flattened."""
    found: list[Type] = []
    stack = [type]
    while stack:
        top = stack.pop()
        inner = getattr(top, "elements", None)
        if isinstance(inner, tuple):
            stack += reversed(inner)
        else:
            found.append(top)
    return found


def _cut(sharding: object, known: Mapping[str, Any], partitions: int) -> Cut | None:
    """Return the division that a sharding describes; `None` without a sharding.

    Raises:
        UnsupportedError: It is of a kind that is not supported.
    """
    if sharding is None:
        return None
    if isinstance(sharding, WholeSharding) and sharding.kind == "replicated":
        return WHOLE
    # Replicated subgroups only: the partitions of a subgroup have the same part.
    if isinstance(sharding, TileSharding) and {*sharding.subgroups} <= {"replicated"}:
        return _tiles(sharding, partitions)
    if isinstance(sharding, NamedSharding) and {r for r, _ in sharding.others} <= {"replicated"}:
        division = divided(sharding, known)
        count = prod(size for _, size in division.mesh.axes)
        _check_count(count, partitions)
        counts = tuple(prod(map(division.mesh.size, axes)) for axes in division.dimensions)
        places = [division.place(device) for device in range(partitions)]
        return Cut(counts, tuple(places))
    kind = getattr(sharding, "kind", type(sharding).__name__)
    raise UnsupportedError(f"a sharding of kind {kind} is not cut here")


def _tiles(sharding: TileSharding, partitions: int) -> Cut:
    """Return the division of a tiled HLO sharding.

    Raises:
        UnsupportedError: It does not name each partition once.
    """
    devices = sharding.device_list
    _check_count(len(devices), partitions)
    if sorted(devices) != [*range(partitions)]:
        raise UnsupportedError("a sharding that does not name each partition once")
    places: list[Dims] = [()] * partitions
    for number, device in enumerate(devices):
        at = np.unravel_index(number, sharding.tiles)
        places[device] = tuple([int(n) for n in at[: sharding.rank]])
    return Cut(sharding.tiles[: sharding.rank], tuple(places))


def _check_count(count: int, partitions: int) -> None:
    """Check the number of devices of a sharding.

    Raises:
        UnsupportedError: It differs from the number of partitions.
    """
    if count != partitions:
        raise UnsupportedError(f"a sharding over {count} devices, with {partitions} partitions")


def header_cuts(module: Module, partitions: int) -> tuple[Sequence[Cut | None], ...]:
    """Return the divisions in the header of a partitioned HLO module: parameters, then results.

    Raises:
        UnsupportedError: A sharding is of a kind that is not supported.
    """
    extras = dict(module.extras)
    found: list[list[Cut | None]] = []
    for name in ("spmd_parameters_shardings", "spmd_output_sharding"):
        if name not in extras:
            found.append([])
            continue
        sharding: Sharding = read_sharding(extras[name])
        elements = sharding.elements if isinstance(sharding, TupleSharding) else (sharding,)
        found.append([_cut(one, {}, partitions) for one in elements])
    return tuple(found)
