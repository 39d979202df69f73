"""Which function evaluates which op.

A *maker* looks at one instruction, once, and returns its *kernel*: a function from the operands'
values to the value of the instruction.  So what does not depend on values is worked out before a
loop begins.  An instruction of several results has a tuple as its value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from hloscope.errors import HloscopeError, ParseError, UnsupportedError
from hloscope.interpreter.values import Value
from hloscope.ir import (
    ElementType,
    Instruction,
    Op,
    QuantizedType,
    TensorType,
    TupleType,
    Type,
    backend_config,
)

if TYPE_CHECKING:
    from hloscope.interpreter.world import World

Kernel: TypeAlias = Callable[..., Value]
"""Operands' values to the value.  That of an op that calls computations takes them first, as a
tuple of `Region`s."""


class Region(Protocol):
    """A called computation or region, with the outer values it reads."""

    @property
    def outer(self) -> tuple[Value, ...]:
        """The outer values."""

    @property
    def is_elementwise(self) -> bool:
        """Is each result element made of the same element of every argument, and nothing else?

        Then it may be called with arrays of any one shape in place of scalars.
        """

    @property
    def monoid(self) -> str:
        """Name of the op if the region is `op(a, b)` of its two arguments, else empty."""

    def __call__(self, *arguments: Value) -> tuple[Value, ...]:
        """Evaluate; an HLO computation that returns a tuple gives its parts."""

    def taking(self, arguments: list[Any]) -> tuple[Value, ...]:
        """Evaluate with arguments in a list that nobody else has, and that is used up.

        What only the list holds may be written to.
        """


class Refusal:
    """The kernel of an instruction that cannot be evaluated, which may never be reached."""

    __slots__ = ("error",)

    def __init__(self, error: HloscopeError) -> None:
        self.error: Final = error

    def __call__(self, *_: Value) -> Value:
        """Say why."""
        raise self.error


class Writing:
    """A kernel that may write its value to the memory of its first operand.

    Attributes:
        plain: The kernel as every other one, which leaves its operands as they are.
        into: The same, where nobody else will ever read the first operand: an array of its own
            memory that may be written to.
    """

    __slots__ = ("into", "plain")

    def __init__(self, plain: Kernel, into: Kernel) -> None:
        self.plain: Final = plain
        self.into: Final = into

    def __call__(self, *values: Any) -> Value:
        """The value, in memory of its own."""
        return self.plain(*values)


class Moving:
    """A kernel with regions that hands its operands on to them.

    Attributes:
        run: Takes the regions, and the operands as a list that nobody else has.
    """

    __slots__ = ("run",)

    def __init__(self, run: Callable[[tuple[Any, ...], list[Any]], Value]) -> None:
        self.run: Final = run

    def __call__(self, regions: tuple[Any, ...], *values: Any) -> Value:
        """The value; the operands are still those of the caller."""
        return self.run(regions, [*values])


class Site(NamedTuple):
    """An instruction and where it is evaluated."""

    ins: Instruction
    world: World

    @property
    def operands(self) -> tuple[Type, ...]:
        """Types of the operands."""
        return tuple(o.type for o in self.ins.operands)

    @property
    def result(self) -> TensorType:
        """Type of the only result.

        Raises:
            UnsupportedError: It is no array.
        """
        type_ = self.ins.type
        if not isinstance(type_, TensorType):
            raise UnsupportedError(f"`{self.ins.op.name}` cannot be evaluated: no array results")
        return type_

    @property
    def results(self) -> tuple[Type, ...]:
        """Types of the results."""
        type_ = self.ins.type
        return type_.elements if isinstance(type_, TupleType) else (type_,)

    @property
    def config(self) -> Mapping[str, Any]:
        """The entries of the backend config; none where there is nothing to read."""
        try:
            return backend_config(getattr(self.ins.op, "settings", ()), self.ins.extras)
        except ParseError:
            return {}


Maker: TypeAlias = Callable[[Any, Site], Kernel]

MAKERS: Final[dict[type[Op], Maker]] = {}
"""Makers of kernels by class of op."""
LIFTED: Final[set[type[Op]]] = set()
"""Ops that compute element by element, whatever the shape: kernels take arrays of any shape."""
ON_REALS: Final[set[type[Op]]] = set()
"""Ops that on quantized operands compute the real numbers they stand for; element-wise ones do."""


class Concern(Enum):
    """What types may have that the maker of an op need not know of; adapters do, in this order."""

    UNKNOWN_SIZES = auto()
    PRECISIONS = auto()
    QUANTIZED = auto()


Adapter: TypeAlias = Callable[[Maker, Instruction], Maker]

ADAPTERS: Final[dict[Concern, Adapter]] = {}
"""Functions that may give an instruction another maker than its op has, if its types have that."""
FAMILIES: Final = (
    "calls.custom_call",
    "calls.dynamic",
    "calls.gpu",
    "calls.known",
    "calls.lapack",
    "ops.asynchronous",
    "ops.batch_norm",
    "ops.bounded",
    "ops.checking",
    "ops.chlo",
    "ops.collectives",
    "ops.contraction",
    "ops.control",
    "ops.convolution",
    "ops.dynamic",
    "ops.elementwise",
    "ops.gather_scatter",
    "ops.linalg",
    "ops.mixed_precision",
    "ops.mlir_dialects",
    "ops.observing",
    "ops.partition",
    "ops.permute",
    "ops.programs",
    "ops.quantize",
    "ops.random",
    "ops.reduction",
    "ops.shape",
    "ops.slicing",
    "ops.sorting",
    "ops.transfers",
    "ops.windows",
)
"""The modules that register makers: loaded, and numpy with them, when something is evaluated."""

_M = TypeVar("_M", bound=Maker)


def evaluates(*ops: type[Op], lifted: bool = False, on_reals: bool = False) -> Callable[[_M], _M]:
    """Register a maker for these ops.

    Args:
        ops: Their classes.
        lifted: Do kernels not depend on shapes?
        on_reals: Are quantized operands computed on as the real numbers they stand for?
    """

    def register(maker: _M) -> _M:
        for cls in ops:
            assert cls not in MAKERS, cls
            MAKERS[cls] = maker
            if lifted:
                LIFTED.add(cls)
            if on_reals:
                ON_REALS.add(cls)
        return maker

    return register


def adapts(concern: Concern) -> Callable[[Adapter], Adapter]:
    """Register what instructions are given whose operands or results have this."""

    def register(adapter: Adapter) -> Adapter:
        ADAPTERS[concern] = adapter
        return adapter

    return register


def concerns(ins: Instruction) -> set[Concern]:
    """What the types of an instruction have that not every maker knows of.

    >>> from hloscope.ir import ELEMENT_TYPES
    >>> from hloscope.ops import Parameter
    >>> f32, bf16 = [TensorType(ELEMENT_TYPES[name], (2,)) for name in ("f32", "bf16")]
    >>> concerns(Instruction("p", TupleType((f32, bf16)), Parameter(0)))
    {<Concern.PRECISIONS: 2>}
    """
    found: set[Concern] = set()
    floats: set[ElementType] = set()
    types = [ins.type, *[operand.type for operand in ins.operands]]
    while types:
        type_ = types.pop()
        if isinstance(type_, TupleType):
            types.extend(type_.elements)
        elif isinstance(type_, TensorType):
            if None in type_.sizes:
                found.add(Concern.UNKNOWN_SIZES)
            if isinstance(type_.element, QuantizedType):
                found.add(Concern.QUANTIZED)
            if type_.element.kind in ("float", "complex"):
                floats.add(type_.element)
    return found | {Concern.PRECISIONS} if len(floats) > 1 else found


@cache
def load_families() -> None:
    """Register every maker there is."""
    for name in FAMILIES:
        import_module(f"hloscope.interpreter.{name}")


def kernel(ins: Instruction, world: World) -> Kernel:
    """The kernel of an instruction.

    Raises:
        UnsupportedError: The op has no evaluation.
    """
    load_families()
    maker = MAKERS.get(type(ins.op))
    if maker is None:
        message = f"`{ins.op.name}` cannot be evaluated: it has no evaluation"
        raise UnsupportedError(message, span=ins.span)
    concerned = concerns(ins)
    for concern in Concern if concerned else ():
        if concern in concerned:
            maker = ADAPTERS[concern](maker, ins)
    return maker(ins.op, Site(ins, world))
