"""Values that are other values as they are: handed on, not computed from them."""

from __future__ import annotations

from typing import Final, Protocol, TypeAlias

from hloscope.ir import Computation, Instruction, Type
from hloscope.ops import (
    ELEMENTWISE,
    AddDependency,
    Bitcast,
    Call,
    Composite,
    CopyDone,
    CopyStart,
    Domain,
    Fusion,
    GetTupleElement,
    OptimizationBarrier,
    Parameter,
    Reshape,
    Return,
    Tuple,
    While,
)

Source: TypeAlias = tuple[Instruction, int]
"""A value and one of its leaves."""

_ALL_OPERANDS: Final = Tuple, Return, OptimizationBarrier
_FIRST_OPERAND: Final = AddDependency, Domain, CopyDone, Bitcast, Reshape, ELEMENTWISE["copy"]
_CALLS: Final = Call, Fusion, Composite


class Numbers(Protocol):
    """Numbers leaves, and remembers sources: an analysis does."""

    @property
    def sources(self) -> dict[tuple[Computation, int], Source]:
        """The sources found so far, by computation and leaf of its root."""

    def leaves(self, type: Type) -> tuple[Type, ...]:
        """Types of the leaves of a type."""

    def offset(self, type: Type, index: int) -> int:
        """Number of the first leaf of an element of a tuple."""


def source_in(at: Numbers, callee: Computation, leaf: int) -> Source:
    """The first value that a leaf of a computation's root is, as it is.

    Follows tuples, copies, calls, parts that loops hand on; ends at the parameters of the
    computation, at values from outside of it and at what is computed or chosen.  What a function
    that calls itself returns is computed.
    """
    known = at.sources
    if (callee, leaf) in known:
        return known[callee, leaf]
    opened: dict[tuple[Computation, int], Source] = {(callee, leaf): (callee.root, leaf)}
    stack = [(callee, leaf)]
    while stack:
        top = stack[-1]
        source = opened[top]
        try:
            while _is_in(top[0], source[0]):
                before = _before(at, *source)
                if before is None:
                    break
                source = before
        except _UnknownError as error:
            opened[top] = source
            if error.called in opened:
                known[error.called] = error.called[0].root, error.called[1]
            else:
                opened[error.called] = error.called[0].root, error.called[1]
                stack.append(error.called)
            continue
        known[top] = source
        stack.pop()
    return known[callee, leaf]


class _UnknownError(Exception):
    """The source of a leaf of a called computation is to be found first."""

    def __init__(self, called: tuple[Computation, int]) -> None:
        super().__init__(called)
        self.called = called


def _source(at: Numbers, callee: Computation, leaf: int) -> Source:
    """The source of a leaf of a called computation, if it is known."""
    found = at.sources.get((callee, leaf))
    if found is None:
        raise _UnknownError((callee, leaf))
    return found


def is_handed_on(at: Numbers, callee: Computation, parameter: int, leaf: int, of: int) -> bool:
    """Is leaf `of` of what a computation returns a leaf of a parameter, as it is?"""
    return source_in(at, callee, of) == (callee.parameters[parameter], leaf)


def _is_in(callee: Computation, ins: Instruction) -> bool:
    return callee.body.by_name.get(ins.name) is ins


def _before(at: Numbers, ins: Instruction, leaf: int) -> Source | None:
    """One step towards the source."""
    match ins.op:
        case GetTupleElement(index):
            return ins.operands[0], at.offset(ins.operands[0].type, index) + leaf
        case op if isinstance(op, _ALL_OPERANDS):
            return _operand(ins, _part(at, ins, leaf))
        case CopyStart():
            count = len(at.leaves(ins.operands[0].type))
            return (ins.operands[0], leaf % count) if leaf < 2 * count else None
        case op if isinstance(op, _FIRST_OPERAND):
            source = ins.operands[0]
            return (source, leaf) if at.leaves(ins.type) == at.leaves(source.type) else None
        case op if isinstance(op, _CALLS) and ins.calls:
            return _outside(ins, ins.calls[0], _source(at, ins.calls[0], leaf))
        case While() if len(ins.calls) == 2:
            part = _part(at, ins, leaf)
            if part is None:
                return None
            handed = ins.calls[1].parameters[part[0]], part[1]
            return _operand(ins, part) if _source(at, ins.calls[1], leaf) == handed else None
        case _:
            return None


def _part(at: Numbers, ins: Instruction, leaf: int) -> tuple[int, int] | None:
    """The operand, and its leaf, where the operands' leaves follow each other."""
    for k, operand in enumerate(ins.operands):
        count = len(at.leaves(operand.type))
        if leaf < count:
            return k, leaf
        leaf -= count
    return None


def _operand(ins: Instruction, part: tuple[int, int] | None) -> Source | None:
    return None if part is None else (ins.operands[part[0]], part[1])


def _outside(ins: Instruction, callee: Computation, found: Source) -> Source | None:
    """What the source of a called computation's result is for the caller."""
    source, leaf = found
    if not _is_in(callee, source):
        return found
    number = source.op.number if isinstance(source.op, Parameter) else len(ins.operands)
    return (ins.operands[number], leaf) if number < len(ins.operands) else None
