"""Programs called like functions of Python: arguments in, numpy arrays out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from hloscope.arrays import np
from hloscope.errors import UnknownNameError, did_you_mean
from hloscope.interpreter.evaluation import evaluate
from hloscope.interpreter.parallel import evaluate_grid
from hloscope.interpreter.values import Token, Value
from hloscope.interpreter.world import UserFunction, World
from hloscope.ir import Computation, Module
from hloscope.limits import MAX_BYTES

Result: TypeAlias = Any
"""What a program returns: an array, a `Token`, or a tuple of several (nested) results."""


def call(
    module: Module,
    arguments: Sequence[Any] = (),
    *,
    entry: str | None = None,
    max_steps: int | None = None,
    max_bytes: int = MAX_BYTES,
    custom_calls: Mapping[str, UserFunction] | None = None,
) -> Result:
    """What the program returns.

    Args:
        module: The program.
        arguments: One value for each parameter.
        entry: Name of another function or computation than the entry.
        max_steps: Most instructions to evaluate, loops counted as often as they run.
        max_bytes: Most bytes of one value.
        custom_calls: Python functions by the target of the custom calls they stand for.

    Raises:
        EvaluationError: An argument does not fit, a limit is reached, an assertion fails.
        UnknownNameError: There is no such function.
        UnsupportedError: An op that is reached has no evaluation.
    """
    world = World(custom_calls=custom_calls or {}, max_steps=max_steps, max_bytes=max_bytes)
    return _given(evaluate(with_entry(module, entry), arguments, world), arguments)


def call_grid(
    module: Module,
    arguments: Sequence[Sequence[Any]],
    *,
    replicas: int,
    partitions: int,
    entry: str | None = None,
    max_steps: int | None = None,
    max_bytes: int = MAX_BYTES,
    custom_calls: Mapping[str, UserFunction] | None = None,
) -> list[Result]:
    """What every process of a grid of replicas × partitions returns, replicas one after another.

    Args:
        module: The program that all run.
        arguments: The arguments of each process; those of only one are for all.
        replicas: Number of replicas.
        partitions: Number of partitions of each replica.
        entry: As for `call`, and so are the others.
        max_steps: Most instructions to evaluate in all processes together.
        max_bytes: Most bytes of one value.
        custom_calls: Python functions by the target of the custom calls they stand for.

    Raises:
        EvaluationError: As for `call`; or processes wait for each other for ever.
    """
    world = World(custom_calls=custom_calls or {}, max_steps=max_steps, max_bytes=max_bytes)
    module = with_entry(module, entry)
    found = evaluate_grid(module, arguments, replicas, partitions, world)
    return [_given(results, arguments) for results in found]


def with_entry(module: Module, name: str | None) -> Module:
    """The module with another entry, or itself.

    Raises:
        UnknownNameError: There is no such function or computation.
    """
    if name is None or name == module.entry.name:
        return module
    plain = name.lstrip("@%")
    found: Computation | None = module.computations.get(plain)
    if found is None:
        near = did_you_mean(plain, module.computations)
        raise UnknownNameError(f"no function `{name}` in {module.name}{near}")
    extras, spell = module.extras, module.spell
    return Module(module.name, module.computations, found, extras=extras, spell=spell)


def _given(results: tuple[Value, ...], arguments: Sequence[Any]) -> Result:
    """Results as the caller may keep and change them: own arrays, no two of them shared."""
    seen = {id(argument) for argument in _leaves(arguments)}
    own = tuple([_own(result, seen) for result in results])
    return own[0] if len(own) == 1 else own


def _leaves(given: Any) -> Iterator[Any]:
    if isinstance(given, list | tuple):
        for part in given:
            yield from _leaves(part)
    else:
        yield given


def _own(value: Value, seen: set[int]) -> Result:
    if isinstance(value, tuple):
        return tuple([_own(part, seen) for part in value])
    if isinstance(value, Token):
        return value
    is_own = isinstance(value, np.ndarray) and value.flags.owndata and value.flags.writeable
    if is_own and id(value) not in seen:
        seen.add(id(value))
        return value
    return np.array(value)
