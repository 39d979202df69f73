"""Which instructions take part in a question: what is computed from what, calls included."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from hloscope.fusion import MOVES
from hloscope.ir import Computation, Instruction, QuantizedType, TensorType, Type, captured
from hloscope.ops import Constant, Elementwise, Iota, Parameter, Slice
from hloscope.walks import needed_first, reached

MOST_INSTRUCTIONS: Final = 5_000
MAX_DEPTH: Final = 64
"""Instructions on a way from an operand back to what it is computed from."""


class NotExecutableError(Exception):
    """There is nothing to run; the message is the reason."""


def within(ins: Instruction) -> tuple[Instruction, ...]:
    """An instruction and those of the computations it calls, each once, callers first."""
    called = reached(ins.calls, lambda c: [callee for inner in c for callee in inner.calls])
    return tuple(dict.fromkeys([ins, *chain.from_iterable(called)]))


def taking_part(ins: Instruction, computation: Computation | None) -> list[Instruction]:
    """All instructions that take part, those of called computations included.

    What free values are computed from does not take part: a parameter stands for each.
    """
    if computation is not None:
        outer = list(needed(ins))
    else:
        outer = [*ins.operands, *captured(ins), ins]
        before = dict.fromkeys(i for o in outer[:-1] for i in integers_before(o))
        free = dict.fromkeys(o for i in before for o in i.operands if o not in before)
        outer += before
        outer += [Instruction(o.name, o.type, Parameter(0)) for o in free]
    found: dict[Instruction, None] = {}
    seen: set[Computation] = set()
    work = [*outer]
    for one in work:
        found[one] = None
        if one in (*ins.operands, *captured(ins)) and computation is None:
            continue
        for callee in one.calls:
            if callee not in seen:
                seen.add(callee)
                work += callee.instructions
        if len(work) > MOST_INSTRUCTIONS:
            raise NotExecutableError(f"more than {MOST_INSTRUCTIONS} instructions")
    return [*found]


def needed(root: Instruction) -> Iterator[Instruction]:
    """An instruction and everything it is computed from, producers first."""
    return needed_first([root], lambda ins: (*_captured(ins)[::-1], *ins.operands[::-1]))


def _captured(ins: Instruction) -> tuple[Instruction, ...]:
    return captured(ins) if ins.calls else ()


def integers_before(operand: Instruction) -> list[Instruction]:
    """What an integer operand is computed from by simple arithmetic, producers first.

    The analysis may know such integers before the program runs.
    """
    order: dict[Instruction, None] = {}

    def visit(ins: Instruction, depth: int) -> None:
        if ins in order or not _is_integer(ins.type) or depth > MAX_DEPTH:
            return
        is_simple = type(ins.op) in MOVES or isinstance(ins.op, Elementwise | Slice)
        if is_simple and len(order) < MAX_DEPTH:
            for o in ins.operands:
                visit(o, depth + 1)
        if is_simple or isinstance(ins.op, Constant | Iota):
            order[ins] = None

    visit(operand, 0)
    return [*order]


def _is_integer(type: Type) -> bool:
    return (
        isinstance(type, TensorType)
        and type.element.kind in ("pred", "signed", "unsigned")
        and not isinstance(type.element, QuantizedType)
    )
