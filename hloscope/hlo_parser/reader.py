"""HLO text → modules."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from hloscope.hlo_parser.body import Texts, read_body
from hloscope.hlo_parser.instruction import START, Callees, InstructionReader
from hloscope.hlo_parser.nodes import TextComputation, read_pairs
from hloscope.hlo_parser.scanner import NAME, closing, fail, found, skip, type_end
from hloscope.hlo_parser.scope import Scope
from hloscope.hlo_parser.sections import (
    Section,
    is_computation,
    read_header,
    read_sections,
    read_tables,
)
from hloscope.hlo_parser.sniff import decode, explain
from hloscope.ir.graph import Body, Computation, Module
from hloscope.source import Source

_HEADER: Final = re.compile(r"HloModule\b")
_SPLIT: Final = re.compile(r"^// -----+[^\n]*\n", re.MULTILINE)
_INLINE_DEEPEST: Final = 64
_SMALL: Final = 1 << 18
_CALLERS: Final = ("to_apply", "calls", "body", "condition", "select", "scatter", "computation")
_INLINE: Final = re.compile(
    rf"(?:{'|'.join(_CALLERS)}|computations)\s*=\s*\{{[\s{{]*(?:ROOT\s+)?%?{NAME}\s*=\s"
)
_INLINE_OPENINGS: Final = (*(f"{caller}={{" for caller in _CALLERS), "computations={{")


def parse_hlo(text: str | bytes, *, name: str = "<string>", strict: bool = False) -> Module:
    r"""Return the module written in `text`.

    A text without `HloModule` line is read as computations, or as one instruction whose operands
    become parameters.  Computations are read when they are first visited.

    >>> m = parse_hlo("HloModule m\nENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] abs(x) }")
    >>> m.entry.root, m.entry.root.span.line_col
    (<y = abs(x)>, (2, 35))

    Args:
        text: HLO text; bytes are read as UTF-8.
        name: Shown in messages, usually the path.
        strict: Read everything now, so that every error shows.

    Raises:
        ParseError: The text is not HLO; later, when a computation is first visited, its body.
    """
    source = Source(name, decode(text, name))
    module, end = _ModuleReader(source).read(0, strict=strict)
    if end < len(source.text):
        message = "a second module begins here; `parse_hlo_all` reads texts of several modules"
        fail(message, source, end, end + len("HloModule"))
    return module


def parse_hlo_all(
    text: str | bytes, *, name: str = "<string>", strict: bool = False
) -> tuple[Module, ...]:
    r"""Return all modules of a text, which stand one after the other.

    A line `// -----` separates modules that have no `HloModule` line.

    >>> len(parse_hlo_all("a = s32[] constant(1)\n// -----\nb = s32[] constant(2)"))
    2

    Raises:
        ParseError: As `parse_hlo`.
    """
    source = Source(name, decode(text, name))
    whole = source.text
    modules = []
    at = skip(whole, 0)
    if not _HEADER.search(whole):
        for start, end in _parts(whole):
            part = Source(name, whole[:start].translate(_BLANK) + whole[start:end])
            if skip(part.text, start) < len(part.text):
                modules.append(_ModuleReader(part).read(0, strict=strict)[0])
        return tuple(modules)
    while at < len(whole) or not modules:
        module, at = _ModuleReader(source).read(at, strict=strict)
        modules.append(module)
    return tuple(modules)


class _Blank(dict[int, str]):
    """Translation of every character but line breaks to a space."""

    def __missing__(self, key: int) -> str:
        return "\n" if key == ord("\n") else " "


_BLANK: Final = _Blank()


def _parts(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    for split in _SPLIT.finditer(text):
        yield at, split.start()
        at = split.end()
    yield at, len(text)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause the cyclic garbage collector: a growing graph only makes it search in vain."""
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


class _Reading:
    """The body of one computation, to be read on call."""

    __slots__ = ("_number", "_reader", "_section")

    def __init__(self, reader: _ModuleReader, section: Section, number: int) -> None:
        self._reader, self._section, self._number = reader, section, number

    def __call__(self) -> Body:
        return self._reader.read_section(self._section, self._number)


class _ModuleReader:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._texts = Texts(source)
        self._computations: dict[str, Computation] = {}
        self._order: dict[str, int] = {}
        self._inlined: dict[str, Computation] = {}
        self._names: set[str] = set()
        self._inline_depth = 0

    def read(self, at: int, *, strict: bool) -> tuple[Module, int]:
        """Return the module that begins at `at`, and where it ends."""
        source, text = self._source, self._source.text
        at = skip(text, at)
        name, extras, preamble = "", slice(0), slice(0)
        has_header = _HEADER.match(text, at) is not None
        if has_header:
            name, start, end = read_header(source, at)
            extras = slice(start, end)
            at = read_tables(source, end)
            preamble = slice(end, at)
        elif not is_computation(source, at):
            return self._read_instruction(at), len(text)
        sections, at = read_sections(source, at)
        if not sections:
            fail(f"module `{name}` has no computations", source, at)
        entry = self._add(sections)
        computations: Mapping[str, Computation] = self._computations
        if strict or _has_inline(text):
            computations = self._read_all()
        module = Module(
            name if has_header else f"module_{entry.name}",
            computations,
            entry,
            extras=read_pairs(source, text[extras], extras.start or 0),
            preamble=text[preamble].strip(),
        )
        return module, at

    def _add(self, sections: list[Section]) -> Computation:
        """Make the computations, to be read later, and return the entry."""
        entry: Section | None = None
        for number, section in enumerate(sections):
            if section.name in self._computations:
                line = _line(self._computations[section.name])
                message = f"computation `{section.name}` is already defined in line {line}"
                fail(message, self._source, section.start, section.body)
            self._order[section.name] = number
            self._computations[section.name] = TextComputation(
                self._source, section, _Reading(self, section, number)
            )
            if section.is_entry:
                if entry is not None:
                    line = _line(self._computations[entry.name])
                    message = f"second ENTRY: `{entry.name}` in line {line} is the entry already"
                    fail(message, self._source, section.start, section.body)
                entry = section
        return self._computations[(entry or sections[-1]).name]

    def _read_all(self) -> dict[str, Computation]:
        """Read all bodies; return the computations, each after those written inside it."""
        computations: dict[str, Computation] = {}
        with _no_collection():
            for name, computation in self._computations.items():
                computation.body  # noqa: B018  (reads it)
                if self._inlined:
                    computations.update(self._inlined)
                    self._inlined = {}
                computations[name] = computation
        return computations

    def read_section(self, section: Section, number: int) -> Body:
        """Read the body of computation `number`."""
        return read_body(self._texts, section, self._callees(number))

    def _callees(self, number: int) -> Callees:
        order, computations = self._order, self._computations

        def by_name(name: str) -> Computation | None:
            return computations[name] if order.get(name, number) < number else None

        def inline(at: int, stem: str) -> Computation:
            return self._read_inline(at, stem, number)

        return Callees(by_name, computations.keys, inline)

    def _read_inline(self, at: int, stem: str, number: int) -> Computation:
        """Read a computation whose braces open at `at`, inside an instruction called `stem`."""
        end = closing(self._source, at)
        if self._inline_depth >= _INLINE_DEEPEST:
            fail("computations are nested too deeply", self._source, at)
        self._inline_depth += 1
        section = Section("", False, at, at + 1, end - 1, end)
        body = self.read_section(section, number)
        self._inline_depth -= 1
        name, count = f"{stem}_computation", 0
        while name in self._order or name in self._names:
            count += 1
            name = f"{stem}_computation.{count}"
        self._names.add(name)
        section.name = name
        computation = self._inlined[name] = TextComputation(self._source, section, body)
        return computation

    def _read_instruction(self, at: int) -> Module:
        """Return a module of the one instruction at `at`; its operands become parameters."""
        source, text = self._source, self._source.text
        if not (START.match(text, at) or type_end(source, at) > at):
            explain(source, at)
        scope = Scope("_", free_parameters=True)
        reader = InstructionReader(source, self._texts.types, scope, self._callees(0), len(text))
        end = reader.read(at) if START.match(text, at) else reader.read_unnamed(at, "_")
        end = skip(text, end)
        if end < len(text):
            fail(
                f"expected the end of the text after a single instruction, found "
                f"{found(text, end)}; a module begins with `HloModule`",
                source,
                end,
            )
        section = Section("_", True, at, at, end, end)
        entry = TextComputation(source, section, scope.finish(source, at, end))
        return Module("_", {**self._inlined, "_": entry}, entry)


def _line(computation: Computation) -> int:
    return computation.span.line_col[0] if computation.span else 0


def _has_inline(text: str) -> bool:
    """May a computation be written inside an instruction?  Then names are known only at the end."""
    if len(text) < _SMALL:
        return _INLINE.search(text) is not None
    return any(opening in text for opening in _INLINE_OPENINGS)
