"""Positions of the parts of an HLO text: header with its aliases, tables, computations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, NoReturn, TypeAlias

from msgspec import Struct

from hloscope.errors import ParseError
from hloscope.hlo_parser.scanner import (
    NAME,
    SPACE,
    closing,
    fail,
    found,
    refuse_elided,
    skip,
    type_end,
    value_end,
    without_comments,
)
from hloscope.support.lazy import pattern
from hloscope.support.source import Source, Span

# --------------------------------------------------------------------------------------------------
# Positions of the parts of an HLO text: header, tables, computations.
#
# Bodies are not read here. A few searches for each computation recognise XLA's printed form. If
# there are comments, brackets at the start of a line or strings over several lines, all brackets
# are scanned.


class Section(Struct):
    """Offsets of the parts of one computation in the text.

    Attributes:
        name: Name without `%`.
        is_entry: Whether the computation is marked `ENTRY`.
        start: Offset of the start of the header line.
        body: Offset after the opening brace.
        end: Offset of the closing brace.
        extras_end: Offset of the end of the attributes after the closing brace.
        result: Start and end of the result type in the header; `None` if there is none.
    """

    name: str
    is_entry: bool
    start: int
    body: int
    end: int
    extras_end: int
    result: tuple[int, int] | None = None


_MODULE: Final = pattern(rf"HloModule\b{SPACE}(?:%?({NAME}):?)?", re.DOTALL)
_ATTRIBUTE: Final = pattern(rf"([A-Za-z_][\w.-]*){SPACE}={SPACE}", re.DOTALL)
_TABLE_NAMES: Final = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_TABLES: Final = pattern(rf"(?:\s*(?:{'|'.join(_TABLE_NAMES)})[ \t\r]*\n(?:[ \t]*\d+ [^\n]*\n)*)+")
_PRINTED: Final = pattern(
    rf"\s*(ENTRY )?%?({NAME}) (?:\([^\n]*\) -> ([^\n]+) )?(\{{)[ \t\r]*\n"  # a header
    r"(?:(?:[ \t]+[A-Za-z%_]|%|ROOT )[^\n]*[^{\r\n]\r?\n)*+"  # instructions, no block opens
    r'(\})((?:, execution_thread="[^"\n\\]*")?)[ \t\r]*(?:\n|\Z)'
)
_COMPUTATION: Final = pattern(rf"(ENTRY\b{SPACE})?%?({NAME}){SPACE}(?=[({{])", re.DOTALL)
_INSTRUCTION: Final = pattern(rf"(ROOT\s+)?%?{NAME}\s*=")
_SMALL: Final = 1 << 20
_MODULE_WORD: Final = pattern(r"HloModule\b")


def header_name(source: Source, at: int) -> tuple[str, int]:
    """Return the name of the module whose `HloModule` is at offset `at`, and the name's end.

    Raises:
        ParseError: The name is missing.
    """
    header = _MODULE.match(source.text, at)
    assert header is not None
    if header.group(1) is None or header.group(1) == "ENTRY":
        fail("expected the name of the module after `HloModule`", source, at, at + 9)
    return header.group(1), header.end()


def printed_header_end(text: str, at: int) -> int | None:
    """Return the end of the attributes of a module at `at`, if XLA printed them in one line.

    Otherwise return `None`.
    """
    end = text.find("\n", at)
    line = text[at:end]
    plain = (
        end > 0
        and all(line.count(a) == line.count(b) for a, b in ("{}", "()", "[]"))
        and line.count("/") == 2 * line.count("/*index=")
        and '"' not in line
        and not line.rstrip().endswith(",")
        and text[skip(text, end) : end + 80].lstrip()[:1] != ","
    )
    return end if plain else None


def read_header(source: Source, at: int) -> tuple[tuple[tuple[str, str], ...], int]:
    """Return the attributes of a module from offset `at` as (name, text), and their end.

    Raises:
        ParseError: A part is not `name=value`, or a bracket is not closed.
    """
    text = source.text
    pairs = []
    end = at
    while text.startswith(",", after := skip(text, end)):
        at = skip(text, after + 1)
        name = _ATTRIBUTE.match(text, at)
        if name is None:
            fail(f"expected `name=value` after the comma, found {found(text, at)}", source, at)
        end = value_end(source, name.end())
        pairs.append((name.group(1), without_comments(text[name.end() : end]).rstrip()))
    return tuple(pairs), end


def read_tables(source: Source, at: int) -> int:
    """Return the end of the tables of files, functions and stack frames that begin at `at`."""
    text = source.text
    tables = _TABLES.match(text, at) if text.startswith(_TABLE_NAMES, skip(text, at)) else None
    return tables.end() if tables else at


def is_computation(source: Source, at: int) -> bool:
    """Does a computation, `name {` or `name (…) -> … {`, begin at `at`?"""
    return _COMPUTATION.match(source.text, at) is not None


def read_sections(source: Source, at: int) -> tuple[list[Section], int, bool]:
    """Return the computations from offset `at`, their end, and whether all are in printed form.

    The computations end with the text, or at the next `HloModule`.

    Raises:
        ParseError: A part is not a computation, or a bracket is never closed.
    """
    text = source.text
    sections: list[Section] = []
    start = at
    # The fast search stops at the first computation that is not in printed form; the careful one
    # continues there. If that fails, a comment or string may have been taken for the end of a
    # computation, so all of them are read again, carefully.
    if len(text) > _SMALL or text.count("/*", at) == text.count("/*index=", at):
        at = _printed_sections(text, at, sections)
    printed = len(sections)
    try:
        at = _careful_sections(source, at, sections)
    except ParseError:
        if not printed:
            raise
        del sections[:]  # perhaps a comment or string was taken for the end of a computation
        at = _careful_sections(source, start, sections)
        printed = 0
    return sections, at, len(sections) == printed


def _careful_sections(source: Source, at: int, sections: list[Section]) -> int:
    text = source.text
    while (at := skip(text, at)) < len(text) and not _MODULE_WORD.match(text, at):
        sections.append(_careful_section(source, at))
        at = sections[-1].extras_end
    return at


def _printed_sections(text: str, at: int, sections: list[Section]) -> int:
    """Append the computations from offset `at` that are in XLA's printed form to `sections`.

    Return the offset after them.
    """
    match = _PRINTED.match
    while part := match(text, at):
        entry, name = part.group(1, 2)
        start = part.start(1 if entry else 2)
        start -= text[start - 1] == "%"
        result = part.span(3) if part.end(3) > 0 else None
        body, end, stop = part.end(4), part.start(5), part.end(6)
        sections.append(Section(name, entry is not None, start, body, end, stop, result))
        at = part.end()
    return at


def _careful_section(source: Source, at: int) -> Section:
    text = source.text
    header = _COMPUTATION.match(text, at)
    if header is None:
        _explain_section(source, at)
    if header.group(2) == "ENTRY":
        fail("expected the name of the computation after `ENTRY`", source, *header.span(2))
    after = header.end()
    result: tuple[int, int] | None = None
    if text[after] == "(":
        after = skip(text, closing(source, after))
        if text.startswith("->", after):
            at_type = skip(text, after + 2)
            after = type_end(source, at_type)
            if after == at_type:
                fail(f"expected a type, found {found(text, at_type)}", source, at_type)
            result = at_type, after
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
    is_entry = header.group(1) is not None
    return Section(header.group(2), is_entry, at, after + 1, closed - 1, stop, result)


def _explain_section(source: Source, at: int) -> NoReturn:
    text = source.text
    refuse_elided(source, at)
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


# --------------------------------------------------------------------------------------------------
# Results that share memory with parameters or operands, as headers and instructions state.
#
# Forms: `input_output_alias={ {0}: (1, {}, may-alias) }` (result 0 takes the memory of parameter
# 1), `buffer_donor={ (2, {0}) }` (part 0 of parameter 2 may be reused), and
# `output_to_operand_aliasing={{}: (0, {})}` (the result takes the memory of operand 0).
#
# Source: XLA `hlo_parser.cc` (`ParseAliasing`, `ParseBufferDonor`,
# `ParseInstructionOutputOperand`).


INPUT_OUTPUT_ALIAS: Final = "input_output_alias"
BUFFER_DONOR: Final = "buffer_donor"
OPERAND_ALIASING: Final = "output_to_operand_aliasing"

_INDEX: Final = r"\{\s*((?:\d+\s*(?:,\s*\d+\s*)*)?)\}"
_BUFFER: Final = rf"\(\s*(\d+)\s*,\s*{_INDEX}\s*(?:,\s*(may-alias|must-alias)\s*)?\)"
_ALIAS: Final = pattern(rf"\s*{_INDEX}\s*:\s*{_BUFFER}\s*(?:,|$)")
_DONOR: Final = pattern(rf"\s*{_BUFFER}\s*(?:,|$)")
_NUMBER: Final = pattern(r"\d+")
_DIGITS: Final = 9
"""Maximum number of digits in the index of a parameter or tuple element."""

ShapeIndex: TypeAlias = tuple[int, ...]
"""Index of a part of a nested tuple, outermost first; `()` is the whole value."""


class Aliasing(NamedTuple):
    """One entry of an aliasing: a part of an input, and the part of the result in its memory.

    Attributes:
        output: Shape index of the part of the result; `None` for a buffer donor.
        taken: Index of the parameter or operand whose memory is used.
        inside: Shape index of the part of that parameter or operand.
    """

    output: ShapeIndex | None
    taken: int
    inside: ShapeIndex


def read_aliasing(name: str, text: str | None, span: Span | None = None) -> Iterator[Aliasing]:
    """Yield the entries of an attribute in the order of the text; none if the text is `None`.

    Args:
        name: `input_output_alias`, `buffer_donor` or `output_to_operand_aliasing`.
        text: The value as written, with its braces.
        span: Position of the attribute, for errors.

    Raises:
        ParseError: An entry is not in the grammar.  Entries before it have been yielded.

    >>> list(read_aliasing("input_output_alias", "{ {1}: (0, {}, may-alias) }"))
    [Aliasing(output=(1,), taken=0, inside=())]
    >>> list(read_aliasing("buffer_donor", "{ (2, {0, 1}) }"))
    [Aliasing(output=None, taken=2, inside=(0, 1))]
    """
    form = _DONOR if name == BUFFER_DONOR else _ALIAS
    inside, at = (text or "{}").strip()[1:-1], 0
    while inside[at:].strip():
        found = form.match(inside, at)
        if found is None or any(len(n) > _DIGITS for n in _NUMBER.findall(found[0])):
            needs = "(parameter, {index})" if form is _DONOR else _ALIAS_FORM
            message = f"{name}: expected {needs}, found `{inside[at:].strip()[:40]}`"
            raise ParseError(message, span=span)
        at = found.end()
        *outputs, taken, index, _ = found.groups()
        yield Aliasing(_index(outputs[0]) if outputs else None, int(taken), _index(index))


_ALIAS_FORM: Final = "{index}: (parameter, {index}, kind)"


def _index(text: str) -> ShapeIndex:
    return tuple(map(int, re.findall(r"\d+", text)))


def aliasing_in(texts: Iterable[tuple[str, str]], name: str) -> tuple[Aliasing, ...]:
    """Return the entries of the aliasing attribute `name`; none if it is absent or invalid.

    The verifier reports an invalid text.

    Args:
        texts: `extras` of a module, or `settings` of an op.
        name: Name of the attribute.

    >>> aliasing_in([("buffer_donor", "{ (2, {}) }")], "buffer_donor")
    (Aliasing(output=None, taken=2, inside=()),)
    """
    try:
        return tuple(read_aliasing(name, dict(texts).get(name)))
    except ParseError:
        return ()


def index_text(index: ShapeIndex) -> str:
    """Return a shape index as XLA writes it, in braces.

    >>> index_text((0, 1)), index_text(())
    ('{0, 1}', '{}')
    """
    return f"{{{', '.join(map(str, index))}}}"
