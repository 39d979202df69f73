"""The part of an op the graph needs to know: a name, its typing and, in subclasses, parameters."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar, Final, NamedTuple, Protocol, dataclass_transform

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


REQUIRED: Final = object()
"""The default of a field that has none."""

_set: Final = object.__setattr__


@dataclass_transform(frozen_default=True)
class OpClass(type):
    """Metaclass of ops: a class body's annotated names are its fields, as in a frozen dataclass.

    The methods are shared instead of generated for each class, which makes importing some 180 op
    classes ten times as fast.
    """

    fields: dict[str, object]
    """Each field of the class and its default, inherited ones first."""
    values: Callable[[Any], object]
    """The values of the fields of an op, as one hashable value."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> OpClass:
        """Make the class; annotations of `ClassVar`s stay what they are."""
        annotations: dict[str, str] = namespace.get("__annotations__", {})
        own = {
            field: namespace.pop(field, REQUIRED)
            for field, annotation in annotations.items()
            if not str(annotation).startswith("ClassVar")
        }
        if not own and len(bases) == 1 and isinstance(bases[0], OpClass):
            return super().__new__(mcls, name, bases, {**namespace, "__slots__": ()})
        inherited = [base.fields for base in bases if isinstance(base, OpClass)]
        fields = {k: v for group in [*inherited, own] for k, v in group.items()}
        namespace |= {"__slots__": tuple(own), "__match_args__": tuple(fields)}
        cls = super().__new__(mcls, name, bases, namespace)
        cls.fields = fields
        cls.values = attrgetter(*fields) if fields else lambda _: ()
        return cls


class Op(metaclass=OpClass):
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

    def __init__(self, *args: Any, **named: Any) -> None:
        cls = type(self)
        if len(args) > len(cls.fields):
            raise TypeError(f"{cls.__name__} has {len(cls.fields)} fields, got {len(args)}")
        for i, (field, default) in enumerate(cls.fields.items()):
            value = args[i] if i < len(args) else named.pop(field, default)
            if value is REQUIRED:
                raise TypeError(f"{cls.__name__} needs `{field}`")
            _set(self, field, value)
        if named:
            raise TypeError(f"{cls.__name__} cannot take `{', '.join(named)}`")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"ops are immutable: cannot set `{name}`")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"ops are immutable: cannot delete `{name}`")

    def __eq__(self, other: object) -> bool:
        cls = type(self)
        return self is other or (cls is type(other) and cls.values(self) == cls.values(other))

    def __hash__(self) -> int:
        cls = type(self)
        return hash((cls, cls.values(self)))

    def __repr__(self) -> str:
        cls = type(self)
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in cls.fields)
        return f"{cls.__name__}({fields})"

    def __reduce__(self) -> tuple[Any, ...]:
        cls = type(self)
        return cls, tuple(getattr(self, name) for name in cls.fields)

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
