"""Operand and result kinds of each HLO opcode, and inference of types that the text omits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

from msgspec import Struct, field
from msgspec.structs import replace

from hloscope.errors import VerifyError
from hloscope.hlo_parser.opcodes import OPCODES, SPELLINGS, Spelling
from hloscope.hlo_parser.types import print_type
from hloscope.ir import BufferType, Computation, Layout, Op, TensorType, TokenType, TupleType, Type
from hloscope.ops import (
    AsyncStart,
    Call,
    Case,
    Elementwise,
    GetTupleElement,
    ReduceWindow,
    Transpose,
    Tuple,
    While,
    element_of,
)

# --------------------------------------------------------------------------------------------------
# Operand and result kinds of each HLO opcode, from its line in the table of opcodes.
#
# The other typing rules, in `ops`, may rely on them.


_WORDS: Final = {
    "array": "an array",
    "arrays": "an array or a tuple of arrays",
    "scalar": "an array of rank 0",
    "tuple": "a tuple",
    "token": "a token",
}


class Signature(Struct, frozen=True):
    """Kinds of operands and of the result that an opcode accepts, as named in `opcodes`.

    Attributes:
        operands: Kinds of the required operands.
        more: Kind of any further operands; empty if there may be none.
        result: Kind of the result.
        most: Maximum number of operands; `None` if unlimited.
        elements: Allowed kinds or names of element types, by operand index.
    """

    operands: tuple[str, ...]
    more: str
    result: str
    most: int | None = None
    elements: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    def takes(self, operands: Sequence[Type]) -> bool:
        """Are the number and the kinds of the operands valid?"""
        needed, found = self.operands, len(operands)
        if found < len(needed) or (self.most is not None and found > self.most):
            return False
        for i, type_ in enumerate(operands):
            kind = needed[i] if i < len(needed) else self.more
            if not (type(type_) is TensorType and kind == "array") and not _is(type_, kind):
                return False
        return True

    def gives(self, result: Type) -> bool:
        """Is the kind of the result valid?"""
        kind = self.result
        return (type(result) is TensorType and kind == "array") or _is(result, kind)

    def refuse(self, opcode: str, operands: Sequence[Type], result: Type | None = None) -> NoReturn:
        """Raise an error about the operands, or about the result if the operands are valid.

        Args:
            opcode: The opcode, for the message.
            operands: Types of the operands.
            result: Type of the result; it may be omitted if the operands are invalid.

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
"""Ops whose start op has a tuple type (operand, result, …).

A single operand is an element of that tuple itself; several operands are a tuple in it.
"""


def _signature(row: Spelling) -> Signature:
    words = [word.partition(":") for word in row.operands]
    kinds = [kind for kind, _, _ in words]
    more = kinds.pop() if kinds and kinds[-1][-1] in "*+?" else ""
    needed = (*kinds, more[:-1]) if more.endswith("+") else tuple(kinds)
    most = None if more[-1:] in ("*", "+") else len(needed) + bool(more)
    elements = {i: tuple(some.split(",")) for i, (_, _, some) in enumerate(words) if some}
    return Signature(needed, more[:-1], row.result, most, elements)


_SIGNATURES: Final = {op: _signature(SPELLINGS[opcode]) for op, opcode in OPCODES.items()}


def signature(op: Op) -> Signature | None:
    """Return the operand and result kinds of an op in HLO; `None` for an unknown op.

    >>> from hloscope.ops import OPS
    >>> signature(OPS["iota"](0)).takes([TokenType()])
    False
    """
    if isinstance(op, AsyncStart) and op.wrapped is not None:
        known = _SIGNATURES.get(type(op.wrapped))
        kind = "arrays" if op.wrapped.name == "all_reduce" else "tuple"  # of all-reduce's own type
        return known and replace(known, result=kind, elements={})
    return _SIGNATURES.get(type(op))


# --------------------------------------------------------------------------------------------------
# Types omitted in the text: the op's inferred type, with the layout that XLA would choose.
#
# An element-wise op has its first operand's layout, a transpose permutes its operand's, and a tuple
# keeps those of its parts. Every other type has no layout, that is, row-major order.


_NO_LAYOUT: Final = ("select", "clamp")
"""Element-wise ops whose result does not get the layout of the first operand."""


def inferred_type(op: Op, operands: tuple[Type, ...], calls: tuple[Computation, ...]) -> Type:
    """Return the type of an instruction whose text omits it.

    Args:
        op: The op.
        operands: Types of the operands.
        calls: The called computations.

    Raises:
        VerifyError: The operands do not fit the op.
        ValueError: The operands do not determine the type.
    """
    needed = signature(op)
    if needed is not None and not needed.takes(operands):
        needed.refuse(OPCODES.get(type(op), op.name), operands)
    type_ = op.infer(operands, calls)
    if isinstance(op, ReduceWindow) and isinstance(type_, TensorType) and len(operands) == 2:
        type_ = replace(type_, element=element_of(op, operands[1]))
    if isinstance(op, Elementwise) and isinstance(type_, TensorType):
        type_ = _as_dynamic(type_, operands)
    if isinstance(op, Tuple):
        return TupleType(operands)
    if isinstance(op, GetTupleElement):
        (whole,) = operands
        return whole.elements[op.index] if isinstance(whole, TupleType) else type_
    if isinstance(op, While):
        return operands[0]
    if isinstance(op, Call | Case) and calls:
        return calls[0].root.type
    first = operands[0] if operands else None
    if isinstance(op, Transpose) and isinstance(first, TensorType):
        return _with_layout(type_, _permuted(first, op.permutation))
    if _has_first_layout(op) and isinstance(first, TensorType):
        return _with_layout(type_, first.layout)
    return type_


def _has_first_layout(op: Op) -> bool:
    """Does the result of an op whose text omits the type get the layout of the first operand?"""
    if isinstance(op, Elementwise):
        return op.name not in _NO_LAYOUT
    opcode = OPCODES.get(type(op))
    return opcode is not None and SPELLINGS[opcode].has_first_layout


def _as_dynamic(type_: TensorType, operands: tuple[Type, ...]) -> TensorType:
    """Return the type of an element-wise op's result with the dynamic dimensions of its operands.

    A dimension of `type_` becomes dynamic if an operand has a bound of that size there.

    Source: XLA `ShapeInference::InferElementwiseBinaryOpShape`.
    """
    sizes, bounds = list(type_.sizes), list(type_.each_bound)
    for operand in operands:
        if isinstance(operand, TensorType) and operand.bounds and operand.rank == type_.rank:
            for d, bound in enumerate(operand.bounds):
                if bound is not None and bound == sizes[d]:
                    sizes[d], bounds[d] = None, bound
    return replace(type_, sizes=tuple(sizes), bounds=tuple(bounds) if None in sizes else ())


def _with_layout(type_: Type, layout: Layout | None) -> Type:
    if layout is None or not isinstance(type_, TensorType):
        return type_
    if len(layout.minor_to_major) != type_.rank:
        return type_
    return replace(type_, layout=layout)


def _permuted(operand: TensorType, permutation: tuple[int, ...]) -> Layout:
    """Return the layout of a transpose's result with which the transpose moves no bytes.

    Args:
        operand: Type of the operand.
        permutation: For each dimension of the result, the dimension of the operand.
    """
    layout = operand.layout or Layout(tuple(range(operand.rank - 1, -1, -1)))
    place = {old: new for new, old in enumerate(permutation)}
    return replace(layout, minor_to_major=tuple(place[d] for d in layout.minor_to_major))
