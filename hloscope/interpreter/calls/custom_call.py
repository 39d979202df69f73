"""Custom calls: known targets of XLA and JAX, and Python functions of the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np

from hloscope.errors import UnsupportedError, did_you_mean
from hloscope.interpreter.evaluation import as_value
from hloscope.interpreter.registry import Kernel, Maker, Site, evaluates, kernel
from hloscope.interpreter.values import EvaluationError, UserFunction, Value, dtype_of
from hloscope.ir import Instruction, TensorType, TupleType, Type, value_of
from hloscope.ops import CustomCall, Parameter, Sort, TopK

# --------------------------------------------------------------------------------------------------
# Evaluation of custom calls: known targets, and Python functions of the user.
#
# A family of targets registers makers with `implements`, as ops do with `registry.evaluates`.


TARGETS: Final[dict[str, Maker]] = {}
"""Functions that make kernels (see `registry`), by the target name of the custom call."""

_M = TypeVar("_M", bound=Maker)


def implements(*targets: str) -> Callable[[_M], _M]:
    """Return a decorator that registers a maker of kernels for custom calls of these targets."""

    def register(maker: _M) -> _M:
        for target in targets:
            assert target not in TARGETS, target
            TARGETS[target] = maker
        return maker

    return register


@evaluates(CustomCall)
def _custom_call(op: CustomCall, at: Site) -> Kernel:
    """Return the kernel of a custom call; the user's function for a target takes precedence."""
    target = op.call_target_name
    own = at.world.custom_calls.get(target)
    if own is not None:
        return _user_kernel(target, own, at)
    maker = TARGETS.get(target)
    if maker is None:
        hint = did_you_mean(target, [*TARGETS, *at.world.custom_calls])
        raise UnsupportedError(
            f"custom call `{target}` has no evaluation{hint or '; a Python function can be given'}",
            span=at.ins.span,
        )
    try:
        # The form that this module knows for a target is not specified.  So if its maker or kernel
        # fails, the call has another form.
        kernel = maker(op, at)
    except _MISMATCHES:
        raise _unexpected_form(target) from None

    def evaluated(*values: Any) -> Value:
        try:
            return kernel(*values)
        except _MISMATCHES:
            raise _unexpected_form(target) from None

    return evaluated


_MISMATCHES: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)


def _unexpected_form(target: str) -> UnsupportedError:
    """Return the error for a custom call whose operands or configuration have an unknown form.

    The meaning of the target is not specified, so such a call is unsupported, not invalid.
    """
    message = f"custom call `{target}` has other operands, results or parts than are known of it"
    return UnsupportedError(message)


def _user_kernel(target: str, function: UserFunction, at: Site) -> Kernel:
    """Return a kernel that calls the user's function with the operands, and checks its results.

    `target` is the name of the custom call's target, for messages.
    """
    type_, has_regions = at.ins.type, bool(at.ins.calls)

    def kernel(*values: Any) -> Value:
        try:
            found = function(*(values[1:] if has_regions else values))
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise EvaluationError(f"the function for `{target}` failed: {why}") from error
        if found is None and type_ == TupleType(()):
            found = ()
        return as_value(found, type_, f"what the function for `{target}` returns")

    return kernel


# --------------------------------------------------------------------------------------------------
# Custom calls that XLA and JAX make, such as `Sharding` and `TopK`.
#
# Calls that state where a value is placed, or how it is laid out, return the value unchanged.
# Source: XLA's `TopK` kernel, JAX's `approx_top_k` and shape assertions.


@implements(
    "AllocateBuffer",
    "CreateBuffer",
)
def _allocate(op: CustomCall, at: Site) -> Kernel:
    """Return a kernel whose value is zeros: the contents of a new buffer are not specified."""
    type_ = at.result
    return lambda: np.zeros(type_.shape, dtype_of(type_.element))


@implements(
    "LayoutConstraint",
    "MoveToDevice",
    "MoveToHost",
    "Pin",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "SetBound",
    "Sharding",
    "Unpin",
    "annotate_device_placement",
    "xla.sdy.FuncResultSharding",
    "xla.sdy.PropagationBarrier",
)
def _same(op: CustomCall, at: Site) -> Kernel:
    """Return a kernel that returns its operand, which must be usable as the result's type.

    Raises:
        UnsupportedError: The call changes the type, such as to a part of an array on one device.
    """
    (given,), declared = at.operands, at.ins.type
    if _is_usable_as(given, declared):
        return lambda value: value
    name = f"`{op.call_target_name}`"
    match given, declared:
        case TensorType(), TensorType() if given.sizes != declared.sizes:
            raise UnsupportedError(
                f"{name} makes {declared} of {given}: this takes several devices"
            )
    raise UnsupportedError(f"{name} hands on {given}, and is declared as {declared}")


def _is_usable_as(given: Type, declared: Type) -> bool:
    """May a value of type `given` be used as a value of type `declared`?

    Float precision and layouts may differ.
    """
    stack = [(given, declared)]
    while stack:
        match stack.pop():
            case TupleType(some), TupleType(others) if len(some) == len(others):
                stack += zip(some, others, strict=True)
            case TensorType() as one, TensorType() as other if one.sizes == other.sizes:
                floats = one.element.kind == other.element.kind == "float"
                if one.element != other.element and not floats:
                    return False
            case one, other if one != other:
                return False
    return True


@implements("stablehlo.shape_refinement_operand_wrapper")
def _wrapped(op: CustomCall, at: Site) -> Kernel:
    """Return a kernel that returns its operand.

    Sizes may be known in the operand's type that are unknown in the result's.
    """
    match at.operands[:1], at.ins.type:
        case [TensorType() as given], TensorType() as declared:
            pairs = zip(given.sizes, declared.sizes, strict=False)
            fits = given.rank == declared.rank and given.element == declared.element
            if fits and all(b is None or a in (None, b) for a, b in pairs):
                return lambda value, *_: value
    found = ", ".join(map(str, at.operands))
    raise UnsupportedError(f"`{op.call_target_name}` hands on {found}, declared as {at.ins.type}")


@implements("xla.sdy.ShardingGroup")
def _nothing(op: CustomCall, at: Site) -> Kernel:
    """Return a kernel without results: a group of shardings only constrains placement."""
    return lambda *_: ()


@implements("X64Combine")
def _combine(op: CustomCall, at: Site) -> Kernel:
    """Return a kernel that makes a 64-bit integer of two 32-bit words; operands: low, high."""
    dtype = dtype_of(at.result.element)

    def combine(low: Any, high: Any) -> Value:
        words = low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))
        found: Value = np.asarray(words).view(dtype)
        return found

    return combine


@implements("X64SplitLow", "X64SplitHigh")
def _split(op: CustomCall, at: Site) -> Kernel:
    """Return a kernel whose value is the low or the high 32-bit word of a 64-bit integer.

    The high one if the target's name ends with `High`.
    """
    dtype, shift = dtype_of(at.result.element), np.uint64(32 * op.call_target_name.endswith("High"))
    return lambda value: (np.asarray(value).view(np.uint64) >> shift).astype(dtype)


@implements("TopK", "__gpu$TopK")
def _top_k(op: CustomCall, at: Site) -> Kernel:
    """Return a kernel for the k largest or smallest elements in order.

    k is the last size of the result.
    """
    values = at.results[0]
    assert isinstance(values, TensorType)
    size = values.sizes[-1]
    assert size is not None
    smallest = at.config.get("largest", True) is False
    top = TopK(size, not smallest)
    operands = (_parameter_like(at.ins.operands[0], 0),)
    inner = kernel(Instruction(at.ins.name, TupleType(at.results[:2]), top, operands), at.world)
    return lambda *given: inner(given[-1])  # regions, if any, come before the operand


@implements("ApproxTopK", "PartialReduce")
def _approx_top_k(op: CustomCall, at: Site) -> Kernel:
    """Return a kernel for the first elements of sorted arrays.

    The attribute `reduction_dim` is the sorted dimension.  A result may hold more elements than k,
    for a later aggregation; it then holds the next ones in order.  An exact result is a valid
    approximation.

    Operands: the arrays, then their initial values.
    """
    count = len(at.results)
    operands = tuple(_parameter_like(o, i) for i, o in enumerate(at.ins.operands[:count]))
    result = at.results[0]
    assert isinstance(result, TensorType)
    dimension = at.config.get("reduction_dim", result.rank - 1) % result.rank
    most = result.sizes[dimension]
    types = tuple(o.type for o in operands)
    whole = TupleType(types) if count > 1 else types[0]
    sort = Instruction(at.ins.name, whole, Sort(dimension, True), operands, at.ins.calls)
    inner = kernel(sort, at.world)
    cut = (slice(None),) * dimension + (slice(most),)

    def top(regions: Any, *given: Any) -> Value:
        found: Any = inner(regions, *given[:count])
        return tuple(part[cut] for part in found) if count > 1 else found[cut]

    return top


def _parameter_like(operand: Instruction, number: int) -> Instruction:
    """Return a parameter instruction number `number` with the name and type of an operand."""
    return Instruction(operand.name, operand.type, Parameter(number), span=operand.span)


@implements("shape_assertion")
def _shape_assertion(op: CustomCall, at: Site) -> Kernel:
    """Return a kernel that raises an error with a message if the first operand is false.

    Other operands are integers that replace `{0}`, `{1}` … in the message.
    """
    said = value_of([*op.settings, *at.ins.extras], "error_message")
    message = said if isinstance(said, str) else "the shapes are not as asserted"

    def check(holds: Any, *numbers: Any) -> Value:
        if not holds:
            text = message
            for i, number in enumerate(numbers):
                text = text.replace(f"{{{i}}}", str(int(number)))
            raise EvaluationError(text)
        return ()

    return check
