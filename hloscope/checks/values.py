"""Rules about types and arguments: element types, dynamic sizes, donated buffers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from hloscope.checks.findings import Finding
from hloscope.checks.rule import Parameter, Rule, size, texts
from hloscope.checks.subject import Subject, arrays_of
from hloscope.display import shape_text
from hloscope.errors import UnknownNameError, did_you_mean
from hloscope.fusion import size_in_bytes
from hloscope.hlo_parser import (
    BUFFER_DONOR,
    INPUT_OUTPUT_ALIAS,
    ShapeIndex,
    aliasing_in,
    index_text,
)
from hloscope.ir import ELEMENT_TYPES, Instruction, TupleType, size_text
from hloscope.mlir import ArrayAttr, DictAttr
from hloscope.stablehlo import Function


def _types(subject: Subject, absent: tuple[str, ...]) -> Iterator[Finding]:
    for name in absent:
        if name not in ELEMENT_TYPES:
            raise UnknownNameError(f"no element type `{name}`{did_you_mean(name, ELEMENT_TYPES)}")
    for computation, ins in subject.places(everywhere=True):
        found = _elements(ins) & {*absent}
        # Report only where the type first occurs: a value computed from such values is a result of
        # an earlier finding.
        if found - set().union(*map(_elements, subject.sources(computation, ins))):
            names = ", ".join(sorted(found))
            message = f"{shape_text(ins.type)}: {names} begins here, expected none"
            yield subject.finding("types", computation, ins, message, size_in_bytes(ins.type))


def _elements(ins: Instruction) -> set[str]:
    return {array.element.name for array in arrays_of(ins.type)}


TYPES: Final = Rule(
    "types",
    "No values of some element types.",
    {"absent": Parameter(("f64", "c128"), "Names of element types as HLO has them.", texts)},
    _types,
)


def _dynamic_sizes(subject: Subject) -> Iterator[Finding]:
    for computation, ins in subject.places(everywhere=True):
        if _is_dynamic(ins) and not any(map(_is_dynamic, subject.sources(computation, ins))):
            message = f"{shape_text(ins.type)}: a size that is known at run time begins here"
            yield subject.finding("dynamic-sizes", computation, ins, message, 1)


def _is_dynamic(ins: Instruction) -> bool:
    return any(not array.is_static or any(array.bounds) for array in arrays_of(ins.type))


DYNAMIC_SIZES: Final = Rule(
    "dynamic-sizes", "No sizes that are known at run time only.", {}, _dynamic_sizes
)


def _donation(subject: Subject, min_bytes: int) -> Iterator[Finding]:
    module = subject.module
    entry = module.entry
    for number, index in sorted(_donated(subject)):
        if number >= len(entry.parameters):
            continue
        parameter = entry.parameters[number]
        type_ = parameter.type
        for k in index:
            inner = type_.elements if isinstance(type_, TupleType) else ()
            type_ = inner[k] if k < len(inner) else type_
        if (count := size_in_bytes(type_)) >= min_bytes:
            where = f" {index_text(index)}" if index else ""
            message = f"argument {number}{where} of {size_text(count)} is donated, but no result"
            yield subject.finding(
                "donation", entry, parameter, f"{message} takes its memory", count
            )


def _donated(subject: Subject) -> set[tuple[int, ShapeIndex]]:
    """Donated buffers that no result takes: the parameter's number, and the tuple index in it."""
    extras = subject.module.extras
    found = _buffers(extras, BUFFER_DONOR) - _buffers(extras, INPUT_OUTPUT_ALIAS)
    function = subject.module.entry
    if isinstance(function, Function):
        given = function.operation.get("arg_attrs")
        for number, entries in enumerate(given.elements if isinstance(given, ArrayAttr) else ()):
            names = {k for k, _ in entries.entries} if isinstance(entries, DictAttr) else set()
            if "jax.buffer_donor" in names and "tf.aliasing_output" not in names:
                found.add((number, ()))
    return found


def _buffers(extras: Iterable[tuple[str, str]], name: str) -> set[tuple[int, ShapeIndex]]:
    return {(one.taken, one.inside) for one in aliasing_in(extras, name)}


DONATION: Final = Rule(
    "donation",
    "Every donated buffer is taken by a result.",
    {"min-bytes": Parameter(0, "Smaller ones are allowed.", size)},
    _donation,
)
