"""Parsing of HLO text to modules."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from hloscope.errors import Diagnostic, ParseError
from hloscope.hlo_parser.body import Texts, read_body
from hloscope.hlo_parser.detection import (
    from_utf8,
    in_lines,
    refuse_other_format,
    refuse_zero,
    unpasted,
)
from hloscope.hlo_parser.nodes import TextComputation, TextModule
from hloscope.hlo_parser.scanner import NAME, closing, fail, found, skip, type_end
from hloscope.hlo_parser.scope import Scope, unused
from hloscope.hlo_parser.sections import (
    Section,
    header_name,
    is_computation,
    printed_header_end,
    read_header,
    read_sections,
    read_tables,
)
from hloscope.ir import Body, Computation, Module, Type
from hloscope.support.lazy import lazy, pattern
from hloscope.support.limits import refuse_long_numbers
from hloscope.support.source import Source, Span

if TYPE_CHECKING:
    import hloscope.hlo_parser.instruction as instruction
    import hloscope.hlo_parser.scope as missing
    from hloscope.hlo_parser.instruction import Callees
else:
    instruction = lazy("hloscope.hlo_parser.instruction")
    missing = lazy("hloscope.hlo_parser.scope")

T = TypeVar("T")
_HEADER: Final = pattern(r"HloModule\b")
_SPLIT: Final = pattern(r"^// -----+[^\n]*\n", re.MULTILINE)
_INLINE_DEEPEST: Final = 32
_CALLERS: Final = ("to_apply", "calls", "body", "condition", "select", "scatter", "computation")
_UNSPECIFIED: Final = pattern(r"\bapi_version=API_VERSION_UNSPECIFIED\b")
_CALLED: Final = pattern(rf"\b(?:{'|'.join(_CALLERS)}|\w+_computation)\s*=\s*%?({NAME})")
_INLINE: Final = pattern(
    rf"(?:{'|'.join(_CALLERS)}|computations)\s*=\s*\{{[\s{{]*(?:ROOT\s+)?%?{NAME}\s*=\s"
)


def decode(text: str | bytes, name: str) -> str:
    """Return the text decoded as UTF-8; a byte order mark becomes a space.

    `name` is the name of the text in messages.

    Raises:
        ParseError: The text is binary, or in another encoding.
    """
    if isinstance(text, bytes):
        text = from_utf8(text, name)
    if text.startswith("\ufeff"):
        text = " " + text[1:]
    if "\0" in text:
        refuse_zero(text, name)
    return text


def parse_hlo(text: str | bytes, *, name: str = "<string>", strict: bool = False) -> Module:
    r"""Parse a module of HLO.

    A text without `HloModule` line is read as computations, or as one instruction whose operands
    become parameters.

    Args:
        text: The text, or its bytes in UTF-8.
        name: Name of the text in messages.
        strict: Read all bodies of computations and the module's attributes at once. By default this
            happens on first use.

    >>> m = parse_hlo("HloModule m\nENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] abs(x) }")
    >>> m.entry.root, m.entry.root.span.line_col
    (<y = abs(x)>, (2, 35))

    Raises:
        ParseError: The text is not HLO. Errors in a body are raised on first use, unless `strict`.
    """
    source, notes = unpasted(Source(name, decode(text, name)))
    refuse_long_numbers(source)
    module, end = _read_in_lines(source, lambda s: _ModuleReader(s).read(0, strict=strict))
    if end < len(source.text):
        message = "a second module begins here; `parse_hlo_all` reads texts of several modules"
        fail(message, source, end, end + len("HloModule"))
    module.notes = (*notes, *module.notes, *_unspecified(source))
    return module


def _unspecified(source: Source) -> Iterator[Diagnostic]:
    """Yield a note about a custom call whose API version XLA prints but cannot read.

    It is about the first such call of the text; without one nothing is yielded.
    """
    found = _UNSPECIFIED.search(source.text)
    if found is not None:
        message = "XLA prints `API_VERSION_UNSPECIFIED` and refuses it; it is read as written"
        yield Diagnostic(message, Span(source, *found.span()), severity="note")


def _read_in_lines(source: Source, read: Callable[[Source], T]) -> T:
    """Return `read(source)`.

    If that is a long text with few line breaks, it is first split into lines.

    If `read` fails for the split text, the original is read, since splitting may change the
    program.
    """
    laid_out = in_lines(source)
    try:
        return read(laid_out)
    except ParseError as error:
        if laid_out is source:
            raise
        try:  # splitting may have changed the meaning
            return read(source)
        except ParseError:
            raise error from None


def parse_hlo_all(
    text: str | bytes, *, name: str = "<string>", strict: bool = False
) -> tuple[Module, ...]:
    r"""Parse all modules of a text.

    A line `// -----` separates modules without `HloModule` lines. The arguments are those of
    `parse_hlo`.

    >>> len(parse_hlo_all("a = s32[] constant(1)\n// -----\nb = s32[] constant(2)"))
    2

    Raises:
        ParseError: The text is not HLO, as for `parse_hlo`.
    """
    source, notes = unpasted(Source(name, decode(text, name)))
    refuse_long_numbers(source)
    modules = _read_in_lines(source, lambda s: _read_all(s, strict=strict))
    for module in modules:
        module.notes = (*notes, *module.notes)
        notes = ()
    return modules


def _read_all(source: Source, *, strict: bool) -> tuple[Module, ...]:
    whole = source.text
    modules = []
    at = skip(whole, 0)
    if not _HEADER.search(whole):
        for start, end in _parts(whole):
            part = Source(source.name, whole[:start].translate(_BLANK) + whole[start:end])
            if skip(part.text, start) < len(part.text):
                modules.append(_ModuleReader(part).read(0, strict=strict)[0])
        return tuple(modules)
    while at < len(whole) or not modules:
        module, at = _ModuleReader(source).read(at, strict=strict)
        modules.append(module)
    return tuple(modules)


class _Blank(dict[int, str]):
    """Translation table that replaces every character except line breaks by a space."""

    def __missing__(self, key: int) -> str:
        return "\n" if key == ord("\n") else " "


_BLANK: Final = _Blank()


def _parts(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    for split in _SPLIT.finditer(text):
        yield at, split.start()
        at = split.end()
    yield at, len(text)


class _Callees:
    """The computations that one computation may call, for the reader of its body.

    Calling this object reads that body.
    """

    __slots__ = ("_number", "_reader", "_section")

    def __init__(self, reader: _ModuleReader, section: Section, number: int) -> None:
        self._reader, self._section, self._number = reader, section, number

    def __call__(self) -> Body:
        return self._reader.read_body(self._section, self)

    def find(self, name: str) -> Computation | None:
        """Return the computation named `name` if its text is before the caller's, else `None`."""
        reader = self._reader
        if reader.order.get(name, self._number) >= self._number:
            return None
        return reader.computations[name]

    def names(self) -> Collection[str]:
        """Return the names of all computations."""
        return self._reader.computations.keys()

    def read_earlier(self) -> None:
        """Read the bodies of all computations before the caller, in text order."""
        for name in islice(self._reader.computations, self._number):
            self._reader.computations[name].body  # noqa: B018  (reads it)

    def read_inline(self, at: int, stem: str) -> Computation:
        """Read a computation that is written inside an instruction, in place of a name.

        `at` is the offset of its `{`; its name begins with `stem`, the instruction's name.
        """
        return self._reader.read_inline(at, stem, self._number)

    def missing_computation(
        self, name: str, parameter_types: Sequence[Type], result_type: Type, at: tuple[int, int]
    ) -> Computation | None:
        """Return a computation without instructions, in place of one that the text lacks.

        `None` if the text is a whole module. See `_ModuleReader.missing_computation` for the
        arguments.
        """
        return self._reader.missing_computation(name, parameter_types, result_type, at)


class _ModuleReader:
    """Reads the modules of a text; bodies of computations are read on first use."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._texts = Texts(source)
        self.computations: dict[str, Computation] = {}
        self.order: dict[str, int] = {}
        self._inlined: dict[str, Computation] = {}
        self._counts: Counter[str] = Counter()
        self._inline_depth = 0
        self._is_part = False
        self._stand_ins: dict[tuple[str, tuple[Type, ...], Type], Computation] = {}
        self._notes: list[Diagnostic] = []

    def read(self, at: int, *, strict: bool) -> tuple[Module, int]:
        """Read the module that begins at offset `at`; return it and its end.

        With `strict`, all bodies and the module's attributes are read at once.
        """
        source, text = self._source, self._source.text
        begin = at = skip(text, at)
        name, header, preamble = "", -1, slice(0)
        has_header = _HEADER.match(text, at) is not None
        if has_header:
            name, header = header_name(source, at)
            end = printed_header_end(text, header) or read_header(source, header)[1]
            at = read_tables(source, end)
            preamble = slice(end, at)
        elif not is_computation(source, at):
            return self._read_instruction(at), len(text)
        sections, at, printed = read_sections(source, at)
        if not sections:
            fail(f"module `{name}` has no computations", source, begin, max(begin + 1, header))
        entry = self._add(sections)
        computations: Mapping[str, Computation] = self.computations
        # Without a header the text may be a part of a module. Then callees may be missing. All
        # bodies are read now, since the types of stand-ins come from callers.
        if not has_header:
            called = _CALLED.finditer(text, begin, at)
            self._is_part = any(found[1] not in computations for found in called)
        if strict or self._is_part or _has_inline(text, sections[0].start, at, printed):
            computations = self._read_all()
        if not has_header:
            module = Module(f"module_{entry.name}", computations, entry)
            module.notes = tuple(self._notes)
            return module, at
        tables = text[preamble].strip()
        module = TextModule(source, name, computations, entry, header=header, preamble=tables)
        if strict:
            module.extras  # noqa: B018  (reads them)
        return module, at

    def _add(self, sections: list[Section]) -> Computation:
        """Create the computations of sections, whose bodies are read on first use.

        Return the entry.
        """
        entry: Section | None = None
        for number, section in enumerate(sections):
            if section.name in self.computations:
                line = _line(self.computations[section.name])
                message = f"computation `{section.name}` is already defined in line {line}"
                fail(message, self._source, section.start, section.body)
            self.order[section.name] = number
            self.computations[section.name] = TextComputation(
                self._source, section, _Callees(self, section, number)
            )
            if section.is_entry:
                if entry is not None:
                    line = _line(self.computations[entry.name])
                    message = f"second ENTRY: `{entry.name}` in line {line} is the entry already"
                    fail(message, self._source, section.start, section.body)
                entry = section
        return self.computations[(entry or sections[-1]).name]

    def _read_all(self) -> dict[str, Computation]:
        """Read all bodies.

        Return the computations by name, each after those written inside its instructions.
        """
        computations: dict[str, Computation] = {}
        for name, computation in self.computations.items():
            computation.body  # noqa: B018  (reads it)
            if self._inlined:
                computations.update(self._inlined)
                self._inlined = {}
            computations[name] = computation
        return computations

    def read_body(self, section: Section, callees: Callees) -> Body:
        """Return the instructions of the computation in a section.

        `callees` finds the computations that it calls.
        """
        try:
            return read_body(self._texts, section, callees)
        except RecursionError:
            fail("nested too deeply", self._source, section.start, section.body)

    def read_inline(self, at: int, stem: str, number: int) -> Computation:
        """Read a computation that is written inside an instruction, in place of a name.

        `at` is the offset of its `{`; its name begins with `stem`. `number` is the index of the
        section with the instruction.
        """
        end = closing(self._source, at)
        if self._inline_depth >= _INLINE_DEEPEST:
            fail("computations are nested too deeply", self._source, at)
        # The nested computation is read before its name is chosen, since those nested in it get
        # names first.
        self._inline_depth += 1
        section = Section("", False, at, at + 1, end - 1, end)
        body = _Callees(self, section, number)()
        self._inline_depth -= 1
        section.name = name = unused(f"{stem}_computation", self.order, self._counts)
        computation = self._inlined[name] = TextComputation(self._source, section, body)
        return computation

    def missing_computation(
        self, name: str, parameter_types: Sequence[Type], result_type: Type, at: tuple[int, int]
    ) -> Computation | None:
        """Return a computation without instructions, in place of one that a part of a module lacks.

        It has parameters of the types `parameter_types` and a result of type `result_type`. Callers
        of one name with equal types get the same object. `at` has the start and end of the name,
        for a note. The result is `None` in a whole module.
        """
        if not self._is_part:
            return None
        key = name, tuple(parameter_types), result_type
        known = self._stand_ins.get(key)
        if known is None:
            new = unused(name, self.order, self._counts)
            known = missing.missing_computation(new, parameter_types, result_type, self._source, at)
            self._stand_ins[key] = self._inlined[new] = known
            message = f"computation `{name}` is not in the text: nothing is known of what it does"
            self._notes.append(Diagnostic(message, Span(self._source, *at), severity="note"))
        return known

    def _read_instruction(self, at: int) -> Module:
        """Return a module with one computation, whose instructions begin at `at`.

        The text has instructions only, without the header of a computation. Undefined operands with
        a type become parameters.
        """
        source, text = self._source, self._source.text
        if not (instruction.START.match(text, at) or type_end(source, at) > at):
            refuse_other_format(source, at)
        scope = Scope("_", free_parameters=True)
        reader = instruction.InstructionReader(
            source,
            self._texts.types,
            scope,
            _Callees(self, Section("_", True, at, at, at, at), 0),
            len(text),
        )
        self._is_part = True
        is_named = instruction.START.match(text, at) is not None
        end = reader.read(at) if is_named else reader.read_unnamed(at, "_")
        end = skip(text, end)
        while is_named and instruction.START.match(text, end):
            end = skip(text, reader.read(end))
        if end < len(text):
            fail(
                f"expected the end of the text after the last instruction, found "
                f"{found(text, end)}; a module begins with `HloModule`",
                source,
                end,
            )
        section = Section("_", True, at, at, end, end)
        entry = TextComputation(source, section, scope.finish(source, at, end))
        module = Module("_", {**self._inlined, "_": entry}, entry)
        module.notes = tuple(self._notes)
        return module


def _line(computation: Computation) -> int:
    return computation.span.line if computation.span else 0


def _has_inline(text: str, start: int, end: int, printed: bool) -> bool:
    """May an instruction between `start` and `end` contain the text of a computation?

    Names of such computations are known only after all bodies are read. In XLA's printed form
    (`printed`) every instruction has one indented line and one ` = `. If there are more ` = ` than
    such lines, the text is searched.
    """
    if printed and text.count(" = ", start, end) <= text.count("\n  ", start, end):
        return False
    return _INLINE.search(text, start, end) is not None
