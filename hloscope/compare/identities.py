"""Ops that return an operand unchanged: with a neutral element, no effect, or a known part."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from hloscope.ir import Instruction, TensorType, TupleType, Type
from hloscope.ops import Slice

COMMUTATIVE: Final = frozenset(["add", "and", "maximum", "minimum", "multiply", "or", "xor"])
_NEUTRAL: Final = {
    "add": (0, "iu"),
    "and": (1, "b"),
    "divide": (1, "iuf"),
    "multiply": (1, "iuf"),
    "or": (0, "biu"),
    "subtract": (0, "iuf"),
    "xor": (0, "biu"),
}
"""Neutral elements, and the numpy kinds for which they are: `x + 0.0` is not `x` for -0.0."""
_PARTS: Final = {"slice": 0, "dynamic_slice": 0, "dynamic_update_slice": 1}
"""Number of the operand that such an op returns if it has the result's type."""


def plain(type_: Type) -> object:
    """Return the type without layouts."""
    if isinstance(type_, TupleType):
        return tuple(map(plain, type_.elements))
    return (type_.element, type_.sizes) if isinstance(type_, TensorType) else type_


def is_empty(type_: Type) -> bool:
    """Is it an array without elements?  All such values of a type are equal."""
    return isinstance(type_, TensorType) and 0 in type_.sizes


class Identities:
    """Known values by number, and the ops that are identities because of them.

    Attributes:
        values: Elements of constants by number: all of them, or a scalar if all are equal.
    """

    def __init__(self) -> None:
        self.values: Final[dict[int, Any]] = {}
        self._joined: Final[dict[int, dict[tuple[int, int, int], int]]] = {}
        """Operands of concatenations, by dimension and bounds."""

    def unchanged(self, ins: Instruction, operands: list[int]) -> int | None:
        """Return the operand that an op returns unchanged; `None` if it returns none."""
        op = ins.op
        neutral = _NEUTRAL.get(op.name)
        if neutral is not None:
            # Only the second operand of a non-commutative op may be neutral: `0 - x` is not `x`.
            kept = [number for number in operands if not self._is_all(number, *neutral)]
            if len(kept) == 1 and (op.name in COMMUTATIVE or kept == operands[:1]):
                return kept[0]
        if op.name == "compare":
            return self._truth(ins, operands)
        if op.name == "reverse" and self._reverses_nothing(ins):
            return operands[0]
        if op.name == "slice" and operands[0] in self._joined:
            part = self._part(ins, operands[0])
            if part is not None:
                return part
        if op.name in _PARTS and plain(ins.type) == plain(ins.operands[_PARTS[op.name]].type):
            return operands[_PARTS[op.name]]
        if op.name == "pad" and plain(ins.type) == plain(ins.operands[0].type):
            amounts = (op.edge_padding_low, op.edge_padding_high, op.interior_padding)  # type: ignore[attr-defined]
            if not any(amount for each in amounts for amount in each):
                return operands[0]
        if op.name == "concatenate":
            full = [
                number
                for number, value in zip(operands, ins.operands, strict=True)
                if not is_empty(value.type)
            ]
            return full[0] if len(full) == 1 else None
        return None

    def joined(self, number: int, ins: Instruction, operands: list[int]) -> None:
        """Record the operands of a concatenation by their bounds in its value."""
        dimension: int = ins.op.dimension  # type: ignore[attr-defined]
        found = self._joined.setdefault(number, {})
        start = 0
        for operand, value in zip(operands, ins.operands, strict=True):
            size = value.type.sizes[dimension] if isinstance(value.type, TensorType) else None
            if size is None:
                break
            found[dimension, start, start + size] = operand
            start += size

    def _part(self, ins: Instruction, joined: int) -> int | None:
        """Return the operand of a concatenation that a slice of it equals, if there is one."""
        op, (whole,) = ins.op, ins.operands
        assert isinstance(op, Slice)
        assert isinstance(whole.type, TensorType)
        bounds = zip(op.start_indices, op.limit_indices, whole.type.sizes, strict=True)
        cut = [(d, lo, hi) for d, (lo, hi, size) in enumerate(bounds) if (lo, hi) != (0, size)]
        if len(cut) != 1 or any(step != 1 for step in op.strides):
            return None
        return self._joined[joined].get(cut[0])

    def _truth(self, ins: Instruction, operands: list[int]) -> int | None:
        """Return the operand `x` of `x != false` and of `x == true`."""
        wanted = {"NE": False, "EQ": True}.get(ins.op.comparison_direction)  # type: ignore[attr-defined]
        if wanted is None or len(operands) != 2:
            return None
        for number, other in (operands, operands[::-1]):
            value = self.values.get(other)
            if value is not None and not value.shape and value.dtype.kind == "b":
                return number if bool(value) is wanted else None
        return None

    def _is_all(self, number: int, element: int, kinds: str) -> bool:
        """Is it a constant whose elements all equal `element`, of one of these numpy kinds?"""
        value = self.values.get(number)
        is_one = value is not None and not value.shape and value.dtype.kind in kinds
        if not is_one or value != element:
            return False
        return value.dtype.kind != "f" or not np.signbit(value)

    @staticmethod
    def _reverses_nothing(ins: Instruction) -> bool:
        """Have all reversed dimensions at most one element?"""
        type_ = ins.type
        assert isinstance(type_, TensorType)
        sizes = [type_.sizes[d] for d in ins.op.dimensions]  # type: ignore[attr-defined]
        return all(size is not None and size <= 1 for size in sizes)
