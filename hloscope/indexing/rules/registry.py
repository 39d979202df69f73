"""Which rule answers for which op, in both directions.

A rule takes the instruction, its op and the number of the output (or operand) asked about, and
returns the accesses of each operand (or output).  It reads sizes and parameters only, never syntax,
so both front ends share it.  Outputs are the arrays of the result type, numbered in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias, TypeVar

from hloscope.indexing.access import Accesses, Precision
from hloscope.ir.graph import Instruction
from hloscope.ir.op import Op

Rule: TypeAlias = Callable[[Instruction, Any, int], tuple[Accesses, ...]]
R = TypeVar("R", bound=Callable[..., tuple[Accesses, ...]])
MEMO_SIZE: Final = 1 << 15
"""A rule forgets its answers when it holds this many."""


class Direction(StrEnum):
    """Which way a map points."""

    OUTPUT_TO_INPUT = "output_to_input"
    INPUT_TO_OUTPUT = "input_to_output"


@dataclass(frozen=True, slots=True)
class Entry:
    """A rule and what it claims at best.

    Attributes:
        rule: The function, or `None` where the answer is always unknown.
        precision: The weakest claim the rule makes for valid programs.
        reason: Why it is not exact; empty for exact rules.
    """

    rule: Rule | None
    precision: Precision = Precision.EXACT
    reason: str = ""


RULES: Final[dict[Direction, dict[type[Op], Entry]]] = {direction: {} for direction in Direction}
"""The rules by direction and op class."""


def _register(
    direction: Direction, classes: tuple[type[Op], ...], memo: bool, entry: Entry
) -> Callable[[R], R]:
    def decorate(rule: R) -> R:
        known = memoised(rule) if memo else rule
        for cls in classes:
            RULES[direction][cls] = Entry(known, entry.precision, entry.reason)
        return rule

    return decorate


def output_to_input(
    *classes: type[Op], memo: bool = True, precision: Precision = Precision.EXACT, reason: str = ""
) -> Callable[[R], R]:
    """Register a rule from the index of one output to the elements read of each operand.

    Args:
        classes: The ops it answers for; a class answers for its subclasses too.
        memo: Does the answer depend only on the op and the types, so that equal instructions
            share it?
        precision: The weakest claim the rule makes.
        reason: Why it is not exact.
    """
    return _register(Direction.OUTPUT_TO_INPUT, classes, memo, Entry(None, precision, reason))


def input_to_output(
    *classes: type[Op], memo: bool = True, precision: Precision = Precision.EXACT, reason: str = ""
) -> Callable[[R], R]:
    """Register a rule from the index of one operand to the elements influenced of each output.

    The arguments are those of `output_to_input`; the relation is its exact inverse.
    """
    return _register(Direction.INPUT_TO_OUTPUT, classes, memo, Entry(None, precision, reason))


def elsewhere(*classes: type[Op], reason: str, precision: Precision = Precision.EXACT) -> None:
    """State that ops are analysed through the computations they call, in another room.

    That room may register rules in place of these entries.
    """
    for table in RULES.values():
        for cls in classes:
            table[cls] = Entry(None, precision, reason)


def missing(*classes: type[Op], reason: str) -> None:
    """State that nothing is known about ops, in both directions, and why."""
    for table in RULES.values():
        for cls in classes:
            table[cls] = Entry(None, Precision.UNKNOWN, reason)


def lookup(direction: Direction, cls: type[Op]) -> Entry | None:
    """The entry of a class or of its nearest base that has one."""
    table = RULES[direction]
    entry = table.get(cls)
    if entry is None:
        entry = next((table[base] for base in cls.__mro__ if base in table), None)
    return entry


def memoised(rule: Rule) -> Rule:
    """The rule with a memory: equal ops on equal types get the identical answer."""
    answers: dict[tuple[Any, ...], tuple[Accesses, ...]] = {}

    def remembered(ins: Instruction, op: Op, number: int) -> tuple[Accesses, ...]:
        key = (op, number, ins.type, *[operand.type for operand in ins.operands])
        answer = answers.get(key)
        if answer is None:
            if len(answers) >= MEMO_SIZE:
                answers.clear()
            answer = answers[key] = rule(ins, op, number)
        return answer

    return remembered
