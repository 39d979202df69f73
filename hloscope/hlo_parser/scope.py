"""Names in one computation while it is read, and computations in place of missing ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from hloscope.hlo_parser.nodes import TextComputation, TextInstruction
from hloscope.hlo_parser.scanner import fail
from hloscope.hlo_parser.sections import Section
from hloscope.ir import (
    ELEMENT_TYPES,
    Body,
    Computation,
    Instruction,
    Op,
    TensorType,
    TupleType,
    Type,
)
from hloscope.ops import Parameter, UnknownOp
from hloscope.support.lazy import lazy
from hloscope.support.source import Source

if TYPE_CHECKING:
    import difflib
else:
    difflib = lazy("difflib")


# --------------------------------------------------------------------------------------------------
# Names in one computation while it is read, and suggestions for unknown names.


_MOST: Final = 3000


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the name in `known` that is most similar to `name`, for a suggestion.

    `None` if none is similar.

    >>> nearest("fusion.12", ["fusion.1", "add.12", "fusion.112"])
    'fusion.112'
    """
    # Similarity is slow to compute, so only names of nearly the same length are compared.
    alike = [other for other in known if abs(len(other) - len(name)) <= 2]
    if len(alike) > _MOST:
        stem = name.partition(".")[0]
        alike = [other for other in alike if other.startswith(stem)][:_MOST]
    best = difflib.get_close_matches(name, alike, n=3, cutoff=0.7)
    return max(
        best, key=lambda other: difflib.SequenceMatcher(None, name, other).ratio(), default=None
    )


def unused(stem: str, taken: Container[str], counts: Counter[str]) -> str:
    """Return the first of `stem`, `stem.1`, `stem.2` … that is not taken.

    Args:
        stem: First part of the name.
        taken: Names in use.
        counts: The next number to try for each stem.
    """
    while True:
        number = counts[stem]
        counts[stem] += 1
        name = f"{stem}.{number}" if number else stem
        if name not in taken:
            return name


class Scope:
    """The instructions of a computation that have been read so far.

    Attributes:
        name: Name of the computation.
        by_name: Instructions in text order.
        parameters: The parameters, in text order.
        root: The instruction marked `ROOT`.
        free_parameters: Whether an undefined operand with a type becomes a parameter, as in the
            text of a single instruction.
    """

    def __init__(self, name: str, *, free_parameters: bool = False) -> None:
        self.name: Final = name
        self.by_name: Final[dict[str, Instruction]] = {}
        self.parameters: Final[list[Instruction]] = []
        self.root: Instruction | None = None
        self.free_parameters: Final = free_parameters
        self._counts: Counter[str] | None = None

    def add(self, ins: Instruction, *, is_root: bool = False) -> None:
        """Add an instruction, whose name must be new; with `is_root`, it becomes `root`."""
        self.by_name[ins.name] = ins
        if isinstance(ins.op, Parameter):
            self.parameters.append(ins)
        if is_root:
            self.root = ins

    def drop_last(self) -> None:
        """Remove the instruction that was added last."""
        _, ins = self.by_name.popitem()
        if self.root is ins:
            self.root = None
        if self.parameters and self.parameters[-1] is ins:
            self.parameters.pop()

    def fresh(self, stem: str) -> str:
        """Return an unused name that begins with `stem`, as XLA names unnamed instructions."""
        if self._counts is None:
            self._counts = Counter()
        return unused(f"{stem}.anon", self.by_name, self._counts)

    def unknown(self, name: str, source: Source, at: int, end: int, start: int) -> NoReturn:
        """Raise an error about an operand that is not defined before the instruction.

        Args:
            name: The unknown name.
            source: The source with the name.
            at: Start of the name.
            end: End of the name.
            start: Start of the instruction that uses it.
        """
        message = f"operand `{name}` is not defined"
        text = source.text
        below = re.compile(rf"^\s*(?:ROOT\s+)?%?{re.escape(name)}\s*=\s", re.MULTILINE)
        # The message names the most likely mistake: the instruction itself, a later definition, or
        # a similar name.
        own = re.compile(rf"\s*(?:ROOT\s+)?%?{re.escape(name)}\s*=\s").match(text, start)
        later = below.search(text, end, _body_end(text, end))
        if own:
            message = f"`{name}` uses itself as an operand"
        elif later:
            line, _ = source.line_col(later.end())
            message = (
                f"operand `{name}` is defined below, in line {line}: definitions come before uses"
            )
        elif hint := nearest(name, self.by_name):
            message += f"; did you mean `{hint}`?"
        elif self.free_parameters:
            message += (
                ": in a part of a computation, add the line that defines it or write its type"
                f" before it, as in `f32[2,3] %{name}`"
            )
        fail(message, source, at, end)

    def finish(self, source: Source, start: int, end: int) -> Body:
        """Return the body with all instructions.

        `[start, end)` is the position in `source` of errors about the whole computation.

        Raises:
            ParseError: The body is empty, or its parameter numbers are not 0, 1, … each once.
        """
        if not self.by_name:
            fail(f"computation `{self.name}` has no instructions", source, start, end)
        parameters: Any = tuple(self.parameters)
        numbers = [ins.op.number for ins in parameters]
        if numbers != [*range(len(numbers))]:
            numbered = dict(zip(numbers, parameters, strict=True))
            parameters = tuple(map(numbered.get, range(len(numbers))))
            if None in parameters:
                self._explain_numbers(source, start, end)
        instructions = tuple(self.by_name.values())
        root = self.root if self.root is not None else instructions[-1]
        body = Body(instructions, parameters, root)
        body.captures = ()  # names are unique in one computation only
        return body

    def _explain_numbers(self, source: Source, start: int, end: int) -> NoReturn:
        """Raise an error about parameter numbers that are not 0, 1, … each once.

        `[start, end)` is the position of the error if the parameter has none.
        """
        seen: dict[int, Instruction] = {}
        for ins in self.parameters:
            number = _number(ins)
            if ins.span is not None:
                start, end = ins.span.start, ins.span.end
            if number in seen:
                other = seen[number]
                line = other.span.line if other.span else 0
                message = f"parameter number {number} is given twice, first to `{other.name}`"
                fail(f"{message} in line {line}", source, start, end)
            seen[number] = ins
        last = max(seen)
        missing = next(number for number in range(last) if number not in seen)
        span = seen[last].span
        if span is not None:
            start, end = span.start, span.end
        message = (
            f"computation `{self.name}` has a parameter number {last}, but no number {missing}"
        )
        fail(message, source, start, end)


def _number(ins: Instruction) -> int:
    op = ins.op
    assert isinstance(op, Parameter)
    return op.number


def _body_end(text: str, at: int) -> int:
    end = text.find("\n}", at)
    return len(text) if end < 0 else end


# --------------------------------------------------------------------------------------------------
# Stand-ins for computations that a part of a module calls but does not contain.
#
# A fusion or a `reduce` copied from a dump lacks its callee. A stand-in has the parameter and
# result types that the caller implies. Its root is an unknown op.


_TRUTH: Final = TensorType(ELEMENT_TYPES["pred"], ())
_COMBINERS: Final = ("reduce", "reduce_window", "scatter", "all_reduce", "reduce_scatter")

OPCODE: Final = "missing-computation"
"""Opcode of the root of a computation that `missing_computation` returns."""


def signature_of_callee(
    op: Op, number: int, operands: Sequence[Type], result: Type
) -> tuple[tuple[Type, ...], Type]:
    """Return the parameter and result types that a caller implies for a callee.

    Args:
        op: The op of the caller.
        number: Index of the callee among the instruction's callees.
        operands: Types of the operands of the caller.
        result: Type of the caller.
    """
    given = tuple(operands)
    match op.name:
        case "while":
            return given, _TRUTH if number == 0 else result
        case "case":
            return given[number + 1 : number + 2], result
        case "sort":
            scalars = [_scalar(type) for type in given]
            return tuple([scalar for scalar in scalars for _ in range(2)]), _TRUTH
        case "select_and_scatter":
            scalar = _scalar(result)
            return (scalar, scalar), _TRUTH if number == 0 else scalar
        case "map":
            return tuple(map(_scalar, given)), _scalar(result)
        case "async_start" if isinstance(result, TupleType) and len(result.elements) > 1:
            return given, result.elements[1]
        case name if name in _COMBINERS:
            parts = result.elements if isinstance(result, TupleType) else (result,)
            if name in ("all_reduce", "reduce_scatter"):
                parts = parts[:1]
            scalars = [_scalar(type) for type in parts]
            combined = scalars[0] if len(scalars) == 1 else TupleType(tuple(scalars))
            return (*scalars, *scalars), combined
        case _:
            return given, result


def _scalar(type: Type) -> Type:
    return TensorType(type.element, ()) if isinstance(type, TensorType) else type


def missing_computation(
    name: str,
    parameter_types: Sequence[Type],
    result_type: Type,
    source: Source,
    at: tuple[int, int],
) -> Computation:
    """Return a computation without instructions, in place of one that the text lacks.

    It has parameters of the types `parameter_types` and a result of type `result_type`. `at` has
    the start and end of its name in `source`.
    """
    parameters = [
        TextInstruction(f"p{k}", type, Parameter(k), (), (), (), "", (), source, *at)
        for k, type in enumerate(parameter_types)
    ]
    root = TextInstruction(
        "result", result_type, UnknownOp(OPCODE), tuple(parameters), (), (), "", (), source, *at
    )
    every = (*parameters, root)
    body = Body(every, tuple(parameters), root)
    body.captures = ()
    return TextComputation(source, Section(name, False, at[0], at[0], at[1], at[1] - 1), body)
