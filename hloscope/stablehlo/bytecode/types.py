"""Encodings of types in bytecode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from hloscope.errors import HloscopeError
from hloscope.ir import (
    BufferType,
    DialectType,
    ElementType,
    FunctionType,
    FutureType,
    QuantizedType,
    TensorType,
    TokenType,
    TupleType,
    UnrankedTensorType,
    VectorType,
    decode,
    encode,
)
from hloscope.mlir import (
    ELEMENTS,
    I64,
    Attribute,
    IntegerAttr,
    StringAttr,
    StructAttr,
    VerbatimAttr,
    attribute_text,
    element_text,
    integer_type,
    is_signless,
    parse_attribute,
    parse_type,
    quantized,
    type_text,
)
from hloscope.support.lazy import pattern
from hloscope.support.limits import MOST_RANK

# --------------------------------------------------------------------------------------------------
# Common parts of the encodings of attributes, types and locations.


DYNAMIC: Final = -(1 << 63)
"""Integer in bytecode for a dynamic size or an unknown bound."""

Fields: TypeAlias = Sequence[Any]


class Encoding(NamedTuple):
    """Conversion between a value and the fields of its encoding.

    `make` returns the value, given fields; `fields` returns the fields of a value. Before these,
    both take one word: the second word of the encoding in the table's row, or the row's name.
    """

    make: Callable[..., Any]
    fields: Callable[[str, Any], Fields]


def text_of(value: object) -> str:
    """Return the text of a string attribute.

    Raises:
        ValueError: `value` is not a string attribute.
    """
    if not isinstance(value, StringAttr):
        raise ValueError("a string attribute is needed")
    return value.text


def only(type: Any) -> Encoding:
    """Return the encoding of the one value `type`, which has no fields."""
    return Encoding(lambda _: type, lambda _, value: ())


def wrap(cls: Any, field: str) -> Encoding:
    """Return the encoding of instances of `cls`, which have one field, named `field`."""
    return Encoding(lambda _, value: cls(value), lambda _, value: (getattr(value, field),))


# --------------------------------------------------------------------------------------------------
# Encodings of types.


def plain_element(type: object) -> ElementType:
    """Return a type as an element type of tensors.

    Raises:
        ValueError: The type cannot be an element type.
    """
    if isinstance(type, ElementType) and type.name != "none":
        return type
    if isinstance(type, DialectType) and type.text.startswith("!"):
        return ElementType(type.text, 0, "opaque")
    raise ValueError("no element type")


def sizes_of(shape: Sequence[int]) -> tuple[int | None, ...]:
    """Return tensor sizes, given bytecode's integers `shape`; `None` for a dynamic size.

    Raises:
        ValueError: A size is negative, or the rank is too large.
    """
    if len(shape) > MOST_RANK or any(size < 0 and size != DYNAMIC for size in shape):
        raise ValueError("a size is negative, or there are too many")
    return tuple([None if size == DYNAMIC else size for size in shape])


def shape_of(sizes: Sequence[int | None]) -> tuple[int, ...]:
    """Return bytecode's integers, given tensor sizes; `None` is a dynamic size."""
    return tuple([DYNAMIC if size is None else size for size in sizes])


def _tensor(_: str, shape: Sequence[int], element: object) -> TensorType:
    sizes = sizes_of(shape)
    return TensorType(plain_element(element), sizes, bounds=_no_bounds(sizes))


def _no_bounds(sizes: tuple[int | None, ...]) -> tuple[None, ...]:
    return (None,) * len(sizes) if None in sizes else ()


def _tensor_fields(_: str, type: TensorType) -> Fields:
    return shape_of(type.sizes), _element_back(type.element)


def _element_back(element: ElementType) -> Any:
    return DialectType(element.name) if element.kind == "opaque" else element


def _encoded(_: str, encoding: object, shape: Sequence[int], element: object) -> TensorType:
    sizes = sizes_of(shape)
    if isinstance(encoding, StructAttr) and encoding.name == "bounds":
        bounds = encoding.get("bounds")
        assert isinstance(bounds, tuple)
        found = sizes_of(bounds)
        if len(found) != len(sizes):
            raise ValueError("there are not as many bounds as sizes")
        if any(b is not None and s is not None for b, s in zip(found, sizes, strict=True)):
            raise ValueError("a size that is known has a bound")
        if any(bound is not None for bound in found):
            return TensorType(plain_element(element), sizes, bounds=found)
        text = f"#stablehlo.bounds<{', '.join('?' * len(found))}>"
    else:
        text = attribute_text(encoding)  # type: ignore[arg-type]
    return TensorType(plain_element(element), sizes, bounds=_no_bounds(sizes), encoding=text)


def _encoded_fields(_: str, type: TensorType) -> Fields:
    if type.encoding and not type.encoding.startswith("#stablehlo.bounds<"):
        encoding: Any = parse_attribute(type.encoding)
    else:
        bounds = shape_of(type.each_bound)
        encoding = StructAttr("stablehlo", "bounds", (("bounds", bounds),))
    return encoding, shape_of(type.sizes), _element_back(type.element)


def _complex(_: str, part: object) -> ElementType:
    kinds = ("pred", "signed", "unsigned", "float")
    if not isinstance(part, ElementType) or part.kind not in kinds or part.name == "index":
        raise ValueError("the parts of complex numbers are of a type that is not of floats")
    name = f"complex<{element_text(part)}>"
    return ELEMENTS.get(name) or ElementType(name, 2 * part.bits, "complex")


def _complex_fields(_: str, type: ElementType) -> Fields:
    inside = element_text(type).removeprefix("complex<").removesuffix(">")
    return (ELEMENTS.get(inside) or integer_type(inside),)


def _storage(flags: int, storage: object, expressed: object) -> tuple[ElementType, str]:
    """Return the integer type of a quantized type's stored elements, and its text.

    Args:
        flags: Bit 0 says that the integers are signed.
        storage: The signless integer type in the file.
        expressed: The float type of the elements; it is only checked.

    Raises:
        ValueError: A type is of another kind.
    """
    if not isinstance(storage, ElementType) or not is_signless(storage) or storage.bits > 32:
        raise ValueError("the storage type is not an integer type")
    if not isinstance(expressed, ElementType) or expressed.kind != "float":
        raise ValueError("the expressed type is not a floating-point type")
    if flags & 1:
        return storage, element_text(storage)
    found = integer_type(f"ui{storage.bits}")
    assert found is not None
    return found, f"u{storage.bits}"


def _quantized(
    _: str, flags: int, storage: object, expressed: Any, scale: int, zero: int, low: int, high: int
) -> QuantizedType:
    integers, text = _storage(flags, storage, expressed)
    if low >= high:
        raise ValueError("the least integer is not below the most")
    return quantized(
        integers,
        expressed,
        (decode(scale, "f64"),),
        (zero,),
        limits=(low, high),
        storage_text=text,
    )


def _quantized_axis(
    _: str,
    flags: int,
    storage: object,
    expressed: Any,
    axis: int,
    low: int,
    high: int,
    scales: Sequence[int],
    zeros: Sequence[int],
) -> QuantizedType:
    integers, text = _storage(flags, storage, expressed)
    if low >= high or not scales or len(scales) != len(zeros) or axis >= 1 << 31:
        raise ValueError("there are not as many scales as zero points, or limits are wrong")
    return quantized(
        integers,
        expressed,
        tuple([decode(scale, "f64") for scale in scales]),
        tuple(zeros),
        limits=(low, high),
        axes=(axis,),
        storage_text=text,
    )


def _quantized_fields(_: str, type: QuantizedType) -> Fields:
    head = _quantized_head(type)
    scale, zero = encode(type.scales[0], "f64"), type.zero_points[0]
    return [*head, scale, zero, type.storage_min, type.storage_max]


def _quantized_head(type: QuantizedType) -> Fields:
    signed = type.storage.kind == "signed"
    return int(signed), integer_type(f"i{type.storage.bits}"), type.expressed


def _quantized_axis_fields(_: str, type: QuantizedType) -> Fields:
    scales = tuple([encode(scale, "f64") for scale in type.scales])
    head = _quantized_head(type)
    return [*head, type.axes[0], type.storage_min, type.storage_max, scales, type.zero_points]


def _integer_type(_: str, width: int) -> ElementType:
    found = None
    if width & 3 < 3 and 0 < width >> 2 < 1 << 24:
        found = integer_type(f"{('', 's', 'u')[width & 3]}i{width >> 2}")
    if found is None:
        raise ValueError("no integer type")
    return found


def _integer_type_fields(_: str, type: ElementType) -> Fields:
    sign = 0 if is_signless(type) else 2 if type.kind == "unsigned" else 1
    return ((1 if type.kind == "pred" else type.bits) << 2 | sign,)


def _vector(_: str, shape: Sequence[int], element: object) -> VectorType:
    return _scalable(_, (), shape, element)


def _scalable(_: str, scalable: Sequence[int], shape: Sequence[int], element: object) -> VectorType:
    if any(size <= 0 for size in shape) or len(scalable) not in (0, len(shape)):
        raise ValueError("a vector has positive sizes")
    return VectorType(plain_element(element), tuple(shape), tuple(map(bool, scalable)))


def _buffer(_: str, shape: Sequence[int], element: object) -> BufferType:
    return BufferType(_tensor("", shape, element))


TYPE_ENCODINGS: Final[dict[str, Encoding]] = {
    **{name: only(element) for name, element in ELEMENTS.items()},
    "complex": Encoding(_complex, _complex_fields),
    "function": Encoding(
        lambda _, inputs, results: FunctionType(inputs, results),
        lambda _, type: (type.inputs, type.results),
    ),
    "tensor": Encoding(_tensor, _tensor_fields),
    "encoded": Encoding(_encoded, _encoded_fields),
    "token": only(TokenType()),
    "tuple": wrap(TupleType, "elements"),
    "quantized": Encoding(_quantized, _quantized_fields),
    "quantized_axis": Encoding(_quantized_axis, _quantized_axis_fields),
    "unranked": Encoding(
        lambda _, element: UnrankedTensorType(plain_element(element)),
        lambda _, type: (_element_back(type.element),),
    ),
    "witness": only(DialectType("!shape.witness")),
    "buffer": Encoding(_buffer, lambda _, type: _tensor_fields("", type.element)),
    "future": wrap(FutureType, "elements"),
    "integer_type": Encoding(_integer_type, _integer_type_fields),
    "vector": Encoding(_vector, lambda _, type: (type.sizes, type.element)),
    "scalable": Encoding(
        _scalable, lambda _, type: (tuple(map(int, type.scalable)), type.sizes, type.element)
    ),
}
"""Encodings of types, by the names that the rows of the tables use.

Element types have their MLIR names.
"""


# --------------------------------------------------------------------------------------------------
# Encodings of `memref<…>` types in bytecode.
#
# A memref with the identity layout and no memory space is a `BufferType`. Every other one is text,
# which is split here: the sizes with the element type, then an optional layout and an optional
# memory space.


_SIGN: Final = pattern(r'"(?:[^"\\]|\\.)*"|->|>=|[<\[({]|[>\])}]|,')
_LAYOUTS: Final = ("affine_map<", "strided<")


def identity(rank: int) -> str:
    """Return the text of the identity layout of a memref of this rank.

    >>> identity(2)
    'affine_map<(d0, d1) -> (d0, d1)>'
    """
    names = ", ".join([f"d{i}" for i in range(rank)])
    return f"affine_map<({names}) -> ({names})>"


def memref_encoding(text: str) -> str:
    """Return the name of the encoding of a memref type, given its text; empty for other types."""
    if not text.startswith("memref<"):
        return ""
    parts = _parts(text)
    unranked = parts[0].startswith("*")
    spaced = len(parts) > 1 and not parts[-1].startswith(_LAYOUTS)
    return f"{'unranked_' if unranked else ''}memref{'_in_space' if spaced else ''}"


def _parts(text: str) -> list[str]:
    """Split the parameters in the text of a memref type at commas outside brackets."""
    inside = text.removeprefix("memref<").removesuffix(">")
    found, depth, start = [], 0, 0
    for sign in _SIGN.finditer(inside):
        if sign[0] == "," and not depth:
            found.append(inside[start : sign.start()].strip())
            start = sign.end()
        elif len(sign[0]) == 1:
            depth += (sign[0] in "<[({") - (sign[0] in ">])}")
    return [*found, inside[start:].strip()]


def _space(text: str) -> Attribute:
    value = parse_attribute(text)
    return IntegerAttr(value.value, I64) if isinstance(value, IntegerAttr) else value


def _space_text(value: Any) -> str:
    if isinstance(value, IntegerAttr) and value.type == I64:
        return str(value.value)
    return attribute_text(value)


def _made(shape: Sequence[int], element: object, layout: object, space: object = None) -> Any:
    tensor = TensorType(plain_element(element), sizes_of(shape))
    text = attribute_text(layout) if isinstance(layout, VerbatimAttr) else ""
    if not text.startswith(_LAYOUTS):
        raise ValueError("a layout is needed")
    usual = text == identity(len(shape))
    if usual and space is None:
        return BufferType(tensor)
    head = type_text(tensor).removeprefix("tensor<").removesuffix(">")
    more = [] if usual else [text]
    return _dialect_type(head, more if space is None else [*more, _space_text(space)])


def _dialect_type(head: str, more: Sequence[str]) -> DialectType:
    return DialectType(f"memref<{', '.join([head, *more])}>")


def _fields(_: str, value: BufferType | DialectType) -> Fields:
    """Return the fields of a memref: memory space if there is one, shape, element type, layout.

    `value` is the memref, as a structure or as text.
    """
    if isinstance(value, BufferType):
        tensor, rest = value.element, []
    else:
        head, *rest = _parts(value.text)
        try:
            found = parse_type(f"tensor<{head}>")
        except HloscopeError as error:
            raise ValueError(error.message) from None
        if not isinstance(found, TensorType):
            raise ValueError(f"`{value.text[:100]}` is not a bytecode type")
        tensor = found
    layouts = [text for text in rest if text.startswith(_LAYOUTS)]
    spaces = [_space(text) for text in rest if not text.startswith(_LAYOUTS)]
    layout = layouts[0] if layouts else identity(len(tensor.sizes))
    return [*spaces, shape_of(tensor.sizes), tensor.element, VerbatimAttr(layout)]


def _unranked(element: object, space: object = None) -> DialectType:
    head = type_text(UnrankedTensorType(plain_element(element)))
    head = head.removeprefix("tensor<").removesuffix(">")
    return _dialect_type(head, [] if space is None else [_space_text(space)])


def _unranked_fields(_: str, value: DialectType) -> Fields:
    head, *rest = _parts(value.text)
    found = parse_type(f"tensor<{head}>")
    if not isinstance(found, UnrankedTensorType):
        raise ValueError(f"`{value.text[:100]}` is not a bytecode type")
    return [*map(_space, rest), found.element]


MEMREF_ENCODINGS: Final[dict[str, Encoding]] = {
    "memref": Encoding(lambda _, shape, element, layout: _made(shape, element, layout), _fields),
    "memref_in_space": Encoding(
        lambda _, space, shape, element, layout: _made(shape, element, layout, space), _fields
    ),
    "unranked_memref": Encoding(lambda _, element: _unranked(element), _unranked_fields),
    "unranked_memref_in_space": Encoding(
        lambda _, space, element: _unranked(element, space), _unranked_fields
    ),
}
"""Encodings of memref types, by the names that the rows of the tables use for them."""
