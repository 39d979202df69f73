"""Equality of types in HLO: layouts do not matter, the precision of floats sometimes does.

Source: XLA `hlo_verifier.cc` (`ShapesSame`, `CheckShape`).
"""

from __future__ import annotations

from msgspec.structs import replace

from hloscope.ir import BufferType, TensorType, TupleType, Type, compatible


def placed(type_: Type) -> Type:
    """Return the type with each unknown size replaced by its bound: the memory HLO allocates.

    >>> from hloscope.hlo_parser.types import parse_type, print_type
    >>> print_type(placed(parse_type("(f32[<=4,3], s32[])")))
    '(f32[4,3], s32[])'
    >>> print_type(placed(parse_type("f32[<=4,?]")))
    'f32[4,?]'
    """
    match type_:
        case TensorType() if type_.bounds:
            pairs = zip(type_.sizes, type_.bounds, strict=True)
            sizes = tuple([bound if size is None else size for size, bound in pairs])
            open_ones = (None,) * type_.rank if None in sizes else ()
            return TensorType(type_.element, sizes, type_.layout, open_ones)
        case TupleType():
            return TupleType(tuple(map(placed, type_.elements)))
        case _:
            return type_


def bounds_of(type_: Type) -> list[tuple[int | None, ...]]:
    """Return the bounds of all arrays in a type, in order; `()` for an array without bounds."""
    if isinstance(type_, TupleType):
        return [bounds for part in type_.elements for bounds in bounds_of(part)]
    return [type_.bounds if isinstance(type_, TensorType) else ()]


def is_placed(type_: Type) -> bool:
    """True if no array in the type has bounds."""
    if isinstance(type_, TensorType):
        return not type_.bounds
    return not isinstance(type_, TupleType) or all(map(is_placed, type_.elements))


def alike(a: tuple[Type, ...], b: tuple[Type, ...], *, wider: bool) -> bool:
    """Are both sequences of types equal but for layouts and precision, as in XLA's inference?

    With `wider`, element types may differ in any way.
    """
    return len(a) == len(b) and all(_same(x, y, wider) for x, y in zip(a, b, strict=True))


def _same(a: Type, b: Type, wider: bool) -> bool:
    match a, b:
        case TensorType(), TensorType():
            x, y = a.element, b.element
            if x != y and (wider or x.kind == y.kind == "float"):
                a = replace(a, element=y)
            return compatible(a, b)
        case TupleType(), TupleType():
            return alike(a.elements, b.elements, wider=wider)
        case BufferType(), _:
            return _same(a.element, b, wider)
        case _, BufferType():
            return _same(a, b.element, wider)
        case _:
            return compatible(a, b)


def like(a: Type, b: Type) -> bool:
    """Are both types equal but for layouts and the precision of floats?"""
    return _same(a, b, wider=False)


def same(a: Type, b: Type) -> bool:
    """Are both types equal but for layouts?  The precision of floats must match.

    >>> from hloscope.hlo_parser.types import parse_type
    >>> same(parse_type("f32[2]{0}"), parse_type("f32[2]")), same(
    ...     parse_type("f32[2]"), parse_type("bf16[2]"))
    (True, False)
    """
    match a, b:
        case TupleType(), TupleType():
            alike_parts = len(a.elements) == len(b.elements)
            return alike_parts and all(map(same, a.elements, b.elements))
        case BufferType(), _:
            return same(a.element, b)
        case _, BufferType():
            return same(a, b.element)
        case _:
            return compatible(a, b)
