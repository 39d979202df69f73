"""Bytes of arrays in memory, with and without the padding of tiles."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from msgspec import Struct

from hloscope.ir.types import (
    BufferType,
    FutureType,
    TensorType,
    TupleType,
    Type,
    UnrankedTensorType,
)
from hloscope.lazy import pattern
from hloscope.walks import nested

_TAIL = pattern(r"L\((\d+)\)", 0)


class Bytes(Struct, frozen=True):
    """Size of a type in memory.

    Attributes:
        data: Bytes of the elements, each as wide as the layout stores it; XLA's `ByteSizeOf`.
        padded: Bytes with the padding of tiles and of the tail (`L(n)`).
        unpadded: Bytes of the elements at their natural width; less than `data` if the layout
            widens elements, as in `pred[8]{0:E(32)}`.  TPU compilers report this figure.
        metadata: Bytes of the run-time sizes stored after arrays of bounded dynamic sizes, 4 for
            each dimension.
    """

    data: int
    padded: int
    unpadded: int
    metadata: int = 0

    @property
    def wasted(self) -> int:
        """Bytes without data: padding of tiles, and of elements wider than natural."""
        return self.padded - self.unpadded

    @property
    def ratio(self) -> float:
        """Padded bytes per unpadded byte; 1 for an empty array."""
        return self.padded / self.unpadded if self.unpadded else 1.0

    def __add__(self, other: Bytes) -> Bytes:
        """Sum of both sizes."""
        return Bytes(
            self.data + other.data,
            self.padded + other.padded,
            self.unpadded + other.unpadded,
            self.metadata + other.metadata,
        )


def storage_bits(type: TensorType) -> int:
    """Return the bits of an element in memory: `E(n)` of the layout, else its width, at least 8.

    Source: XLA `ShapeUtil::ByteSizeOfElements`.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> [storage_bits(parse_type(text)) for text in ("bf16[8]", "s4[8]", "s4[8]{0:E(4)}")]
    [16, 8, 4]
    """
    if type.layout is not None and type.layout.element_bits:
        return type.layout.element_bits
    return max(8, type.element.bits)


def array_bytes(type: Type) -> Bytes | None:
    """Return the bytes of all arrays of a type; `None` if an array has a size without a bound.

    A bounded size counts as its bound.  Sizes of a tuple's arrays are added; values that are not
    arrays have 0 bytes.  All tiles of a layout pad.  XLA's `ArraySize` pads by the first tile only,
    which is less if a later tile is larger: `bf16[1,5]{1,0:T(1,128)(2,1)}`.

    Source: XLA `ShapeUtil::ArraySize`, `docs/tiled_layout`.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> array_bytes(parse_type("f32[12582912,1]{1,0:T(8,128)}"))
    Bytes(data=50331648, padded=6442450944, unpadded=50331648, metadata=0)
    """
    if isinstance(type, TensorType):
        return _of_array(type)
    total = Bytes(0, 0, 0)
    roots: tuple[Type, ...] = (type,)
    for leaf in nested(roots, _parts):
        if isinstance(leaf, UnrankedTensorType):
            return None
        found = _of_array(leaf) if isinstance(leaf, TensorType) else Bytes(0, 0, 0)
        if found is None:
            return None
        total += found
    return total


def _parts(type: Type) -> Sequence[Type]:
    match type:
        case TupleType(elements) | FutureType(elements):
            return elements
        case BufferType(element):
            return (element,)
        case _:
            return ()


def _of_array(type: TensorType) -> Bytes | None:
    """Bytes of one array; `None` if a size has no bound."""
    if None in type.most:
        return None
    count, stored = prod(type.shape), storage_bits(type)
    natural = min(stored, max(8, type.element.bits))
    elements = padded_elements(type) if count else 0
    return Bytes(
        _in_bytes(count, stored),
        _in_bytes(elements, stored),
        _in_bytes(count, natural),
        0 if type.is_static else 4 * type.rank,
    )


def _in_bytes(elements: int, bits: int) -> int:
    return -(-elements * bits // 8)


def padded_elements(type: TensorType) -> int:
    """Return the number of elements in memory, with those that pad tiles and the tail.

    Raises:
        UnsupportedError: A dimension has neither size nor bound.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> padded_elements(parse_type("bf16[20,100]{1,0:T(8,128)(2,1)}"))
    3072
    """
    layout = type.layout
    if layout is None or not (layout.tiles or layout.extras):
        return type.num_elements
    order = layout.major_to_minor if len(layout.minor_to_major) == type.rank else range(type.rank)
    count = prod(tiled_sizes([type.shape[k] for k in order], layout.tiles))
    for extra in layout.extras:
        if (tail := _TAIL.fullmatch(extra)) is not None and int(tail[1]):
            count += -count % int(tail[1])
    return count


def tiled_sizes(sizes: Sequence[int], tiles: Sequence[Sequence[int]]) -> list[int]:
    """Return the sizes of the physical index, major to minor; each tile cuts the last dimensions.

    A tile of more dimensions than the array takes the missing major ones as 1.  A tile size that is
    not positive (`*`) joins its dimension with the next minor one before tiling.

    >>> tiled_sizes([20, 100], [(8, 128), (2, 1)])
    [3, 1, 4, 128, 2, 1]
    """
    sizes = list(sizes)
    for tile in tiles:
        sizes = [1] * (len(tile) - len(sizes)) + sizes
        head, tail = sizes[: len(sizes) - len(tile)], sizes[len(sizes) - len(tile) :]
        # A `*` multiplies its size into the next dimension that has a tile size.
        joined: list[int] = []
        factor = 1
        for size, t in zip(tail, tile, strict=True):
            if t <= 0:
                factor *= size
            else:
                joined.append(factor * size)
                factor = 1
        whole = [t for t in tile if t > 0]
        joined += [factor] if factor > 1 else []
        outer = [-(-size // t) for size, t in zip(joined, whole, strict=False)]
        sizes = [*head, *outer, *joined[len(whole) :], *whole]
    return sizes


_BINARY_UNITS: Final = (
    ("EiB", 1 << 60), ("PiB", 1 << 50), ("TiB", 1 << 40),
    ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10),
)  # fmt: skip


def four_digits(value: float) -> str:
    """Return a number with four digits, or all digits before the point if these are more.

    >>> four_digits(1.23456), four_digits(1234.5), four_digits(123456.7)
    ('1.235', '1234', '123,457')
    """
    return f"{value:.4g}" if value < 9999.5 else f"{value:,.0f}"


def size_text(count: float) -> str:
    """Return bytes in the largest binary unit that gives at least 1.

    >>> size_text(96), size_text(16384), size_text(3 << 29), size_text(3923 << 30)
    ('96 bytes', '16 KiB', '1.5 GiB', '3.831 TiB')
    """
    sign, count = ("-", -count) if count < 0 else ("", count)
    for unit, size in _BINARY_UNITS:
        if count >= size:
            return f"{sign}{four_digits(count / size)} {unit}"
    return f"{sign}{count:.4g} byte{'' if count == 1 else 's'}"
