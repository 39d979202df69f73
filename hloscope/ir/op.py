"""Base class of ops: a name, type rules and, in subclasses, parameters."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol, dataclass_transform

from msgspec import NODEFAULT, Struct, StructMeta

from hloscope.errors import VerifyError
from hloscope.ir.types import TupleType, Type, compatible


class Callee(Protocol):
    """The types of a called computation or region, as type rules see it."""

    @property
    def arguments(self) -> tuple[Type, ...]:
        """Types of the parameters."""

    @property
    def results(self) -> tuple[Type, ...]:
        """Types of the results; an HLO computation has one, perhaps a tuple."""


class Signature(NamedTuple):
    """Types of the arguments and results of a function or region."""

    arguments: tuple[Type, ...] = ()
    results: tuple[Type, ...] = ()


class NotInferredError(VerifyError):
    """The type of the result does not follow from the operands and has to be declared."""


class InferenceError(VerifyError):
    """`Op.infer` refuses the operands or parameters; raised by `Op.verify`."""


class IncompatibleTypesError(VerifyError):
    """The declared types of the results are not compatible with the inferred ones."""

    def __init__(
        self, inferred: tuple[Type, ...], declared: tuple[Type, ...], rule: str = ""
    ) -> None:
        super().__init__("the declared type is not compatible with the inferred one", rule=rule)
        self.inferred, self.declared = inferred, declared


@dataclass_transform(frozen_default=True)
class OpClass(StructMeta):
    """Metaclass that tells type checkers that subclasses of `Op` are frozen too."""


class Op(Struct, metaclass=OpClass, frozen=True):
    """Base of all ops: the operation of an instruction, without its operands and types.

    Subclasses are in `hloscope.ops`.  Ops are immutable, and ops of equal parameters are equal.
    """

    name: ClassVar[str] = ""
    """StableHLO mnemonic, or the HLO opcode if StableHLO does not have the op."""
    result_rule: ClassVar[str] = ""
    """Label of the constraint on the type of the result."""
    reads_values: ClassVar[tuple[int, ...]] = ()
    """Operands whose constant values the type rules read; their type may be a `KnownTensor`."""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        """Return the type of the result, from the operands' types, parameters and computations.

        The type has no layout.  Several results are a `TupleType`.  Only errors that no result type
        could avoid are reported here; `verify` checks the declared result.

        Args:
            operands: Types of the operands, in order.
            calls: Called computations, in the order of the op's definition.

        Raises:
            VerifyError: The operands or parameters break a constraint of the op (`rule` names it).
            NotInferredError: The type does not follow from them and has to be declared.
        """
        raise NotInferredError(
            f"the type of `{self.name}` does not follow from its operands: write it before the op"
        )

    def verify(
        self, operands: tuple[Type, ...], results: tuple[Type, ...], calls: tuple[Callee, ...] = ()
    ) -> None:
        """Check the declared types of the results, all of them in order.

        If the type of the result can be inferred, the declared types have to be compatible with it.
        Otherwise subclasses check them; if they check nothing, every type is accepted.

        Raises:
            InferenceError: `infer` refuses the operands or parameters.
            IncompatibleTypesError: The declared types are not compatible with the inferred ones.
            VerifyError: Another constraint is broken; subclasses check these first.
        """
        try:
            inferred = self.infer(operands, calls)
        except NotInferredError:
            return
        except VerifyError as error:
            raise InferenceError(error.said, rule=error.rule) from error
        found = inferred.elements if isinstance(inferred, TupleType) else (inferred,)
        if len(results) == 1 and (len(found) == 1 or isinstance(results[0], TupleType)):
            found = (inferred,)
        if len(found) != len(results) or not all(map(compatible, found, results)):
            raise IncompatibleTypesError(found, results, self.broken_rule(found, results))

    def broken_rule(self, inferred: tuple[Type, ...], declared: tuple[Type, ...]) -> str:
        """Return the label of the constraint that incompatible declared types break."""
        return self.result_rule


def defaults_of(cls: type[Op]) -> dict[str, Any]:
    """Return the default of each field of an op class; `NODEFAULT` for fields without one.

    >>> from hloscope.ops import Iota
    >>> defaults_of(Iota)
    {'iota_dimension': NODEFAULT}
    """
    names, defaults = cls.__struct_fields__, cls.__struct_defaults__
    required = (NODEFAULT,) * (len(names) - len(defaults))
    return dict(zip(names, required + defaults, strict=True))
