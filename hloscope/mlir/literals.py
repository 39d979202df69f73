"""Elements of `dense<…>` as bytes and as a numpy array, and their text as MLIR prints it.

A literal may claim more elements than memory holds (`dense<0> : tensor<1000000x1000000xf32>`), so a
splat is stored as one element and never expanded here.

Source: MLIR `AsmPrinter.cpp` (`printDenseElementsAttr`), `AttributeParser.cpp`.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Iterable, Sequence
from math import prod
from typing import Final, NamedTuple

from hloscope.errors import VerifyError
from hloscope.ir import (
    FORMATS,
    ElementType,
    QuantizedType,
    TensorType,
    Type,
    VectorType,
    encode,
    format_float,
)
from hloscope.mlir.ir import DenseAttr
from hloscope.mlir.text.lexer import quoted, unquoted
from hloscope.mlir.types import type_text
from hloscope.support.arrays import ml_dtypes, np
from hloscope.support.lazy import pattern
from hloscope.support.limits import refuse_unsupported_array

MOST_SHOWN: Final = 100
"""Maximum number of elements printed one by one; beyond, all are printed as hexadecimal digits."""

_COMMENT: Final = pattern(r"//[^\n]*")
_STRING: Final = pattern(r'"(?:[^"\\]|\\.)*"')
_NO_BRACKETS: Final = str.maketrans("", "", "[]()")
_PARTS: Final = {"c64": "f32", "c128": "f64"}


class Elements(NamedTuple):
    """Elements of a literal: little-endian, row-major; narrow types take one byte per element.

    Attributes:
        raw: The bytes of all elements; if all are equal, those of one element.
        splat: Whether all elements are equal, so that `raw` has one.
        width: Number of bytes of one element.
    """

    raw: bytes | memoryview
    splat: bool
    width: int


class _Number(NamedTuple):
    """How one element of a literal is stored.

    Attributes:
        parts: Numbers of an element: 2 for complex ones, else 1.
        float_name: Name of the float format; empty for integers.
        bits: Bits of one number.
        signed: Are the integers signed?
    """

    parts: int
    float_name: str
    bits: int
    signed: bool

    @property
    def bytes(self) -> int:
        """Number of bytes of one number."""
        return (self.bits + 7) // 8

    @property
    def width(self) -> int:
        """Number of bytes of one element."""
        return self.parts * self.bytes


def elements(literal: DenseAttr) -> Elements:
    r"""Return the elements of a literal of numbers as bytes.

    Raises:
        VerifyError: Elements are not numbers of the type, or their number is not that of the type.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> elements(DenseAttr("[[1, 2], [3, -1]]", TensorType(ELEMENT_TYPES["s8"], (2, 2))))
    Elements(raw=b'\x01\x02\x03\xff', splat=False, width=1)
    """
    element, sizes = shaped(literal.type)
    number = _number(element)
    if number is None:
        raise VerifyError(f"elements of type {element.name} are not numbers")
    count = prod(sizes)
    raw, width = _raw(literal.literal, number, count), number.width
    # Hexadecimal text may have eight `i1` in a byte, so the number of bytes decides.
    if number.bits == 1 and isinstance(literal.literal, str) and len(raw) not in (1, count):
        raw = _unpacked(raw, count)
    if len(raw) == width:
        return Elements(raw, True, width)
    if len(raw) != width * count:
        raise VerifyError(f"the value has {len(raw) // width} elements, the type {count}")
    # A buffer equals itself shifted by one element only if all elements are equal.
    if count and raw[width:] == raw[:-width]:
        return Elements(raw[:width], True, width)
    return Elements(raw, False, width)


def _unpacked(raw: bytes | memoryview, count: int) -> bytes | memoryview:
    """Expand a packed literal of `i1`, eight elements per byte, to one byte per element.

    `count` is the number of elements. The lowest bit is the first element. MLIR wrote such texts
    until 2025. Today MLIR reads one byte for up to 8 elements as a splat.

    Source: LLVM, `DenseElementsAttr::isValidRawBuffer` before and after that change.
    """
    if len(raw) != (count + 7) // 8:
        return raw
    return bytes([raw[i >> 3] >> (i & 7) & 1 for i in range(count)])


def data_size(type: Type) -> int:
    """Return the size in bytes of all elements of a type.

    An element of under 8 bits takes one byte.

    Raises:
        VerifyError: A size is unknown, or the elements are not numbers.
    """
    element, sizes = shaped(type)
    number = _number(element)
    if number is None:
        raise VerifyError(f"elements of type {element.name} are not numbers")
    return number.width * prod(sizes)


def shaped(type: Type) -> tuple[ElementType, tuple[int, ...]]:
    """Return the element type and the sizes of the type of a literal.

    Raises:
        VerifyError: A size is unknown.
    """
    if isinstance(type, TensorType | VectorType) and None not in type.sizes:
        return type.element, type.sizes  # type: ignore[return-value]
    raise VerifyError("elements literal type must have static shape")


def dense_text(literal: DenseAttr) -> str:
    """Return the text `dense<…>` of a literal as MLIR prints it, without its type.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> dense_text(DenseAttr("[1.5, 1.5]", TensorType(ELEMENT_TYPES["f32"], (2,))))
    'dense<1.500000e+00>'
    """
    element, sizes = shaped(literal.type)
    number = _number(element)
    if number is None:
        return f"dense<{_strings_text(literal.literal, sizes)}>"
    raw, splat, width = elements(literal)
    if splat or not width:  # numbers of no bits are all 0
        return f"dense<{_element_text(bytes(raw), number)}>"
    if len(raw) > MOST_SHOWN * width:
        return f'dense<"0x{raw.hex().upper()}">'
    texts = [_element_text(bytes(raw[i : i + width]), number) for i in range(0, len(raw), width)]
    return f"dense<{_nested(texts, sizes)}>"


def to_array(literal: DenseAttr) -> np.ndarray:
    """Return a read-only array of the literal; a splat takes the memory of one element.

    Raises:
        UnsupportedError: Numpy has no array of these sizes.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> to_array(DenseAttr("[[1], [2]]", TensorType(ELEMENT_TYPES["s32"], (2, 1)))).tolist()
    [[1], [2]]
    """
    values: np.ndarray
    element, sizes = shaped(literal.type)
    raw, splat, width = elements(literal)
    refuse_unsupported_array(sizes, width)
    name = element.numpy
    if name and element.bits < 8 and element.kind in ("signed", "unsigned"):
        # Narrow integers have a byte each; shifting left and back extends the sign.
        shift = 8 - element.bits
        top = np.frombuffer(raw, np.uint8) << shift
        values = top.view(np.int8) >> shift if element.kind == "signed" else top >> shift
        values = values.astype(_dtype(name))
    else:
        values = np.frombuffer(raw, _dtype(name) if name else f"V{width}")
    return np.broadcast_to(values[0] if splat else values.reshape(sizes), sizes)


def from_array(values: np.ndarray, type: Type) -> DenseAttr:
    """Return an array `values` as a literal of type `type`, whose numpy type it must have.

    Raises:
        VerifyError: Shape or numpy type differ from `type`.

    >>> import numpy
    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> dense_text(from_array(numpy.ones((2, 2), "f4"), TensorType(ELEMENT_TYPES["f32"], (2, 2))))
    'dense<1.000000e+00>'
    """
    element, sizes = shaped(type)
    if values.shape != sizes or values.dtype != _dtype(element.numpy):
        raise VerifyError(f"an array {values.dtype}{list(values.shape)} is none of {type}")
    if element.bits < 8 and element.kind in ("signed", "unsigned"):
        mask = (1 << element.bits) - 1
        values = values.astype(np.int8).view(np.uint8) & mask
    literal = DenseAttr(np.ascontiguousarray(values).tobytes(), type)
    return DenseAttr(elements(literal).raw, type)


def array_text(values: np.ndarray, type: TensorType) -> str:
    """Return an array `values` as the text of a literal of type `type`, with that type.

    Elements of a quantized type are its stored integers.

    >>> import numpy
    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> array_text(numpy.array([1, 2], "int32"), TensorType(ELEMENT_TYPES["s32"], (2,)))
    'dense<[1, 2]> : tensor<2xi32>'
    """
    if isinstance(type.element, QuantizedType):
        type = TensorType(type.element.storage, type.sizes)
    return f"{dense_text(from_array(values, type))} : {type_text(type)}"


def _dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name, name)).newbyteorder("<")


def _number(element: ElementType) -> _Number | None:
    """Return how elements of a type are stored; `None` if they are not numbers, such as strings."""
    name = element.name
    if name in FORMATS:
        return _Number(1, name, FORMATS[name].bits, signed=True)
    if name in _PARTS:
        return _Number(2, _PARTS[name], element.bits // 2, signed=True)
    if name == "pred":
        return _Number(1, "", 1, signed=False)
    if element.kind in ("signed", "unsigned"):
        return _Number(1, "", element.bits, element.kind == "signed")
    found = re.fullmatch(r"complex<([su]?)i(\d+)>", name)
    return _Number(2, "", int(found[2]), found[1] != "u") if found else None


def _raw(literal: str | bytes | memoryview, number: _Number, count: int) -> bytes | memoryview:
    """Return the bytes of all `count` elements of a literal, or of one element if all are equal.

    `literal` is the text between the angle brackets, or bytes; `number` is how an element is
    stored.
    """
    if not isinstance(literal, str):
        return literal
    literal = literal.strip()
    if "//" in literal:
        literal = _COMMENT.sub("", literal)
    try:
        if literal.startswith('"'):
            return bytes.fromhex(literal[3:-1])
        words = literal.translate(_NO_BRACKETS).split(",") if literal else []
        if count == 0 and not any(map(str.strip, words)):
            return b""
        if len(words) not in (number.parts, number.parts * count):
            raise VerifyError(
                f"the value has {len(words) // number.parts} elements, the type {count}"
            )
        return _packed_floats(words, number) if number.float_name else _packed(words, number)
    except ValueError:
        raise VerifyError("elements are not numbers of the type") from None


def _packed(words: Sequence[str], number: _Number) -> bytes:
    """Return integers, given as words, as little-endian bytes.

    They are truncated to the width of the type that `number` describes.
    """
    mask = (1 << number.bits) - 1
    if number.bits == 1:
        values = [_truth(word.strip()) for word in words]
    else:
        values = [int(word, 16 if "x" in word else 10) & mask for word in words]
    return _little({1: "B", 2: "H", 4: "I", 8: "Q"}.get(number.bytes), values, number.bytes)


def _truth(word: str) -> int:
    return word == "true" if word in ("true", "false") else int(word, 0) & 1


def _packed_floats(words: Sequence[str], number: _Number) -> bytes:
    name = number.float_name
    if name in ("f32", "f64") and not any("x" in word for word in words):
        return _little("f" if name == "f32" else "d", map(float, words), number.bytes)
    values = [int(w, 16) if "x" in w else encode(float(w), name) for w in words]
    return _little({1: "B", 2: "H", 4: "I", 8: "Q"}.get(number.bytes), values, number.bytes)


def _little(code: str | None, values: Iterable[float], width: int) -> bytes:
    if code is None:
        return b"".join(int(value).to_bytes(width, "little") for value in values)
    packed = array(code, values)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _element_text(raw: bytes, number: _Number) -> str:
    """Return the text of one element, given its bytes; a complex element is in parentheses.

    `number` is how an element is stored.
    """
    step = number.bytes
    starts = [step * part for part in range(number.parts)]
    parts = [int.from_bytes(raw[i : i + step], "little") for i in starts]
    texts = [_part_text(part, number) for part in parts]
    return texts[0] if number.parts == 1 else f"({','.join(texts)})"


def _part_text(value: int, number: _Number) -> str:
    if number.float_name:
        return format_float(value & (1 << number.bits) - 1, number.float_name)
    if number.bits == 1:
        return "true" if value & 1 else "false"
    value &= (1 << number.bits) - 1
    is_negative = number.signed and value & 1 << number.bits >> 1
    return str(value - (1 << number.bits) if is_negative else value)


def _strings_text(literal: str | bytes | memoryview, sizes: tuple[int, ...]) -> str:
    if not isinstance(literal, str):
        raise VerifyError("elements of that type are not numbers")
    texts = [quoted(unquoted(found)) for found in _STRING.findall(literal)]
    if len(set(texts)) == 1:
        return texts[0]
    if len(texts) != prod(sizes):
        raise VerifyError(f"the value has {len(texts)} elements, the type {prod(sizes)}")
    return _nested(texts, sizes)


def _nested(texts: Sequence[str], sizes: tuple[int, ...]) -> str:
    """Return the elements' texts in nested brackets: `[[1, 2], [3, 4]]`.

    `texts` are in row-major order, `sizes` are those of the dimensions.
    """
    if not texts:
        return ""
    for size in reversed(sizes):
        texts = [f"[{', '.join(texts[i : i + size])}]" for i in range(0, len(texts), size)]
    return texts[0]
