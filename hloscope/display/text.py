"""Answers as plain text: for people, and as XLA's `print_indexing` writes them."""

from __future__ import annotations

from collections.abc import Iterator

from hloscope.affine import Dim, default_name
from hloscope.display.answer import (
    Answer,
    OperandAnswer,
    OutputAnswer,
    access_json,
    shape_text,
    sizes_of,
)
from hloscope.display.parts import AccessParts, access_parts
from hloscope.display.table import columns
from hloscope.indexing import Access, Precision
from hloscope.ir.graph import Instruction
from hloscope.ir.types import Type


def to_text(answer: Answer) -> str:
    """The answer for people: what is asked, then each operand with its maps."""
    sections = [headline(answer.instruction, answer.opcode)]
    for output in answer.outputs:
        sections += _output(answer, output)
    if not answer.outputs:
        sections.append("The value has no elements.")
    return "\n\n".join(sections)


def headline(ins: Instruction, opcode: str) -> str:
    """The instruction on one line: `name = shape opcode(operands)`.

    A long list of operands is cut.
    """
    names = [o.name for o in ins.operands]
    if len(names) > 8:
        names = [*names[:6], f"… {len(names) - 6} more"]
    return f"{ins.name} = {shape_text(ins.type)} {opcode}({', '.join(names)})"


def _output(answer: Answer, output: OutputAnswer) -> Iterator[str]:
    many = len(answer.outputs) > 1 or output.number > 0
    which = f"output {output.number}" if many else "the output"
    memory = " in memory order" if answer.physical else ""
    if answer.direction == "output_to_input":
        verb = "reads" if output.operands else "reads no operand"
        yield f"{_element(output.type)} of {which}, {shape_text(output.type)},{memory} {verb}"
        for operand in output.operands:
            yield _operand(operand, sizes_of(output.type))
    else:
        for operand in output.operands:
            of = f"operand {operand.number}, {shape_text(operand.type)} {operand.name},"
            yield f"{_element(operand.type)} of {of}{memory} reaches"
            title = f"{which}  {shape_text(output.type)}"
            yield _block(title, operand, sizes_of(operand.type), "reaches nothing")


def _element(type: Type) -> str:
    dims = [default_name(Dim(i)) for i in range(len(sizes_of(type)))]
    return f"Element ({', '.join(dims)})" if dims else "The element"


def _operand(operand: OperandAnswer, sizes: tuple[int, ...]) -> str:
    title = f"operand {operand.number}  {shape_text(operand.type)}  {operand.name}"
    return _block(title, operand, sizes, "is not read")


def _block(title: str, operand: OperandAnswer, sizes: tuple[int, ...], nothing: str) -> str:
    if not operand.accesses:
        return f"  {title}\n    {nothing}"
    rows: list[tuple[str, ...]] = []
    for access in operand.accesses:
        parts = access_parts(access, sizes)
        arrow = f"{{{access.leaf}}} {parts.arrow}" if access.leaf else parts.arrow
        rows.append((arrow, _where(parts), str(access.precision)))
    if not any(where for _, where, _ in rows):
        rows = [(arrow, claim) for arrow, _, claim in rows]
    lines = columns(rows, indent=4, gap=3).splitlines()
    out = [f"  {title}"]
    for line, access in zip(lines, operand.accesses, strict=True):
        parts = access_parts(access, sizes)
        out.append(line)
        out += [f"      where {origin}" for origin in parts.origins]
        if access.precision is not Precision.EXACT:
            out.append(f"      {access.precision}: {access.reason}")
    return "\n".join(out)


def _where(parts: AccessParts) -> str:
    return ", ".join(parts.where)


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
