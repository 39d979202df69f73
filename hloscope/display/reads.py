"""Pictures of an answer: one element of the tensor asked about, and all that it touches."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from hloscope.display.answer import Answer, shape_text
from hloscope.display.parts import access_parts
from hloscope.display.picture import OUTPUT, READS, Index, Mark, Panel, svg
from hloscope.errors import UnsupportedError
from hloscope.fusion.leaves import leaf_types
from hloscope.indexing import Access, Accesses
from hloscope.ir.types import TensorType, Type

MAX_POINTS: Final = 1 << 18
"""An access that touches more elements from one element is said in words, not drawn."""
MAX_PANELS: Final = 8


def to_svg(answer: Answer, at: Index | None = None) -> str:
    """A picture of an element and of everything it touches.

    Args:
        answer: Of several outputs, the first is drawn.
        at: The element; the one in the middle if not given.

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
        others = [(o.name, o.type, o.accesses) for o in first.operands]
    else:
        operand = first.operands[0]
        title, asked, verb = operand.name, leaf_types(operand.type)[operand.leaf], "reaches"
        others = [
            (name, output.type, operand.accesses)
            for output in answer.outputs
            for operand in output.operands
        ]
    sizes = answer.sizes(asked)
    at = element(sizes, at)
    which = f"{title}{list(at)}"
    here = Mark([at], OUTPUT, f"element ({', '.join(map(str, at))})")
    panels = [Panel(f"{title} {shape_text(asked)}", sizes, [here])]
    panels += [_touched(*other, answer, sizes, at) for other in others[:MAX_PANELS]]
    more = len(others) - MAX_PANELS
    caption = f"What {which} {verb}" + (f" (and {more} tensors more)" if more > 0 else "")
    return svg(panels, caption=caption)


def element(sizes: Sequence[int], at: Index | None) -> Index:
    """`at`, checked against the sizes; an element in the middle where it is `None`.

    >>> element((4, 7), None)
    (2, 3)
    """
    if at is None:
        return tuple(size // 2 for size in sizes)
    if len(at) != len(sizes):
        raise ValueError(f"{len(at)} indices for a tensor with {len(sizes)} dimensions")
    for d, (index, size) in enumerate(zip(at, sizes, strict=True)):
        if not 0 <= index < size:
            raise ValueError(f"dimension {d}: index {index} is not in [0, {size - 1}]")
    return at


def _touched(
    title: str, type: Type, accesses: Accesses, answer: Answer, sizes: Index, at: Index
) -> Panel:
    """The panel of a tensor that is touched; what can't be drawn is said below it."""
    marks: list[tuple[set[Index], str]] = []
    notes: list[str] = []
    for access in accesses:
        label = access_parts(access, sizes).element
        elements = touched(access, at)
        if elements is None or not isinstance(type, TensorType):
            notes.append(f"{label}: not drawn")
        elif elements:
            marks.append((elements, label))
        if access.map is not None and access.map.runtime:
            lowest = [v.interval.lo for v in access.map.runtime]
            names = list(access.map.names.values())[-len(lowest) :]
            values = ", ".join(f"{n} = {v}" for n, v in zip(names, lowest, strict=True))
            notes.append(f"drawn for {values}")
    if not accesses:
        notes.append("not touched")
    marks.sort(key=lambda mark: -len(mark[0]))
    colours = READS[: len(marks)][::-1] + READS[-1:] * len(marks)
    drawn = [Mark(e, c, label) for (e, label), c in zip(marks, colours, strict=False)]
    return Panel(
        f"{title} {shape_text(type)}", answer.sizes(type), drawn, list(dict.fromkeys(notes))
    )


def touched(access: Access, at: Index) -> set[Index] | None:
    """What an access touches from `at`; `None` if that is unknown or too much to draw.

    Runtime variables have their lowest values.
    """
    m = access.map
    if m is None or m.is_undefined:
        return None
    if m.is_known_empty:
        return set()
    if prod(max(0, v.interval.hi - v.interval.lo + 1) for v in m.ranges) > MAX_POINTS:
        return None
    return m.points(at, [v.interval.lo for v in m.runtime])
