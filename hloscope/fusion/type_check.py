"""Type checks of instructions before their maps are computed.

Rules rely on the types of an instruction; wrong types would give maps without meaning.  To verify
the whole program for one query would take too long, and so would the import of the verifier.  So
each instruction on the way is checked with its op's own `verify`.  Only if that fails, the verifier
decides, because a language may allow more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from hloscope.errors import UnsupportedError, VerifyError
from hloscope.fusion.results import Results
from hloscope.ir import (
    IncompatibleTypesError,
    Instruction,
    TensorType,
    TupleType,
    Type,
)
from hloscope.ops import CopyStart, Fusion, ReduceScatter, fused_twice

Refusal: TypeAlias = Callable[[Instruction], None]
"""Function that raises `VerifyError` if an instruction is not valid."""
_ASKED_ALWAYS: Final = (ReduceScatter, CopyStart)
"""Ops whose types the op's own `verify` cannot decide.

Their types depend on device groups or on HLO's rules.
"""


def anything_goes(_: Instruction) -> None:
    """Accept every instruction; for programs that are valid or were verified before."""


class TypeGuard:
    """Checks types of instructions, each once."""

    def __init__(self, refuse: Refusal, results: Results) -> None:
        self._refuse: Final = refuse
        self._results: Final = results

    def check(self, ins: Instruction) -> None:
        """Check the types of an instruction, unless every instruction is accepted.

        Raises:
            VerifyError: The instruction is not valid.
        """
        if self._refuse is anything_goes:
            return
        if type(ins.op) is Fusion:
            self._own(ins)
            if _is_plain_fusion(ins):
                return
        key = "is valid", ins
        if key not in self._results:
            if is_doubtful(ins):
                self._refuse(ins)
            self._results[key] = True

    def _own(self, fusion: Instruction) -> None:
        """Check that no two fusions call one computation, directly or indirectly.

        In a map a value of a computation stands for itself.  If two fusions shared a computation,
        two different values would be taken for one.

        Raises:
            VerifyError: Two fusions share a computation.
        """
        stack = [fusion]
        while stack:
            ins = stack.pop()
            owner = ins if type(ins.op) is Fusion else None
            for called in ins.calls:
                key = "fusion that calls", called
                is_new, first = key not in self._results, self._results.get(key)
                if first is not None and owner is not None and not _are_one(first, owner):
                    message = fused_twice(called.name, first.name, ins.name)
                    raise VerifyError(message, span=ins.span)
                self._results[key] = first or owner  # `None` if it has another caller
                if is_new:
                    stack += [inner for inner in called.instructions if inner.calls]


def _are_one(a: Instruction, b: Instruction) -> bool:
    """Are two instructions the same fusion or asynchronous start?

    An asynchronous start is rebuilt for each query, with the same name and operands.
    """
    return a is b or (a.name == b.name and a.operands == b.operands)


def _is_plain_fusion(ins: Instruction) -> bool:
    """Does a fusion declare the very type object that its computation returns?

    The operands are not compared with the parameters: that is left to the verifier, and XLA's own
    tool accepts a mismatch.
    """
    return type(ins.op) is Fusion and len(ins.calls) == 1 and ins.calls[0].root.type is ins.type


def is_doubtful(ins: Instruction) -> bool:
    """May the types of an instruction disagree?

    The result is `True` whenever sizes are wrong, and may be so for other reasons.

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
    """Return whether the op's `verify` rejects these result types for their sizes or structure."""
    try:
        ins.op.verify(tuple([operand.type for operand in ins.operands]), results, ins.calls)
    except IncompatibleTypesError as error:
        return not _have_sizes_of(error.inferred, error.declared)
    except UnsupportedError:
        return False
    except VerifyError:
        return True
    except Exception:  # too few operands, or types of another kind: not valid
        return True
    return False


def _have_sizes_of(some: tuple[Type, ...], others: tuple[Type, ...]) -> bool:
    """Do two lists of types have equal sizes?  Maps do not depend on element types."""
    # An explicit stack, because tuples may nest deeply.
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
