"""Results that share memory with parameters or operands, as a header or an attribute declares.

Source: XLA `HloInputOutputAliasConfig::Verify`, `HloBufferDonorConfig::Verify`, `hlo_verifier.cc`
(`HandleCustomCall`, `HandleFusion`).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from hloscope.errors import Diagnostic, ParseError
from hloscope.hlo_parser import (
    BUFFER_DONOR,
    INPUT_OUTPUT_ALIAS,
    OPERAND_ALIASING,
    Aliasing,
    ShapeIndex,
    index_text,
    print_type,
    read_aliasing,
)
from hloscope.ir import Instruction, Module, TensorType, TupleType, Type, storage_bits
from hloscope.ops import AsyncStart
from hloscope.source import Span
from hloscope.verifier.hlo.likeness import placed, same


def check_aliasing(module: Module) -> Iterator[Diagnostic]:
    """Check `input_output_alias` and `buffer_donor`: grammar, indices, sizes, one use of each."""
    extras = dict(module.extras)
    span, arguments, result = module.entry.span, module.entry.arguments, module.entry.root.type
    aliased: set[tuple[int, ShapeIndex]] = set()
    for name in (INPUT_OUTPUT_ALIAS, BUFFER_DONOR):
        for entry in _entries(name, extras.get(name), span):
            if isinstance(entry, Diagnostic):
                yield entry
                continue
            wrong = _wrong_entry(entry, "parameter", arguments, result, aliased)
            if wrong is None and entry.output is not None:
                aliased.add((entry.taken, entry.inside))
            if wrong is not None:
                yield Diagnostic(f"{name}: {wrong}", span)


def check_operand_aliasing(ins: Instruction) -> Iterator[Diagnostic]:
    """Check `output_to_operand_aliasing`: grammar, indices, and that both types are equal."""
    text = dict(getattr(ins.op, "settings", ())).get(OPERAND_ALIASING)
    if text is None or isinstance(ins.op, AsyncStart):
        return  # XLA checks the started op, not its start
    operands = tuple([operand.type for operand in ins.operands])
    for entry in _entries(OPERAND_ALIASING, text, ins.span):
        if isinstance(entry, Diagnostic):
            yield entry
            continue
        wrong = _wrong_place(entry, "operand", operands, ins.type)
        if wrong is None and entry.output is not None:
            taken, made = _part(operands[entry.taken], entry.inside), _part(ins.type, entry.output)
            if taken is not None and made is not None and not same(taken, made):
                wrong = (
                    f"{_place('operand', entry)} is {_text(taken)}, part"
                    f" {index_text(entry.output)} of the result {_text(made)}; they need the same"
                    " type"
                )
        if wrong is not None:
            yield Diagnostic(f"{OPERAND_ALIASING}: {wrong}", ins.span)


def _entries(name: str, text: str | None, span: Span | None) -> Iterator[Aliasing | Diagnostic]:
    """Yield the entries of an aliasing text; an error in place of an entry that does not parse."""
    try:
        yield from read_aliasing(name, text, span)
    except ParseError as error:
        yield Diagnostic(error.message, span)


def _wrong_place(entry: Aliasing, what: str, taken: tuple[Type, ...], result: Type) -> str | None:
    """Return a message about an index that does not exist; `None` if all exist."""
    if entry.taken >= len(taken):
        owner = "the entry" if what == "parameter" else "the instruction"
        return f"there is no {what} {entry.taken}, {owner} has {len(taken)}"
    type_ = taken[entry.taken]
    if _part(type_, entry.inside) is None:
        return f"{what} {entry.taken}, {_text(type_)}, has no part {index_text(entry.inside)}"
    if entry.output is not None and _part(result, entry.output) is None:
        return f"the result, {_text(result)}, has no part {index_text(entry.output)}"
    return None


def _wrong_entry(
    entry: Aliasing,
    what: str,
    taken: tuple[Type, ...],
    result: Type,
    aliased: set[tuple[int, ShapeIndex]],
) -> str | None:
    """Return a message about an entry of a header; `None` if it is valid."""
    wrong = _wrong_place(entry, what, taken, result)
    if wrong is not None:
        return wrong
    own, place = _part(taken[entry.taken], entry.inside), _place(what, entry)
    # XLA aliases buffers, and a tuple is not in one buffer.
    if isinstance(own, TupleType):
        return f"{place} is {_text(own)}, needs an array"
    if (entry.taken, entry.inside) in aliased:
        return f"{place} is the memory of another part of the result already"
    if entry.output is None:
        return None
    made, where = _part(result, entry.output), f"part {index_text(entry.output)} of the result"
    if isinstance(made, TupleType):
        return f"{where} is {_text(made)}, needs an array"
    # XLA compares the sizes of the buffers only: types may differ.
    sizes = [_bytes(own), _bytes(made)]
    if None not in sizes and sizes[0] != sizes[1]:
        return (
            f"{place} is {_text(own)} of {sizes[0]} bytes, {where} {_text(made)} of {sizes[1]};"
            " they need the same size"
        )
    return None


def _bytes(type_: Type | None) -> int | None:
    """Bytes of an array without padding, with bounds as sizes; `None` if a size is unknown."""
    if type_ is None:
        return None
    whole = placed(type_)
    if not isinstance(whole, TensorType) or not whole.is_static:
        return None
    return (prod(whole.shape) * storage_bits(whole) + 7) // 8


def _part(type_: Type, index: ShapeIndex) -> Type | None:
    """Return the part of a type at a shape index; `None` if the index does not exist."""
    for number in index:
        if not isinstance(type_, TupleType) or number >= len(type_.elements):
            return None
        type_ = type_.elements[number]
    return type_


def _place(what: str, entry: Aliasing) -> str:
    part = f"part {index_text(entry.inside)} of " if entry.inside else ""
    return f"{part}{what} {entry.taken}"


def _text(type_: Type | None) -> str:
    return "nothing" if type_ is None else print_type(type_, layout=False)
