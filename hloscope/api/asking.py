"""One query for every instruction of a program; results are lines of JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from hloscope.api.indexing import Indexing
from hloscope.api.program import Program
from hloscope.api.views import InstructionView
from hloscope.display import json_line
from hloscope.errors import UnknownNameError, VerifyError
from hloscope.fusion import Convention


class IndexQuestion(NamedTuple):
    """A query for each instruction.

    Its fields are the arguments of `InstructionView.indexing`, of `indexing_from` if `from_operand`
    is set, or of `to_parameters` if that is true.
    """

    output: int | None = None
    operand: int | None = None
    from_operand: int | None = None
    to_parameters: bool = False
    physical: bool = False
    linear: bool = False
    convention: Convention = "structural"

    def ask(self, view: InstructionView) -> Indexing:
        """Return the result of the query for an instruction."""
        order = {"physical": self.physical, "linear": self.linear}
        if self.to_parameters:
            return view.to_parameters(self.output, self.operand, **order)
        if self.from_operand is None:
            return view.indexing(self.output, self.operand, **order)
        return view.indexing_from(self.from_operand, self.output, **order)


def with_operands(program: Program) -> list[InstructionView]:
    """Return all instructions that have operands, also those inside fusions.

    >>> from hloscope.api.program import read
    >>> with_operands(read("ENTRY e { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }"))
    [<n = f32[4] negate(p)>]
    """
    return [view for view in program if view.ir.operands]


def index_lines(
    views: Iterable[InstructionView],
    answer: Callable[[InstructionView], dict[str, Any]],
    refused: Callable[[VerifyError], None],
) -> Iterator[str]:
    """Yield a line of JSON for each instruction that has the requested output or operand.

    Args:
        views: The instructions.
        answer: Function from an instruction to its result as JSON.
        refused: Called once for each invalid instruction that a query needs, with the finding about
            it. Such a query has no line.

    >>> from hloscope.api.program import read
    >>> program = read("ENTRY e { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }")
    >>> answer = lambda view: IndexQuestion().ask(view).to_json()
    >>> len(list(index_lines(program, answer, print)))
    2
    """
    reported: set[tuple[object, str]] = set()
    for view in views:
        try:
            found = answer(view)
        except UnknownNameError:
            continue
        except VerifyError as error:
            # Many instructions can meet one invalid instruction; it is reported once.
            key = error.span and error.span.start, error.message
            if key not in reported:
                reported.add(key)
                refused(error)
            continue
        yield json_line(found)
