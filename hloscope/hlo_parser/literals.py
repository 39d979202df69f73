"""Conversion between the texts of literals and numpy arrays.

Texts are such as `{ { 1, 2 }, { 3, -inf } }`, `nan(0x7)`, or tuples. Numpy and ml_dtypes are loaded
with the first value. Sizes are checked against the text before memory is allocated.

Source: XLA docs "Operation semantics", `Constant`; the number formats are those of HLO text.
"""

from __future__ import annotations

import re
from itertools import chain
from math import ceil, log10, prod
from typing import Final, NoReturn

from hloscope.errors import UnsupportedError
from hloscope.hlo_parser.scanner import fail, inside, shortened, split_list
from hloscope.hlo_parser.types import parse_type
from hloscope.ir import (
    ELEMENT_TYPES,
    MOST_WRITTEN,
    Array,
    Dims,
    ElementType,
    Literal,
    TensorType,
    TupleType,
    Type,
    Value,
    numpy_dtype,
)
from hloscope.support.arrays import ml_dtypes, np
from hloscope.support.lazy import pattern
from hloscope.support.limits import refuse_unsupported_array

_COMMENT: Final = pattern(r"/\*.*?\*/", re.DOTALL)
_PAIR: Final = pattern(r"\(\s*([^(),\s]+)\s*,\s*([^(),\s]+)\s*\)")
_NOT_SHAPE: Final = pattern(r"[^{},]+")
_SEPARATOR: Final = pattern(r"[{},\s]+")
_NAN: Final = pattern(r"(-?)nan(?:\(0x([0-9a-fA-F]+)\))?")
_TYPED: Final = pattern(r"([a-z]\w*\[[^\[\]]*\](?:\{[^{}]*\})?)\s+")
_BOOLS: Final = {"true": True, "false": False}
_INTEGER: Final = pattern(r"-?\d+|true|false")
_MOST_BITS: Final = 1 << 33
"""Maximum bits of an array whose literal is not a full list of elements.

Larger arrays are refused.
"""
_IEEE: Final = frozenset(("f8e3m4", "f8e4m3", "f8e5m2", "bf16", "f16", "f32", "f64"))
"""Names of the float types whose NaNs have a payload, written `nan(0x7)`."""


class HloLiteral(Literal):
    """A literal of HLO, whose value is read from its text on demand."""

    __slots__ = ()

    @property
    def is_elided(self) -> bool:
        """Does the text omit the value, as `{...}`?"""
        return "..." in self.written

    def array(self, type: Type) -> Value:
        """Return the value of a literal of this type, an array or a tuple of arrays."""
        return literal_value(type, self.written)

    def _integers(self, type: TensorType) -> tuple[int, ...] | None:
        text: str = self.written
        if len(text) > MOST_WRITTEN or self.is_elided:
            return None
        if "{" not in text and type.num_elements != 1:  # the first element; the others are 0
            return None
        return tuple([int(_BOOLS.get(word, word)) for word in _INTEGER.findall(text)])


def literal_text(literal: Literal, type_: Type) -> str:
    """Return a literal as HLO text; `type_` is its type.

    A literal of HLO has its text as written; a literal of another language is printed.
    """
    if isinstance(literal, HloLiteral):
        return str(literal)
    return print_literal(type_, literal.array(type_))


# ----------------------------------------------------------------------------------- reading


def literal_value(type_: Type, text: str) -> Value:
    """Return the value of a literal's text: an array, or a tuple of arrays for a tuple type.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> literal_value(parse_type("f32[2,2]"), "{ { 1, 2 }, { 3, -inf } }").tolist()
    [[1.0, 2.0], [3.0, -inf]]

    Raises:
        ParseError: The text is not a literal of that type.
        UnsupportedError: The text omits the value (`{...}`), or numpy has
            no array of that size or rank.
    """
    if "/*" in text:
        text = _COMMENT.sub(lambda found: " " * len(found.group()), text)
    if isinstance(type_, TupleType):
        return _tuple_value(type_, text)
    if not isinstance(type_, TensorType):
        fail("tokens and opaque values have no literals", text, 0, len(text))
    return _array_value(type_, _without_type(type_, text))


def _tuple_value(type_: TupleType, text: str) -> Value:
    stripped = text.strip()
    parts = split_list(inside(stripped, "(", ")"))
    if len(parts) != len(type_.elements):
        message = f"expected {len(type_.elements)} elements of a tuple, found {len(parts)}"
        fail(message, text, 0, len(text))
    return tuple(
        literal_value(element, part)
        for element, (part, _) in zip(type_.elements, parts, strict=True)
    )


def _without_type(type_: TensorType, text: str) -> str:
    """Return the text of a literal without the type before it: older texts have `f32[2] {1, 2}`."""
    text = text.strip()
    typed = _TYPED.match(text)
    if typed is not None:
        written = parse_type(typed[1])
        if not isinstance(written, TensorType) or (written.element, written.sizes) != (
            type_.element,
            type_.sizes,
        ):
            fail("the literal is of another type", text, 0, typed.end(1))
        text = text[typed.end() :]
    return text


def _array_value(type_: TensorType, text: str) -> Array:
    if "..." in text:
        raise UnsupportedError("the value of this constant was left out when it was printed")
    flat = _PAIR.sub(r"\1;\2", text) if type_.element.kind == "complex" else text
    shape = type_.shape
    found = _NOT_SHAPE.sub("", flat)
    words = _SEPARATOR.sub(" ", flat).split()
    if shape and not found and len(words) == 1:
        return _first_only(type_, words, text)
    # Braces and commas are compared with those of the shape first. Before that, the product of the
    # sizes is checked against the text's length, since the skeleton of a wrong shape could fill the
    # memory.
    written = (
        shape[: shape.index(0) + 1] if 0 in shape else shape
    )  # an empty dimension has no inner braces
    if prod(filter(None, written)) > len(text) or found != _skeleton(written):
        _explain_shape(shape, text)
    if len(words) != type_.num_elements:
        fail(f"expected {type_.num_elements} numbers, found {len(words)}", text, 0, len(text))
    return _shaped(_numbers(type_.element, words, text), shape)


def _first_only(type_: TensorType, words: list[str], text: str) -> Array:
    """Return the array of a literal without braces: its first element is in the text, others are 0.

    Args:
        type_: Type of the array.
        words: The numbers in the text.
        text: The text, for errors.

    Source: XLA's parser, which sets the first element only.
    """
    first = _numbers(type_.element, words, text)
    if type_.num_elements * type_.element.bits > _MOST_BITS:
        raise UnsupportedError(f"a constant of {type_.num_elements} elements is too large")
    value = np.zeros(type_.num_elements, numpy_dtype(type_.element))
    value[:1] = first
    return _shaped(value, type_.shape)


def _shaped(flat: Array, shape: Dims) -> Array:
    refuse_unsupported_array(shape)
    return flat.reshape(shape)


def _skeleton(shape: Dims) -> str:
    """Return the braces and commas that a literal of `shape` has.

    >>> _skeleton((2, 3))
    '{{,,},{,,}}'
    """
    if not shape:
        return ""
    part = "{" + "," * (shape[-1] - 1) + "}"
    for size in shape[-2::-1]:
        part = "{" + ",".join([part] * size) + "}"
    return part


def _explain_shape(shape: Dims, text: str) -> NoReturn:
    """Raise an error at the first position of `text` where its braces do not fit `shape`."""
    counts = [0] * (len(shape) + 1)
    depth = 0
    for mark in re.finditer(r"[{},]", text):
        char, at = mark.group(), mark.start()
        if char == "{":
            depth += 1
            if depth > len(shape):
                fail(f"expected {len(shape)} levels of braces, found more", text, at)
            counts[depth] = 0
        elif char == "}":
            want, empty = shape[depth - 1] if depth else 0, text[:at].rstrip().endswith("{")
            have = 0 if empty else counts[depth] + 1
            if have != want:
                fail(f"dimension {depth - 1}: expected {want} entries, found {have}", text, at)
            depth -= 1
        elif depth:
            counts[depth] += 1
    sizes = "x".join(map(str, shape)) or "scalar"
    fail(f"expected a literal of shape {sizes}, found `{shortened(text)}`", text, 0, len(text))


def _numbers(element: ElementType, words: list[str], text: str) -> Array:
    """Return a one-dimensional array of the numbers in `words`, of type `element`.

    An error has the position of the first invalid word in `text`.
    """
    try:
        return _values(element, words)
    except (ValueError, OverflowError) as error:
        bad = next((word for word in words if not _is_number(element, word)), None)
        if bad is None:
            raise AssertionError(text) from error
        at = re.search(rf"(?<![\w.+-]){re.escape(bad)}(?![\w.])", text)
        start = at.start() if at else 0
        fail(f"`{shortened(bad)}` is no {element.name}", text, start, start + len(bad))


def _values(element: ElementType, words: list[str]) -> Array:
    match element.kind:
        case "pred":
            bools = [_BOOLS[w] if w in _BOOLS else int(w) != 0 for w in words]
            return np.array(bools, numpy_dtype(element))
        case "signed" | "unsigned":
            return _integers(element, words)
        case "complex":
            half = ELEMENT_TYPES["f32" if element.bits == 64 else "f64"]
            pairs = (word.partition(";") for word in words)
            parts = [(real, imag or "0") for real, _, imag in pairs]
            return _floats(half, list(chain.from_iterable(parts))).view(numpy_dtype(element))
        case _:
            return _floats(element, words)


def _is_number(element: ElementType, word: str) -> bool:
    try:
        _values(element, [word])
    except (ValueError, OverflowError):
        return False
    return True


def _integers(element: ElementType, words: list[str]) -> Array:
    values = [int(word) for word in words]
    signed = element.kind == "signed"
    low = -(1 << element.bits - 1) if signed else 0
    if element.name == "u64" and values and min(values) < 0:
        values = [value % (1 << 64) if value >= -(1 << 63) else value for value in values]
    high = (1 << element.bits - signed) - 1
    if values and not low <= min(values) <= max(values) <= high:
        raise OverflowError
    wide = np.array(values, np.int64 if signed else np.uint64)
    return wide.astype(numpy_dtype(element))


def _floats(element: ElementType, words: list[str]) -> Array:
    dtype = numpy_dtype(element)
    values = np.array([_float(word) for word in words], np.float64)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        out: Array = values.astype(dtype)
        # Numpy rounds a value beyond the largest finite one to infinity, where XLA reports an
        # error.
        if (np.isfinite(values) & (abs(values) > _limit(element))).any():
            raise OverflowError
        if element.name == "f8e8m0fnu":
            if (values < 2.0**-127).any():  # it has no zero and no sign
                raise OverflowError
            # ml_dtypes rounds the smallest one up.
            out.view("u1")[(values > 0) & (values < 1.5 * 2.0**-127)] = 0
    # Numpy has one NaN. Sign and payload of each NaN are set bit by bit, if the format has them.
    for at in np.flatnonzero(np.isnan(values)):
        found = _NAN.fullmatch(words[at])
        if found and found[2] and element.name not in _IEEE:
            raise ValueError
        if found and (found[1] or found[2]) and element.name in _IEEE:
            out.view(_bits(element))[at] = _nan_bits(element, bool(found[1]), found[2])
        elif found and found[1]:
            out[at] = np.copysign(np.float64("nan"), -1.0).astype(dtype)
    return out


def _limit(element: ElementType) -> float:
    """Return an upper bound of the numbers that round to a finite value of a float type.

    It is about the largest finite value plus half a unit of its last mantissa bit.
    """
    most = float(ml_dtypes.finfo(numpy_dtype(element)).max)
    return most * (1 + 2.0 ** -(_mantissa(element) + 2))


def _float(word: str) -> float:
    if "n" in word:
        if word in ("inf", "-inf"):
            return float(word)
        if _NAN.fullmatch(word) is None:
            raise ValueError
        return float("nan")
    if "x" in word:
        return float.fromhex(word)
    if "_" in word:  # Python's own digit separator
        raise ValueError
    return float(word)


def _bits(element: ElementType) -> str:
    return f"u{element.bits // 8}"


def _mantissa(element: ElementType) -> int:
    """Return the number of stored mantissa bits of a float type."""
    known = {"bf16": 7, "f16": 10, "f32": 23, "f64": 52}
    exponent = re.fullmatch(r"f\d+e\d+m(\d+)\w*", element.name)
    return int(exponent[1]) if exponent else known[element.name]


def _nan_bits(element: ElementType, negative: bool, payload: str | None) -> int:
    mantissa = _mantissa(element)
    value = int(payload, 16) if payload else 1 << mantissa - 1
    if not 0 < value < 1 << mantissa:
        raise ValueError
    exponent = (1 << element.bits - 1 - mantissa) - 1
    return negative << element.bits - 1 | exponent << mantissa | value


# ----------------------------------------------------------------------------------- writing


def print_literal(type_: Type, value: Value) -> str:
    """Return the text of an array, or of a tuple of arrays, as XLA prints it.

    `type_` is the type of the value.

    >>> import numpy as np
    >>> from hloscope.hlo_parser.types import parse_type
    >>> print_literal(parse_type("bf16[2,2]"), np.array([[1, 0.1], [np.nan, 3]]))
    '{ { 1, 0.1001 }, { nan, 3 } }'
    """
    if isinstance(type_, TupleType):
        assert isinstance(value, tuple)
        parts = (print_literal(t, v) for t, v in zip(type_.elements, value, strict=True))
        return f"( {', '.join(parts)} )"
    if not isinstance(type_, TensorType):
        raise ValueError("tokens and opaque values have no literals")
    array = np.asarray(value).astype(numpy_dtype(type_.element))
    if array.shape != type_.shape:
        raise ValueError(f"expected an array of shape {type_.shape}, found {array.shape}")
    words = _words(type_.element, array)
    return _nested(words, array.shape) if array.ndim else words[0]


def _words(element: ElementType, array: Array) -> list[str]:
    flat = array.reshape(-1)
    match element.kind:
        case "pred":
            names = ("false", "true") if array.ndim == 0 else ("0", "1")
            return [names[int(item)] for item in flat]
        case "signed" | "unsigned":
            return [str(int(item)) for item in flat]
        case "complex":
            half = ELEMENT_TYPES["f32" if element.bits == 64 else "f64"]
            words = _words(half, flat.view(numpy_dtype(half)))
            pairs = zip(words[::2], words[1::2], strict=True)
            return [f"({real}, {imag})" for real, imag in pairs]
        case _:
            return _float_words(element, flat)


def _float_words(element: ElementType, flat: Array) -> list[str]:
    """Return, for each number, the shortest decimal text that reads back as the same number.

    `element` is the type of the numbers in `flat`, an array of one dimension.
    """
    digits = ceil(1 + (_mantissa(element) + 1) * log10(2))
    short = {"f32": 6, "f64": 15}.get(element.name, digits)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        wide = flat.astype(np.float64)
    values: list[float] = wide.tolist()
    words = [f"{value:.{short}g}" for value in values]
    if short != digits:
        again = np.array(words, np.float64).astype(flat.dtype)
        for at in np.flatnonzero((again != flat) & ~np.isnan(wide)):
            words[at] = f"{values[at]:.{digits}g}"
    for at in np.flatnonzero(np.isnan(wide)):
        words[at] = _nan_word(element, flat[at : at + 1])
    return words


def _nan_word(element: ElementType, item: Array) -> str:
    bits = int(item.view(_bits(element))[0])
    sign = "-" if bits >> element.bits - 1 and element.name != "f8e8m0fnu" else ""
    mantissa = _mantissa(element)
    payload = bits & (1 << mantissa) - 1
    if element.name not in _IEEE or payload == 1 << mantissa - 1:
        return f"{sign}nan"
    return f"{sign}nan({payload:#x})"


def _nested(words: list[str], shape: Dims) -> str:
    """Return the text of an array of `shape`: its elements `words` in nested braces.

    The elements are in row-major order.
    """
    if len(shape) == 1:
        return f"{{{', '.join(words)}}}"
    if shape[-1] > 1:
        size = shape[-1]
        rows = [f"{{ {', '.join(words[i : i + size])} }}" for i in range(0, len(words), size)]
    elif shape[-1] == 1:
        rows = [f"{{{word}}}" for word in words]
    else:
        rows = ["{}"] * prod(shape[:-1])
    for depth in range(len(shape) - 2, -1, -1):
        size = shape[depth]
        numbered = depth > 0 and len(shape) > 3
        grouped: list[str] = []
        for number in range(prod(shape[:depth])):
            part = ", ".join(rows[number * size : (number + 1) * size])
            mark = f"/*i{depth - 1}={number % shape[depth - 1]}*/ " if numbered else ""
            grouped.append(f"{{ {mark}{part} }}" if part or not mark else f"{{ {mark}}}")
        rows = grouped
    return rows[0]
