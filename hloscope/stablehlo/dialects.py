"""The dialects of StableHLO programs: what `mlir.parser` and `mlir.printer` are told of each."""

from __future__ import annotations

from typing import Final

from hloscope.mlir.dialects import Dialect, Dialects
from hloscope.stablehlo.definitions import DEFINITIONS, inherent_attributes
from hloscope.stablehlo.dialect_attributes import (
    read_chlo,
    read_stablehlo,
    write_chlo,
    write_stablehlo,
)
from hloscope.stablehlo.names import suggestions

_ATTRIBUTES: Final = {
    "stablehlo": (read_stablehlo, write_stablehlo),
    "chlo": (read_chlo, write_chlo),
}


def _dialect(name: str) -> Dialect:
    read, write = _ATTRIBUTES.get(name, (None, None))
    return Dialect(
        name,
        ops={op: inherent_attributes(op) for op in DEFINITIONS if op.startswith(f"{name}.")},
        read_attribute=read,
        write_attribute=write,
        suggestions=suggestions(name),
    )


DIALECTS: Final = Dialects(
    _dialect(name)
    for name in dict.fromkeys(op.partition(".")[0] for op in DEFINITIONS)
    if name not in ("builtin", "func")
)
"""All of them; `builtin` and `func` are known always."""
