"""Pictures of a result: one element of a tensor, and all elements that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from hloscope.affine import NEG_INF, POS_INF
from hloscope.display.answer import Answer, OperandAnswer, OutputAnswer, asked_from, shape_text
from hloscope.display.boxes import Box, Index, box_size, boxes_of, outermost, whole_box
from hloscope.display.parts import access_parts
from hloscope.display.picture import OUTPUT, READS, Mark, Panel, svg
from hloscope.display.text import output_name, untouched_names
from hloscope.errors import UnsupportedError
from hloscope.fusion import leaf_types
from hloscope.indexing import Access, Accesses
from hloscope.ir import TensorType, Type

MAX_POINTS: Final = 1 << 18
"""Most elements of an access that are drawn, unless they are a box."""
MAX_PANELS: Final = 8
MAX_UNTOUCHED: Final = 4
"""Most operands without accesses that are named; more are counted."""


def to_svg(answer: Answer, at: Index | None = None) -> str:
    """A picture of an element and the elements that it maps to.

    Args:
        answer: The result; if it has several outputs, the first is drawn.
        at: The element; by default the one in the middle.

    Raises:
        UnsupportedError: There is no tensor.
        ValueError: The tensor has no such element.
    """
    name = answer.instruction.name
    if not answer.outputs:
        raise UnsupportedError(f"`{name}` has no tensor to draw")
    first = answer.outputs[0]
    if answer.direction == "output_to_input":
        title, asked, verb = name, first.type, "reads"
        others = _operands(first)
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
    panels += [_touched(*other, answer, sizes, at) for other in others[:MAX_PANELS]]
    return svg(panels, caption=f"What {which} {verb}", notes=_notes(answer, len(others)))


def _drawn(answer: Answer, at: Index | None) -> OperandAnswer:
    """Return the tensor of an operand to draw: the first one that an output depends on.

    Raises:
        UnsupportedError: There is no tensor.
    """
    sources = [*asked_from(answer).values()]
    if not sources:
        raise UnsupportedError(f"`{answer.instruction.name}`: the operand has no tensor to draw")
    return next(
        (s for s in sources if at is None or has_element(answer.sizes(s.type), at)), sources[0]
    )


def _notes(answer: Answer, count: int) -> list[str]:
    """Notes about tensors and outputs that are not drawn."""
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


def _operands(output: OutputAnswer) -> list[tuple[str, Type, Accesses]]:
    """The name, type and accesses of each tensor that an output reads."""
    found: list[tuple[str, Type, Accesses]] = []
    for operand in output.touched:
        types = leaf_types(operand.type)
        for leaf in sorted({access.leaf for access in operand.accesses}):
            name = operand.name if len(types) < 2 else f"{operand.name}{{{leaf}}}"
            accesses = tuple([a for a in operand.accesses if a.leaf == leaf])
            found.append((name, types[leaf], accesses))
    return found


def has_element(sizes: Sequence[int], at: Index) -> bool:
    """Is `at` an index of a tensor with these sizes?"""
    return len(at) == len(sizes) and all(0 <= i < n for i, n in zip(at, sizes, strict=True))


def element(sizes: Sequence[int], at: Index | None) -> Index:
    """Check `at` against the sizes; return it, or an element in the middle if it is `None`.

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


def _touched(
    title: str, type: Type, accesses: Accesses, answer: Answer, sizes: Index, at: Index
) -> Panel:
    """Return the panel of a tensor that is read, with a note about what cannot be drawn."""
    marks: list[tuple[tuple[Box, ...], str, int]] = []
    notes: list[str] = []
    for access in accesses:
        label = access_parts(access, sizes).element
        boxes = _boxes(access, at) if isinstance(type, TensorType) else None
        if boxes is None:
            notes.append(f"{label}: not drawn")
        elif boxes:
            count = sum(map(box_size, boxes))
            marks.append((boxes, f"{label}: {count:,}" if count > 1 else label, count))
        if access.map is not None and access.map.runtime:
            lowest = [v.interval.lo for v in access.map.runtime]
            names = list(access.map.names.values())[-len(lowest) :]
            values = ", ".join(f"{n} = {v}" for n, v in zip(names, lowest, strict=True))
            notes.append(f"drawn for {values}")
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


def _boxes(access: Access, at: Index) -> tuple[Box, ...] | None:
    """Return the elements that an access reads from `at`, as disjoint boxes; `None` if unknown."""
    whole = whole_box(access, at)
    if whole is not None:
        return whole
    found = touched(access, at)
    return None if found is None else boxes_of(found)


def touched(access: Access, at: Index) -> set[Index] | None:
    """Return the elements that an access reads from `at`; `None` if unknown or too many.

    Runtime variables have their lowest values.
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
    """Return the elements that some accesses read, as boxes, and whether these are disjoint.

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
