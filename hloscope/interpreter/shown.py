"""Values as multi-line text, `tensor<2xi32> {…}`, in the format of StableHLO's interpreter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import prod
from operator import mul
from typing import Any, Final

import numpy as np

from hloscope.errors import Spell, plain
from hloscope.interpreter.values import Array, Value, claim
from hloscope.ir import (
    FORMATS,
    ElementType,
    QuantizedType,
    TensorType,
    TupleType,
    Type,
    format_float,
)

_PER_ELEMENT: Final = 64
"""Estimated bytes for the text of one element or one bracket while it is built."""
_HALF: Final = {"c64": "f32", "c128": "f64"}


def value_text(value: Value, type_: Type, most: int | None = None, spell: Spell = plain) -> str:
    """Return a value as text over several lines.

    Args:
        value: The value.
        type_: Its type; unknown sizes are taken from the value.
        most: Maximum `text_size` of an array to print; larger ones print as `{…}`.
        spell: Function that writes types.

    >>> import numpy
    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> type_ = TensorType(ELEMENT_TYPES["s32"], (2, 2))
    >>> print(value_text(numpy.array([[1, 2], [3, 4]], "int32"), type_))
    s32[2,2] {
      [
        [1, 2],
        [3, 4]
      ]
    }
    """
    match type_:
        case TensorType():
            return _tensor_text(value, type_, most, spell)
        case TupleType():
            assert isinstance(value, tuple)
            parts = zip(value, type_.elements, strict=True)
            lines = ",\n".join(value_text(v, t, most, spell) for v, t in parts)
            return f"({lines})"
        case _:
            return spell(type_, "bare")


def _tensor_text(value: Any, type_: TensorType, most: int | None, spell: Spell) -> str:
    """Text of an array; its elements are left out if they exceed `most`."""
    shape = value.shape
    head = spell(TensorType(type_.element, shape), "bare")
    if most is not None and text_size(shape) > most:
        return f"{head} {{…}}"
    # An empty array can still have very many brackets, so they are counted as well.
    claim(_PER_ELEMENT * (value.size + sum(_brackets(shape))), "the text of a value")
    texts = element_texts(value, type_.element)
    if not shape:
        return f"{head} {{{texts[0]}}}"
    return "\n".join([f"{head} {{", *_rows(texts, shape, "  "), "}"])


def text_size(shape: Sequence[int]) -> int:
    """Number of elements in the text of an array, or of brackets at one depth if that is larger.

    >>> text_size((4, 8)), text_size((1000, 0, 8))
    (32, 1000)
    """
    return max([prod(shape), *_brackets(shape)])


def _brackets(shape: Sequence[int]) -> list[int]:
    """Number of nested lists in the text of an array at each depth, the outermost list left out."""
    return [*accumulate(shape[:-1], mul)]


def _rows(texts: list[str], shape: tuple[int, ...], indent: str) -> Iterator[str]:
    """Yield the lines of a nested list, one line for each innermost row."""
    if len(shape) == 1:
        yield f"{indent}[{', '.join(texts)}]"
    elif not shape[0]:
        yield f"{indent}[]"
    else:
        yield f"{indent}["
        size = prod(shape[1:])
        for row in range(shape[0]):
            lines = list(_rows(texts[row * size : (row + 1) * size], shape[1:], indent + "  "))
            lines[-1] += "," * (row < shape[0] - 1)
            yield from lines
        yield f"{indent}]"


def element_texts(value: Array, element: ElementType) -> list[str]:
    """Return the texts of the elements in row-major order, in MLIR syntax; complex as `[re, im]`.

    >>> import numpy
    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> element_texts(numpy.array([0.5, numpy.inf], "float32"), ELEMENT_TYPES["f32"])
    ['5.000000e-01', '0x7F800000']
    """
    flat = np.ascontiguousarray(value).reshape(-1)
    if isinstance(element, QuantizedType):
        element = element.storage
    if element.name in _HALF:
        half = _float_texts(flat.view(flat.real.dtype), _HALF[element.name])
        return [f"[{a}, {b}]" for a, b in zip(half[::2], half[1::2], strict=True)]
    if element.name in FORMATS:
        return _float_texts(flat, element.name)
    if element.kind == "pred":
        return ["true" if x else "false" for x in flat]
    return [str(int(x)) for x in flat]


def _float_texts(flat: Array, name: str) -> list[str]:
    return [format_float(int(bits), name) for bits in flat.view(f"u{flat.dtype.itemsize}")]
