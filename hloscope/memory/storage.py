"""Arrays as they lie in memory: bits of an element, sizes in physical order."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hloscope.affine import Expr
from hloscope.indexing import major_to_minor, placed_sizes, reshaped, unplace
from hloscope.ir import Instruction, TensorType, Type, array_bytes


def data_bytes(type: TensorType) -> int:
    """Return the bytes of all elements of an array, without padding; 0 if a size has no bound."""
    found = array_bytes(type)
    return found.data if found else 0


def storage_bytes(type: TensorType) -> int:
    """Return the bytes of an array in memory, with padding of tiles; 0 if a size has no bound."""
    found = array_bytes(type)
    return found.padded if found else 0


def array_of(value: Instruction) -> TensorType | None:
    """Return the type of a value that is one array of known rank and bounded sizes, else `None`."""
    return value.type if is_array(value.type) else None  # type: ignore[return-value]


def is_array(type: Type) -> bool:
    """Is it an array whose sizes, or at least their bounds, are known?"""
    return isinstance(type, TensorType) and None not in type.most


def physical_sizes(type: TensorType) -> tuple[int, ...]:
    """Return the sizes from the slowest to the fastest-varying dimension, without tiles."""
    return tuple(type.shape[k] for k in major_to_minor(type))


def element_count(type: TensorType) -> int:
    """Return the number of elements; a bounded size counts as its bound."""
    return prod(type.shape)


def index_in(parts: Sequence[Expr], sizes: Sequence[int], type: TensorType) -> list[Expr]:
    """Return the logical index of the element at position `parts` in memory of shape `sizes`.

    The sizes have as many elements as the type.
    """
    if element_count(type) == 0:
        return [*unplace([e * 0 for e in _fill(parts, placed_sizes(type))], type)[0]]
    if prod(placed_sizes(type)) != element_count(type):  # emitters skip what tiles pad
        at = dict(zip(major_to_minor(type), _cut(parts, sizes, physical_sizes(type)), strict=True))
        return [at[k] for k in range(type.rank)]
    return unplace(_cut(parts, sizes, placed_sizes(type)), type)[0]


def _cut(parts: Sequence[Expr], sizes: Sequence[int], into: Sequence[int]) -> list[Expr]:
    return [*reshaped(list(parts), tuple(sizes), tuple(into))]


def _fill(parts: Sequence[Expr], sizes: Sequence[int]) -> list[Expr]:
    return [parts[0]] * len(sizes) if parts else []


def same_memory(a: TensorType, b: TensorType) -> bool:
    """Do two arrays have the same sizes in memory order, sizes of 1 left out?"""
    return _without_ones(physical_sizes(a)) == _without_ones(physical_sizes(b))


def _without_ones(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(size for size in sizes if size != 1)
