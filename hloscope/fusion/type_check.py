"""Instructions whose types do not fit together have no map: who asks is told what is wrong.

Rules believe the types of an instruction, and of wrong ones they would give maps without meaning.
To verify a program for one question would take too long, and so would loading all that verifies.
So each instruction that a walk comes to is looked at with what its op itself says of its types;
only if that does not agree, the verifier is asked, which knows what a language allows besides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from hloscope.errors import UnsupportedError, VerifyError
from hloscope.ir import (
    Computation,
    IncompatibleTypesError,
    Instruction,
    TensorType,
    TupleType,
    Type,
)
from hloscope.ops import CopyStart, Fusion, ReduceScatter, fused_twice

Refusal: TypeAlias = Callable[[Instruction], None]
"""Raises `VerifyError` if an instruction is wrong."""
_Kind: TypeAlias = tuple[int | None, ...]


_ASKED_ALWAYS: Final = (ReduceScatter, CopyStart)
"""Ops that do not know themselves what their types have to be: groups, or HLO alone, say it."""


def anything_goes(_: Instruction) -> None:
    """Refuse nothing: the programs of tests and of proofs are right, or verified before."""


class Doubts:
    """Looks at the types of instructions, once at those of each kind."""

    def __init__(self, refuse: Refusal) -> None:
        self._refuse: Final = refuse
        self._right: Final[set[Instruction]] = set()
        self._kinds: Final[dict[_Kind, Instruction]] = {}
        """One right instruction of each kind, which keeps alive what the kind names."""
        self._owners: Final[dict[Computation, Instruction | None]] = {}
        """The fusion that each computation belongs to; `None` of those that others call."""

    def settle(self, ins: Instruction) -> None:
        """Look at an instruction.

        Raises:
            VerifyError: It is wrong.
        """
        if self._refuse is anything_goes or ins in self._right:
            return
        if type(ins.op) is Fusion:
            self._own(ins)
            if _is_plain_fusion(ins):
                return
        kind = _kind(ins)
        if kind not in self._kinds:
            if is_doubtful(ins):
                self._refuse(ins)
            self._kinds[kind] = ins
        self._right.add(ins)

    def _own(self, fusion: Instruction) -> None:
        """See that what a fusion calls, and what that calls, is fused by nobody else.

        Values of a computation stand for themselves in a map: of one that is fused twice, two would
        be taken for one.
        """
        stack = [fusion]
        while stack:
            ins = stack.pop()
            owner = ins if type(ins.op) is Fusion else None
            for called in ins.calls:
                is_new, first = called not in self._owners, self._owners.get(called)
                if first is not None and owner is not None and not _are_one(first, owner):
                    message = fused_twice(called.name, first.name, ins.name)
                    raise VerifyError(message, span=ins.span)
                self._owners[called] = first or owner
                if is_new:
                    stack += [inner for inner in called.instructions if inner.calls]


def _are_one(a: Instruction, b: Instruction) -> bool:
    """Are two fusions one?  What is started is made anew for each question, of the same values."""
    return a is b or (a.name == b.name and a.operands == b.operands)


def _is_plain_fusion(ins: Instruction) -> bool:
    """Has a fusion the very type that it computes?

    That it hands in what is taken is for the verifier: XLA's own tool answers where it does not.
    """
    return type(ins.op) is Fusion and len(ins.calls) == 1 and ins.calls[0].root.type is ins.type


def _kind(ins: Instruction) -> _Kind:
    """What typing knows of an instruction: op and types, the very same objects."""
    kind: list[int | None] = [id(ins.op), id(ins.type), *[id(v.type) for v in ins.operands]]
    for called in ins.calls:
        kind += (None, id(called.root.type), *[id(p.type) for p in called.parameters])
    return tuple(kind)


def is_doubtful(ins: Instruction) -> bool:
    """May the types of an instruction not fit together?  True of all that have wrong sizes.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> text = "ENTRY e {{ p = f32[4] parameter(0) ROOT r = f32[{}] negate(p) }}"
    >>> [is_doubtful(parse_hlo(text.format(n)).entry.root) for n in (4, 5)]
    [False, True]
    """
    if isinstance(ins.op, _ASKED_ALWAYS):
        return True
    results: list[tuple[Type, ...]] = [(ins.type,)]
    if isinstance(ins.type, TupleType):  # several results, or one that is a tuple
        results.append(ins.type.elements)
    return all(_is_refused(ins, some) for some in results)


def _is_refused(ins: Instruction, results: tuple[Type, ...]) -> bool:
    try:
        ins.op.verify(tuple([operand.type for operand in ins.operands]), results, ins.calls)
    except IncompatibleTypesError as error:
        return not _have_sizes_of(error.inferred, error.declared)
    except UnsupportedError:
        return False
    except VerifyError:
        return True
    except Exception:  # of operands that are too few, or of another kind: so it is wrong
        return True
    return False


def _have_sizes_of(some: tuple[Type, ...], others: tuple[Type, ...]) -> bool:
    """Have these types the same sizes?  A map does not depend on what elements are."""
    pairs = [(some, others)]
    while pairs:
        here, there = pairs.pop()
        if len(here) != len(there):
            return False
        for a, b in zip(here, there, strict=True):
            match a, b:
                case TensorType(), TensorType():
                    if a.sizes != b.sizes:
                        return False
                case TupleType(), TupleType():
                    pairs.append((a.elements, b.elements))
                case _:
                    return False
    return True
