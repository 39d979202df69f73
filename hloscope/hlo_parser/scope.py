"""The names of one computation while it is read, and what a name that is missing may have meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from typing import Final, NoReturn

from hloscope.hlo_parser.scanner import fail
from hloscope.ir.graph import Body, Instruction
from hloscope.ops.control import Parameter
from hloscope.source import Source

_MOST: Final = 3000


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that looks most like `name`, if one does.

    >>> nearest("fusion.12", ["fusion.1", "add.12", "fusion.112"])
    'fusion.112'
    """
    alike = [other for other in known if abs(len(other) - len(name)) <= 2]
    if len(alike) > _MOST:
        stem = name.partition(".")[0]
        alike = [other for other in alike if other.startswith(stem)][:_MOST]
    best = get_close_matches(name, alike, n=3, cutoff=0.7)
    return max(best, key=lambda other: SequenceMatcher(None, name, other).ratio(), default=None)


class Scope:
    """Instructions read so far.

    Attributes:
        name: Of the computation.
        by_name: Instructions in text order.
        parameters: Those that are parameters.
        root: The one marked `ROOT`.
        free_parameters: An unknown operand with a type becomes a parameter (a text of a single
            instruction).
    """

    def __init__(self, name: str, *, free_parameters: bool = False) -> None:
        self.name: Final = name
        self.by_name: Final[dict[str, Instruction]] = {}
        self.parameters: Final[list[Instruction]] = []
        self.root: Instruction | None = None
        self.free_parameters: Final = free_parameters

    def add(self, ins: Instruction, *, is_root: bool = False) -> None:
        """Add an instruction with a new name."""
        self.by_name[ins.name] = ins
        if isinstance(ins.op, Parameter):
            self.parameters.append(ins)
        if is_root:
            self.root = ins

    def drop_last(self) -> None:
        """Forget the instruction added last."""
        _, ins = self.by_name.popitem()
        if self.root is ins:
            self.root = None
        if self.parameters and self.parameters[-1] is ins:
            self.parameters.pop()

    def fresh(self, stem: str) -> str:
        """Return a name that is not taken, as XLA names instructions without one."""
        name, number = f"{stem}.anon", 0
        while name in self.by_name:
            number += 1
            name = f"{stem}.anon.{number}"
        return name

    def unknown(self, name: str, source: Source, at: int, end: int, start: int) -> NoReturn:
        """Raise that no operand of that name is defined before `start`.

        Args:
            name: What was looked for.
            source: Where it stands.
            at: Start of the name.
            end: End of the name.
            start: Where the instruction begins that uses it.
        """
        message = f"operand `{name}` is not defined"
        text = source.text
        below = re.compile(rf"^\s*(?:ROOT\s+)?%?{re.escape(name)}\s*=\s", re.MULTILINE)
        own = re.compile(rf"\s*(?:ROOT\s+)?%?{re.escape(name)}\s*=\s").match(text, start)
        later = below.search(text, end, _body_end(text, end))
        if own:
            message = f"`{name}` uses itself as an operand"
        elif later:
            line = text.count("\n", 0, later.end()) + 1
            message = (
                f"operand `{name}` is defined below, in line {line}: definitions come before uses"
            )
        elif hint := nearest(name, self.by_name):
            message += f"; did you mean `{hint}`?"
        fail(message, source, at, end)

    def finish(self, source: Source, start: int, end: int) -> Body:
        """Return the body; `[start, end)` is the place of errors about the whole computation.

        Raises:
            ParseError: It is empty, or the parameter numbers are not 0, 1, … each once.
        """
        if not self.by_name:
            fail(f"computation `{self.name}` has no instructions", source, start, end)
        parameters: list[Instruction | None] = [None] * len(self.parameters)
        for ins in self.parameters:
            op = ins.op
            assert isinstance(op, Parameter)
            at = ins.span.start if ins.span else start
            place = ins.span.end if ins.span else end
            if op.number >= len(parameters):
                missing = sorted(
                    set(range(op.number)) - {p.op.number for p in self.parameters}  # type: ignore[attr-defined]
                )
                fail(
                    f"computation `{self.name}` has {_many(len(parameters), 'parameter')}, "
                    f"but this one has number {op.number}; number {missing[0]} is missing",
                    source,
                    at,
                    place,
                )
            other = parameters[op.number]
            if other is not None:
                line = other.span.line_col[0] if other.span else 0
                fail(
                    f"parameter number {op.number} is given twice, first to `{other.name}` in "
                    f"line {line}",
                    source,
                    at,
                    place,
                )
            parameters[op.number] = ins
        instructions = tuple(self.by_name.values())
        root = self.root if self.root is not None else instructions[-1]
        ordered = tuple(p for p in parameters if p is not None)
        return Body(instructions, ordered, root, self.by_name)


def _many(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def _body_end(text: str, at: int) -> int:
    end = text.find("\n}", at)
    return len(text) if end < 0 else end
