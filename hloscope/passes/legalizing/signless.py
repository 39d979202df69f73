"""`stablehlo-convert-to-signless`: makes all integer types signless, with unchanged bits.

Ops that depend on signedness (`divide`, `compare`, `convert`) treat all operands as signed
afterwards, as in upstream.

Source: StableHLO `StablehloConvertToSignless.cpp`.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from hloscope.errors import VerifyError
from hloscope.ir import (
    BufferType,
    DialectType,
    ElementType,
    QuantizedType,
    TensorType,
    TupleType,
    Type,
    UnrankedTensorType,
    VectorType,
)
from hloscope.lazy import pattern
from hloscope.mlir import Attribute, DenseAttr, elements, integer_type, is_signless
from hloscope.passes.conversion import convert_signature
from hloscope.passes.framework import Pass, Run

_WIDTH: Final = pattern(r"(?<=[x<])[us]i(\d+)\b")


def signless(type: Type) -> Type:
    """Return the type with signless integers.

    >>> from hloscope.ir import ELEMENT_TYPES
    >>> signless(TensorType(ELEMENT_TYPES["u8"], (3,)))
    TensorType('s8[3]')
    """
    match type:
        case TensorType(element) | UnrankedTensorType(element) | VectorType(element):
            new = _element(element)
            return type if new is element else replace(type, element=new)
        case ElementType():
            return _element(type)
        case TupleType(parts):
            return _tuple(type, parts)
        case BufferType(array):
            inner = signless(array)
            return BufferType(inner) if isinstance(inner, TensorType) else type
        case DialectType() if type.text.startswith("memref<"):
            # Other buffer types are not parsed, so that their text is changed.
            return replace(type, text=_WIDTH.sub(r"i\1", type.text))
        case _:
            return type


def _tuple(type: TupleType, parts: tuple[Type, ...]) -> TupleType:
    """Convert one level of a tuple; nested tuples are not converted, as in upstream."""
    new = tuple([part if isinstance(part, TupleType) else signless(part) for part in parts])
    return TupleType(new) if new != parts else type


def _element(element: ElementType) -> ElementType:
    integer = element.kind in ("signed", "unsigned") and not isinstance(element, QuantizedType)
    if not integer or is_signless(element) or element.name == "index":
        return element
    return integer_type(f"i{element.bits}") or element


def _constant(value: Attribute) -> Attribute:
    """Return a literal of the signless type with the same bits; other attributes unchanged."""
    if not isinstance(value, DenseAttr):
        return value
    type = signless(value.type)
    if type == value.type:
        return value
    try:
        return DenseAttr(elements(value).raw, type)
    except VerifyError:
        return value


def _run(run: Run) -> None:
    rewriter = run.rewriter
    for operation in [*rewriter.walk()]:
        arguments = [a for block in operation.blocks for a in block.arguments]
        for value in (*operation.results, *arguments):
            new = signless(value.type)
            if new != value.type:
                rewriter.set_type(value, new)
                run.fired["signless"] += 1
        if operation.name == "func.func":
            convert_signature(rewriter, operation, signless)
        given = operation.properties.get("value")
        if given is not None and operation.name in ("stablehlo.constant", "arith.constant"):
            rewriter.set_properties(operation, {**operation.properties, "value": _constant(given)})


PASS: Final = Pass(
    "stablehlo-convert-to-signless",
    _run,
    "Makes all integer types signless.",
)
