"""Instructions of very many operands: answers about each, in time linear in their number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hloscope.affine import Dim, evaluate
from hloscope.fusion import Analysis
from hloscope.fusion.reaching import MANY_PARAMETERS
from hloscope.fusion.tables import Tables
from hloscope.hlo_parser import parse_hlo
from hloscope.indexing.rules import shape
from hloscope.ir import WIDE, Instruction, TokenType

SIZES = [1 + k * 7 % 5 for k in range(max(WIDE, MANY_PARAMETERS) + 40)]


def concatenation(sizes: list[int]) -> Instruction:
    """A fusion that puts so many operands together."""
    names = ", ".join(f"p{k}" for k in range(len(sizes)))
    inner = "\n".join(f"p{k} = f32[{size}] parameter({k})" for k, size in enumerate(sizes))
    text = (
        f"HloModule m\nf {{\n{inner}\nROOT c = f32[{sum(sizes)}] concatenate({names}), "
        f"dimensions={{0}}\n}}\nENTRY e {{\n{inner}\n"
        f"ROOT r = f32[{sum(sizes)}] fusion({names}), kind=kLoop, calls=f\n}}"
    )
    return parse_hlo(text).entry.root


def starts(analysis: Analysis, ins: Instruction, operand: int) -> list[int]:
    """Where the first element of an operand comes to lie."""
    accesses = analysis.input_to_output(ins, operand)[0]
    return [evaluate(a.map.results[0], {Dim(0): 0}) for a in accesses if a.map is not None]


@pytest.mark.parametrize("step", [1, -1])
def test_every_operand_comes_to_lie_behind_those_before_it(step: int) -> None:
    """The first questions have walks of their own, all others one together."""
    ins, analysis = concatenation(SIZES), Analysis()
    for operand in range(len(SIZES))[::step]:
        assert starts(analysis, ins, operand) == [sum(SIZES[:operand])]


def test_instructions_asked_in_turn_keep_to_their_own_operands() -> None:
    some, others, analysis = concatenation(SIZES), concatenation([9, *SIZES]), Analysis()
    for operand in range(0, len(SIZES), 41):
        assert starts(analysis, some, operand) == [sum(SIZES[:operand])]
        assert starts(analysis, others, operand + 1) == [9 + sum(SIZES[:operand])]


def test_operands_are_looked_through_once_for_all_questions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[int] = []
    sizes: Callable[[Any], Any] = shape.sizes
    monkeypatch.setattr(shape, "sizes", lambda type: looked.append(1) or sizes(type))
    ins, analysis = concatenation(SIZES), Analysis()
    for operand in range(len(SIZES)):
        starts(analysis, ins, operand)
    assert len(looked) < 12 * len(SIZES)


def test_tables_know_how_much_they_remember() -> None:
    tables = Tables(lambda type, parts: parts[0][0] or ())
    one = tables.single(3, TokenType(), ())
    alone = tables.size
    tables.joined([((), one), ((), tables.single(5, TokenType(), ()))])
    assert 0 < alone < tables.size
