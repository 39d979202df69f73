"""Evaluation of custom calls: known targets, and Python functions of the user.

A family of targets registers makers with `implements`, as ops do with `registry.evaluates`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from hloscope.errors import UnsupportedError, did_you_mean
from hloscope.interpreter.evaluation import as_value
from hloscope.interpreter.registry import Kernel, Maker, Site, evaluates
from hloscope.interpreter.values import EvaluationError, Value
from hloscope.interpreter.world import UserFunction
from hloscope.ir import TupleType
from hloscope.ops import CustomCall

TARGETS: Final[dict[str, Maker]] = {}
"""Makers by target name."""

_M = TypeVar("_M", bound=Maker)


def implements(*targets: str) -> Callable[[_M], _M]:
    """Return a decorator that registers a maker for custom calls of these targets."""

    def register(maker: _M) -> _M:
        for target in targets:
            assert target not in TARGETS, target
            TARGETS[target] = maker
        return maker

    return register


@evaluates(CustomCall)
def _custom_call(op: CustomCall, at: Site) -> Kernel:
    """Kernel of a custom call; the user's function for a target takes precedence."""
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
        # The known form of a target is not specified, so a maker or kernel that fails has met
        # another form.
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
    """Error for a call whose operands or configuration are not of the form known for its target.

    The target's meaning is not specified, so such a call is unsupported, not invalid.
    """
    message = f"custom call `{target}` has other operands, results or parts than are known of it"
    return UnsupportedError(message)


def _user_kernel(target: str, function: UserFunction, at: Site) -> Kernel:
    """Kernel that calls the user's function with the operands and checks its results."""
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
