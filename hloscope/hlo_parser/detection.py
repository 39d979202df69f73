"""Detection of HLO protos, of files that are no HLO text, and of text pasted from logs or mail."""

from __future__ import annotations

import re
from typing import Final, NoReturn

from hloscope.errors import Diagnostic, ParseError
from hloscope.hlo_parser.scanner import NAME, fail
from hloscope.support.lazy import pattern
from hloscope.support.source import Source, Span

# --------------------------------------------------------------------------------------------------
# HLO copied from a log, mail, issue or terminal: removal of the text around each line.
#
# Lines keep their numbers; columns are those of the remaining text.


_ESCAPE: Final = pattern(r"\x1b(?:\[[0-9;]*[mK]|\][^\x07\x1b\n]*(?:\x07|\x1b\\))")
"""Pattern of a colour, an erased line or a terminal title.

Source: ECMA-48, sections 5.3 and 5.4.
"""
_ENTITIES: Final = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&#34;": '"', "&#39;": "'"}
_ENTITY: Final = pattern("|".join(map(re.escape, (*_ENTITIES, "&amp;"))))
_TYPE: Final = r"(?:[a-z]\w*\[|\(|token\[)"
_HEADER: Final = rf"(?:ENTRY +)?%?{NAME} (?:\([^\n]*\) -> [^\n]+ )?\{{"
_START: Final = pattern(
    rf"^[ \t]*+(?:HloModule [%\w]|{_HEADER}[ \t\r]*$|ENTRY\b|(?:ROOT )?%?{NAME} = {_TYPE})",
    re.MULTILINE,
)
"""Pattern of a line with which HLO may begin in a pasted text."""
_PLAIN_START: Final = pattern(
    rf"(?:HloModule\b|(?:ENTRY\s+)?%?{NAME}\s*(?:\([^\n]*\)\s*->[^\n]*)?\{{|ENTRY\b"
    rf"|(?:ROOT\s+)?%?{NAME}\s*=|\(*(?:[a-z]\w*\[|\(\)))"
)
_BLANK: Final = pattern(r"(?:\s+|//[^\n]*|/\*.*?\*/)*+", re.DOTALL)
_PREFIXED: Final = pattern(
    rf"^(?P<prefix>[^\n]{{0,400}}?(?:[^\w.%\n] ?|[ \t]))(?:HloModule [%\w]|ENTRY %?{NAME} [({{])",
    re.MULTILINE,
)
_PREFIXED_LINE: Final = pattern(
    rf"^(?P<prefix>[^\n=]{{0,400}}?[\]>|:)] ?) *(?:{_HEADER}|(?:ROOT )?%?{NAME} = {_TYPE})",
    re.MULTILINE,
)
_LOG: Final = pattern(
    r"(?:[IWEF]\d{4} \d\d:\d\d:[\d.]+ +\d+ [^\]\n]+:\d+\]"
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d+: [IWEF] [^\]\n]+:\d+\])"
)
"""Pattern of the prefixes of lines in logs of absl and TensorFlow."""
_FENCE: Final = pattern(r"^[ \t]*(?:```|~~~)[^\n`]*$\n?", re.MULTILINE)
_CLOSED: Final = pattern(r"^[ \t]*\}[ \t\r]*(?://[^\n]*|, execution_thread=[^\n]*)?$", re.MULTILINE)
_NUMBERS: Final = pattern(r"\d+")
_LONGEST_PREFIX: Final = 400


def unpasted(source: Source) -> tuple[Source, tuple[Diagnostic, ...]]:
    r"""Return a source with the HLO of a pasted text, and a note for each kind of removed text.

    The source itself is returned if it begins as HLO does and has no escapes of a terminal or of
    HTML.

    >>> found, notes = unpasted(Source("mail", "> HloModule m\n> ENTRY e {\n> }"))
    >>> found.text, [note.message for note in notes]
    ('HloModule m\nENTRY e {\n}', ['read without what stands before each line: `> `'])
    """
    text = source.text
    notes: list[tuple[int, str]] = []  # pairs (line, counted from 0; message)
    if "\x1b" in text and _ESCAPE.search(text):
        notes.append((_line(text, text.index("\x1b")), "read without the colours of a terminal"))
        text = _ESCAPE.sub("", text)
    at = text.find("-&gt;")
    if at >= 0:
        notes.append((_line(text, at), "read with the entities of HTML (`&gt;`) as characters"))
        text = _ENTITY.sub(lambda entity: _ENTITIES.get(entity[0], "&"), text)
    blank = _BLANK.match(text)
    begin = blank.end() if blank is not None else 0
    if begin < len(text) and not (_PLAIN_START.match(text, begin) or is_another(text, begin)):
        text = _without_surroundings(text, notes)
    if not notes:
        return source, ()
    cleaned = Source(source.name, text)
    starts = [(source.line_start(line), words) for line, words in notes]
    given = [Diagnostic(w, Span(source, at, at + 1), severity="note") for at, w in starts]
    return cleaned, tuple(given)


def _line(text: str, at: int) -> int:
    """Return the number of the line that contains offset `at`, counted from 0.

    The number is the same in the original text, as removed text keeps its line ends.
    """
    return text.count("\n", 0, at)


def _without_surroundings(text: str, notes: list[tuple[int, str]]) -> str:
    """Return the text without line prefixes, and without text before and after the program.

    Each removal appends (line, message) to `notes`.
    """
    prefix = _prefix(text)
    if prefix is not None:
        at, shown, before = prefix
        notes.append((_line(text, at), f"read without what stands before each line: `{shown}`"))
        text = _without_prefix(text, before)
    fences = [*_FENCE.finditer(text)]
    if fences:
        text = _fenced(text, fences)
    # Text around the program becomes empty lines, so that all line numbers stay valid.
    first = _START.search(text)
    if first is None:
        return text
    begin = first.start()
    if fences or text[:begin].strip():
        notes.append(
            (_line(text, begin), "the program begins here; other text around it is not read")
        )
    text = _blanked(text[:begin]) + text[begin:]
    ends = [closed.end() for closed in _CLOSED.finditer(text, begin)]
    if ends and not _START.search(text, ends[-1]):
        text = text[: ends[-1]] + _blanked(text[ends[-1] :])
    return text


def _blanked(text: str) -> str:
    return "\n" * text.count("\n")


def _prefix(text: str) -> tuple[int, str, re.Pattern[str]] | None:
    """Return the prefix that all lines of HLO have in the text, such as that of a log.

    `None` without one.

    Numbers in a prefix, such as times and process ids, may differ from line to line. The result has
    the offset of the first such line, a description for a note, and the pattern of the prefix.
    """
    found = _PREFIXED.search(text) or _PREFIXED_LINE.search(text)
    if found is None or not found["prefix"].strip() or len(found["prefix"]) > _LONGEST_PREFIX:
        return None
    shown = found["prefix"].rstrip(" ") + " "
    # Numbers in the prefix become `\d+`; everything else must repeat exactly.
    parts = map(re.escape, _NUMBERS.split(found["prefix"].rstrip()))
    alike = r"\d+".join(parts)
    same = re.compile(rf"[ \t]*{alike} ?", re.ASCII)
    # A prefix must repeat: `the dump: HloModule m` is only a sentence before a program.
    lines = text[found.start() :].split("\n", 3)[:3]
    if len(lines) > 1 and not any(same.match(line) for line in lines[1:]):
        return None
    return found.start(), shown, same


def _without_prefix(text: str, prefix: re.Pattern[str]) -> str:
    """Return the text without the prefix of each line.

    Lines with another log's prefix become empty.
    """
    lines = []
    for line in text.split("\n"):
        found = prefix.match(line)
        if found is not None:
            lines.append(line[found.end() :])
        else:
            lines.append("" if _LOG.match(line.lstrip()) else line)
    return "\n".join(lines)


def _fenced(text: str, fences: list[re.Match[str]]) -> str:
    """Return a Markdown text with only the fenced blocks that contain HLO.

    Other text becomes empty lines. A text without such a block is returned unchanged. `fences` are
    the matches of all fences in it, opening and closing ones alternating.
    """
    kept, at = [], 0
    ends = [fence.start() for fence in fences[1::2]]
    if len(ends) < (len(fences) + 1) // 2:
        ends.append(len(text))
    for opening, end in zip(fences[::2], ends, strict=True):
        block = text[opening.end() : end]
        if _START.search(block):
            kept.append(_blanked(text[at : opening.end()]) + block)
            at = end
    return "".join([*kept, _blanked(text[at:])]) if kept else text


# --------------------------------------------------------------------------------------------------
# Detection of files that are not HLO text, and their error messages.


_BYTECODE: Final = b"ML\xefR"
"""Magic number of MLIR bytecode; inside a file of another form it indicates `jax.export`.

Source: MLIR docs "MLIR bytecode format", jax `_src/export/serialization.fbs`.
"""
_MAGIC: Final = (
    (_BYTECODE, "MLIR bytecode; read it as StableHLO"),
    (b"StableHLO_v", "a StableHLO portable artifact"),
    (b"\x1f\x8b", "gzip-compressed; `hloscope.read` reads it"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x7fELF", "a compiled program (ELF)"),
    (b"BZh", "bzip2-compressed; decompress it first"),
    (b"\xfd7zXZ", "xz-compressed; decompress it first"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed; `hloscope.read` reads it"),
    (b"\xff\xfe", "UTF-16 text; HLO text is UTF-8"),
    (b"\xfe\xff", "UTF-16 text; HLO text is UTF-8"),
    (b"\x80\x04", "a Python pickle"),
)
_KINDS: Final = (
    (pattern(r"<(?:!DOCTYPE|html|\?xml|svg|head|body)", re.I), "HTML or XML, not HLO text"),
    (
        pattern(r"(?:builtin\.)?module\b|func\.func\b|#\w+ = (?:loc|#)|\"builtin|stablehlo\."),
        "MLIR (StableHLO), not HLO text",
    ),
    (
        pattern(r"(?:hlo_module\s*\{|name:\s*\"|computations\s*\{)"),
        "an HloModuleProto in protobuf's text format, not HLO text",
    ),
    (pattern(r"digraph\b"), "a Graphviz graph, not HLO text"),
    (pattern(r"\{\s*\"(?:cells|nbformat)\""), "a notebook, not HLO text"),
    (pattern(r"[{\[]"), "JSON, not HLO text"),
    (pattern(r"(?:import|from|def|class)\s+\w"), "Python source, not HLO text"),
    (pattern(r"%?\w+:\w+\[[\d,]*\]|\{ lambda"), "a jaxpr, not HLO text"),
)
_PROTO: Final = pattern(
    rb"\n(?:[\x01-\x7f]|[\x80-\xff][\x01-\xff]{0,4}\n?.?)[\w.-]{1,200}[\x12\x1a]", re.DOTALL
)
_IS_PROTO: Final = "this looks like an HLO proto in binary form; `hloscope.read` reads those"
_IS_EXPORT: Final = (
    "this has MLIR bytecode inside, as what `jax.export` serializes: give the text that"
    " `jax.export.deserialize(bytearray(DATA)).mlir_module()` returns for its bytes"
)
_CONTROL: Final = pattern(r"[\x00-\x08\x0e-\x1f]")


def refuse_zero(text: str, name: str) -> NoReturn:
    """Raise an error for a text with a zero character; it names the probable kind of file."""
    at = text.index("\0")
    kind = "this looks like a binary file"
    if text.startswith("\n") or at < 8:
        kind = _IS_PROTO
    fail(f"{kind}: character 0 at offset {at}", Source(name, text), at)


def from_utf8(data: bytes, name: str) -> str:
    """Return the bytes of a file as text, decoded as UTF-8; `name` is its name in messages.

    Raises:
        ParseError: The file is of another kind, or not UTF-8.
    """
    for magic, kind in _MAGIC:
        if data.startswith(magic):
            raise ParseError(f"{name}: this is {kind}")
    if _BYTECODE in data:
        raise ParseError(f"{name}: {_IS_EXPORT}")
    if data.startswith(b"\n") and _PROTO.match(data):
        raise ParseError(f"{name}: {_IS_PROTO}")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ParseError(
            f"{name}: not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}, "
            f"line {line} ({error.reason})"
        ) from None


def is_another(text: str, at: int) -> bool:
    """Does text in a language other than HLO begin at `at`?

    A bracket is no sign of another language, since a line of a log may begin with one.
    """
    return any(kind.match(text, at) for kind, _ in _KINDS if text[at] not in "[{")


def refuse_other_format(source: Source, at: int) -> None:
    """Raise an error that names the language or format of a text, if that is known not to be HLO.

    Otherwise do nothing.

    Args:
        source: The text.
        at: Offset of the first character outside of spaces and comments.
    """
    text = source.text
    if at >= len(text):
        what = "nothing but comments" if text.strip() else "empty"
        raise ParseError(f"{source.name}: the text is {what}; expected `HloModule`")
    control = _CONTROL.search(text, 0, 4096)
    if control:
        fail(
            f"this looks like a binary file: character {ord(control.group())}",
            source,
            control.start(),
        )
    for kind_pattern, kind in _KINDS:
        if kind_pattern.match(text, at):
            line = text.find("\n", at)
            fail(f"this is {kind}", source, at, len(text) if line < 0 else line)


# --------------------------------------------------------------------------------------------------
# Restoration of line breaks in texts that have lost them.
#
# HLO joined into one line is valid, but the fast path reads lines. So blanks before instructions,
# tables and computations are replaced by line breaks. The program and all offsets are unchanged,
# and errors have positions in the original text.


_LONG: Final = 1 << 16
"""Minimum number of characters of a text that `in_lines` splits into lines."""
_IN_A_LINE: Final = 8
"""Minimum average number of instructions per line of a text that `in_lines` splits into lines."""
_FIRST: Final = pattern(rf"\{{\s*(?:ROOT )?(%?){NAME} = ")
"""Pattern of the first instruction of a body; it captures the mark before names."""
_TABLES: Final = r'F(?:ile(?:Names|Locations)|unctionNames)\b|StackFrames\b|\d+ ["{]'
"""Pattern of the beginning of a table of files, functions or stack frames, or of a line of it."""
_PARTS: Final = {
    mark: pattern(
        r'("[^"\\]*+(?:\\.[^"\\]*+)*+"|/\*.*?\*/)'  # a string or a comment, which stays unchanged
        r'|("|/[/*])'  # a string or comment without end, or a comment that a line end would end
        r"|(?<![,=])(?<!ROOT)[ \t]([ \t]*+)"
        rf"(?={mark}{NAME} = |ROOT {mark}{NAME} = "  # before an instruction
        rf"|\}}[ \t]*(?:\Z|(?:ENTRY )?{mark}{NAME} [({{]|, execution_thread=)"  # a body's end
        rf"|{_TABLES})"
        rf'|(?<=[}}"])[ \t]([ \t]*+)(?=(?:ENTRY )?{mark}{NAME} [({{])',  # before a computation
        re.DOTALL,
    )
    for mark in ("", "%")
}
"""Patterns of blanks that `in_lines` may replace by line breaks, by the mark before names.

The mark is `%` or empty. The patterns also match strings and comments, which are skipped.
"""


class _UnsafeLineBreak(Exception):  # noqa: N818  (never leaves this file)
    """Raised if a line break could change the program, as inside a comment or a string."""


def in_lines(source: Source) -> Source:
    r"""Return the source, split into lines if it is long and has few line breaks.

    Blanks become line breaks, so offsets are unchanged.

    >>> joined = "a { " + " ".join(f"x{k} = s32[] constant({k})" for k in range(5000)) + " }"
    >>> found = in_lines(Source("joined", joined))
    >>> found.text.count("\n"), len(found.text) == len(joined), found.line_col(4096)
    (5001, True, (1, 4097))
    """
    text = source.text
    if len(text) < _LONG or text.count("\n") * _IN_A_LINE > text.count(" = "):
        return source
    first = _FIRST.search(text)
    if first is None:
        return source
    try:
        return Source(source.name, _PARTS[first[1]].sub(_laid_out, text), text)
    except _UnsafeLineBreak:
        return source


def _laid_out(part: re.Match[str]) -> str:
    skipped, unsafe, blanks, others = part.groups()
    if unsafe:
        raise _UnsafeLineBreak
    return skipped or f"\n{blanks or others or ''}"


# --------------------------------------------------------------------------------------------------
# Detection of HLO protos by their first fields, so that damaged ones are detected, too.


FORMS: Final = ("HloModuleProto", "HloProto", "HloSnapshot")
"""Names of the proto messages.

The index is the number of messages around the one with the module's name.
"""

_LENGTH: Final = pattern(rb"[\x80-\xff]{0,9}[\x00-\x7f]")
_NAME: Final = pattern(rb"[\w.<>:/-]+")
_CONTROL_BYTE: Final = pattern(rb"[\x00-\x08\x0e-\x1f]")
_FIRST_BYTES: Final = 4096
"""Number of bytes at the start of a file that are inspected."""


def form(data: bytes) -> str:
    r"""Return the name of the proto message in a file's bytes; empty if it is not an HLO proto.

    >>> form(b"\n\x05jit_f\x12\x04main"), form(b"\n\x0d\n\x05jit_f\x12\x04main")
    ('HloModuleProto', 'HloProto')
    >>> form(b"\n\nHloModule m")
    ''
    """
    head = data[:_FIRST_BYTES]
    if head[:1] not in (b"\n", b"\x12") or not _CONTROL_BYTE.search(head):
        return ""
    at = 0
    for message in FORMS:
        tag = head[at : at + 1]
        length = _LENGTH.match(head, at + 1)
        if length is None or tag not in (b"\n", b"\x12"):
            return ""
        start, size = length.end(), _value(length[0])
        name = _NAME.match(head, start, min(start + size, len(head)))
        if name and (name.end() == start + size or name.end() == len(head)):
            return message
        if tag == b"\x12":
            return ""
        at = start
    return ""


def is_proto(data: bytes) -> bool:
    """Is `data` the beginning of an HLO proto, complete or damaged?"""
    return bool(form(data))


def _value(varint: bytes) -> int:
    return sum((byte & 127) << 7 * number for number, byte in enumerate(varint))
