"""Rows of the typing tables: an op, its types as HLO or MLIR spells them, and what typing says."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from hloscope.errors import VerifyError
from hloscope.hlo_parser.types import parse_type
from hloscope.ir.op import Callee, IncompatibleTypesError, Op
from hloscope.ir.types import KnownTensor, TensorType, Type
from hloscope.mlir.types import ELEMENTS, quantized as quantized_type, spell, type_text
from hloscope.ops.elementwise import ELEMENTWISE


def e(name: str, **settings: str) -> Op:
    """The element-wise op of a name."""
    return ELEMENTWISE[name](tuple(settings.items()))


def types(texts: str) -> tuple[Type, ...]:
    """Types in HLO's spelling, separated by semicolons; `s32[2]=3,4` is one of known value."""
    return tuple(map(_type, filter(None, map(str.strip, texts.split(";")))))


def _type(text: str) -> Type:
    head, known, value = text.partition("]=")
    type_ = parse_type(head + "]" if known else text)
    if not known:
        return type_
    assert isinstance(type_, TensorType)
    numbers = tuple(int(number) for number in value.split(","))
    return KnownTensor(type_.element, type_.sizes, None, type_.bounds, value=numbers)


def quantized(
    sizes: tuple[int | None, ...],
    *parameters: tuple[float, int],
    axis: int | None = None,
    storage: str = "i8",
    expressed: str = "f32",
) -> TensorType:
    """A quantized array; several parameters, or an axis, make it quantized per axis."""
    scales, zero_points = zip(*parameters, strict=True)
    axes = () if axis is None else (axis,)
    element = quantized_type(ELEMENTS[storage], ELEMENTS[expressed], scales, zero_points, axes=axes)
    return TensorType(element, sizes)


class Refused(NamedTuple):
    """What typing refuses; without `results` inference does, with them verification."""

    op: Op
    operands: str | tuple[Type, ...]
    results: str | tuple[Type, ...]
    rule: str
    message: str
    calls: tuple[Callee, ...] = ()


class Accepted(NamedTuple):
    """What typing accepts; `inferred` is the type it infers, empty where it has to be declared."""

    op: Op
    operands: str | tuple[Type, ...]
    results: str | tuple[Type, ...]
    inferred: str = ""
    calls: tuple[Callee, ...] = ()


def case_id(row: Refused | Accepted) -> str:
    """The row in short, for pytest."""
    return f"{row.op.name}({_text(row.operands)})->{_text(row.results)}"


def _text(given: str | tuple[Type, ...]) -> str:
    return given if isinstance(given, str) else "; ".join(map(type_text, given))


def _types(given: str | tuple[Type, ...]) -> tuple[Type, ...]:
    return types(given) if isinstance(given, str) else given


def _run(row: Refused) -> None:
    operands = _types(row.operands)
    if row.results:
        row.op.verify(operands, _types(row.results), row.calls)
    else:
        row.op.infer(operands, row.calls)


def check_refused(row: Refused) -> None:
    """The row is refused with its label and message."""
    with pytest.raises(VerifyError) as caught:
        _run(row)
    error = caught.value
    message = error.message_in(spell)
    if isinstance(error, IncompatibleTypesError):
        message = "; ".join(map(type_text, error.inferred))
    assert (error.rule, row.message in message) == (row.rule, True), message


def check_accepted(row: Accepted) -> None:
    """The row verifies, and infers what it says."""
    operands = _types(row.operands)
    row.op.verify(operands, _types(row.results), row.calls)
    if row.inferred:
        assert type_text(row.op.infer(operands, row.calls)) == row.inferred
