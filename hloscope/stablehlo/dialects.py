"""Everything the package knows of MLIR dialects, for reader and printer.

>>> sorted(DIALECTS.named)[:4]
['arith', 'bufferization', 'builtin', 'cf']
"""

from __future__ import annotations

from typing import Final

from hloscope.mlir.dialects import Dialect, Dialects
from hloscope.mlir.quant import read_type as read_quantized
from hloscope.stablehlo.defaults import defaults
from hloscope.stablehlo.definitions import DEFINITIONS, inherent_attributes
from hloscope.stablehlo.dialect_attributes import (
    read_chlo,
    read_stablehlo,
    write_chlo,
    write_stablehlo,
)
from hloscope.stablehlo.dialect_types import read_type
from hloscope.stablehlo.forms import FORMS
from hloscope.stablehlo.names import suggestions

__all__ = ["DIALECTS"]

_CLOSED: Final = frozenset({"stablehlo", "chlo", "check", "interpreter"})
"""Dialects whose ops are all known."""

_TAKEN: Final = ("llvm",)
"""Dialects that upstream's tools register, of which nothing is known here."""

_READ_TYPE: Final = {"stablehlo": read_type, "quant": read_quantized}
_READ_ATTRIBUTE: Final = {"stablehlo": read_stablehlo, "chlo": read_chlo}
_WRITE_ATTRIBUTE: Final = {"stablehlo": write_stablehlo, "chlo": write_chlo}


def _dialects() -> Dialects:
    ops: dict[str, dict[str, frozenset[str]]] = {}
    for name in DEFINITIONS:
        ops.setdefault(name.partition(".")[0], {})[name] = inherent_attributes(name)
    return Dialects(
        Dialect(
            name,
            ops=ops.get(name, {}),
            forms=FORMS.get(name, {}),
            open=name not in _CLOSED,
            read_type=_READ_TYPE.get(name),
            read_attribute=_READ_ATTRIBUTE.get(name),
            write_attribute=_WRITE_ATTRIBUTE.get(name),
            suggestions=suggestions(name),
            defaults=defaults(name),
            behind=frozenset({"stablehlo.reduce"} if name == "stablehlo" else ()),
        )
        for name in sorted({*ops, *FORMS, *_READ_TYPE, *_TAKEN})
    )


DIALECTS: Final = _dialects()
"""All dialects."""
