"""Results whose declared floats are of another precision than the op computes in.

HLO does not compare the precision of floats: the op computes in that of its operands, and what it
makes is converted to what is declared.
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
    """Of an instruction in which precisions meet, a maker that converts the result."""

    def make(op: Any, at: Site) -> Kernel:
        inner, leave = maker(op, Site(_computing(at.ins), at.world)), _leaving(at.ins.type)
        return lambda *values: leave(inner(*values))

    return make


def _computing(ins: Instruction) -> Instruction:
    """The instruction; if it calls a body, declared of the precision in which that computes."""
    if not ins.calls:
        return ins
    try:
        inferred = ins.op.infer(tuple([o.type for o in ins.operands]), ins.calls)
    except VerifyError:
        return ins
    type_ = _with_floats_of(inferred, ins.type)
    return Instruction(ins.name, type_, ins.op, ins.operands, ins.calls, ins.extras, span=ins.span)


def _with_floats_of(inferred: Type, declared: Type) -> Type:
    match inferred, declared:
        case TensorType(), TensorType():
            is_float = inferred.element.kind == declared.element.kind == "float"
            return replace(declared, element=inferred.element) if is_float else declared
        case TupleType(), TupleType() if len(inferred.elements) == len(declared.elements):
            return TupleType(tuple(map(_with_floats_of, inferred.elements, declared.elements)))
        case _:
            return declared


def _leaving(type_: Type) -> Callable[[Any], Any]:
    """The function that makes a value one of the declared precision."""
    if isinstance(type_, TupleType):
        parts = [_leaving(part) for part in type_.elements]

        def leave_all(values: Any) -> Any:
            if len(values) != len(parts):  # what only the op that ends it takes apart
                return values
            return tuple([f(v) for f, v in zip(parts, values, strict=True)])

        return leave_all
    if not isinstance(type_, TensorType) or type_.element.kind != "float":
        return lambda value: value
    target, dtype = type_.element, dtype_of(type_.element)

    def leave(value: Any) -> Any:
        source = None if value.dtype == dtype else _float_of(value.dtype)
        return value if source is None else conversion(source, target)(value)

    return leave


@cache
def _float_of(dtype: Any) -> ElementType | None:
    """The float type whose values have this dtype."""
    known = {dtype_of(e): e for e in ELEMENT_TYPES.values() if e.kind == "float"}
    return known.get(dtype)
