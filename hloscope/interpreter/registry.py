"""Registry of the functions that evaluate ops, and the table of the ops that have one.

Table of the ops that the interpreter evaluates.

>>> next(row for row in coverage() if row.op == "transpose")
Coverage(op='transpose', is_evaluated=True)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from hloscope.errors import HloscopeError, ParseError, UnsupportedError
from hloscope.interpreter.values import Value, byte_size
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
from hloscope.ops import OPS, Call, Fusion, Parameter, Return

if TYPE_CHECKING:
    from hloscope.interpreter.values import World


# --------------------------------------------------------------------------------------------------
# Registry of the functions that evaluate ops.
#
# A *maker* inspects one instruction, once, and returns its *kernel*: a function from the operands'
# values to the value of the instruction.  So whatever does not depend on values is computed before
# a loop begins.  The value of an instruction with several results is a tuple.


Kernel: TypeAlias = Callable[..., Value]
"""Function from the operands' values to the value of the instruction.

The kernel of an op that calls computations takes a tuple of `Region`s before the operands.
"""


class Region(Protocol):
    """A called computation or region together with the outer values it reads."""

    @property
    def outer(self) -> tuple[Value, ...]:
        """Values of enclosing computations that the region reads."""

    @property
    def is_elementwise(self) -> bool:
        """Does each result element depend on the same element of every argument only?

        If so, it may be called with arrays in place of scalars, all of one shape.
        """

    @property
    def monoid(self) -> str:
        """Name of the op if the region is one op on its two arguments; else empty."""

    def __call__(self, *arguments: Value) -> tuple[Value, ...]:
        """Return the results for these arguments; an HLO tuple is returned as its elements."""

    def taking(self, arguments: list[Any]) -> tuple[Value, ...]:
        """Return the results for a list of arguments, which the caller gives up; it is consumed.

        Arrays that the plan grants to the region may be overwritten.
        """


class Refusal:
    """The kernel of an instruction that cannot be evaluated; a call raises `error`."""

    __slots__ = ("error",)

    def __init__(self, error: HloscopeError) -> None:
        self.error: Final = error

    def __call__(self, *_: Value) -> Value:
        """Raise `error`."""
        raise self.error


class Writing:
    """A kernel that can write its result to the memory of its first operand.

    Attributes:
        plain: The kernel that leaves its operands unchanged.
        into: The kernel that overwrites its first operand and returns it.  Use it only if that
            operand is a writable array with its own memory that is never read again.
    """

    __slots__ = ("into", "plain")

    def __init__(self, plain: Kernel, into: Kernel) -> None:
        self.plain: Final = plain
        self.into: Final = into

    def __call__(self, *values: Any) -> Value:
        """Return the instruction's value in new memory."""
        return self.plain(*values)


class Moving:
    """A kernel with regions that takes its operands as a list, so that it can free them early.

    Attributes:
        run: Function of the regions and a list of operands, from which it removes values.
    """

    __slots__ = ("run",)

    def __init__(self, run: Callable[[tuple[Any, ...], list[Any]], Value]) -> None:
        self.run: Final = run

    def __call__(self, regions: tuple[Any, ...], *values: Any) -> Value:
        """Return the instruction's value; the caller's operands stay unchanged."""
        return self.run(regions, [*values])


_LARGE: Final = 1 << 15
"""Minimum bytes of a result that may overwrite an operand.

Measured: a copy of fewer bytes takes at most 1 µs, and who may be overwritten costs 10 µs to find.
"""


class Site(NamedTuple):
    """An instruction and the evaluation context (`World`) in which it runs."""

    ins: Instruction
    world: World

    @property
    def operands(self) -> tuple[Type, ...]:
        """Types of the instruction's operands."""
        return tuple(o.type for o in self.ins.operands)

    @property
    def result(self) -> TensorType:
        """Type of the instruction's only result.

        Raises:
            UnsupportedError: The result is not an array.
        """
        type_ = self.ins.type
        if not isinstance(type_, TensorType):
            raise UnsupportedError(f"`{self.ins.op.name}` cannot be evaluated: no array results")
        return type_

    @property
    def results(self) -> tuple[Type, ...]:
        """Types of the instruction's results."""
        type_ = self.ins.type
        return type_.elements if isinstance(type_, TupleType) else (type_,)

    @property
    def is_large(self) -> bool:
        """Is the only result an array that is worth overwriting an operand, as far as is known?

        A scalar is never overwritten, as views of scalars are not followed.
        """
        type_ = self.result
        return type_.rank > 0 and (not type_.is_static or byte_size(type_) >= _LARGE)

    def value(self, results: tuple[Value, ...]) -> Value:
        """Return the value of the instruction with these results: the only one, or their tuple."""
        return results if isinstance(self.ins.type, TupleType) else results[0]

    def kernel_of(self, op: Op, type_: Type, operands: int | None = None) -> Kernel:
        """Return the kernel of `op`, evaluated in place of the instruction with a value of `type_`.

        It takes the first `operands` operands, all by default.
        """
        ins = self.ins
        own = ins.operands[:operands]
        return kernel(Instruction(ins.name, type_, op, own, ins.calls, span=ins.span), self.world)

    @property
    def config(self) -> Mapping[str, Any]:
        """Entries of the backend config; empty if it is absent or cannot be parsed."""
        try:
            return backend_config(getattr(self.ins.op, "settings", ()), self.ins.extras)
        except ParseError:
            return {}


Maker: TypeAlias = Callable[[Any, Site], Kernel]

MAKERS: Final[dict[type[Op], Maker]] = {}
"""Functions that make the kernels of an op, by the op's class."""
LIFTED: Final[set[type[Op]]] = set()
"""Element-wise ops: their kernels accept arrays of any shape."""
ON_REALS: Final[set[type[Op]]] = set()
"""Ops, apart from elementwise ones, that compute on the real numbers of quantized operands."""
FRESH: Final[set[type[Op]]] = set()
"""Ops whose arrays lie in new memory: never in that of an operand or of an array kept elsewhere."""


class Concern(Enum):
    """Properties of an instruction's types that most functions in `MAKERS` ignore.

    For each there is an adapter, which wraps such a function. Adapters are applied in the order of
    the members.
    """

    UNKNOWN_SIZES = auto()
    PRECISIONS = auto()
    QUANTIZED = auto()


Adapter: TypeAlias = Callable[[Maker, Instruction], Maker]

ADAPTERS: Final[dict[Concern, Adapter]] = {}
"""Function for each property that wraps the makers of instructions whose types have it."""
FAMILIES: Final = (
    "calls.custom_call",
    "calls.gpu",
    "calls.lapack",
    "ops.batch_norm",
    "ops.checking",
    "ops.collectives",
    "ops.contraction",
    "ops.control",
    "ops.convolution",
    "ops.dynamic",
    "ops.elementwise",
    "ops.gather_scatter",
    "ops.linalg",
    "ops.mlir_dialects",
    "ops.partition",
    "ops.quantize",
    "ops.random",
    "ops.reduction",
    "ops.shape",
    "ops.slicing",
    "ops.sorting",
    "ops.transfers",
    "ops.windows",
)
"""Modules that register makers; they and numpy are loaded when a kernel is first made."""

_M = TypeVar("_M", bound=Maker)


def evaluates(
    *ops: type[Op], lifted: bool = False, on_reals: bool = False, fresh: bool = False
) -> Callable[[_M], _M]:
    """Return a decorator that registers a function that makes the kernels of ops.

    Its arguments are the op and a `Site`; it returns a `Kernel`.

    Args:
        ops: Classes of ops.
        lifted: Whether the kernels take arrays of any shape.
        on_reals: Whether quantized operands are computed as the real numbers they represent.
        fresh: Whether the kernels always return arrays in new memory.
    """

    def register(maker: _M) -> _M:
        for cls in ops:
            assert cls not in MAKERS, cls
            MAKERS[cls] = maker
            if lifted:
                LIFTED.add(cls)
            if on_reals:
                ON_REALS.add(cls)
            if fresh:
                FRESH.add(cls)
        return maker

    return register


def adapts(concern: Concern) -> Callable[[Adapter], Adapter]:
    """Return a decorator that registers the adapter for types with the property `concern`."""

    def register(adapter: Adapter) -> Adapter:
        ADAPTERS[concern] = adapter
        return adapter

    return register


def concerns(ins: Instruction) -> set[Concern]:
    """Return the properties of the types of an instruction that need an adapter.

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
    # Two float types in one instruction: its declared type may differ from the computed one.
    return found | {Concern.PRECISIONS} if len(floats) > 1 else found


# Once: every kernel that is made calls it, and each call would take 60 µs for 23 modules.
@cache
def load_families() -> None:
    """Import every module that registers makers."""
    for name in FAMILIES:
        import_module(f"hloscope.interpreter.{name}")


def kernel(ins: Instruction, world: World) -> Kernel:
    """Return the kernel of an instruction: the function that computes its value.

    If the instruction makes a scalar from arrays, its value is never a view of an operand.

    Raises:
        UnsupportedError: The op has no evaluation.
    """
    load_families()
    maker = MAKERS.get(type(ins.op))
    if maker is None:
        message = f"`{ins.op.name}` cannot be evaluated: it has no evaluation"
        raise UnsupportedError(message, span=ins.span)
    concerned = concerns(ins)
    # Each adapter wraps the maker before it.  The last one, for quantized types, is outermost: it
    # converts operands before the others get them.
    for concern in Concern if concerned else ():
        if concern in concerned:
            maker = ADAPTERS[concern](maker, ins)
    made = maker(ins.op, Site(ins, world))
    return _without_view(made) if _may_view_element(ins) else made


def _may_view_element(ins: Instruction) -> bool:
    """May a kernel return a scalar that is a view of one element of an operand?"""
    if not isinstance(ins.type, TensorType) or ins.type.rank or ins.calls:
        return False
    types = [o.type for o in ins.operands]
    has_elements = any(isinstance(t, TensorType) and t.rank > 0 for t in types)
    return has_elements and type(ins.op) not in FRESH


def _without_view(made: Kernel) -> Kernel:
    """Return the kernel `made`, changed to return numpy scalars in place of arrays of rank 0."""

    def kernel(*values: Any) -> Any:
        value: Any = made(*values)
        return value[()]

    return kernel


# --------------------------------------------------------------------------------------------------
# Table of the ops that the interpreter evaluates.


_BY_THE_PLAN: Final = frozenset((Call, Fusion, Parameter, Return))
"""Ops without kernels, which `plan` evaluates itself."""


class Coverage(NamedTuple):
    """Name of an op, and whether it can be evaluated."""

    op: str
    is_evaluated: bool


def coverage() -> tuple[Coverage, ...]:
    """Return one entry for each op, sorted by name."""
    load_families()
    return tuple(
        Coverage(name, cls in MAKERS or cls in _BY_THE_PLAN) for name, cls in sorted(OPS.items())
    )
