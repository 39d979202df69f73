"""What a custom call is told besides its operands: the attributes in its backend_config."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from hloscope.errors import HloscopeError
from hloscope.ir.floats import decode
from hloscope.ir.graph import Instruction
from hloscope.limits import read_json
from hloscope.mlir.attributes import (
    ArrayAttr,
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
)
from hloscope.mlir.parser import parse_attribute
from hloscope.mlir.types import type_text

_NAMES = ("mhlo.backend_config", "backend_config")


def call_config(ins: Instruction) -> Mapping[str, Any]:
    """The attributes of a custom call as Python has them; none where there is nothing to read.

    HLO writes a dictionary of MLIR for calls with typed attributes and JSON for the others,
    StableHLO a dictionary, or the JSON as a string.
    """
    written = dict([*_settings(ins), *ins.extras])
    for name in _NAMES:
        found = read_config(written.get(name, ""))
        if found:
            return found
    return {}


def _settings(ins: Instruction) -> tuple[tuple[str, str], ...]:
    return getattr(ins.op, "settings", ())


@cache
def read_config(text: str) -> Mapping[str, Any]:
    """The entries of a dictionary in MLIR's or JSON's form.

    >>> read_config('{diag = 78 : ui8, side = 76 : ui8}')
    {'diag': 78, 'side': 76}
    >>> read_config('{"alpha_real":1,"epilogue":"DEFAULT"}')
    {'alpha_real': 1, 'epilogue': 'DEFAULT'}
    """
    try:
        value = read_json(text)
        if isinstance(value, str):  # JSON as a string
            value = read_json(value)
    except ValueError:
        try:
            value = _plain(parse_attribute(text)) if text else None
        except HloscopeError:
            value = None
    return value if isinstance(value, dict) else {}


def _plain(attribute: Attribute) -> Any:
    """An attribute as Python writes its value."""
    match attribute:
        case DictAttr(entries):
            return {name: _plain(value) for name, value in entries}
        case ArrayAttr(elements):
            return [_plain(e) for e in elements]
        case DenseArrayAttr(values=values):
            return list(values)
        case IntegerAttr(value) | BoolAttr(value):
            return value
        case FloatAttr(bits, type_):
            return decode(bits, type_text(type_))
        case StringAttr(value):
            return value.decode("utf-8", "replace")
        case UnitAttr():
            return True
        case _:
            return attribute
