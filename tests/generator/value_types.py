"""Types of generated values, and their spelling in both languages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Final, TypeAlias

Sizes: TypeAlias = tuple[int, ...]

_MLIR: Final = {
    "f32": "f32", "f64": "f64", "bf16": "bf16", "s8": "i8", "s32": "i32", "s64": "i64",
    "u8": "ui8", "u32": "ui32", "pred": "i1",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor; of a bounded dimension, its size is the bound.

    Attributes:
        unknown: Dimensions whose sizes the type does not tell, in StableHLO.
    """

    element: str
    sizes: Sizes = ()
    bounded: frozenset[int] = frozenset()
    layout: Sizes | None = None
    unknown: frozenset[int] = frozenset()

    @property
    def is_plain(self) -> bool:
        """Are all sizes known, and no layout said?"""
        return not self.bounded and not self.unknown and self.layout is None

    @property
    def count(self) -> int:
        return prod(self.sizes)

    def hlo(self) -> str:
        sizes = [f"<={n}" if d in self.bounded else str(n) for d, n in enumerate(self.sizes)]
        layout = "" if self.layout is None else f"{{{','.join(map(str, self.layout))}}}"
        return f"{self.element}[{','.join(sizes)}]{layout}"

    def mlir(self) -> str:
        dynamic = self.bounded | self.unknown
        sizes = ["?" if d in dynamic else str(n) for d, n in enumerate(self.sizes)]
        bounds = [str(n) if d in self.bounded else "?" for d, n in enumerate(self.sizes)]
        text = "x".join([*sizes, _MLIR[self.element]])
        if self.bounded:
            return f"tensor<{text}, #stablehlo.bounds<{', '.join(bounds)}>>"
        return f"tensor<{text}>"


@dataclass(frozen=True, slots=True)
class Tuple:
    """A tuple of values."""

    parts: tuple[Type, ...] = ()

    def hlo(self) -> str:
        return f"({', '.join(part.hlo() for part in self.parts)})"

    def mlir(self) -> str:
        return f"tuple<{', '.join(part.mlir() for part in self.parts)}>"


Type: TypeAlias = Tensor | Tuple

PRED: Final = Tensor("pred")
INDEX: Final = Tensor("s32")


def leaves(type_: Type) -> Iterator[Tensor]:
    """The tensors of a type, in order."""
    if isinstance(type_, Tensor):
        yield type_
    else:
        for part in type_.parts:
            yield from leaves(part)
