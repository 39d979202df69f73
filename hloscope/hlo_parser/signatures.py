"""Operand and result kinds of each HLO opcode, from its table row.

The other typing rules, in `ops`, may rely on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final, NoReturn

from msgspec import Struct, field
from msgspec.structs import replace

from hloscope.errors import VerifyError
from hloscope.hlo_parser.opcodes import OPCODES, SPELLINGS
from hloscope.hlo_parser.types import print_type
from hloscope.ir import BufferType, Op, TensorType, TokenType, TupleType, Type
from hloscope.ops import AsyncStart

_WORDS: Final = {
    "array": "an array",
    "arrays": "an array or a tuple of arrays",
    "scalar": "an array of rank 0",
    "tuple": "a tuple",
    "token": "a token",
}


class Signature(Struct, frozen=True):
    """Operand and result kinds of an opcode.

    Attributes:
        operands: Kinds of the required operands.
        more: Kind of further operands, or "".
        result: Kind of the result.
        most: Maximum number of operands; `None` if unlimited.
        elements: Allowed element kinds or names, by operand number.
    """

    operands: tuple[str, ...]
    more: str
    result: str
    most: int | None = None
    elements: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    def takes(self, operands: Sequence[Type]) -> bool:
        """Are number and kinds of the operands valid?"""
        needed, found = self.operands, len(operands)
        if found < len(needed) or (self.most is not None and found > self.most):
            return False
        for i, type_ in enumerate(operands):
            kind = needed[i] if i < len(needed) else self.more
            if not (type(type_) is TensorType and kind == "array") and not _is(type_, kind):
                return False
        return True

    def gives(self, result: Type) -> bool:
        """Is the result's kind valid?"""
        kind = self.result
        return (type(result) is TensorType and kind == "array") or _is(result, kind)

    def refuse(self, opcode: str, operands: Sequence[Type], result: Type | None = None) -> NoReturn:
        """Raise an error about the operands, or about the result if the operands are valid.

        Raises:
            VerifyError: Always, with the found and the needed kinds.
        """
        found, needed = len(operands), len(self.operands)
        if found < needed or (self.most is not None and found > self.most):
            more = " or more" if self.most is None else f" or {self.most}" * (self.most > needed)
            raise VerifyError(f"`{opcode}` has {found} operands, needs {needed}{more}")
        for i, type_ in enumerate(operands):
            kind = self.operands[i] if i < needed else self.more
            if not _is(type_, kind):
                raise VerifyError(f"operand {i} of `{opcode}` is {_wrong(type_, kind)}")
        assert result is not None
        raise VerifyError(f"`{opcode}` is declared {_wrong(result, self.result)}")


def _is(type_: Type, kind: str) -> bool:
    match kind:
        case "array":
            return isinstance(type_, TensorType | BufferType)
        case "scalar":
            return isinstance(type_, TensorType) and type_.rank == 0
        case "arrays":
            if not isinstance(type_, TupleType):
                return _is(type_, "array")
            return bool(type_.elements) and all(_is(t, "array") for t in type_.elements)
        case "tuple":
            return isinstance(type_, TupleType)
        case "token":
            return isinstance(type_, TokenType)
        case _:
            return True


def _wrong(type_: Type, kind: str) -> str:
    return f"{print_type(type_, layout=False)}, needs {_WORDS[kind]}"


PAIRED: Final = ("all_gather", "collective_permute")
"""Ops whose start has the type (operand, result, …), without a tuple around a single operand."""


# Asked for each instruction that is checked; op classes are few.
@cache
def _signature(op: type[Op]) -> Signature | None:
    opcode = OPCODES.get(op)
    if opcode is None:
        return None
    row = SPELLINGS[opcode]
    words = [word.partition(":") for word in row.operands]
    kinds = [kind for kind, _, _ in words]
    more = kinds.pop() if kinds and kinds[-1][-1] in "*+?" else ""
    needed = (*kinds, more[:-1]) if more.endswith("+") else tuple(kinds)
    most = None if more[-1:] in ("*", "+") else len(needed) + bool(more)
    elements = {i: tuple(some.split(",")) for i, (_, _, some) in enumerate(words) if some}
    return Signature(needed, more[:-1], row.result, most, elements)


def signature(op: Op) -> Signature | None:
    """Return the operand and result kinds of an op in HLO; `None` for an unknown op.

    >>> from hloscope.ops import OPS
    >>> signature(OPS["iota"](0)).takes([TokenType()])
    False
    """
    if isinstance(op, AsyncStart) and op.wrapped is not None:
        known = _signature(type(op.wrapped))
        kind = "arrays" if op.wrapped.name == "all_reduce" else "tuple"  # of all-reduce's own type
        return known and replace(known, result=kind, elements={})
    return _signature(type(op))
