"""The elements that one element reads, as a list of disjoint boxes.

A box is written as slices, `[3, 7, 0:32]`; ends are not included, a third number is the step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct

from hloscope.display.answer import Answer, OperandAnswer, OutputAnswer, asked_from, shape_text
from hloscope.display.boxes import Box, Index, box_size, box_text
from hloscope.display.reads import element, has_element, touched_boxes
from hloscope.display.text import headline
from hloscope.fusion import leaf_types
from hloscope.indexing import Access
from hloscope.ir import Type

SCHEMA: Final = "hloscope.elements/1"
MOST_BOXES: Final = 64
"""Most boxes that are listed."""


class Touched(Struct, frozen=True):
    """Elements of one tensor that are read.

    Attributes:
        boxes: Disjoint boxes that together are the elements; `None` if they cannot be listed.
        count: Number of elements; `None` if unknown.
        notes: Assumptions of the list, or why there is none.
    """

    boxes: tuple[Box, ...] | None
    count: int | None
    notes: tuple[str, ...] = ()


def touched_of(accesses: Sequence[Access], at: Index) -> Touched:
    """Elements that some accesses read from index `at`, with run-time values at their minimum."""
    notes = tuple(dict.fromkeys(note for access in accesses for note in _notes(access)))
    found = touched_boxes(accesses, at)
    if found is None:
        known = all(access.map is not None for access in accesses)
        return Touched(None, None, (*notes, "too many to list") if known else notes)
    boxes, is_disjoint = found
    if not is_disjoint:
        return Touched(tuple(boxes), None, (*notes, "boxes overlap"))
    return Touched(tuple(boxes), sum(map(box_size, boxes)), notes)


def _notes(access: Access) -> Iterator[str]:
    """Yield the assumptions of an access, and the reason if it is not exact."""
    if access.map is not None and access.map.runtime:
        lowest = [v.interval.lo for v in access.map.runtime]
        names = list(access.map.names.values())[-len(lowest) :]
        yield "for " + ", ".join(f"{n} = {v}" for n, v in zip(names, lowest, strict=True))
    if access.reason:
        yield f"{access.precision}: {access.reason}"


def to_elements(answer: Answer, at: Index | None) -> str:
    """The elements that one element maps to, as text.

    Raises:
        ValueError: A tensor asked about has no such element.
    """
    lines = [headline(answer.instruction, answer.opcode)]
    for asked in _asked(answer, at):
        source, output, rows = asked.source, asked.output, asked.rows
        if source is None:
            which = f"output {output.number}" if len(answer.outputs) > 1 else "the output"
            what = f"{which}, {shape_text(output.type)}, reads"
        else:
            what = f"operand {source.number}, {shape_text(source.type)} {source.name}, reaches"
        lines += [
            "",
            f"Element ({', '.join(map(str, asked.at))}) of {what}{'' if rows else ' nothing'}",
        ]
        for row in rows:
            title = f"{row.what} {row.number}  {shape_text(row.type)}  {row.name}".rstrip()
            lines += ["", f"  {title}   {_count(row.found)}"]
            lines += [f"    {line}" for line in _lines(row.found)]
    return "\n".join(lines)


def elements_json(answer: Answer, at: Index | None, file: str) -> dict[str, Any]:
    """Return the elements that `at` reads, as an object of schema `hloscope.elements/1`.

    Raises:
        ValueError: A tensor asked about has no such element.
    """
    outputs = []
    for asked in _asked(answer, at):
        rows = [
            {
                row.what: row.number,
                "name": row.name,
                "shape": shape_text(row.type),
                "leaf": row.leaf,
                **_touched_json(row.found),
            }
            for row in asked.rows
        ]
        source = {"from_leaf": asked.source.leaf} if asked.source and asked.source.leaf else {}
        output = asked.output.number
        outputs.append({"output": output, "at": list(asked.at), **source, "touched": rows})
    return {
        "schema": SCHEMA,
        "file": file,
        "instruction": answer.instruction.name,
        "direction": answer.direction,
        "outputs": outputs,
    }


def _touched_json(found: Touched) -> dict[str, Any]:
    boxes = found.boxes
    sides = boxes and [[[side.start, side.stop, side.step] for side in box] for box in boxes]
    return {"count": found.count, "boxes": sides, "notes": list(found.notes)}


class Row(NamedTuple):
    """One tensor with accesses, and the elements read."""

    what: str
    number: int
    name: str
    type: Type
    leaf: int
    found: Touched


class Asked(NamedTuple):
    """One requested element of an output or of an operand's tensor, with the elements it maps to.

    For maps from an operand, there is one for each tensor of the operand and each output.
    """

    at: Index
    output: OutputAnswer
    source: OperandAnswer | None
    rows: list[Row]


def _asked(answer: Answer, at: Index | None) -> Iterator[Asked]:
    """Yield the requested elements.

    From a tuple operand, tensors that have no such element are left out; of several outputs, those
    that do not depend on it.
    """
    if answer.direction == "output_to_input":
        for output in answer.outputs:
            here = element(answer.sizes(output.type), at)
            yield Asked(here, output, None, list(_rows(answer, output, here)))
        return
    sources = asked_from(answer)
    if at is not None and len(sources) > 1:
        having = {k: s for k, s in sources.items() if has_element(answer.sizes(s.type), at)}
        sources = having or sources
    for leaf, source in sources.items():
        here = element(answer.sizes(source.type), at)
        for output in answer.outputs:
            rows = [
                Row("output", output.number, "", output.type, 0, touched_of(o.accesses, here))
                for o in output.touched
                if o.leaf == leaf
            ]
            if rows or len(answer.outputs) == 1:
                yield Asked(here, output, source, rows)


def _rows(answer: Answer, output: OutputAnswer, at: Index) -> Iterator[Row]:
    """Yield a row for each tensor with accesses; tuple operands have a row for each tensor."""
    for operand in output.touched:
        types = leaf_types(operand.type)
        leaves = sorted({a.leaf for a in operand.accesses})
        for leaf in leaves:
            found = touched_of([a for a in operand.accesses if a.leaf == leaf], at)
            name = operand.name if len(types) < 2 else f"{operand.name}{{{leaf}}}"
            yield Row(answer.what, operand.number, name, types[leaf], leaf, found)


def _count(found: Touched) -> str:
    if found.count is None:
        return "not listed"
    return f"{found.count:,} element{'' if found.count == 1 else 's'}"


def _lines(found: Touched) -> Iterator[str]:
    boxes = found.boxes or ()
    for box in boxes[:MOST_BOXES]:
        count = box_size(box)
        yield box_text(box) + (f"   {count:,}" if 1 < count < (found.count or 0) else "")
    if len(boxes) > MOST_BOXES:
        yield f"… and {len(boxes) - MOST_BOXES:,} more; --json has all"
    yield from found.notes
