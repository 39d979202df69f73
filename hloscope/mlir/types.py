"""Types in MLIR's spelling.

Source: MLIR's Builtin dialect; StableHLO spec, "Types".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from hloscope.ir import (
    ELEMENT_TYPES,
    BufferType,
    DialectType,
    ElementType,
    FunctionType,
    FutureType,
    QuantizedType,
    TensorType,
    TokenType,
    TupleType,
    Type,
    UnrankedTensorType,
    VectorType,
    encode,
    format_float,
)
from hloscope.support.lazy import pattern

_FLOATS: Final = (
    "f4E2M1FN f6E2M3FN f6E3M2FN f8E3M4 f8E4M3 f8E4M3B11FNUZ f8E4M3FN f8E4M3FNUZ f8E5M2 f8E5M2FNUZ"
    " f8E8M0FNU bf16 f16 f32 f64"
)

ELEMENTS: Final[dict[str, ElementType]] = {
    "i1": ELEMENT_TYPES["pred"],
    **{f"i{n}": ELEMENT_TYPES[f"s{n}"] for n in (2, 4, 8, 16, 32, 64)},
    **{f"ui{n}": ELEMENT_TYPES[f"u{n}"] for n in (1, 2, 4, 8, 16, 32, 64)},
    **{name: ELEMENT_TYPES[name.lower()] for name in _FLOATS.split()},
    "complex<f32>": ELEMENT_TYPES["c64"],
    "complex<f64>": ELEMENT_TYPES["c128"],
    "tf32": ElementType("tf32", 32, "float"),
    "f80": ElementType("f80", 80, "float"),
    "f128": ElementType("f128", 128, "float"),
    "index": ElementType("index", 64, "signed", "int64"),
    "none": ElementType("none", 0, "opaque"),
}
"""Element types by MLIR's spelling; integer types of other widths are made on demand."""

I1: Final = ELEMENTS["i1"]
I32: Final = ELEMENTS["i32"]
I64: Final = ELEMENTS["i64"]
F64: Final = ELEMENTS["f64"]
INDEX: Final = ELEMENTS["index"]
NONE: Final = ELEMENTS["none"]
WIDEST: Final = (1 << 24) - 1
"""Maximum number of bits of an integer type in MLIR."""

_SPELLINGS: Final = {element.name: text for text, element in ELEMENTS.items()}
_INTEGER: Final = pattern(r"([su]?)i0*(\d+)", re.ASCII)
_WIDTH: Final = pattern(r"([su])(\d+)")
_TEXTS: Final[dict[int, tuple[Type, str]]] = {}
_MOST_TEXTS: Final = 1 << 16


def integer_type(text: str) -> ElementType | None:
    """Return the integer type that `text` names, such as `i7` or `ui8`; `None` for any other text.

    >>> integer_type("i5"), integer_type("si8").name, integer_type("f32")
    (ElementType('s5'), 'si8', None)
    """
    found = _INTEGER.fullmatch(text)
    if found is None or len(found[2]) > 8:
        return None
    sign, bits = found[1], int(found[2])
    known = ELEMENTS.get(f"{sign}i{bits}")
    if known is not None:
        return known
    kind = "unsigned" if sign == "u" else "signed"
    name = f"si{bits}" if sign == "s" else f"{kind[0]}{bits}"
    return ElementType(name, bits, kind)


def is_signless(element: ElementType) -> bool:
    """Is `element` a signless integer type (`i8`, not `si8` or `ui8`)?"""
    return element.kind == "pred" or (
        element.kind == "signed" and element.name[:2] != "si" and element is not INDEX
    )


def element_text(element: ElementType) -> str:
    """Return the text of an element type, as MLIR prints it.

    >>> element_text(ELEMENT_TYPES["pred"]), element_text(ELEMENT_TYPES["f8e4m3fn"])
    ('i1', 'f8E4M3FN')
    """
    known = _SPELLINGS.get(element.name)
    if known is not None:
        return known
    found = _WIDTH.fullmatch(element.name)
    if found is None:
        return element.name
    return ("ui" if found[1] == "u" else "i") + found[2]


def type_text(type: Type) -> str:
    """Return the text of a type, as MLIR prints it without aliases.

    >>> type_text(TensorType(ELEMENT_TYPES["s32"], (2, None), bounds=(None, 5)))
    'tensor<2x?xi32, #stablehlo.bounds<?, 5>>'
    """
    # By `id`, since programs share types, and hashing long ones is slow. The entry refers to the
    # type, so its `id` is not reused.
    known = _TEXTS.get(id(type))
    if known is not None:
        return known[1]
    text = text_with(type, type_text)
    if len(_TEXTS) > _MOST_TEXTS:
        _TEXTS.clear()
    _TEXTS[id(type)] = type, text
    return text


def spell(value: object, form: str = "") -> str:
    """Return a value for a message: a type as text in quotes, without them if `form` is `bare`.

    Other values are returned as `str(value)`.

    >>> spell(TensorType(ELEMENT_TYPES["f32"], (2,)))
    "'tensor<2xf32>'"
    """
    if not isinstance(value, Type):
        return str(value)
    text = type_text(value)
    return text if form == "bare" else f"'{text}'"


def text_with(type: Type, inner: Callable[[Type], str]) -> str:
    """Return the text of a type, in which `inner` writes the types inside it."""
    match type:
        case TensorType():
            return _tensor(type)
        case ElementType():
            return element_text(type)
        case TupleType(elements):
            return f"tuple<{', '.join(map(inner, elements))}>"
        case TokenType():
            return "!stablehlo.token"
        case FutureType(elements):
            return f"!stablehlo.future<{', '.join(map(inner, elements))}>"
        case UnrankedTensorType(element):
            return f"tensor<*x{element_text(element)}>"
        case VectorType():
            return _vector(type)
        case FunctionType(inputs, results):
            return function_text(inputs, results, inner)
        case DialectType():
            return type.text
        case BufferType(element):
            return f"memref<{type_text(element)[len('tensor<') : -1]}>"
        case _:
            return "none"


def types_text(types: tuple[Type, ...]) -> str:
    """Return the texts of types, separated by a comma and a space."""
    return ", ".join(map(type_text, types))


def function_text(
    inputs: Sequence[Type], results: Sequence[Type], inner: Callable[[Type], str]
) -> str:
    """Return a function type as text, `(a, b) -> c`, given the types of arguments and results.

    A single result has no parentheses, unless it is itself a function type. `inner` writes each
    type.
    """
    right = ", ".join(map(inner, results))
    if len(results) != 1 or isinstance(results[0], FunctionType):
        right = f"({right})"
    return f"({', '.join(map(inner, inputs))}) -> {right}"


def _tensor(type: TensorType) -> str:
    sizes = "".join("?x" if size is None else f"{size}x" for size in type.sizes)
    encoding = type.encoding
    if not encoding and any(bound is not None for bound in type.bounds):
        encoding = bounds_text(type.bounds)
    return f"tensor<{sizes}{element_text(type.element)}{', ' if encoding else ''}{encoding}>"


def bounds_text(bounds: tuple[int | None, ...]) -> str:
    """Return bounds as the text `#stablehlo.bounds<2, ?>`."""
    inside = ", ".join("?" if bound is None else str(bound) for bound in bounds)
    return f"#stablehlo.bounds<{inside}>"


def _vector(type: VectorType) -> str:
    scalable = type.scalable or (False,) * len(type.sizes)
    sizes = zip(type.sizes, scalable, strict=True)
    inside = "".join(f"[{size}]x" if unit else f"{size}x" for size, unit in sizes)
    return f"vector<{inside}{element_text(type.element)}>"


def double_text(value: float) -> str:
    """Return a float as MLIR prints it inside a type.

    >>> double_text(0.2), double_text(0.072314441204071045)
    ('2.000000e-01', '0.072314441204071045')
    """
    return format_float(encode(value, "f64"), "f64")


def quantized(
    storage: ElementType,
    expressed: ElementType,
    scales: tuple[float, ...],
    zero_points: tuple[int, ...],
    *,
    limits: tuple[int, int] | None = None,
    axes: tuple[int, ...] = (),
    blocks: tuple[int, ...] = (),
    blocks_shape: tuple[int, ...] = (),
    by_blocks: bool = False,
    storage_text: str = "",
) -> QuantizedType:
    """Return a quantized type, by tensor, by axis or by blocks.

    Args:
        storage: The integer type of the stored elements.
        expressed: The float type of the elements' values.
        scales: Scales, one for each part with its own parameters, in order.
        zero_points: Zero points, one for each scale.
        limits: Smallest and largest stored integer; by default those of the storage type.
        axes: Dimensions along which the parameters differ; empty for one scale.
        blocks: Size of a block along each of `axes`.
        blocks_shape: Sizes of the nested lists of scales.
        by_blocks: Are the parameters those of blocks? Otherwise of the first axis, or of the
            tensor.
        storage_text: Spelling of the storage type in the text; empty for MLIR's.

    >>> quantized(ELEMENT_TYPES["s8"], ELEMENT_TYPES["f32"], (0.5,), (3,)).name
    '!quant.uniform<i8:f32, 5.000000e-01:3>'
    """
    natural = storage_range(storage.kind == "signed", storage.bits)
    low, high = limits or natural
    head = storage_text or element_text(storage)
    if (low, high) != natural:
        head += f"<{low}:{high}>"
    head += f":{element_text(expressed)}"
    parameters = [
        double_text(scale) + (f":{zero}" if zero else "")
        for scale, zero in zip(scales, zero_points, strict=True)
    ]
    if by_blocks:
        pairs = ", ".join(f"{a}:{b}" for a, b in zip(axes, blocks, strict=True))
        rest = f":{{{pairs}}}, {_nested(parameters, blocks_shape)}"
    elif axes:
        rest = f":{axes[0]}, {{{','.join(parameters)}}}"
    else:
        rest = f", {parameters[0]}"
    return QuantizedType(
        f"!quant.uniform<{head}{rest}>",
        storage.bits,
        "quantized",
        storage=storage,
        expressed=expressed,
        scales=scales,
        zero_points=zero_points,
        storage_min=low,
        storage_max=high,
        axes=axes,
        blocks=blocks,
        blocks_shape=blocks_shape,
        by_blocks=by_blocks,
    )


def _nested(parameters: list[str], shape: tuple[int, ...]) -> str:
    rows = parameters
    for size in reversed(shape):
        rows = [f"{{{', '.join(rows[i : i + size])}}}" for i in range(0, len(rows), size)]
    return rows[0]


def storage_range(signed: bool, bits: int) -> tuple[int, int]:
    """Return the smallest and the largest integer of `bits` bits, signed or unsigned."""
    if signed and bits:
        return -(1 << bits - 1), (1 << bits - 1) - 1
    return 0, (1 << bits) - 1
