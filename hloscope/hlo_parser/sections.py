"""Where the parts of an HLO text stand: header, tables, computations.  Bodies are not read here.

The form that XLA prints is recognised by a few searches per computation; any doubt (comments,
brackets at the start of a line, strings over several lines) goes through a scan of all brackets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NoReturn

from hloscope.hlo_parser.scanner import NAME, SPACE, closing, fail, found, skip, type_end, value_end
from hloscope.source import Source


@dataclass(slots=True)
class Section:
    """One computation: offsets of its parts in the text.

    Attributes:
        name: Its name, without `%`.
        is_entry: Is it marked `ENTRY`?
        start: Of the header line.
        body: After the opening brace.
        end: Of the closing brace.
        extras_end: Where the attributes after the closing brace end.
    """

    name: str
    is_entry: bool
    start: int
    body: int
    end: int
    extras_end: int


_MODULE: Final = re.compile(rf"HloModule\b{SPACE}(?:%?({NAME}):?)?", re.DOTALL)
_TABLES: Final = re.compile(
    r"(?:\s*(?:FileNames|FunctionNames|FileLocations|StackFrames)[ \t\r]*\n(?:\d+ [^\n]*\n)*)+"
)
_PRINTED: Final = re.compile(
    rf"\s*(ENTRY )?%?({NAME}) (?:\([^\n]*\) -> [^\n]*)?(\{{)[ \t\r]*\n"  # header
    r"(?:[ \t]+[A-Za-z%_][^\n]*[^{\r\n]\r?\n)*+"  # one instruction a line, no block opens
    r'(\})((?:, execution_thread="[^"\n\\]*")?)[ \t\r]*(?:\n|\Z)'
)
_COMPUTATION: Final = re.compile(rf"(ENTRY\b{SPACE})?%?({NAME}){SPACE}(?=[({{])", re.DOTALL)
_INSTRUCTION: Final = re.compile(rf"(ROOT\s+)?%?{NAME}\s*=")
_MODULE_WORD: Final = re.compile(r"HloModule\b")


def has_plain_layout(text: str) -> bool:
    """Are there no comments but `/*index=5*/`, so that lines can be trusted?"""
    return text.count("/*") == text.count("/*index=")


def read_header(source: Source, at: int) -> tuple[str, int, int]:
    """Return the name of the module and where its attributes start and end.

    Args:
        source: The text.
        at: Offset of `HloModule`.

    Raises:
        ParseError: The name is missing, or an attribute's bracket is not closed.
    """
    text = source.text
    header = _MODULE.match(text, at)
    assert header is not None
    if header.group(1) is None or header.group(1) == "ENTRY":
        fail("expected the name of the module after `HloModule`", source, at, at + 9)
    start = end = header.end()
    while text.startswith(",", after := skip(text, end)):
        at = skip(text, after + 1)
        equals = text.find("=", at)
        if equals < 0 or not re.fullmatch(r"[\w.-]+\s*", text[at:equals]):
            fail(f"expected the name of an attribute, found {found(text, at)}", source, at)
        end = value_end(source, skip(text, equals + 1))
    return header.group(1), start, end


def read_tables(source: Source, at: int) -> int:
    """Return where the tables of files, functions and stack frames that start at `at` end."""
    tables = _TABLES.match(source.text, at)
    return tables.end() if tables else at


def is_computation(source: Source, at: int) -> bool:
    """Does a computation (`name {`, `name (…) -> … {`) begin at `at`?"""
    return _COMPUTATION.match(source.text, at) is not None


def read_sections(source: Source, at: int) -> tuple[list[Section], int]:
    """Return the computations from `at`, and where they end: the text's end or next `HloModule`.

    Raises:
        ParseError: Something is not a computation, or a bracket is never closed.
    """
    text = source.text
    sections: list[Section] = []
    if has_plain_layout(text):
        at = _printed_sections(text, at, sections)
    while (at := skip(text, at)) < len(text) and not _MODULE_WORD.match(text, at):
        section = _careful_section(source, at)
        sections.append(section)
        at = section.extras_end
    return sections, at


def _printed_sections(text: str, at: int, sections: list[Section]) -> int:
    """Append the sections in printed form from `at`; return the offset of what is not in it."""
    match = _PRINTED.match
    while part := match(text, at):
        entry, name = part.group(1, 2)
        start = part.start(1 if entry else 2)
        start -= text[start - 1] == "%"
        stop = part.end(5)
        body, end = part.end(3), part.start(4)
        sections.append(Section(name, entry is not None, start, body, end, stop))
        at = part.end()
    return at


def _careful_section(source: Source, at: int) -> Section:
    text = source.text
    header = _COMPUTATION.match(text, at)
    if header is None:
        _explain_section(source, at)
    after = header.end()
    if text[after] == "(":
        after = skip(text, closing(source, after))
        if text.startswith("->", after):
            result = skip(text, after + 2)
            after = type_end(source, result)
            if after == result:
                fail(f"expected a type, found {found(text, result)}", source, result)
            after = skip(text, after)
    if not text.startswith("{", after):
        fail(
            f"expected `{{` to open the body of `{header.group(2)}`, found {found(text, after)}",
            source,
            after,
        )
    closed = closing(source, after)
    stop = closed
    while text.startswith(",", comma := skip(text, stop)):
        equals = text.find("=", comma)
        stop = value_end(source, skip(text, equals + 1)) if equals > 0 else len(text)
    return Section(header.group(2), header.group(1) is not None, at, after + 1, closed - 1, stop)


def _explain_section(source: Source, at: int) -> NoReturn:
    text = source.text
    if _INSTRUCTION.match(text, at):
        fail("this instruction is outside of any computation", source, at, text.find("\n", at))
    if text[at] == "}":
        fail("`}` closes nothing", source, at)
    word = re.compile(rf"(ENTRY\b\s*)?%?{NAME}").match(text, at)
    if word:
        fail(
            f"expected `{{` or `(` after the name of the computation, "
            f"found {found(text, skip(text, word.end()))}",
            source,
            skip(text, word.end()),
        )
    fail(f"expected a computation, found {found(text, at)}", source, at)
