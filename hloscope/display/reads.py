"""The elements that one element reads: as a list of boxes, as a picture, and on a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, Final, NamedTuple

from msgspec import Struct

from hloscope.affine import NEG_INF, POS_INF
from hloscope.display.answer import Answer, OperandAnswer, OutputAnswer, asked_from, shape_text
from hloscope.display.parts import (
    Box,
    Index,
    access_parts,
    box_size,
    box_text,
    boxes_of,
    outermost,
    whole_box,
)
from hloscope.display.picture import OUTPUT, READS, Mark, Panel, svg
from hloscope.display.table import page, styled
from hloscope.display.text import headline, output_name, untouched_names
from hloscope.errors import UnsupportedError
from hloscope.fusion import leaf_types
from hloscope.hlo_parser import brief_type
from hloscope.indexing import Access, Accesses, Precision
from hloscope.ir import TensorType, Type
from hloscope.support.source import in_page

# --------------------------------------------------------------------------------------------------
# Pictures of a result: one element of a tensor, and all elements that it reads.


MAX_POINTS: Final = 1 << 18
"""Maximum number of elements of an access that are drawn, unless they are a box."""
MAX_PANELS: Final = 8
MAX_UNTOUCHED: Final = 4
"""Maximum number of operands without accesses that are named; more are only counted."""


def to_svg(answer: Answer, at: Index | None = None) -> str:
    """Return a picture of an element and the elements that it maps to.

    Args:
        answer: The result; if it has several outputs, the first is drawn.
        at: Index of the element; by default the one in the middle.

    Raises:
        UnsupportedError: The instruction has no tensor to draw.
        ValueError: The tensor has no element `at`.
    """
    name = answer.instruction.name
    if not answer.outputs:
        raise UnsupportedError(f"`{name}` has no tensor to draw")
    first = answer.outputs[0]
    if answer.direction == "output_to_input":
        title, asked, verb = name, first.type, "reads"
        others = [(name, type, some) for _, name, type, _, some in _tensors(first)]
    else:
        operand = _drawn(answer, at)
        title, asked, verb = operand.name, operand.type, "reaches"
        others = [
            (name, output.type, some.accesses)
            for output in answer.outputs
            for some in output.touched
            if some.leaf == operand.leaf
        ]
    sizes = answer.sizes(asked)
    at = element(sizes, at)
    which = f"{title}{list(at)}"
    here = Mark([_point(at)], OUTPUT, f"element ({', '.join(map(str, at))})")
    panels = [Panel(f"{title} {shape_text(asked)}", sizes, [here])]
    panels += [_read_panel(*other, answer, sizes, at) for other in others[:MAX_PANELS]]
    return svg(panels, caption=f"What {which} {verb}", notes=_notes(answer, len(others)))


def _drawn(answer: Answer, at: Index | None) -> OperandAnswer:
    """Return the operand tensor to draw in an `indexing_from` result.

    It is the first one that an output depends on and that has the element `at` (any element if `at`
    is `None`). If none has that element, it is the first one.

    Raises:
        UnsupportedError: The operand has no tensor.
    """
    sources = [*asked_from(answer).values()]
    if not sources:
        raise UnsupportedError(f"`{answer.instruction.name}`: the operand has no tensor to draw")
    return next(
        (s for s in sources if at is None or has_element(answer.sizes(s.type), at)), sources[0]
    )


def _notes(answer: Answer, count: int) -> list[str]:
    """Return notes about tensors and outputs of a result that are not drawn.

    `count` is the number of tensors that could be drawn; at most `MAX_PANELS` are.
    """
    notes = []
    if count > MAX_PANELS:
        notes.append(f"and {count - MAX_PANELS} tensors more")
    first = answer.outputs[0]
    if answer.direction == "output_to_input":
        if len(first.operands) > len(first.touched):
            notes.append(f"not read: {untouched_names(answer, first, MAX_UNTOUCHED)}")
        if len(answer.outputs) > 1:
            notes.append(f"this is output {first.number}, of {len(answer.outputs)}")
        return notes
    if len(sources := asked_from(answer)) > 1:
        notes.append(f"this is one of {len(sources)} tensors that reach an output")
    if missed := [output_name(answer, o) for o in answer.outputs if not o.touched]:
        more = f" and {len(missed) - MAX_PANELS} more" if len(missed) > MAX_PANELS else ""
        notes.append(f"not reached: {', '.join(missed[:MAX_PANELS])}{more}")
    return notes


def _tensors(output: OutputAnswer) -> Iterator[tuple[int, str, Type, int, Accesses]]:
    """Yield (operand, name, type, leaf, accesses) of each tensor that an output reads."""
    for operand in output.touched:
        types = leaf_types(operand.type)
        for leaf in sorted({access.leaf for access in operand.accesses}):
            name = operand.name if len(types) < 2 else f"{operand.name}{{{leaf}}}"
            accesses = tuple([a for a in operand.accesses if a.leaf == leaf])
            yield operand.number, name, types[leaf], leaf, accesses


def has_element(sizes: Sequence[int], at: Index) -> bool:
    """Is `at` an index of a tensor with these sizes?"""
    return len(at) == len(sizes) and all(0 <= i < n for i, n in zip(at, sizes, strict=True))


def element(sizes: Sequence[int], at: Index | None) -> Index:
    """Return `at` after a check against the sizes; an element in the middle if it is `None`.

    >>> element((4, 7), None)
    (2, 3)
    """
    if at is None:
        return tuple(size // 2 for size in sizes)
    if len(at) != len(sizes):
        given = f"{len(at)} {'index' if len(at) == 1 else 'indices'}"
        needed = f"{len(sizes)} dimension{'' if len(sizes) == 1 else 's'}"
        raise ValueError(f"{given} for a tensor with {needed}")
    for d, (index, size) in enumerate(zip(at, sizes, strict=True)):
        if not 0 <= index < size:
            raise ValueError(f"dimension {d}: index {index} is not in [0, {size - 1}]")
    return at


def _read_panel(
    title: str, type: Type, accesses: Accesses, answer: Answer, sizes: Index, at: Index
) -> Panel:
    """Return the panel of a tensor that is read, with a note about what cannot be drawn.

    Args:
        title: Title of the panel.
        type: Type of the tensor.
        accesses: Its accesses.
        answer: The result.
        sizes: Sizes of the tensor that the maps start from.
        at: Index of the element in that tensor.
    """
    marks: list[tuple[list[Box], str, int]] = []
    notes: list[str] = []
    for access in accesses:
        label = access_parts(access, sizes).element
        found = touched_boxes([access], at) if isinstance(type, TensorType) else None
        if found is None:
            notes.append(f"{label}: not drawn")
        elif found[0]:
            count = sum(map(box_size, found[0]))
            marks.append((found[0], f"{label}: {count:,}" if count > 1 else label, count))
        if lowest := _lowest_values(access):
            notes.append(f"drawn for {lowest}")
    if not marks and not any(note.endswith("not drawn") for note in notes):
        notes.insert(0, "nothing of it for this element")
    marks.sort(key=lambda mark: -mark[2])
    colours = READS[: len(marks)][::-1] + READS[-1:] * len(marks)
    drawn = [Mark(b, c, label) for (b, label, _), c in zip(marks, colours, strict=False)]
    return Panel(
        f"{title} {shape_text(type)}", answer.sizes(type), drawn, list(dict.fromkeys(notes))
    )


def _point(at: Index) -> Box:
    return tuple(range(i, i + 1) for i in at)


def _lowest_values(access: Access) -> str:
    """Return the lowest value of each runtime variable of a map, as text; empty without any."""
    if access.map is None or not access.map.runtime:
        return ""
    lowest = [v.interval.lo for v in access.map.runtime]
    names = list(access.map.names.values())[-len(lowest) :]
    return ", ".join(f"{n} = {v}" for n, v in zip(names, lowest, strict=True))


def touched(access: Access, at: Index) -> set[Index] | None:
    """Return the elements that an access reads from index `at`.

    `None` if they are unknown or too many. Runtime variables have their lowest values.
    """
    m = access.map
    if m is None or m.is_undefined:
        return None
    if m.is_known_empty:
        return set()
    if prod(max(0, v.interval.hi - v.interval.lo + 1) for v in m.ranges) > MAX_POINTS:
        return None
    lowest = [v.interval.lo for v in m.runtime]
    if m.ranges and not all(NEG_INF <= value <= POS_INF for value in (*at, *lowest)):
        return None
    return m.points(at, lowest)


def touched_boxes(accesses: Sequence[Access], at: Index) -> tuple[list[Box], bool] | None:
    """Return the elements that accesses read from index `at`, as boxes; and are they disjoint?

    `None` if the elements are unknown or too many. Runtime variables have their lowest values.
    """
    whole = [whole_box(access, at) for access in accesses]
    # One box needs no points. Several may overlap, and then their number of elements is known only
    # from the points.
    boxes = outermost([box for some in whole if some is not None for box in some])
    if None not in whole and len(boxes) < 2:
        return boxes, True
    found = [touched(access, at) for access in accesses]
    if None not in found:
        points = frozenset().union(*[some for some in found if some is not None])
        return list(boxes_of(points)), True
    return (boxes, False) if None not in whole else None


# --------------------------------------------------------------------------------------------------
# The elements that one element reads, as a list of disjoint boxes.
#
# A box is written as slices, `[3, 7, 0:32]`; ends are not included, a third number is the step.


SCHEMA: Final = "hloscope.elements/1"
MOST_BOXES: Final = 64
"""Maximum number of boxes that are listed."""


class Touched(Struct, frozen=True):
    """Elements of one tensor that are read.

    Attributes:
        boxes: Boxes whose union is the elements; `None` if they cannot be listed.
        count: Number of elements; `None` if unknown.
        notes: Assumptions of the list, or why there is no list.
    """

    boxes: tuple[Box, ...] | None
    count: int | None
    notes: tuple[str, ...] = ()


def touched_of(accesses: Sequence[Access], at: Index) -> Touched:
    """Return the elements that accesses read from index `at`.

    Run-time values are at their minimum.
    """
    notes = tuple(dict.fromkeys(note for access in accesses for note in _access_notes(access)))
    found = touched_boxes(accesses, at)
    if found is None:
        known = all(access.map is not None for access in accesses)
        return Touched(None, None, (*notes, "too many to list") if known else notes)
    boxes, is_disjoint = found
    if not is_disjoint:
        return Touched(tuple(boxes), None, (*notes, "boxes overlap"))
    return Touched(tuple(boxes), sum(map(box_size, boxes)), notes)


def _access_notes(access: Access) -> Iterator[str]:
    """Yield the assumptions of an access, and the reason if it is not exact."""
    if lowest := _lowest_values(access):
        yield f"for {lowest}"
    if access.reason:
        yield f"{access.precision}: {access.reason}"


def to_elements(answer: Answer, at: Index | None) -> str:
    """Return the elements that one element maps to, as text.

    Args:
        answer: The result of the indexing query.
        at: Index of the element; `None` for one in the middle.

    Raises:
        ValueError: The queried tensor has no element `at`.
    """
    lines = [headline(answer.instruction, answer.opcode)]
    for asked in _queried_elements(answer, at):
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
    """Return the elements that one maps to, as an object of schema `hloscope.elements/1`.

    Args:
        answer: The result of the indexing query.
        at: Index of the element; `None` for one in the middle.
        file: Name of the program.

    Raises:
        ValueError: The queried tensor has no element `at`.
    """
    outputs = []
    for asked in _queried_elements(answer, at):
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
    """A tensor with accesses, and its elements that are read.

    Attributes:
        what: `operand`, `parameter` or `output`.
        number: Number of the operand, parameter or output.
        name: Name of the tensor; empty for an output.
        type: Type of the tensor.
        leaf: Number of the tensor in its tuple.
        found: The elements.
    """

    what: str
    number: int
    name: str
    type: Type
    leaf: int
    found: Touched


class QueriedElement(NamedTuple):
    """A queried element of an output, or of an operand's tensor, with the elements it maps to.

    For `indexing_from`, there is one for each tensor of the operand and each output.

    Attributes:
        at: Index of the element.
        output: The output that has it, or that depends on it.
        source: For `indexing_from`, the operand; else `None`.
        rows: The tensors with elements that it maps to.
    """

    at: Index
    output: OutputAnswer
    source: OperandAnswer | None
    rows: list[Row]


def _queried_elements(answer: Answer, at: Index | None) -> Iterator[QueriedElement]:
    """Yield the queried elements of a result, with the elements they map to.

    From a tuple operand, tensors without such an element are left out; of several outputs, those
    that do not depend on it. `at` is the index; `None` for an element in the middle.
    """
    if answer.direction == "output_to_input":
        for output in answer.outputs:
            here = element(answer.sizes(output.type), at)
            rows = [
                Row(answer.what, number, name, type, leaf, touched_of(accesses, here))
                for number, name, type, leaf, accesses in _tensors(output)
            ]
            yield QueriedElement(here, output, None, rows)
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
                yield QueriedElement(here, output, source, rows)


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


# --------------------------------------------------------------------------------------------------
# The result of an indexing query as an HTML page or fragment.


def to_html(answer: Answer, at: Index | None = None) -> str:
    """Return an HTML page with the instruction, the picture and the table of maps.

    Args:
        answer: The result of the indexing query.
        at: Index of the element in the picture; by default the one in the middle.
    """
    return page(headline(answer.instruction, answer.opcode), html_fragment(answer, at))


def html_fragment(answer: Answer, at: Index | None = None) -> str:
    """Return the result as HTML without the page around it, for a notebook's cell.

    Args:
        answer: The result of the indexing query.
        at: Index of the element in the picture; by default the one in the middle.
    """
    rows = "\n".join(
        f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in _page_rows(answer)
    )
    names = ("output", answer.what, "shape", "map", "where", "precision")
    heads = "".join(f"<th>{name}</th>" for name in names)
    drawn = to_svg(answer, at) if answer.outputs else ""
    return styled(
        f"<p><code>{in_page(headline(answer.instruction, answer.opcode))}</code></p>\n"
        f"{drawn}<table>\n<tr>{heads}</tr>\n{rows}\n</table>\n"
    )


def _page_rows(answer: Answer) -> list[list[str]]:
    rows = []
    sources = {} if answer.direction == "output_to_input" else asked_from(answer)
    for output in answer.outputs:
        for operand in output.touched:
            source = sources.get(operand.leaf, operand)
            asked = source.type if sources else output.type
            name = f"{operand.number} <code>{in_page(source.name)}</code>"
            head = [str(output.number), name, f"<code>{in_page(brief_type(source.type))}</code>"]
            for access in operand.accesses:
                rows.append([*head, *_cells(access, answer.sizes(asked))])
                head = ["", "", ""]
        if len(output.operands) > len(output.touched):
            names = in_page(untouched_names(answer, output, MAX_UNTOUCHED))
            rows.append([str(output.number), names, "", "not touched", "", ""])
    return rows


def _cells(access: Access, sizes: tuple[int, ...]) -> list[str]:
    parts = access_parts(access, sizes)
    where = "<br>".join(f"<code>{in_page(t)}</code>" for t in (*parts.where, *parts.origins))
    claim = f'<span class="{access.precision}">{access.precision}</span>'
    if access.precision is not Precision.EXACT:
        claim += f"<br>{in_page(access.reason)}"
    return [f"<code>{in_page(parts.arrow)}</code>", where, claim]
