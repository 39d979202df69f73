"""What `run` runs, and on which arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, Final

import click
import numpy as np

from hloscope.api import findings, language_of
from hloscope.compare import MOST_BYTES, arranged, load
from hloscope.errors import (
    HloscopeError,
    UnknownNameError,
    UnsupportedError,
    VerifyError,
    did_you_mean,
)
from hloscope.hlo_parser import parse_hlo
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
    Module,
    QuantizedType,
    TensorType,
    TupleType,
    Type,
    VectorType,
)
from hloscope.lazy import pattern
from hloscope.mlir import (
    ArrayAttr,
    DenseAttr,
    parse_attribute,
    spell,
    split_input,
    to_array,
    type_text,
)
from hloscope.source import Source
from hloscope.stablehlo import Function, parse_stablehlo

_COMMENT: Final = pattern(r"//[^\n]*")
_WIDEST: Final = 16
"""Bytes of the widest element, complex128."""
_SPARE: Final = 1 << 20
_LIKE: Final = "i.e. --args=[dense<1> : tensor<2xi32>, ...]"


def modules_of(source: Source, *, split: bool) -> Iterator[Module]:
    """The programs of a text: pieces without any are left out."""
    for line, piece in split_input(source.text) if split else [(1, source.text)]:
        if not split or _COMMENT.sub("", piece).strip():
            text = "\n" * (line - 1) + piece
            in_hlo = language_of(Source(source.name, piece)) == "hlo"
            yield (parse_hlo if in_hlo else parse_stablehlo)(text, name=source.name)


def right_modules_of(source: Source, *, split: bool) -> Iterator[Module]:
    """The programs of a text, verified; ends with all findings about the first wrong one.

    What would be computed of a wrong program has no meaning.
    """
    for module in modules_of(source, split=split):
        wrong = findings(module)
        for diagnostic in wrong:
            click.echo(str(diagnostic), err=True)
        if wrong:
            click.get_current_context().exit(VerifyError.exit_code)
        yield module


def entry_of(module: Module, name: str | None) -> Computation:
    """The computation of that name; else `main` or ENTRY, or the only function.

    Raises:
        UnknownNameError: There is none of that name, or several functions but no `main`.
    """
    if name is not None:
        found = module.computations.get(name.lstrip("@%"))
        if found is None:
            near = did_you_mean(name, module.computations)
            raise UnknownNameError(f"no function or computation `{name}`{near}")
        return found
    functions = [c.name for c in module if isinstance(c, Function)]
    if len(functions) > 1 and "main" not in functions:
        some = ", ".join(functions[:5])
        raise UnknownNameError(f"no function `main`: name one of {some} with --entry")
    return module.entry


def arguments_of(entry: Computation, options: dict[str, Any], processes: int) -> list[list[Value]]:
    """The arguments of each process, or those of all.

    Raises:
        click.UsageError: They are not those that the entry takes.
        UnsupportedError: It takes what is no tensor, such as a plain `i32`.
    """
    types = entry.arguments
    for type_ in types:
        check_evaluable(type_)
        if isinstance(type_, ElementType | VectorType):
            raise UnsupportedError(f"arguments of type {type_text(type_)} cannot be given")
    try:
        if options["literals"] is not None:
            return [_checked(_literals(options["literals"]), types)]
        if options["inputs"]:
            return _from_files(options["inputs"], entry, processes)
        if options["random"] is not None:
            for i, type_ in enumerate(types):
                if byte_size(type_) > options["max_bytes"]:
                    raise EvaluationError(f"argument {i} needs {byte_size(type_):,} bytes")
            generator = np.random.default_rng(options["random"])
            try:
                return [[_random(type_, generator) for type_ in types]]
            except MemoryError:
                needed = sum(map(byte_size, types))
                raise EvaluationError(f"no memory for arguments of {needed:,} bytes") from None
        return [_checked([], types)]
    except EvaluationError as error:
        raise click.UsageError(error.message) from None


def _checked(given: Sequence[Any], types: Sequence[Type]) -> list[Value]:
    """The values given, and tokens, as arguments."""
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
            raise EvaluationError(f"an argument is no array: {error.message}") from None
    return found


def _from_files(paths: Sequence[str], entry: Computation, processes: int) -> list[list[Value]]:
    """Arguments from files: one `.npz` for each process, or files of one array each."""
    types = entry.arguments
    names = [parameter.name for parameter in entry.body.parameters]
    counts = [_elements(type_) for type_ in types]
    # Elements may be stored in a wider type; an array too many is told of when all are there.
    most = MOST_BYTES if None in counts else _SPARE + _WIDEST * sum(filter(None, counts))
    loaded = [load(path, most_bytes=min(most, MOST_BYTES)) for path in paths]
    if processes > 1 and len(loaded) == processes:
        return [arranged(arrays, types, names, spell) for arrays in loaded]
    if len(loaded) == 1:
        return [arranged(loaded[0], types, names, spell)]
    one_by_one = [array for arrays in loaded for array in arrays.values()]
    return [arranged({str(i): array for i, array in enumerate(one_by_one)}, types, (), spell)]


def _elements(type_: Type) -> int | None:
    """How many elements a value has at most; `None` if nobody knows."""
    if isinstance(type_, TupleType):
        counts = [_elements(inner) for inner in type_.elements]
        return None if None in counts else sum(filter(None, counts))
    if not isinstance(type_, TensorType):
        return 0
    bounds = type_.bounds or (None,) * type_.rank
    sizes = [
        bound if size is None else size for size, bound in zip(type_.sizes, bounds, strict=True)
    ]
    return None if None in sizes else prod(size for size in sizes if size is not None)


def _random(type_: Type, generator: np.random.Generator) -> Value:
    """Numbers of no special kind: floats about 0, small integers."""
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
