"""Modules and texts from files, folders, artifacts and objects of other libraries."""

from __future__ import annotations

import os
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from hloscope import hlo_parser, stablehlo
from hloscope.api.files import MLIR, bytes_of_file, read_stream
from hloscope.api.finding import language_of
from hloscope.cost import profiles
from hloscope.cost.profiles import is_xspace
from hloscope.errors import InputError, ParseError
from hloscope.hlo_parser import decode, is_proto, parse_hlo
from hloscope.ir import Module
from hloscope.memory import dumps
from hloscope.support.lazy import lazy
from hloscope.support.limits import MOST_INPUT
from hloscope.support.source import Source

if TYPE_CHECKING:
    import hloscope.api.artifacts as artifacts
else:
    artifacts = lazy("hloscope.api.artifacts")


@runtime_checkable
class TextFile(Protocol):
    """An open file, of text or bytes."""

    def read(self) -> str | bytes:
        """Return the whole content."""


@runtime_checkable
class Lowered(Protocol):
    """The result of `jax.jit(f).lower(...)`, or of its `.compile()`."""

    def as_text(self) -> str | None:
        """Return the program as text."""


Readable: TypeAlias = str | bytes | os.PathLike[str] | TextFile | Lowered
"""Types of the sources that `read` accepts."""


class ReadModule(NamedTuple):
    """A module that was read.

    Attributes:
        module: The module.
        file: The name of its source, for messages.
        dump: The module of the dump folder that it was read from; `None` for other sources.
        allocated: Bytes that XLA allocated for it, as an `HloProto` states; `None` for other
            sources.
    """

    module: Module
    file: str
    dump: dumps.DumpedModule | None = None
    allocated: int | None = None


class _Content(NamedTuple):
    """The contents of a source.

    Attributes:
        given: The text, or the bytes of an artifact.
        name: Name of the source in messages.
        allocated: Bytes that XLA allocated for the program, as an `HloProto` states; `None` for
            others.
    """

    given: str | bytes
    name: str
    allocated: int | None = None


def read_module(source: Readable, *, name: str | None = None, strict: bool = False) -> ReadModule:
    """Read a module from a source; see `hloscope.read`.

    Raises:
        InputError: The file is missing, a directory, empty, or not text.
        ParseError: The text is neither HLO nor StableHLO; the message states the position.
        UnknownNameError: The folder holds several modules, or none of that name.
        UnsupportedError: The program has an op or syntax that is not supported.
    """
    dump = _dump_of(source)
    content = _content_of(source)
    name = name or content.name
    if isinstance(content.given, bytes):
        module = artifacts.artifact_module(content.given, name)
    else:
        given = _source_of(content.given, name)
        if language_of(given) != "stablehlo":
            parsed = parse_hlo(given.text, name=name, strict=strict)
            return ReadModule(parsed, name, dump, content.allocated)
        module = stablehlo.parse_stablehlo(given.text, name=name)
    if strict:
        len(module.computations)  # builds all of them, and reports their errors
    return ReadModule(module, name)


def _dump_of(source: Readable) -> dumps.DumpedModule | None:
    """Return the module of a dump folder that a path names; `None` for other sources.

    Raises:
        UnknownNameError: The folder holds several modules, or none of that name.
    """
    if isinstance(source, str) and _is_text(source):
        return None
    if not isinstance(source, str | os.PathLike):
        return None
    path = os.fspath(source)
    folder, mark, choice = path.rpartition("#")
    # A path may itself contain `#`: an existing path is not split.
    if not mark or os.path.lexists(path):
        folder, choice = path, ""
    if not os.path.isdir(folder) or not dumps.is_dump_folder(folder):
        return None
    return dumps.DumpFolder(folder).module(choice)


def read_source(source: Readable, *, name: str | None = None) -> Source:
    """Return the text of a program with its name; see `hloscope.read` for sources.

    Raises:
        InputError: The file is missing, a directory, empty, or not text.
        UnsupportedError: The program has an op or syntax that is not supported.
    """
    content = _content_of(source)
    return _source_of(content.given, name or content.name)


def _source_of(content: str | bytes, name: str) -> Source:
    """Return the text of a program, from its text or the bytes of an artifact.

    `name` is the name of the source in messages.

    Raises:
        InputError: The text is empty.
    """
    text = artifacts.artifact_text(content, name) if isinstance(content, bytes) else content
    if not text.strip():
        raise InputError(f"{name} is empty")
    if "vhlo." in text:
        text = artifacts.stablehlo_text(text, name)
    return Source(name, text)


def _content_of(source: Readable) -> _Content:
    """Return the contents of a source, with its name."""
    if isinstance(source, str):
        if _is_text(source):
            return _Content(_checked_unicode(source, "<string>"), "<string>")
        return _content_of_file(source)
    if isinstance(source, bytes | bytearray | memoryview):
        return _decoded(read_stream(BytesIO(source), "<bytes>"), "<bytes>")
    if isinstance(source, os.PathLike):
        return _content_of_file(source)
    if hasattr(source, "compiler_ir") or hasattr(source, "as_text"):
        return _Content(_text_of_jax(source), f"<{type(source).__name__}>")
    if isinstance(source, TextFile):
        name = str(getattr(source, "name", "<file>"))
        content = source.read()
        if isinstance(content, str):
            return _Content(_checked_unicode(content, name), name)
        return _decoded(content, name)
    raise TypeError(
        "expected a path, text, bytes, an open file or a jax Lowered or Compiled object, "
        f"not {type(source).__name__}"
    )


def _is_text(source: str) -> bool:
    """Is the string the text of a program, rather than a path?"""
    return not source.strip() or "\n" in source or "{" in source or "HloModule" in source


def _checked_unicode(text: str, name: str) -> str:
    """Return the text unchanged, if it is valid Unicode; `name` is its name in messages.

    Raises:
        InputError: The text has half of a surrogate pair, which no encoding can write.
    """
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError as error:
        at = error.start
        where = f"at offset {at}, line {text.count(chr(10), 0, at) + 1}"
        raise InputError(f"{name}: not Unicode: half of a surrogate pair {where}") from None
    return text


def _text_of_jax(source: Any) -> str:
    """Return the HLO text of a jax object: `Lowered` is converted to HLO, `Compiled` is HLO.

    Raises:
        InputError: The object returns no text.
    """
    text = source.as_text(dialect="hlo") if hasattr(source, "compile") else source.as_text()
    if not isinstance(text, str):
        raise InputError(f"{type(source).__name__}.as_text() gives no text")
    return text


def _content_of_file(path: str | os.PathLike[str]) -> _Content:
    """Return the contents of a file, with its name.

    `p.xplane.pb#jit_f` is a program in a profile, `DIR#jit_f` a module in a dump folder.
    """
    file = os.fspath(path)
    profile, mark, choice = file.rpartition("#")
    if mark and not os.path.lexists(file) and _is_profile(profile):
        return _text_in_profile(profile, choice)
    if _is_profile(file):
        return _text_in_profile(file, "")
    dump = _dump_of(file)
    if dump is not None:
        path = dump.program
        file = os.fspath(path)
    return _decoded(bytes_of_file(path), file)


def _is_profile(path: str) -> bool:
    """Do the first bytes of the file look like an XPlane profile?"""
    if not os.path.isfile(path):
        return False  # a pipe cannot be read twice
    try:
        with open(path, "rb") as stream:
            return is_xspace(stream.read(64))
    except OSError:
        return False


def _text_in_profile(path: str, choice: str) -> _Content:
    """Return the text of a program in a profile, with its name.

    `choice` is the name of the program; empty if the profile has only one.
    """
    profile = profiles.read_profile(path)
    inside = profiles.chosen_program(profile, choice)
    return _Content(profiles.program_text(profile, inside), f"{path}#{inside.label}")


def _decoded(data: bytes, name: str) -> _Content:
    """Return the text in a file's bytes; the bytes of an artifact are returned unchanged.

    `name` is the name of the file in messages.
    """
    # The order matters: the checks go from magic numbers to guesses, and text is the rest.
    if MLIR in data and artifacts.is_artifact(data):
        if len(data) > MOST_INPUT:
            what = f"{name} has more than {MOST_INPUT >> 20} MiB, too many to be shown as text"
            raise InputError(f"{what}; `doctor`, `serialize` and `deserialize` in Python read it")
        return _Content(bytes(data), name)
    if is_xspace(data):
        profile = profiles.read_profile(data, name=name)
        program = profiles.chosen_program(profile, "")
        return _Content(profiles.program_text(profile, program), name)
    if is_proto(data):
        text = hlo_parser.proto_text(data, name)
        return _Content(text, name, hlo_parser.allocated_bytes(data, name))
    try:
        return _Content(decode(data, name), name)
    except ParseError as error:
        raise InputError(error.message, span=error.span) from None
