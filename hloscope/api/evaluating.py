"""Run programs: arguments in, numpy arrays out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hloscope import interpreter
from hloscope.api.program import Program
from hloscope.api.sources import Readable
from hloscope.ir import Module
from hloscope.limits import MAX_BYTES


def evaluate(
    program: Program | Module | Readable,
    *arguments: Any,
    entry: str | None = None,
    max_steps: int | None = None,
    max_bytes: int = MAX_BYTES,
    custom_calls: Mapping[str, Callable[..., Any]] | None = None,
) -> Any:
    """Run a program and return its result: an array, or a tuple if there are several.

    Args:
        program: Whatever `read` takes, or what it gave; a module.
        arguments: One for each parameter: numpy arrays, or what numpy makes arrays of (those of
            jax, say), of exactly the parameter's type; numbers of Python and lists of them, which
            become elements of that type; tuples for tuples.
        entry: Name of another function or computation than the entry.
        max_steps: Most instructions to evaluate, loops counted as often as they run.
        max_bytes: Most bytes of one value.
        custom_calls: Python functions by the target of the custom calls that they implement; they
            get the operands as arrays.

    Raises:
        EvaluationError: An argument does not fit, a limit is reached, an assertion fails.
        UnsupportedError: An op that is reached has no evaluation.
        HloscopeError: The program cannot be read.

    >>> evaluate("ENTRY e { p = f32[3] parameter(0) ROOT n = f32[3] negate(p) }", [1, 2.5, 0])
    array([-1. , -2.5, -0. ], dtype=float32)
    """
    return Program.of(program).evaluate(
        *arguments,
        entry=entry,
        max_steps=max_steps,
        max_bytes=max_bytes,
        custom_calls=custom_calls,
    )


def evaluate_grid(
    program: Program | Module | Readable,
    *processes: Sequence[Any],
    replicas: int = 1,
    partitions: int = 1,
    entry: str | None = None,
    max_steps: int | None = None,
    max_bytes: int = MAX_BYTES,
    custom_calls: Mapping[str, Callable[..., Any]] | None = None,
) -> list[Any]:
    """Run a program on replicas × partitions; return each process's result, replica by replica.

    Args:
        program: The program that all processes run, as for `evaluate`.
        processes: The arguments of each process; a single list is used for all.
        replicas: Number of replicas.
        partitions: Number of partitions of each replica.
        entry: Name of another function or computation than the entry.
        max_steps: Most instructions to evaluate in all processes together.
        max_bytes: Most bytes of one value.
        custom_calls: Python functions by the target of the custom calls that they implement.

    Raises:
        EvaluationError: As for `evaluate`; or processes wait for each other for ever.

    >>> text = '''
    ... add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }
    ... ENTRY e { p = s32[] parameter(0) ROOT r = s32[] all-reduce(p), to_apply=add }'''
    >>> [int(total) for total in evaluate_grid(text, [1], [10], [100], replicas=3)]
    [111, 111, 111]
    """
    return interpreter.call_grid(
        Program.of(program).module,
        processes,
        replicas=replicas,
        partitions=partitions,
        entry=entry,
        max_steps=max_steps,
        max_bytes=max_bytes,
        custom_calls=custom_calls,
    )
