"""Evaluation of modules and computations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hloscope.arrays import np
from hloscope.interpreter.memory import limited
from hloscope.interpreter.plan import Plans, run
from hloscope.interpreter.values import (
    Array,
    EvaluationError,
    Token,
    Value,
    check_evaluable,
    dtype_of,
    fits,
    plain,
)
from hloscope.interpreter.world import World
from hloscope.ir import Computation, ElementType, Module, QuantizedType, TensorType, TupleType, Type

_TAKES: Final = {
    "pred": "b",
    "signed": "biu",
    "unsigned": "biu",
    "float": "biuf",
    "complex": "biufc",
}
"""Kinds of numpy types whose numbers may become elements, by the kind of these."""


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
        world.functions, world.attributes = program.computations, program.extras
        world.spell = program.spell
    assert isinstance(computation, Computation)
    taken = computation.arguments
    for type_ in taken:
        check_evaluable(type_)
    if len(arguments) != len(taken):
        types = ", ".join(map(str, taken))
        count = f"{len(taken)} argument{'s' * (len(taken) != 1)}"
        message = f"{computation.name} takes {count} ({types}), found {len(arguments)}"
        raise EvaluationError(message, span=computation.span)
    values = [
        as_value(v, t, f"argument {i}")
        for i, (v, t) in enumerate(zip(arguments, taken, strict=True))
    ]
    with np.errstate(all="ignore"), limited(world.max_bytes):
        results = run(Plans(world).of(computation), values)
    check_results(results, computation)
    return tuple(map(plain, results))


def check_results(results: Sequence[Value], computation: Computation) -> None:
    """Check that values are of the types a computation returns.

    Ops believe declared types, which `hloscope verify` checks.

    Raises:
        EvaluationError: They are not.
    """
    for i, (value, type_) in enumerate(zip(results, computation.results, strict=True)):
        why = fits(value, type_)
        if why:
            message = f"result {i} should be {type_}: {why}"
            raise EvaluationError(f"{message}; the program is wrong", span=computation.span)


def as_value(given: Any, type_: Type, what: str) -> Value:
    """A value of the type made of what Python gives.

    Raises:
        EvaluationError: It cannot be one without changing it.
    """
    value: Value = given
    if isinstance(type_, TupleType) and isinstance(given, tuple | list):
        if len(given) == len(type_.elements):
            parts = enumerate(zip(given, type_.elements, strict=True))
            value = tuple(as_value(v, t, f"{what}, part {i}") for i, (v, t) in parts)
    elif isinstance(type_, TensorType) and not isinstance(given, Token):
        value = _as_array(given, type_.element, what)
    why = fits(value, type_)
    if why:
        raise EvaluationError(f"{what} should be {type_}: {why}")
    return value


def _as_array(given: Any, element: ElementType, what: str) -> Array:
    """What Python gives as an array: numbers of Python's own become elements, if they can."""
    try:
        array = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise EvaluationError(f"{what} is no array: {error}") from None
    if array.dtype.hasobject:
        raise EvaluationError(f"{what}: {str(given)[:40]} is no {element.name}")
    if hasattr(given, "dtype"):
        return array if array.ndim else array[()]
    kind = element.storage.kind if isinstance(element, QuantizedType) else element.kind
    converted = array
    if array.dtype.kind in _TAKES.get(kind, "") or not array.size:
        with np.errstate(all="ignore"):
            converted = array.astype(dtype_of(element))
        if kind in ("float", "complex"):
            wrong = np.isfinite(array) & ~np.isfinite(converted)
        else:
            wrong = converted.astype(array.dtype) != array
        if wrong.any():
            worst = array[wrong].flat[0] if array.ndim else array
            raise EvaluationError(f"{what}: {worst} is no {element.name}")
    return converted if converted.ndim else converted[()]
