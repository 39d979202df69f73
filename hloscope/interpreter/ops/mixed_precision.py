"""Conversion of results whose declared float type is not the type the op computes in.

HLO does not compare float precisions: an op computes in the precision of its operands, and the
result is converted to the declared type.
Source: XLA `ShapeUtil::CompatibleIgnoringFpPrecision`, `float_normalization.cc`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from msgspec.structs import replace

from hloscope.errors import VerifyError
from hloscope.interpreter.numbers.rounding import conversion
from hloscope.interpreter.registry import Concern, Kernel, Maker, Site, adapts
from hloscope.interpreter.values import dtype_of
from hloscope.ir import ELEMENT_TYPES, ElementType, Instruction, TensorType, TupleType, Type


@adapts(Concern.PRECISIONS)
def as_declared(maker: Maker, ins: Instruction) -> Maker:
    """Return a maker whose kernels convert the result to the declared float type."""

    def make(op: Any, at: Site) -> Kernel:
        inner, leave = (
            maker(op, Site(_in_computed_precision(at.ins), at.world)),
            _to_declared(at.ins.type),
        )
        return lambda *values: leave(inner(*values))

    return make


def _in_computed_precision(ins: Instruction) -> Instruction:
    """The instruction with its inferred float types, if it calls a body that computes in these."""
    if not ins.calls:
        return ins
    try:
        inferred = ins.op.infer(tuple([o.type for o in ins.operands]), ins.calls)
    except VerifyError:
        return ins
    type_ = _with_floats_of(inferred, ins.type)
    return Instruction(ins.name, type_, ins.op, ins.operands, ins.calls, ins.extras, span=ins.span)


def _with_floats_of(inferred: Type, declared: Type) -> Type:
    """The declared type with the float element types of the inferred one."""
    match inferred, declared:
        case TensorType(), TensorType():
            is_float = inferred.element.kind == declared.element.kind == "float"
            return replace(declared, element=inferred.element) if is_float else declared
        case TupleType(), TupleType() if len(inferred.elements) == len(declared.elements):
            return TupleType(tuple(map(_with_floats_of, inferred.elements, declared.elements)))
        case _:
            return declared


def _to_declared(type_: Type) -> Callable[[Any], Any]:
    """Function that converts a value to the declared float types."""
    if isinstance(type_, TupleType):
        parts = [_to_declared(part) for part in type_.elements]

        def convert_all(values: Any) -> Any:
            if len(values) != len(parts):  # the value of an asynchronous start, used by its end
                return values
            return tuple([f(v) for f, v in zip(parts, values, strict=True)])

        return convert_all
    if not isinstance(type_, TensorType) or type_.element.kind != "float":
        return lambda value: value
    target, dtype = type_.element, dtype_of(type_.element)

    def leave(value: Any) -> Any:
        source = None if value.dtype == dtype else _float_of(value.dtype)
        return value if source is None else conversion(source, target)(value)

    return leave


@cache
def _float_of(dtype: Any) -> ElementType | None:
    """Float type with this dtype; `None` if the dtype is not a float's."""
    # Cached, as each run of a converting kernel asks, with very few different types.
    known = {dtype_of(e): e for e in ELEMENT_TYPES.values() if e.kind == "float"}
    return known.get(dtype)
