"""Detection of files that are not HLO text, and their error messages."""

from __future__ import annotations

import re
from typing import Final, NoReturn

from hloscope.errors import ParseError
from hloscope.hlo_parser.scanner import fail
from hloscope.lazy import pattern
from hloscope.source import Source

_BYTECODE: Final = b"ML\xefR"
"""Magic number of MLIR bytecode; inside another file it comes from `jax.export`.

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
    """Raise an error for a text with a zero character, with the probable kind of the file."""
    at = text.index("\0")
    kind = "this looks like a binary file"
    if text.startswith("\n") or at < 8:
        kind = _IS_PROTO
    fail(f"{kind}: character 0 at offset {at}", Source(name, text), at)


def from_utf8(data: bytes, name: str) -> str:
    """Decode the text of a file.

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
    """Does text in another language begin at `at`?

    A bracket does not count, since a line of a log may begin with one.
    """
    return any(kind.match(text, at) for kind, _ in _KINDS if text[at] not in "[{")


def explain(source: Source, at: int) -> None:
    """Raise an error that names the kind of the text, if it is recognised.

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
