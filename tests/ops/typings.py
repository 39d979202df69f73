"""Cases of typing as text: operands, regions and declared results."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from hloscope.errors import VerifyError
from hloscope.hlo_parser.types import parse_type
from hloscope.ir.op import Op, Signature
from hloscope.ir.types import ELEMENT_TYPES, KnownTensor, QuantizedType, TensorType, Type
from hloscope.mlir.types import spell


def quantized(
    storage: str,
    expressed: str = "f32",
    *,
    scales: tuple[float, ...] = (2.0,),
    points: tuple[int, ...] = (0,),
    axes: tuple[int, ...] = (),
) -> QuantizedType:
    element = ELEMENT_TYPES[storage]
    return QuantizedType(
        f"!quant.uniform<{storage}:{expressed}>",
        element.bits,
        "quantized",
        storage=element,
        expressed=ELEMENT_TYPES[expressed],
        scales=scales,
        zero_points=points,
        storage_min=-(2 ** (element.bits - 1)),
        storage_max=2 ** (element.bits - 1) - 1,
        axes=axes,
    )


QUANTIZED = {
    "q8": quantized("s8"),
    "q8z": quantized("s8", points=(15,)),
    "q8d": quantized("s8", "f64"),
    "q16": quantized("s16"),
    "q32": quantized("s32"),
    "q8a0": quantized("s8", scales=(1.0, 2.0), points=(0, 0), axes=(0,)),
    "q8a1": quantized("s8", scales=(1.0, 2.0), points=(0, 0), axes=(1,)),
    "q8a2": quantized("s8", scales=(1.0, 2.0), points=(0, 0), axes=(2,)),
    "q8z1": quantized("s8", scales=(1.0, 2.0), points=(0, 7), axes=(1,)),
}
"""Element types by the names cases give them."""


def read_type(text: str) -> Type:
    """Read a type of HLO, `q8[2,3]` with a quantized element, or `s64[2]=1,2` of a known value."""
    text, _, value = text.strip().partition("]=")
    text += "]" if value else ""
    name, _, sizes = text.partition("[")
    if name in QUANTIZED:
        return TensorType(QUANTIZED[name], tuple(map(int, re.findall(r"\d+", sizes))))
    type_ = parse_type(text)
    if not value:
        return type_
    assert isinstance(type_, TensorType)
    numbers = tuple(map(int, value.split(",")))
    return KnownTensor(type_.element, type_.sizes, None, (), value=numbers)


def read_types(text: str) -> tuple[Type, ...]:
    """Read types separated by `;`."""
    return tuple(map(read_type, text.split(";"))) if text.strip() else ()


def read_regions(text: str) -> tuple[Signature, ...]:
    """Read regions `f32[]; f32[] -> f32[]` separated by `|`."""
    regions = []
    for region in text.split("|") if text else ():
        arguments, _, results = region.partition("->")
        regions.append(Signature(read_types(arguments), read_types(results)))
    return tuple(regions)


class Case(NamedTuple):
    """An op with operands, regions and results, and what is wrong with it, if anything is."""

    op: Op
    operands: str
    results: str
    regions: str = ""
    rule: str = ""
    message: str = ""

    @property
    def id(self) -> str:
        return f"{self.op.name}-{self.rule}({self.operands})->{self.results}"

    def verify(self) -> None:
        operands, results = read_types(self.operands), read_types(self.results)
        self.op.verify(operands, results, read_regions(self.regions))


def refused(
    op: Op, rule: str, message: str, operands: str, results: str, regions: str = ""
) -> Case:
    return Case(op, operands, results, regions, rule, message)


def check_refused(case: Case) -> None:
    """The case breaks the constraint it names, with its message."""
    with pytest.raises(VerifyError) as caught:
        case.verify()
    assert case.message in caught.value.message_in(spell)
    assert caught.value.rule == case.rule
