"""Names of one computation while it is read, and suggestions for unknown names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Any, Final, NoReturn

from hloscope.hlo_parser.scanner import fail
from hloscope.ir import Body, Instruction
from hloscope.lazy import lazy
from hloscope.ops import Parameter
from hloscope.source import Source

if TYPE_CHECKING:
    import difflib
else:
    difflib = lazy("difflib")

_MOST: Final = 3000


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to `name`; `None` if none is similar.

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
    """Return `stem`, or `stem.1`, `stem.2` …: the first name that is not taken.

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
    """Instructions of a computation that have been read.

    Attributes:
        name: Name of the computation.
        by_name: Instructions in text order.
        parameters: The parameters, in text order.
        root: The instruction marked `ROOT`.
        free_parameters: An unknown operand with a type becomes a parameter (for a text of a single
            instruction).
    """

    def __init__(self, name: str, *, free_parameters: bool = False) -> None:
        self.name: Final = name
        self.by_name: Final[dict[str, Instruction]] = {}
        self.parameters: Final[list[Instruction]] = []
        self.root: Instruction | None = None
        self.free_parameters: Final = free_parameters
        self._counts: Counter[str] | None = None

    def add(self, ins: Instruction, *, is_root: bool = False) -> None:
        """Add an instruction with a new name."""
        self.by_name[ins.name] = ins
        if isinstance(ins.op, Parameter):
            self.parameters.append(ins)
        if is_root:
            self.root = ins

    def drop_last(self) -> None:
        """Remove the instruction added last."""
        _, ins = self.by_name.popitem()
        if self.root is ins:
            self.root = None
        if self.parameters and self.parameters[-1] is ins:
            self.parameters.pop()

    def fresh(self, stem: str) -> str:
        """Return an unused name, as XLA names instructions without one."""
        if self._counts is None:
            self._counts = Counter()
        return unused(f"{stem}.anon", self.by_name, self._counts)

    def unknown(self, name: str, source: Source, at: int, end: int, start: int) -> NoReturn:
        """Raise an error: no operand of that name is defined before `start`.

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
        """Return the body; errors about the whole computation are at `[start, end)`.

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
        body.captures = ()  # names refer to the same computation only
        return body

    def _explain_numbers(self, source: Source, start: int, end: int) -> NoReturn:
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
