"""Encodings of types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hloscope.bytecode.ways import DYNAMIC, Fields, Way, only, wrap
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
from hloscope.limits import MOST_RANK
from hloscope.mlir import (
    ELEMENTS,
    StructAttr,
    attribute_text,
    element_text,
    integer_type,
    is_signless,
    parse_attribute,
    quantized,
)


def plain_element(type: object) -> ElementType:
    """Return a type as an element type.

    Raises:
        ValueError: The type cannot be an element type.
    """
    if isinstance(type, ElementType) and type.name != "none":
        return type
    if isinstance(type, DialectType) and type.text.startswith("!"):
        return ElementType(type.text, 0, "opaque")
    raise ValueError("no element type")


def sizes_of(shape: Sequence[int]) -> tuple[int | None, ...]:
    """Return tensor sizes from bytecode's integers; `None` for a dynamic size.

    Raises:
        ValueError: A size is negative, or the rank is too large.
    """
    if len(shape) > MOST_RANK or any(size < 0 and size != DYNAMIC for size in shape):
        raise ValueError("a size is negative, or there are too many")
    return tuple([None if size == DYNAMIC else size for size in shape])


def shape_of(sizes: Sequence[int | None]) -> tuple[int, ...]:
    """Return bytecode's integers for tensor sizes."""
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


TYPE_WAYS: Final[dict[str, Way]] = {
    **{name: only(element) for name, element in ELEMENTS.items()},
    "complex": Way(_complex, _complex_fields),
    "function": Way(
        lambda _, inputs, results: FunctionType(inputs, results),
        lambda _, type: (type.inputs, type.results),
    ),
    "tensor": Way(_tensor, _tensor_fields),
    "encoded": Way(_encoded, _encoded_fields),
    "token": only(TokenType()),
    "tuple": wrap(TupleType, "elements"),
    "quantized": Way(_quantized, _quantized_fields),
    "quantized_axis": Way(_quantized_axis, _quantized_axis_fields),
    "unranked": Way(
        lambda _, element: UnrankedTensorType(plain_element(element)),
        lambda _, type: (_element_back(type.element),),
    ),
    "witness": only(DialectType("!shape.witness")),
    "buffer": Way(_buffer, lambda _, type: _tensor_fields("", type.element)),
    "future": wrap(FutureType, "elements"),
    "integer_type": Way(_integer_type, _integer_type_fields),
    "vector": Way(_vector, lambda _, type: (type.sizes, type.element)),
    "scalable": Way(
        _scalable, lambda _, type: (tuple(map(int, type.scalable)), type.sizes, type.element)
    ),
}
"""Encodings by the name that table rows give them; an element type has its own name."""
