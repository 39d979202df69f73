"""Base class of ops, tables by op class, values inside called computations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import (
    Any,
    ClassVar,
    Final,
    Generic,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
    dataclass_transform,
)
from weakref import WeakValueDictionary

from msgspec import NODEFAULT, Struct, StructMeta

from hloscope.errors import VerifyError
from hloscope.ir.graph import Instruction
from hloscope.ir.types import TupleType, Type, Types, compatible
from hloscope.support.system import shared_lock

# --------------------------------------------------------------------------------------------------
# Base class of ops: a name, type rules and, in subclasses, parameters.


class Callee(Protocol):
    """The types of a called computation or region, as type rules see it."""

    @property
    def arguments(self) -> Types:
        """Types of the parameters."""

    @property
    def results(self) -> Types:
        """Types of the results; an HLO computation has one, perhaps a tuple."""


Callees: TypeAlias = tuple[Callee, ...]


class Signature(NamedTuple):
    """Types of the arguments and results of a function or region."""

    arguments: Types = ()
    results: Types = ()


class NotInferredError(VerifyError):
    """Raised if the type of the result does not follow from the operands and has to be declared."""


class InferenceError(VerifyError):
    """Raised by `Op.verify` if `Op.infer` refuses the operands or parameters."""


class IncompatibleTypesError(VerifyError):
    """Raised if the declared types of the results are not compatible with the inferred ones."""

    def __init__(self, inferred: Types, declared: Types, rule: str = "") -> None:
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
    """Label of the constraint that relates the type of the result to the operands, as in `(C1)`."""
    reads_values: ClassVar[tuple[int, ...]] = ()
    """Numbers of the operands whose constant values the type rules read.

    The type of such an operand may be a `KnownTensor`.
    """

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
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

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
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

    def broken_rule(self, inferred: Types, declared: Types) -> str:
        """Return the label of the constraint that incompatible declared types break.

        Args:
            inferred: Inferred types of the results.
            declared: Declared types of the results.
        """
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


# --------------------------------------------------------------------------------------------------
# Tables by op class, in which an entry holds for subclasses too.


T = TypeVar("T")


class ByOp(Generic[T]):
    """A table from op classes to values; a class without an entry has that of its base class.

    >>> from hloscope.ops import Reshape, Transpose
    >>> names = ByOp[str]()
    >>> names.add(Op)("any op"), names.add(Reshape, Transpose)("moves")
    ('any op', 'moves')
    >>> names.find(Transpose((0,)))
    'moves'
    """

    def __init__(self) -> None:
        self._known: dict[type[Op], T] = {}

    def add(self, *classes: type[Op]) -> Callable[[T], T]:
        """Return a decorator that enters the decorated object, such as a rule, for op classes."""

        def register(what: T) -> T:
            self._known.update(dict.fromkeys(classes, what))
            return what

        return register

    def find(self, op: Op) -> T | None:
        """Return the entry of the op's class or of its nearest base class; `None` without one."""
        known = self._known
        return next((known[cls] for cls in type(op).__mro__ if cls in known), None)


# --------------------------------------------------------------------------------------------------
# Values inside a called computation, distinguished by the call.


class CalledValue(Instruction):
    """A value inside a computation, as one call of it computes it.

    Two calls of one function compute two values of each of its instructions, which runtime
    variables have to distinguish. `called_value` makes one object for each value of each call.

    Attributes:
        value: The instruction, or a `CalledValue` if the computation makes a call in turn.
        call: The calling instruction.
        first: Operand number that is the computation's first parameter; distinguishes branches.
        instruction: The instruction itself, apart from any call.
    """

    __slots__ = ("__weakref__", "call", "first", "instruction", "value")

    def __init__(self, value: Instruction, call: Instruction, first: int) -> None:
        self.value: Final = value
        self.call: Final = call
        self.first: Final = first
        self.instruction: Final[Instruction] = instruction_of(value)
        it = self.instruction
        super().__init__(f"{it.name} in {call.name}", it.type, it.op, it.operands, it.calls)


_Called: TypeAlias = WeakValueDictionary[tuple[Instruction, Instruction, int], CalledValue]
_CALLED: Final[_Called] = WeakValueDictionary()
_LOCK: Final = shared_lock()


def called_value(value: Instruction, call: Instruction, first: int = 0) -> CalledValue:
    """Return `value` of a called computation as the instruction `call` computes it.

    Equal arguments give the same object. `first` is the number of the operand that is the
    computation's first parameter; it distinguishes branches.

    >>> from hloscope.ir import TupleType
    >>> from hloscope.ops import Parameter
    >>> value, call = [Instruction(name, TupleType(()), Parameter(0)) for name in "kc"]
    >>> called_value(value, call).name, called_value(value, call) is called_value(value, call)
    ('k in c', True)
    """
    # Weak references: an entry lives as long as its value is in use.  Identity matters, because
    # instructions compare by identity.
    key = (value, call, first)
    with _LOCK:
        known = _CALLED.get(key)
        if known is None:
            known = _CALLED[key] = CalledValue(value, call, first)
        return known


def instruction_of(value: Instruction) -> Instruction:
    """Return the instruction that computes a value, without the calls of a `CalledValue`."""
    return value.instruction if isinstance(value, CalledValue) else value


# --------------------------------------------------------------------------------------------------
# Attributes whose text has a value, which the front end that wrote it reads on demand.


_CONFIGS: Final = ("mhlo.backend_config", "backend_config")
_FRONTEND: Final = ("mhlo.frontend_attributes", "frontend_attributes")


class Written(str):
    """The text of an attribute; subclasses of a front end can read its value."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        """Value of the attribute as a Python object; `None` if it is not known."""
        return None


def value_of(texts: Iterable[tuple[str, str]], name: str) -> Any:
    """Return the Python value of the attribute `name`.

    The result is `None` if no pair `(name, text)` has this name, or if its text has no known value.
    """
    text = dict(texts).get(name)
    return text.value if isinstance(text, Written) else None


def backend_config(*texts: Iterable[tuple[str, str]]) -> Mapping[str, Any]:
    """Return the entries of a backend config; empty if there is none.

    Args:
        texts: Pairs `(name, text)`, such as the settings and the extras of an instruction.
    """
    written = [pair for group in texts for pair in group]
    for name in _CONFIGS:
        found = value_of(written, name)
        if isinstance(found, Mapping) and found:
            return found
    return {}


def frontend_attributes(*texts: Iterable[tuple[str, str]]) -> Mapping[str, Any]:
    """Return the entries of frontend attributes, in the spelling of either language; may be empty.

    Args:
        texts: Pairs `(name, text)`: settings and extras of an instruction, or extras of a module.
    """
    found: dict[str, Any] = {}
    for name, text in (pair for group in texts for pair in group):
        if name in _FRONTEND and isinstance(text, Written) and isinstance(text.value, Mapping):
            found |= text.value
    return found
