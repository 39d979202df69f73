"""What the dialects define of each op, from tables by family; a row is compiled when asked for.

Source: `StablehloOps.td`, `ChloOps.td` and the definitions of the other dialects, in a notation of
our own that `model.compile_row` explains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hloscope.stablehlo.definitions import (
    chlo,
    collectives,
    contraction,
    control,
    dynamic,
    elementwise,
    gather_scatter,
    linalg,
    mlir,
    quantization,
    random,
    reduction,
    shape,
    slicing,
    testing,
    windows,
)
from hloscope.stablehlo.definitions.model import (
    AttributeSlot,
    Definition,
    RegionSlot,
    Slot,
    compile_row,
    type_summary,
)

__all__ = [
    "DEFINITIONS",
    "AttributeSlot",
    "Definition",
    "RegionSlot",
    "Slot",
    "inherent_attributes",
    "type_summary",
]

_TABLES: Final = {
    "stablehlo": tuple(
        family.ROWS
        for family in (
            elementwise,
            quantization,
            shape,
            slicing,
            dynamic,
            windows,
            contraction,
            gather_scatter,
            reduction,
            linalg,
            random,
            control,
            collectives,
        )
    ),
    "chlo": (chlo.ROWS,),
    "check": (testing.CHECK,),
    "interpreter": (testing.INTERPRETER,),
    "builtin": (mlir.BUILTIN,),
    "func": (mlir.FUNC,),
    "sdy": (mlir.SDY,),
    "arith": (mlir.ARITH,),
    "tensor": (mlir.TENSOR,),
    "shape": (mlir.SHAPE,),
    "cf": (mlir.CF,),
}


class Definitions(Mapping[str, Definition]):
    """Definitions by the op's full name.

    >>> [slot.name for slot in DEFINITIONS["stablehlo.dot_general"].operands]
    ['lhs', 'rhs']
    """

    def __init__(self, tables: Mapping[str, tuple[str, ...]]) -> None:
        self._rows = {
            f"{dialect}.{row.split(maxsplit=1)[0]}": row
            for dialect, texts in tables.items()
            for text in texts
            for row in text.replace("\n        ", " ").splitlines()
            if row.strip()
        }
        self._compiled: dict[str, Definition] = {}

    def __getitem__(self, name: str) -> Definition:
        found = self._compiled.get(name)
        if found is None:
            row = self._rows[name]
            found = self._compiled[name] = compile_row(row, name.partition(".")[0])
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows


DEFINITIONS: Final = Definitions(_TABLES)
"""What is known of every op of StableHLO, CHLO, its test dialects, `func`, `builtin`, and a few
ops of `sdy`, `arith`, `tensor`, `shape` and `cf`."""


def inherent_attributes(name: str) -> frozenset[str]:
    """Names of the attributes that are properties of this op, not discardable ones.

    >>> sorted(inherent_attributes("stablehlo.transpose"))
    ['permutation']
    """
    definition = DEFINITIONS[name]
    names = {attribute.name for attribute in definition.attributes}
    if "segments" in definition.traits:
        names |= {"operandSegmentSizes", "resultSegmentSizes"}
    return frozenset(names)
