"""The integers of a constant, in HLO's spelling or MLIR's."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Final

from hloscope.ir.types import TensorType
from hloscope.lazy import pattern

MAX_LITERAL: Final = 1 << 20
"""Characters of a literal that are looked at."""

_INTEGER: Final = pattern(r"-?\d+|true|false")
_WORDS: Final = {"true": "1", "false": "0"}
_HEX: Final = pattern(r'\s*"0x([0-9A-Fa-f]*)"\s*')


@lru_cache(maxsize=256)
def integers(literal: str, type: TensorType) -> tuple[int, ...] | None:
    """The elements in row-major order, those of a splat once; `None` if they are not all there.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> type = TensorType(ELEMENT_TYPES["s32"], (3,))
    >>> integers("{1, 2, 3}", type), integers("dense<[1, 2, 3]> : tensor<3xi32>", type)
    ((1, 2, 3), (1, 2, 3))
    >>> integers("dense<7> : tensor<3xi32>", type)
    (7,)
    """
    if len(literal) > MAX_LITERAL or "..." in literal:
        return None
    if literal.startswith("dense<"):
        literal = literal[6:].rpartition("> : ")[0]
        found = _HEX.fullmatch(literal)
        if found is not None:
            return _from_hex(found[1], type)
    if '"' in literal:
        return None
    words = _INTEGER.findall(literal)
    numbers = tuple([int(_WORDS.get(word, word)) for word in words])
    return numbers if len(numbers) in (1, prod(type.shape)) else None


def _from_hex(digits: str, type: TensorType) -> tuple[int, ...] | None:
    element, number = type.element, prod(type.shape)
    data, width = bytes.fromhex(digits), max(1, element.bits // 8)
    if len(data) not in (width, width * number) or element.kind == "pred":
        return None
    signed = element.kind == "signed"
    parts = [data[at : at + width] for at in range(0, len(data), width)]
    return tuple([int.from_bytes(part, "little", signed=signed) for part in parts])
