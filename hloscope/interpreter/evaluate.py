"""Evaluation of modules and computations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloscope.hlo_parser.types import print_type
from hloscope.interpreter.plan import Plans, run
from hloscope.interpreter.values import EvaluationError, Value, dtype_of, fits
from hloscope.interpreter.world import World
from hloscope.ir.graph import Computation, Module
from hloscope.ir.types import QuantizedType, TensorType, TupleType, Type


def evaluate(
    program: Module | Computation, arguments: Sequence[Any] = (), world: World | None = None
) -> tuple[Value, ...]:
    """The values a program returns.

    Args:
        program: A module, of which the entry is evaluated, or one computation.
        arguments: One value for each parameter: anything numpy makes an array of the right type
            of, tuples of such, tokens.
        world: Limits, user functions and the like.

    Raises:
        EvaluationError: An argument does not fit, a limit is reached, an assertion fails.
        UnsupportedError: An op that is reached has no evaluation.
    """
    world = World() if world is None else world
    computation = program
    if isinstance(program, Module):
        computation = program.entry
        world.functions = program.computations
    assert isinstance(computation, Computation)
    taken = computation.arguments
    if len(arguments) != len(taken):
        message = f"{computation.name} takes {len(taken)} arguments, found {len(arguments)}"
        raise EvaluationError(message, span=computation.span)
    values = [
        as_value(v, t, f"argument {i}")
        for i, (v, t) in enumerate(zip(arguments, taken, strict=True))
    ]
    import numpy as np

    with np.errstate(all="ignore"):
        return run(Plans(world).of(computation), values)


def as_value(given: Any, type_: Type, what: str) -> Value:
    """A value of the type made of what Python gives.

    Raises:
        EvaluationError: It cannot be one without changing it.
    """
    import numpy as np

    value: Value = given
    if isinstance(type_, TupleType) and isinstance(given, tuple | list):
        if len(given) == len(type_.elements):
            parts = enumerate(zip(given, type_.elements, strict=True))
            value = tuple(as_value(v, t, f"{what}, part {i}") for i, (v, t) in parts)
    elif isinstance(type_, TensorType) and not isinstance(given, tuple):
        dtype = dtype_of(type_.element)
        array = np.asarray(given)
        is_plain = not isinstance(given, np.ndarray | np.generic) and not hasattr(given, "dtype")
        if is_plain and not isinstance(type_.element, QuantizedType):
            array = array.astype(dtype)
        value = array
    why = fits(value, type_)
    if why:
        raise EvaluationError(f"{what} should be {print_type(type_, layout=False)}: {why}")
    return value
