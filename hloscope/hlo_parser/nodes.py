"""Graph nodes that decode their text on demand.

A function decodes all of it, to find every error.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Final

from hloscope.errors import ParseError, UnsupportedError
from hloscope.hlo_parser.devices import read_sharding
from hloscope.hlo_parser.metadata import (
    read_metadata,
    read_origin,
    read_stack_frames,
    read_statistics,
    written,
)
from hloscope.hlo_parser.scanner import error_in_source, split_attributes, without_comments
from hloscope.hlo_parser.sections import Section, read_header
from hloscope.hlo_parser.types import spell
from hloscope.ir import Body, Computation, Instruction, Module, Op, Type, Written
from hloscope.ops import Constant
from hloscope.support.lazy import pattern
from hloscope.support.source import Source, Span

# --------------------------------------------------------------------------------------------------
# Graph nodes with their text: extras and spans are computed on demand.
#
# Most of a dump is metadata that is never used, so a node stores the end of its line undecoded. For
# users these are `Instruction`s and `Computation`s like others.


Pairs = tuple[tuple[str, str], ...]


_METADATA_ALONE: Final = pattern(
    r'\s*,?\s*metadata=(\{[^{}"\\/]*(?:"[^"\\]*"[^{}"\\/]*)*\})\s*', re.ASCII
)
"""Pattern of attributes that are metadata only, as of nearly every instruction."""
_METADATA_FIRST: Final = pattern(r', metadata=(\{[^{}"\\/]*(?:"[^"\\{}]*"[^{}"\\/]*)*\})')
"""Pattern of metadata as the first attribute; it cannot contain a comment or an escape."""


_SCHEDULED: Final = pattern(
    r'(, metadata=\{(?:[^{}"\\]*"[^"\\]*")*?[ ,]*)scheduling_name="[^"\\]*"'
)


def read_pairs(source: Source, text: str, at: int) -> Pairs:
    """Return the attributes in `text` as (name, value as text).

    `text` is at offset `at` of `source`; errors have positions in it.
    """
    if alone := _METADATA_ALONE.fullmatch(text):
        return (("metadata", alone[1]),)
    try:
        parts = split_attributes(without_comments(text))
        return tuple((name, written(name, value)) for name, value, _ in parts)
    except ParseError as error:
        raise error_in_source(error, source, at) from None


class TextInstruction(Instruction):
    """An instruction read from text.

    Metadata and other attributes without a field are decoded on demand.
    """

    __slots__ = ("_at", "_source", "_tail")

    def __init__(
        self,
        name: str,
        type: Type,
        op: Op,
        operands: tuple[Instruction, ...],
        calls: tuple[Computation, ...],
        extras: Pairs,
        tail: str,
        control_predecessors: tuple[Instruction, ...],
        source: Source,
        at: int,
        end: int = -1,
    ) -> None:
        """Set the fields of an instruction, and the position of its text.

        Args:
            name: Name without `%`.
            type: Type of the result.
            op: The op, with the attributes that have a field.
            operands: The operands.
            calls: The called computations.
            extras: Attributes without a field as (name, text).
            tail: Text of further attributes without a field, not yet split.
            control_predecessors: Instructions that must run before.
            source: The text of the module.
            at: Start of the instruction in `source`.
            end: End of the instruction; -1 if it ends with its line.
        """
        self.name = name  # type: ignore[misc]  # the base class says Final
        self.type = type  # type: ignore[misc]
        self.op = op  # type: ignore[misc]
        self.operands = operands  # type: ignore[misc]
        self.calls = calls  # type: ignore[misc]
        self.control_predecessors = control_predecessors  # type: ignore[misc]
        self._extras = extras
        self._tail = tail
        self._source = source
        self._at: int | tuple[int, int] = at if end < 0 else (at, end)

    @property
    def extras(self) -> Pairs:
        """Attributes without a field in the op, as (name, text): metadata, sharding, others."""
        tail = self._tail
        if tail:
            first = _METADATA_FIRST.match(tail)
            if first is not None:
                self._extras += (("metadata", first[1]),)
                tail = tail[first.end() :]
            if tail:
                self._extras += read_pairs(self._source, tail, self.span.end - len(tail))
            self._tail = ""
        return self._extras

    @property
    def known_extras(self) -> Pairs:
        """Those of `extras` whose text has already been split, as (name, text).

        No more text is split.

        Text that is not yet split has only attributes that every opcode may have, such as metadata
        and sharding.
        """
        return self._extras

    @property
    def span(self) -> Span:
        """Position in the source, from the start of the name to the end of the last attribute."""
        if isinstance(self._at, tuple):
            return Span(self._source, *self._at)
        text = self._source.text
        start = self._start()
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        return Span(self._source, start, end - (text[end - 1] == "\r"))

    @property
    def line(self) -> int:
        """Line of the source where the instruction begins, counted from 1."""
        return self._source.line(self._start())

    def _start(self) -> int:
        """Return the offset of the instruction's first character that is not a space."""
        start = self._at
        if isinstance(start, tuple):
            return start[0]
        text = self._source.text
        while text[start] in " \t\r\n":
            start += 1
        return start


def unscheduled_key(ins: Instruction) -> tuple[object, ...]:
    """Return a key of the attributes without a field, in which the schedule's names are omitted.

    The metadata of each instruction in a dump has such a name, `scheduling_name`.
    """
    tail = ins._tail if isinstance(ins, TextInstruction) else ""
    if not tail:
        return ins.extras
    found = _SCHEDULED.match(tail)
    return ins._extras, tail if found is None else found[1] + tail[found.end() :]


class TextComputation(Computation):
    """A computation read from text; its attributes are decoded on demand."""

    __slots__ = ("_section", "_source")

    def __init__(self, source: Source, section: Section, body: Body | Callable[[], Body]) -> None:
        super().__init__(section.name, body)
        self._source = source
        self._section = section

    @property
    def extras(self) -> Pairs:
        """Attributes after the closing brace as (name, text), such as `execution_thread`."""
        section = self._section
        after = self._source.text[section.end + 1 : section.extras_end]
        return read_pairs(self._source, after, section.end + 1) if after else ()

    @property
    def start(self) -> int:
        """Offset of the computation's header in the source."""
        return self._section.start

    @property
    def span(self) -> Span:
        """Position in the source, from the start of the header to the closing brace."""
        return Span(self._source, self._section.start, self._section.extras_end)


class TextModule(Module):
    """A module read from text; its attributes are decoded on demand."""

    def __init__(
        self,
        source: Source,
        name: str,
        computations: Mapping[str, Computation],
        entry: Computation,
        *,
        header: int,
        preamble: str,
    ) -> None:
        super().__init__(name, computations, entry, preamble=preamble, spell=spell)
        self._source = source
        self._header = header

    @property
    def extras(self) -> Pairs:
        """Attributes of the module as (name, text), as written."""
        if self._header >= 0:
            pairs, _ = read_header(self._source, self._header)
            self._extras, self._header = tuple((n, written(n, text)) for n, text in pairs), -1
        return self._extras

    def possible_callers(self) -> dict[Computation, list[Computation]]:
        """Return, for each called computation, the computations that may call it.

        While bodies are unread, the text is searched for names, so that no body has to be read.
        Then the result may have more callers than exist.
        """
        found = None
        if not all([computation.is_read for computation in self]):
            found = self._callers_by_text()
        return super().possible_callers() if found is None else found

    def _callers_by_text(self) -> dict[Computation, list[Computation]] | None:
        """Return the possible callers of each computation, found by searching the text for names.

        The result is `None` if the text calls a name that is not that of a computation.
        """
        text = self._source.text
        if _ODD.search(text):
            return None
        sections = [c for c in self if isinstance(c, TextComputation)]
        sections.sort(key=lambda computation: computation.start)
        starts = [computation.start for computation in sections]
        found: dict[Computation, dict[Computation, None]] = {}
        for mentions in _MENTIONS:
            for mention in mentions.finditer(text):
                # The last computation that begins before the name contains it.
                at = bisect_right(starts, mention.start()) - 1
                token = mention[1]
                names = [token]
                if token.startswith("{"):
                    names = [name.strip() for name in without_comments(token)[1:-1].split(",")]
                callees = [self.computations.get(name.removeprefix("%")) for name in names if name]
                for callee in callees:
                    if callee is None or at < 0:
                        return None
                    found.setdefault(callee, {})[sections[at]] = None
        return {callee: [*callers] for callee, callers in found.items()}


_CALLERS: Final = (
    "to_apply", "calls", "body", "condition", "decomposition", "select", "scatter", "computations?",
)  # fmt: skip
"""Attributes whose values name computations; an entry may be the end of such attributes' names."""
_MENTIONS: Final = tuple(
    [pattern(rf"{name}\s*=\s*(\{{[^}}]*\}}|[^\s,)}}]*)", re.ASCII) for name in _CALLERS]
)
_ODD: Final = pattern(r"\*/\s*=")
"""Pattern of a comment between an attribute's name and its value."""


# --------------------------------------------------------------------------------------------------
# Decoding of everything in a module that is stored as text, so that every error is found.


_READERS: Final[dict[str, Callable[[str], object]]] = {
    "metadata": read_metadata,
    "sharding": read_sharding,
    "origin": read_origin,
    "statistics": read_statistics,
}


def decode_module(module: Module) -> int:
    r"""Decode all values that `parse_hlo` stores as text; return their number.

    These are attributes of instructions of any opcode (metadata, shardings, configs), the values of
    constants that are not elided, and the tables of stack frames.

    >>> from hloscope.hlo_parser.reader import parse_hlo
    >>> m = parse_hlo('ENTRY e { ROOT x = f32[] constant(2), metadata={op_name="y"} }')
    >>> decode_module(m)
    2

    Args:
        module: A module read from HLO.

    Raises:
        ParseError: A text is invalid; the error has its position.
    """
    count, reader_of = 0, _READERS.get
    read_stack_frames(module.preamble)
    for computation in module:
        for ins in computation:
            for name, text in ins.extras:
                reader = reader_of(name)
                try:
                    if reader is not None:
                        reader(text)
                    elif isinstance(text, Written):
                        text.value  # noqa: B018  (reads it)
                    else:
                        continue
                except ParseError as error:
                    raise _with_position(error, ins, text) from None
                count += 1
            if type(ins.op) is Constant:
                count += _decode_constant(ins, ins.op)
    return count


def _decode_constant(ins: Instruction, op: Constant) -> int:
    literal = op.literal
    if literal.is_elided:
        return 0
    try:
        literal.array(ins.type)
    except ParseError as error:
        raise _with_position(error, ins, literal.written) from None
    except UnsupportedError:  # no array is so large
        return 0
    return 1


def _with_position(error: ParseError, ins: Instruction, text: str) -> ParseError:
    """Return an error about `text` with its position in the module.

    `text` is a part of the text of `ins`; an error about an instruction without a position is
    returned unchanged.
    """
    span = ins.span
    if span is None:
        return error
    at = span.source.text.find(text, span.start, span.end)
    return error_in_source(error, span.source, at) if at >= 0 else error
