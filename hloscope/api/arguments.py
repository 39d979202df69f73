"""The arguments a program is run on: literals, arrays from files, or random numbers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from hloscope.api.files import bytes_of_file
from hloscope.compare import MOST_BYTES, arranged, load
from hloscope.errors import HloscopeError, UnsupportedError
from hloscope.hlo_parser import is_proto, recorded_arguments
from hloscope.interpreter import (
    TOKEN,
    EvaluationError,
    Value,
    as_value,
    byte_size,
    check_evaluable,
    dtype_of,
)
from hloscope.ir import (
    Computation,
    ElementType,
    FutureType,
    QuantizedType,
    TensorType,
    TupleType,
    Type,
    VectorType,
)
from hloscope.limits import MAX_BYTES, WIDEST
from hloscope.mlir import ArrayAttr, DenseAttr, parse_attribute, spell, to_array, type_text

_HEAD: Final = 1 << 12
"""Bytes by which a file is told to be a proto."""
_SPARE: Final = 1 << 20
_LIKE: Final = "i.e. --args=[dense<1> : tensor<2xi32>, ...]"


class Given(Struct, frozen=True):
    """The source of arguments: one of the fields. With none of them, a program has no arguments.

    Attributes:
        literals: `[dense<1> : tensor<2xi32>, …]`.
        inputs: Files of arrays, `.npz` or `.npy`.
        random: The seed of random numbers.
        recorded: Those that the file of the program records: an `HloSnapshot` does.
    """

    literals: str | None = None
    inputs: Sequence[str] = ()
    random: int | None = None
    recorded: Sequence[Any] = ()


def arguments_of(
    entry: Computation, given: Given, *, processes: int = 1, max_bytes: int = MAX_BYTES
) -> list[list[Value]]:
    """The arguments of each process, or those of all.

    Args:
        entry: What is run.
        given: Where they come from.
        processes: How many run it side by side.
        max_bytes: Most bytes of one random argument.

    Raises:
        EvaluationError: They are not those that the entry takes.
        InputError: A file cannot be read.
        UnsupportedError: It takes what is no tensor, such as a plain `i32`.

    >>> import hloscope
    >>> program = hloscope.read("ENTRY e { ROOT p = s32[2] parameter(0) }")
    >>> arguments_of(program.module.entry, Given("[dense<[1, 2]> : tensor<2xi32>]"))
    [[array([1, 2], dtype=int32)]]
    """
    types = entry.arguments
    for type_ in types:
        check_evaluable(type_)
        if isinstance(type_, ElementType | VectorType):
            raise UnsupportedError(f"arguments of type {type_text(type_)} cannot be given")
    if given.literals is not None:
        return [_checked(_literals(given.literals), types)]
    if given.inputs:
        return _from_files(given.inputs, entry, processes)
    if given.random is not None:
        return [_random_arguments(types, given.random, max_bytes)]
    return [_checked(given.recorded, types)]


def recorded_in(path: str) -> list[Any]:
    """The arguments that a file records beside its program, as an `HloSnapshot` does.

    Raises:
        ParseError: The file is damaged.
        UnsupportedError: An argument has a shape that is not read.
    """
    if path == "-" or not os.path.isfile(path):
        return []
    with open(path, "rb") as stream:
        if not is_proto(stream.read(_HEAD)):
            return []
    return recorded_arguments(bytes_of_file(path), path)


def _random_arguments(types: Sequence[Type], seed: int, max_bytes: int) -> list[Value]:
    for i, type_ in enumerate(types):
        if byte_size(type_) > max_bytes:
            raise EvaluationError(f"argument {i} needs {byte_size(type_):,} bytes")
    # The sizes were checked above: the generator would otherwise allocate without limit.
    generator = np.random.default_rng(seed)
    try:
        return [_random(type_, generator) for type_ in types]
    except MemoryError:
        needed = sum(map(byte_size, types))
        raise EvaluationError(f"no memory for arguments of {needed:,} bytes") from None


def _checked(given: Sequence[Any], types: Sequence[Type]) -> list[Value]:
    """Convert the given values to the parameters' types, and insert a token for each token type."""
    rest = list(given)
    needed = [type_ for type_ in types if isinstance(type_, TensorType | TupleType)]
    if len(rest) != len(needed):
        wanted = ", ".join(map(type_text, needed)) or "none"
        raise EvaluationError(
            f"the program takes {len(needed)} argument{'s' * (len(needed) != 1)} ({wanted}), found"
            f" {len(rest)}: give them by --args, --input or --random"
        )
    made: list[Value] = []
    for i, type_ in enumerate(types):
        is_token = not isinstance(type_, TensorType | TupleType)
        made.append(TOKEN if is_token else as_value(rest.pop(0), type_, f"argument {i}"))
    return made


def _literals(text: str) -> list[Any]:
    """The arrays of `[dense<1> : tensor<2xi32>, …]`."""
    try:
        attribute = parse_attribute(text)
    except HloscopeError:
        attribute = None
    if not isinstance(attribute, ArrayAttr):
        raise EvaluationError(f"expected array attribute string for args, {_LIKE}")
    found = []
    for element in attribute.elements:
        if not isinstance(element, DenseAttr):
            raise EvaluationError(f"expected dense elements attribute for args elements, {_LIKE}")
        try:
            found.append(to_array(element))
        except HloscopeError as error:
            raise EvaluationError(f"an argument is not an array: {error.message}") from None
    return found


def _from_files(paths: Sequence[str], entry: Computation, processes: int) -> list[list[Value]]:
    """Arguments from files: one `.npz` for each process, or files of one array each."""
    types = entry.arguments
    names = [parameter.name for parameter in entry.body.parameters]
    counts = [_elements(type_) for type_ in types]
    # Elements may be stored in a wider type. The spare bytes let one array too many load, so that
    # `arranged` can report the count instead of a size limit.
    most = MOST_BYTES if None in counts else _SPARE + WIDEST * sum(filter(None, counts))
    loaded = [load(path, most_bytes=min(most, MOST_BYTES)) for path in paths]
    if processes > 1 and len(loaded) == processes:
        return [arranged(arrays, types, names, spell) for arrays in loaded]
    if len(loaded) == 1:
        return [arranged(loaded[0], types, names, spell)]
    one_by_one = [array for arrays in loaded for array in arrays.values()]
    return [arranged({str(i): array for i, array in enumerate(one_by_one)}, types, (), spell)]


def _elements(type_: Type) -> int | None:
    """Upper bound of the number of elements of a value; `None` if a size has no bound."""
    if isinstance(type_, TupleType):
        counts = [_elements(inner) for inner in type_.elements]
        return None if None in counts else sum(filter(None, counts))
    if not isinstance(type_, TensorType):
        return 0
    return None if None in type_.most else type_.num_elements


def _random(type_: Type, generator: np.random.Generator) -> Value:
    """Random values: floats from a standard normal distribution, integers from 0 to 9."""
    if isinstance(type_, TupleType | FutureType):
        return tuple([_random(inner, generator) for inner in type_.elements])
    if not isinstance(type_, TensorType):
        return TOKEN
    element, shape = type_.element, tuple(1 if n is None else n for n in type_.sizes)
    dtype = dtype_of(element)
    made: Any
    match "signed" if isinstance(element, QuantizedType) else element.kind:
        case "pred":
            made = generator.integers(0, 2, shape).astype(dtype)
        case "signed" | "unsigned":
            most = min(10, 1 << (element.bits - 1))
            made = generator.integers(0, most, shape).astype(dtype)
        case "complex":
            parts = generator.standard_normal((2, *shape))
            made = (parts[0] + 1j * parts[1]).astype(dtype)
        case _:
            made = generator.standard_normal(shape).astype(dtype)
    return made if shape else np.asarray(made)[()]
