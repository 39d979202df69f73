"""The part of an op the graph needs to know: a name, its typing and, in subclasses, parameters."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol, dataclass_transform

from msgspec import NODEFAULT, Struct, StructMeta

from hloscope.errors import VerifyError
from hloscope.ir.types import TupleType, Type, compatible


class Callee(Protocol):
    """What typing reads of a called computation or region: the types it takes and returns."""

    @property
    def arguments(self) -> tuple[Type, ...]:
        """Types of the parameters."""

    @property
    def results(self) -> tuple[Type, ...]:
        """Types of what it returns; an HLO computation returns one, perhaps a tuple."""


class Signature(NamedTuple):
    """The types a function or region takes and returns."""

    arguments: tuple[Type, ...] = ()
    results: tuple[Type, ...] = ()


class NotInferredError(VerifyError):
    """The type of the result does not follow from the operands: it has to be declared."""


class InferenceError(VerifyError):
    """What `Op.verify` raises where `infer` refuses, to tell it from the other checks."""


class IncompatibleTypesError(VerifyError):
    """The declared types of the results are not compatible with the inferred ones."""

    def __init__(
        self, inferred: tuple[Type, ...], declared: tuple[Type, ...], rule: str = ""
    ) -> None:
        super().__init__("the declared type is not compatible with the inferred one", rule=rule)
        self.inferred, self.declared = inferred, declared


@dataclass_transform(frozen_default=True)
class OpClass(StructMeta):
    """Metaclass of ops: tells type checkers that a class of ops is frozen, as `Op` is."""


class Op(Struct, metaclass=OpClass, frozen=True):
    """Base of all ops: what an instruction does, without its operands and types.

    Subclasses are in `hloscope.ops`.  Ops are immutable; equal parameters mean equal ops.
    """

    name: ClassVar[str] = ""
    """The StableHLO mnemonic where StableHLO has the op, else the HLO opcode."""
    result_rule: ClassVar[str] = ""
    """Label of the constraint that says what the type of the result is."""
    reads_values: ClassVar[tuple[int, ...]] = ()
    """Operands whose values typing reads where they are constants: their type may be a
    `KnownTensor`."""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        """Type of the result, from the operands' types, the parameters and the computations.

        The type has no layout.  Several results make a `TupleType`.  What it refuses no result
        type could mend; what depends on the declared result is the business of `verify`.

        Args:
            operands: Types of the operands, in order.
            calls: Called computations, in the order of the op's definition.

        Raises:
            VerifyError: The operands or parameters break a constraint of the op (`rule` names
                it), or the type does not follow from them and has to be written.
        """
        raise NotInferredError(
            f"the type of `{self.name}` does not follow from its operands: write it before the op"
        )

    def verify(
        self, operands: tuple[Type, ...], results: tuple[Type, ...], calls: tuple[Callee, ...] = ()
    ) -> None:
        """Check the declared types of the results, all of them in order.

        Ops whose result type follows from their operands need no more than `infer`: the declared
        types have to be compatible with the inferred ones.  The others check what was declared;
        where there is nothing to check, every type will do.

        Raises:
            InferenceError: `infer` refuses the operands or parameters.
            IncompatibleTypesError: The declared types do not fit the inferred ones.
            VerifyError: Another constraint is broken; subclasses check those first.
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
        """Label of the constraint that `declared`, which does not fit `inferred`, breaks."""
        return self.result_rule


def defaults_of(cls: type[Op]) -> dict[str, Any]:
    """Return the default of each field of a class of ops, `NODEFAULT` where it has none.

    >>> from hloscope.ops import Iota
    >>> defaults_of(Iota)
    {'iota_dimension': NODEFAULT}
    """
    names, defaults = cls.__struct_fields__, cls.__struct_defaults__
    required = (NODEFAULT,) * (len(names) - len(defaults))
    return dict(zip(names, required + defaults, strict=True))
