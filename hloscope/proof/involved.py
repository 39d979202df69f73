"""Instructions that a query depends on: operands and their producers, callees included."""

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
"""Maximum number of instructions on a path from an operand back to its producers."""


class NotExecutableError(Exception):
    """There is nothing to run; the message is the reason."""


def within(ins: Instruction) -> tuple[Instruction, ...]:
    """Return an instruction and those of the computations it calls, each once, callers first."""
    called = reached(ins.calls, lambda c: [callee for inner in c for callee in inner.calls])
    return tuple(dict.fromkeys([ins, *chain.from_iterable(called)]))


def taking_part(ins: Instruction, computation: Computation | None) -> list[Instruction]:
    """Return all instructions of a query, those of called computations included.

    Producers of free values are left out: a parameter represents each free value.

    Raises:
        NotExecutableError: There are more than `MOST_INSTRUCTIONS`.
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
        # An operand's value is given to the test program, so what it calls does not run.
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
    """Return an instruction and everything it is computed from, producers first."""
    return needed_first([root], lambda ins: (*_captured(ins)[::-1], *ins.operands[::-1]))


def _captured(ins: Instruction) -> tuple[Instruction, ...]:
    """Return the values that the regions of an instruction capture."""
    return captured(ins) if ins.calls else ()


def integers_before(operand: Instruction) -> list[Instruction]:
    """Return the producers of an integer operand by simple arithmetic, producers first.

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
    """Is the element type boolean or an integer, and not quantized?"""
    return (
        isinstance(type, TensorType)
        and type.element.kind in ("pred", "signed", "unsigned")
        and not isinstance(type.element, QuantizedType)
    )
