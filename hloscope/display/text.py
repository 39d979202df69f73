"""Answers as plain text: for people, and as XLA's `print_indexing` writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from hloscope.affine import Dim, default_name
from hloscope.display.answer import (
    Answer,
    OperandAnswer,
    OutputAnswer,
    access_json,
    shape_text,
)
from hloscope.display.parts import AccessParts, access_parts
from hloscope.display.table import columns
from hloscope.indexing import Access, Precision
from hloscope.ir.graph import Instruction
from hloscope.ir.types import Dims, TupleType, Type
from hloscope.ops.control import Parameter
from hloscope.ops.shape import Constant

T = TypeVar("T")
WIDTH: Final = 100
"""Where the conditions of a map would make a line longer, they stand below it."""


def to_text(answer: Answer) -> str:
    """The answer for people: what is asked, then each operand with its maps."""
    sections = [headline(answer.instruction, answer.opcode)]
    for output in answer.outputs:
        sections += _output(answer, output)
    if not answer.outputs:
        sections.append("The value has no elements.")
    return "\n\n".join(sections)


def headline(ins: Instruction, opcode: str) -> str:
    """The instruction on one line: `name = shape opcode(operands)`; long lists are cut."""
    match ins.op:
        case Parameter(number):
            inside = str(number)
        case Constant(literal):
            inside = literal if len(literal) <= 24 else f"{literal[:20]} …"
        case _:
            inside = _short_list(ins.operands, lambda o: o.name)
    return f"{ins.name} = {_short_shape(ins.type)} {opcode}({inside})"


def _short_shape(type: Type) -> str:
    """A type without layouts; a long tuple without the middle and with its length."""
    if isinstance(type, TupleType) and len(type.elements) > 8:
        return f"({_short_list(type.elements, shape_text)}; {len(type.elements)} in all)"
    return shape_text(type)


def _output(answer: Answer, output: OutputAnswer) -> Iterator[str]:
    many = len(answer.outputs) > 1 or output.number > 0
    which = f"output {output.number}" if many else "the output"
    if answer.direction == "output_to_input":
        sizes = answer.sizes(output.type)
        verb = "reads" if output.operands else f"reads no {answer.what}"
        of = f"{which}, {shape_text(output.type)}"
        yield f"{_element(answer, sizes)} of {of}, {verb}"
        for operand in output.operands:
            if operand.accesses:
                title = (
                    f"{answer.what} {operand.number}  {shape_text(operand.type)}  {operand.name}"
                )
                yield _block(title, operand, sizes)
        unread = [o for o in output.operands if not o.accesses]
        if unread:
            names = _short_list(unread, lambda o: f"{answer.what} {o.number} {o.name}")
            proofs = dict.fromkeys(line for o in unread for line in _proof(o))
            yield "\n".join([f"  not read: {names}", *proofs])
    else:
        for operand in output.operands:
            sizes = answer.sizes(operand.type)
            of = f"operand {operand.number}, {shape_text(operand.type)} {operand.name}"
            yield f"{_element(answer, sizes)} of {of}, reaches"
            title = f"{which}  {shape_text(output.type)}"
            yield _block(title, operand, sizes)


def _element(answer: Answer, sizes: Dims) -> str:
    """What an element is called: by index, index in memory order, or position."""
    dims = f" ({', '.join(default_name(Dim(i)) for i in range(len(sizes)))})" if sizes else ""
    if answer.order == "logical":
        return f"Element{dims}"
    return f"Position{dims} in memory" if sizes else "The position in memory"


def _short_list(items: Sequence[T], name: Callable[[T], str]) -> str:
    """The names of the items, the middle of a long list left out."""
    if len(items) <= 8:
        return ", ".join(map(name, items))
    return ", ".join([*map(name, items[:6]), "…", name(items[-1])])


def _block(title: str, operand: OperandAnswer, sizes: Dims) -> str:
    if not operand.accesses:
        return "\n".join([f"  {title}", "    not reached", *_proof(operand)])
    parts = [access_parts(access, sizes) for access in operand.accesses]
    arrows = [_arrow(access, p) for access, p in zip(operand.accesses, parts, strict=True)]
    where = [", ".join(p.where) for p in parts]
    claims = [str(access.precision) for access in operand.accesses]
    beside = _lines(arrows, where, claims)
    wide = max(map(len, beside)) > WIDTH
    lines = _lines(arrows, claims) if wide else beside
    out = [f"  {title}"]
    for i, access in enumerate(operand.accesses):
        out.append(lines[i])
        if wide and where[i]:
            out += _filled("for ", parts[i].where)
        out += [f"      with {origin}" for origin in parts[i].origins]
        if access.precision is not Precision.EXACT:
            out.append(f"      {parts[i].claim}")
    return "\n".join([*out, *_proof(operand)])


def _proof(operand: OperandAnswer) -> list[str]:
    return [f"    proof: {operand.check}"] if operand.check else []


def _filled(head: str, items: Sequence[str]) -> list[str]:
    """Lines no wider than they need to be, broken between items only."""
    lines = [f"      {head}{items[0]}"]
    for item in items[1:]:
        if len(lines[-1]) + len(item) + 2 > WIDTH:
            lines[-1] += ","
            lines.append(" " * 10 + item)
        else:
            lines[-1] += f", {item}"
    return lines


def _arrow(access: Access, parts: AccessParts) -> str:
    """The map, after the number of the array it is about, where there are several."""
    return f"{{{access.leaf}}} {parts.arrow}" if access.leaf else parts.arrow


def _lines(*cells: list[str]) -> list[str]:
    """Lines of columns; a column without any text takes no room."""
    used = [column for column in cells if any(column)]
    return columns(zip(*used, strict=True), indent=4, gap=3).splitlines()


def to_print_indexing(answer: Answer) -> str:
    """The answer line by line as XLA's tool `print_indexing` prints it.

    Source: XLA `tools/print_indexing`; its test's expected output.
    """
    lines = []
    for output in answer.outputs:
        for operand in output.operands:
            if operand.accesses:
                lines.append(f"Output {output.number} operand {operand.number}:")
            for access in operand.accesses:
                lines += _print_indexing(access)
    return "\n".join(lines)


def _print_indexing(access: Access) -> Iterator[str]:
    described = access_json(access)
    yield described["map"] or f"unknown: {access.reason}"
    if described["runtime_variables"]:
        yield "runtime variables:"
        for variable in described["runtime_variables"]:
            yield f"  {variable['name']}: {variable['origin']}; {variable['map']}"
    if described["replica_id_map"]:
        yield f"replica id: {described['replica_id_map']}"
