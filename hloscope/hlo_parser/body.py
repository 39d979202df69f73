"""Instructions of a computation's body, with a fast path for text in XLA's printed form.

One regular expression splits a line in printed form, and its parts are looked up in tables of
earlier lines. `InstructionReader` reads all other text (comments, other line breaks, nested
instructions or computations) and reports all errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hloscope.errors import ParseError
from hloscope.hlo_parser.nodes import TextInstruction
from hloscope.hlo_parser.scanner import NAME, error_in_source, fail, skip
from hloscope.hlo_parser.scope import Scope
from hloscope.hlo_parser.sections import Section
from hloscope.hlo_parser.spelling import Calls, Heads, Tails, Types, compatible, take_callees
from hloscope.hlo_parser.types import print_type
from hloscope.ir import Body, Computation, Instruction, Type
from hloscope.ops import Parameter
from hloscope.support.lazy import lazy, pattern
from hloscope.support.source import Source

if TYPE_CHECKING:
    import hloscope.hlo_parser.instruction as instruction
    from hloscope.hlo_parser.instruction import Callees
else:
    instruction = lazy("hloscope.hlo_parser.instruction")

_LAYOUT: Final = r"(?:\{[^{}\n]*+\})?+"
_START: Final = (
    rf"[ \t\r\n]*+(ROOT )?+%?+({NAME}+) = "
    rf"((?:[a-z][a-z0-9_]*+\[[^\[\]\n]*+\]{_LAYOUT}"  # the type
    r"|\([^()\n]*+(?:\([^()\n]*+\)[^()\n]*+)*+\)) "
    r"[a-z][a-z0-9-]*+)\("  # the opcode
)
"""Pattern of a line up to the operands; it never backtracks.

No subpattern matches a character with which the next one begins.
"""
_LINES: Final = {
    (mark, is_of_windows): pattern(
        rf"{_START}(?:{mark}({NAME}+)(?:, {mark}({NAME}+))?+)?+"  # the first two operands
        rf"([^()\n]*+)\){rest}\n"  # the rest of the parentheses, and the attributes
    )
    for mark in ("", "%")
    for is_of_windows, rest in ((False, r"(.*+)"), (True, r"([^\r\n]*+)\r?"))
}
r"""Patterns of a line, by (mark before operand names, whether lines may end in `\r\n`).

The mark is `%` or empty.
"""
_METADATA: Final = ", metadata={"
_OPERAND: Final = pattern(rf"(\w+\[[^\[\]]*\]{_LAYOUT}) %?({NAME})(?:, |\Z)")
_INDEX_COMMENT: Final = pattern(r"/\*index=\d+\*/")
_BLANKS: Final = pattern(r"[ \t]*")


class Texts:
    """Caches and facts about the text that the readers of all bodies of one module share.

    Attributes:
        marked: Whether names are written with `%`.
        has_metadata: Whether instructions may have metadata.
        results: Result types as written in headers, each with a root type that was compatible with
            it.
    """

    def __init__(self, source: Source) -> None:
        text = source.text
        self.source: Final = source
        self.types: Final = Types()
        self.heads: Final = Heads(self.types)
        self.tails: Final = Tails()
        self.marked: Final = "%" in text
        self.has_metadata: Final = _METADATA in text
        self.results: Final[dict[str, Type]] = {}
        self.line: Final = _LINES["%" * self.marked, "\r" in text].match


class _UnusualLine(Exception):  # noqa: N818  (never leaves this file)
    """Raised for a line that is not in XLA's printed form; never leaves this file."""


def read_body(texts: Texts, section: Section, callees: Callees) -> Body:
    """Return the instructions of a computation, whose text is `section`.

    Names of called computations are looked up in `callees`.

    Raises:
        ParseError: The text is invalid; the error has its position.
    """
    return _BodyReader(texts, section, callees).read()


class _BodyReader:
    """Reads the instructions of one computation into a scope."""

    __slots__ = ("_callees", "_scope", "_section", "_texts")

    def __init__(self, texts: Texts, section: Section, callees: Callees) -> None:
        self._texts = texts
        self._section = section
        self._callees = callees
        self._scope = Scope(section.name)

    def read(self) -> Body:
        self._read_lines()
        section, source = self._section, self._texts.source
        body = self._scope.finish(source, section.start, section.body)
        if section.result is not None:
            self._check_result(section.result, body.root)
        return body

    def _read_lines(self) -> None:  # noqa: C901  (one loop, unrolled for speed)
        texts, scope = self._texts, self._scope
        source, heads, tails = texts.source, texts.heads, texts.tails
        by_name = scope.by_name
        lookup = by_name.__getitem__
        text, match, has_metadata = source.text, texts.line, texts.has_metadata
        at, end, before = self._section.body, self._section.end, -1
        calls: tuple[Any, ...]
        operands: tuple[Instruction, ...]
        # A line that matches is read by table look-ups. If the tables do not contain a part,
        # `_UnusualLine` or `KeyError` is raised, and the careful reader starts again at the same
        # line. So the fast path never has to report an error.
        while True:
            line = match(text, at, end)
            if line is None:
                if at == end:
                    return
                next_at = self._unusual_line(at, before)
                if next_at is None:
                    return
                at, before = next_at, -1
                continue
            root, name, head, first, second, inside, rest = line.groups()
            try:
                # Metadata differs from line to line. It is cut off and not read, so that the rest
                # of the line is one of a few hundred variants.
                if has_metadata and (cut := rest.find(_METADATA)) >= 0:
                    tail, rest = rest[cut:], rest[:cut]
                    stop = tail.find("}") + 1
                    if stop != len(tail) and not tails.accept(tail[stop:]):
                        raise _UnusualLine
                else:
                    tail = ""
                type_, variants, may_call, has_operands = heads[head]
                if not has_operands:
                    inside = text[line.end(3) + 1 : line.end(6)]
                    op, calls, control, extras = variants[rest, inside]
                    operands = ()
                else:
                    names: list[str] = []
                    if may_call:
                        rest, names = take_callees(rest)
                    op, calls, control, extras = variants[rest]
                    if calls:
                        calls = self._calls(calls, names)
                    if inside:
                        operands = self._operands(text[line.end(3) + 1 : line.end(6)])
                    elif second:
                        operands = (by_name[first], by_name[second])
                    else:
                        operands = (by_name[first],) if first else ()
                before_it = tuple(map(lookup, control)) if control else ()
                ins = TextInstruction(
                    name, type_, op, operands, calls, extras, tail, before_it, source, at
                )
                # `setdefault` finds a second definition of a name in the same look-up that adds the
                # first.
                if (root and scope.root) or by_name.setdefault(name, ins) is not ins:
                    raise _UnusualLine
            except (_UnusualLine, KeyError, ParseError):
                at, before = self._read_carefully(at), -1
                continue
            if root:
                scope.root = ins
            if not has_operands and type(op) is Parameter:
                scope.parameters.append(ins)
            before, at = at, line.end()

    def _read_carefully(self, at: int) -> int:
        """Add all instructions that begin in the line with offset `at` to the scope.

        They may be in any form of the grammar. Return the end of the last one.
        """
        texts, end = self._texts, self._section.end
        reader = instruction.InstructionReader(
            texts.source, texts.types, self._scope, self._callees, end
        )
        text = texts.source.text
        while True:
            at = reader.read(at)
            space = _BLANKS.match(text, at, end)
            if space is None or text[space.end() : space.end() + 1] in "\r\n,/":
                return at
            at = space.end()
            if at >= end:
                return at

    def _unusual_line(self, at: int, before: int) -> int | None:
        """Read one or more instructions at `at` that are not in XLA's printed form.

        Return their end.

        At the end of the body the result is `None`.

        Args:
            at: Offset of the text.
            before: Start of the previous line, if that was read as a complete instruction.
        """
        text, end = self._texts.source.text, self._section.end
        start = skip(text, at)
        if start >= end:
            return None
        # An instruction may continue on the next line. Text that does not begin an instruction
        # belongs to the previous line. The instruction of that line is dropped and read again,
        # carefully.
        if before >= 0 and not instruction.START.match(
            text, start
        ):  # the previous line may continue here
            self._scope.drop_last()
            start = before
        return self._read_carefully(start)

    def _calls(self, calls: Calls, names: list[str]) -> tuple[Computation, ...]:
        found = []
        for call in calls:
            computation = self._callees.find(names[call] if isinstance(call, int) else call)
            if computation is None:
                raise _UnusualLine
            found.append(computation)
        return tuple(found)

    def _operands(self, inside: str) -> tuple[Instruction, ...]:
        """Return the operands that a list `inside` names.

        Names in the list may follow types or comments `/*index=5*/`.
        """
        lookup = self._scope.by_name.__getitem__
        if "[" not in inside and "/" not in inside:
            if inside[0] == "%":
                return tuple(map(lookup, inside[1:].split(", %")))
            return tuple(map(lookup, inside.split(", ")))
        inside = _INDEX_COMMENT.sub("", inside)
        if "[" not in inside:
            return tuple(map(lookup, inside.replace("%", "").split(", ")))
        operands = []
        at = 0
        while operand := _OPERAND.match(inside, at):
            ins = lookup(operand.group(2))
            if not compatible(self._texts.types[operand.group(1)], ins.type):
                raise _UnusualLine
            operands.append(ins)
            at = operand.end()
        if at != len(inside):
            raise _UnusualLine
        return tuple(operands)

    def _check_result(self, place: tuple[int, int], root: Instruction) -> None:
        """Raise an error if the computation's header has another result type than the root.

        `place` has the start and end of the type in the header.
        """
        source = self._texts.source
        start, end = place
        written = source.text[start:end]
        # Computations of one module have few result types, so a pair that was compatible before is
        # not compared again.
        if self._texts.results.get(written) is root.type:
            return
        try:
            type_ = self._texts.types[written]
        except ParseError as error:
            raise error_in_source(error, source, start) from None
        if not compatible(type_, root.type):
            fail(
                f"`{self._section.name}` returns {print_type(type_, layout=False)}, but its root "
                f"`{root.name}` has type {print_type(root.type, layout=False)}",
                source,
                *place,
            )
        self._texts.results[written] = root.type
