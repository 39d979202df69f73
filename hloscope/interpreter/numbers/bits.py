"""Bit casts between elements of any widths."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloscope.interpreter.values import Array
from hloscope.ir import ElementType, QuantizedType


def packed_bits(element: ElementType, bits_of_pred: int) -> int:
    """Return the bits of an element, or of its storage integer, where elements are packed."""
    if isinstance(element, QuantizedType):
        element = element.storage
    return bits_of_pred if element.kind == "pred" else element.bits


def rebit(value: Array, old: int, new: int, dtype: Any) -> Array:
    """Return the bits of the last dimension as elements of another type, low bits first.

    Args:
        value: The elements.
        old: Their width in bits; an element of less than a byte is in the low bits of one.
        new: Width of the new elements in bits.
        dtype: Numpy dtype of the new elements.

    >>> rebit(np.array([0x1234], "u2"), 16, 4, np.dtype("u1")).tolist()
    [4, 3, 2, 1]
    >>> rebit(np.array([1, 2], "u1"), 8, 16, np.dtype("u2")).tolist()
    [513]
    """
    if old == new:
        if old % 8 or dtype.kind == "b":
            return _from_bytes(value.view(np.uint8), new, dtype)
        return value.view(dtype)
    if old % 8 == 0 and new % 8 == 0 and dtype.kind != "b":
        return np.ascontiguousarray(value).view(dtype)
    pieces = value.view(np.uint8) if old < 8 else np.ascontiguousarray(value).view(np.uint8)
    if old < 8 and old < new:
        pieces = _joined(pieces, old, min(new, 8))
    elif new < 8:
        pieces = _split(pieces, min(old, 8), new)
    if new > 8:
        return np.ascontiguousarray(pieces).view(dtype)
    return _from_bytes(pieces, new, dtype)


def _split(pieces: Array, old: int, new: int) -> Array:
    """Split each byte, of `old` used bits, into pieces of `new` bits."""
    shifts = np.arange(0, old, new, dtype=np.uint8)
    parts = pieces[..., None] >> shifts & ((1 << new) - 1)
    return parts.reshape(*pieces.shape[:-1], -1)


def _joined(pieces: Array, old: int, new: int) -> Array:
    """Join pieces of `old` bits to bytes of `new` used bits."""
    shifts = np.arange(0, new, old, dtype=np.uint8)
    groups = (pieces & ((1 << old) - 1)).reshape(*pieces.shape[:-1], -1, len(shifts))
    joined: Array = np.bitwise_or.reduce(groups << shifts, axis=-1)
    return joined


def _from_bytes(pieces: Array, bits: int, dtype: Any) -> Array:
    """Elements of `bits` bits from bytes that hold them in their low bits."""
    if bits < 8:
        pieces = pieces & ((1 << bits) - 1)
    elements: Array = pieces != 0 if dtype.kind == "b" else np.asarray(pieces).view(dtype)
    return elements
