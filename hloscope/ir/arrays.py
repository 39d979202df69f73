"""Numpy values of constants, sizes of arrays in memory with and without padding, numpy types."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct

from hloscope.errors import UnsupportedError
from hloscope.ir.types import (
    BufferType,
    ElementType,
    FutureType,
    TensorType,
    TupleType,
    Type,
    UnrankedTensorType,
)
from hloscope.support.arrays import ml_dtypes, np
from hloscope.support.lazy import pattern
from hloscope.support.walks import nested

if TYPE_CHECKING:
    import numpy.typing as npt


# --------------------------------------------------------------------------------------------------
# Values of constants: stored as written, decoded to arrays on demand.


MOST_WRITTEN: Final = 1 << 20
"""Maximum length, in characters, of a literal that `Literal.integers` reads.

Longer gives `None`.
"""


class Literal:
    """The value of a constant, in the notation of a language; a front end's subclass can read it.

    Literals are equal if they have equal text and type in one language.  Equal numbers are not
    enough.

    Attributes:
        written: The literal in a form of its language: a text or an MLIR attribute.
        type: The type written with it; `None` in HLO.
    """

    __slots__ = ("type", "written")

    def __init__(self, written: Any = "", type: Type | None = None) -> None:
        self.written, self.type = written, type

    @property
    def is_elided(self) -> bool:
        """Did the printer of the program leave the value out (`...`)?"""
        return False

    def array(self, type: Type) -> Value:
        """Return the value as an array; for a tuple, a tuple of arrays.

        Args:
            type: Type of the constant.

        Raises:
            ParseError: The literal is not of that type.
            UnsupportedError: The value is not in the program, or too large for an array.
        """
        raise UnsupportedError("the value of this constant is not in the program")

    def integers(self, type: TensorType) -> tuple[int, ...] | None:
        """Return the elements in row-major order as Python integers; booleans are 0 and 1.

        No numpy is used.  A splat gives one element.  The result is `None` if `type` has no integer
        or boolean elements, if some elements are missing, or if the literal is longer than
        `MOST_WRITTEN`.
        """
        if type.element.kind not in ("pred", "signed", "unsigned"):
            return None
        numbers = self._integers(type)
        return numbers if numbers and len(numbers) in (1, prod(type.shape)) else None

    def _integers(self, type: TensorType) -> tuple[int, ...] | None:
        return None

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(self) is type(other) and self.written == other.written and self.type == other.type
        )

    def __hash__(self) -> int:
        return hash(self.written)

    def __str__(self) -> str:
        return str(self.written)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class ComputedLiteral(Literal):
    """The literal of a value that was computed, so that no text of it exists.

    The value is a numpy array or, of a tuple, a tuple of them.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any, type: Type | None = None) -> None:
        super().__init__(_key(value), type)
        self.value = value

    def array(self, type: Type) -> Value:
        """Return the value."""
        return self.value  # type: ignore[no-any-return]

    def _integers(self, type: TensorType) -> tuple[int, ...] | None:
        return tuple([int(item) for item in self.value.reshape(-1)])

    def __reduce__(self) -> tuple[Any, ...]:
        return ComputedLiteral, (self.value, self.type)

    def __str__(self) -> str:
        return str(getattr(self.value, "tolist", lambda: self.value)())


def _key(value: Any) -> Any:
    """Return a hashable key that is equal exactly for bitwise equal arrays, or tuples of arrays."""
    if isinstance(value, tuple):
        return tuple(map(_key, value))
    return str(value.dtype), value.shape, value.tobytes()


# --------------------------------------------------------------------------------------------------
# Bytes of arrays in memory, with and without the padding of tiles.


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
        """Bytes of padding in tiles, and of elements stored wider than their natural width."""
        return self.padded - self.unpadded

    @property
    def ratio(self) -> float:
        """Padded bytes per unpadded byte; 1 for an empty array."""
        return self.padded / self.unpadded if self.unpadded else 1.0

    def __add__(self, other: Bytes) -> Bytes:
        """Return the field-by-field sum of two sizes."""
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
    """Return the bytes of one array; `None` if a dimension has neither a size nor a bound."""
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
    """Return the number of elements in memory, with the padding of tiles and of the tail (`L(n)`).

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


# --------------------------------------------------------------------------------------------------
# Numpy types of elements; numpy and ml_dtypes are loaded on first use.


Array: TypeAlias = "npt.NDArray[Any]"
Value: TypeAlias = "Array | tuple[Value, ...]"


def numpy_dtype(element: ElementType) -> np.dtype[Any]:
    """Return the numpy or ml_dtypes type of an element type.

    Raises:
        ValueError: The elements have no value, as tokens and opaque values.
    """
    # Cached, as evaluation asks for every value; there are few different element types.
    if not element.numpy:
        raise ValueError(f"elements of type {element.name} have no value")
    if element.numpy == "bool" or hasattr(np, element.numpy):
        return np.dtype(element.numpy)
    return np.dtype(getattr(ml_dtypes, element.numpy))  # type: ignore[no-any-return]
