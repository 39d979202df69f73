"""Type checks of operations, by the op class of each."""

from __future__ import annotations

from typing import Final

from hloscope.dialects import DEFINITIONS
from hloscope.errors import UnsupportedError, VerifyError
from hloscope.ir import IncompatibleTypesError, InferenceError, Op, Signature, Type
from hloscope.mlir import Operation, spell, types_text
from hloscope.stablehlo import OpMaker, operand_types, signature

TYPED: Final = frozenset({"stablehlo", "chlo", "sdy"})
"""Dialects whose ops have classes."""


class Typing:
    """Type checker of the operations of one module."""

    def __init__(self) -> None:
        self._make = OpMaker()

    def check(self, operation: Operation) -> VerifyError | None:
        """Return the error of the operation's types; `None` if they are valid."""
        try:
            op = self._make(operation)
        except VerifyError as error:
            return error
        operands = tuple([value.type for value in operation.operands])
        results = tuple([value.type for value in operation.results])
        if operation.regions:
            calls = tuple(map(signature, operation.regions))
            return _verify(op, operands, results, calls)
        if op.reads_values:
            return _verify(op, operand_types(op, operation.operands), results, ())
        return _verify(op, operands, results, ())

    def depends_on_types_only(self, operation: Operation) -> bool:
        """True if the type check does not read operand values.  The op must have passed `check`."""
        if operation.name.partition(".")[0] not in TYPED:
            return True
        return not self._make(operation).reads_values


def _verify(
    op: Op,
    operands: tuple[Type, ...],
    results: tuple[Type, ...],
    calls: tuple[Signature, ...],
) -> VerifyError | None:
    try:
        op.verify(operands, results, calls)
    except VerifyError as error:
        error.spell = spell
        return error
    except UnsupportedError:
        return None
    return None


def infers(name: str) -> bool:
    """Does upstream infer the result types of this op?"""
    traits = DEFINITIONS[name].traits
    return "infer" in traits or "compatible" in traits


def is_inference(error: VerifyError) -> bool:
    """Is it an error of type inference, which runs after the checks of the op and its regions?"""
    return isinstance(error, InferenceError | IncompatibleTypesError)


def message_of(operation: Operation, error: VerifyError) -> str:
    """Return the message of an error in upstream's words."""
    if isinstance(error, IncompatibleTypesError):
        return (
            f"'{operation.name}' op inferred type(s) {_quoted(error.inferred)} are incompatible"
            f" with return type(s) of operation {_quoted(error.declared)}"
        )
    return error.message


def _quoted(types: tuple[Type, ...]) -> str:
    return ", ".join(f"'{types_text((type_,))}'" for type_ in types)
