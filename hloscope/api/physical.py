"""Arrays in the order of GPU memory: elements in the layout's order, 4-bit elements packed."""

from __future__ import annotations

from math import prod

import numpy as np

from hloscope.arrays import Array
from hloscope.errors import UnsupportedError
from hloscope.indexing import major_to_minor
from hloscope.interpreter import dtype_of
from hloscope.ir import TensorType


def to_memory(value: Array, type_: TensorType) -> Array:
    """Return the bytes of an array in memory, in the order of its layout.

    Two elements of 4 bits share a byte, the first in the low half.

    Raises:
        UnsupportedError: The layout has tiles, or elements have another size.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> to_memory(np.array([[1, 2], [3, 4]], np.int8), parse_type("s8[2,2]{0,1}")).tolist()
    [1, 3, 2, 4]
    """
    flat = np.ascontiguousarray(np.transpose(value, _order(type_))).reshape(-1)
    if type_.element.bits != 4:
        return flat.view(np.uint8)
    nibbles = flat.view(np.uint8) & 0xF
    padded = np.zeros(len(nibbles) + len(nibbles) % 2, np.uint8)
    padded[: len(nibbles)] = nibbles
    packed: Array = padded[::2] | padded[1::2] << 4
    return packed


def from_memory(content: Array, type_: TensorType) -> Array:
    """Return the array that is stored in the given bytes: the inverse of `to_memory`.

    Raises:
        UnsupportedError: The layout has tiles, or elements have another size.
    """
    order, dtype = _order(type_), dtype_of(type_.element)
    sizes = [type_.shape[d] for d in order]
    if type_.element.bits == 4:
        nibbles = np.stack([content & 0xF, content >> 4], axis=1).reshape(-1)[: prod(sizes)]
        # A nibble above 7 is a negative number in two's complement.
        signed = type_.element.kind == "signed"
        nibbles = nibbles.astype(np.int8) - 16 * ((nibbles > 7) & signed).astype(np.int8)
        flat = nibbles.astype(dtype)
    else:
        flat = content.view(dtype)
    found: Array = np.transpose(flat.reshape(sizes), np.argsort(order))
    return found


def _order(type_: TensorType) -> tuple[int, ...]:
    """Dimensions from the slowest to the fastest varying."""
    if type_.is_tiled:
        raise UnsupportedError(f"the layout of {type_} has tiles")
    if type_.element.bits not in (4, 8, 16, 32, 64, 128):
        raise UnsupportedError(f"elements of {type_.element.bits} bits are not laid out")
    return tuple(major_to_minor(type_))
