"""Origin of an instruction in the source: metadata of HLO, locations of MLIR.

Dumps state it for nearly every instruction, in one of three forms: a file and line in the metadata,
a number in the tables of stack frames in the module's header, or an MLIR location.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from msgspec import Struct

from hloscope import mlir
from hloscope.errors import ParseError
from hloscope.hlo_parser import Frame, Metadata, read_metadata, source_trace
from hloscope.ir import Instruction, Module
from hloscope.support.lazy import pattern


class Provenance(Struct, frozen=True):
    """The origin of an instruction in the source, as its program states it.

    Attributes:
        op_name: The path of the framework's op, `jit(step)/transpose(jvp())/mul`; may be empty.
        op_type: The framework's kind of op; mostly empty.
        trace: The source positions, innermost first; empty if unknown.
    """

    op_name: str = ""
    op_type: str = ""
    trace: tuple[Frame, ...] = ()

    @property
    def source(self) -> Frame | None:
        """Return the innermost source position; `None` if it is unknown."""
        return self.trace[0] if self.trace else None

    @property
    def place(self) -> str:
        """Return the innermost source position as `file:line`; empty if it is unknown."""
        return str(self.trace[0]) if self.trace else ""

    def to_json(self) -> dict[str, str]:
        """Return `op_name` and `source`, if they are known."""
        known = {"op_name": self.op_name, "source": self.place}
        return {key: text for key, text in known.items() if text}


def provenance_of(ins: Instruction, module: Module) -> Provenance:
    """Return the origin of an instruction; empty if its metadata cannot be read.

    `module` is its program, whose header may have the table of stack frames.

    >>> from hloscope.hlo_parser import parse_hlo
    >>> module = parse_hlo('ENTRY e { ROOT p = f32[] parameter(0), '
    ...                    'metadata={op_name="x" source_file="/a/train.py" source_line=12} }')
    >>> found = provenance_of(module.entry.root, module)
    >>> found.op_name, found.place
    ('x', '/a/train.py:12')
    """
    try:
        text = ins.extra("metadata")
        if text is not None:
            return _of_metadata(_unscheduled(text), module.preamble)
    except ParseError:
        return _UNKNOWN
    location = ins.location
    return _UNKNOWN if location is None else _of_location(location)


def training_pass(op_name: str) -> str:
    """Return the pass of training that a JAX op_name states; empty if it states none.

    Values recomputed for the backward pass count as backward.

    >>> [training_pass(f"jit(f)/{name}") for name in ("jvp()/mul", "transpose(jvp())/mul", "add")]
    ['forward', 'backward', '']
    """
    if "transpose(jvp(" in op_name:
        return "backward"
    return "forward" if "jvp(" in op_name else ""


_UNKNOWN: Final = Provenance()
_SCHEDULED: Final = pattern(r'(\{(?:[^"]*"[^"]*")*?[ ,]*)scheduling_name="[^"]*"')


def _unscheduled(text: str) -> str:
    """Return the text of metadata without `scheduling_name`, which differs for each instruction.

    >>> _unscheduled('{op_name="x" scheduling_name="loop_fusion.7" stack_frame_id=3}')
    '{op_name="x"  stack_frame_id=3}'
    """
    if "scheduling_name" not in text or "\\" in text:
        return text
    found = _SCHEDULED.match(text)
    return text if found is None else found[1] + text[found.end() :]


# Cached: `index --all` of an 11 MB dump takes 1.2 × as long without it.
@lru_cache(maxsize=1 << 13)
def _of_metadata(text: str, preamble: str) -> Provenance:
    """Parse metadata; `preamble` is the text of the module before its first computation."""
    data = read_metadata(text)
    return Provenance(data.op_name, data.op_type, source_trace(data, preamble))


def metadata_of(ins: Instruction, module: Module) -> Metadata:
    """Return the metadata of an instruction, with its source position in any of the three forms.

    `module` is its program, whose header may have the table of stack frames.

    Raises:
        ParseError: The metadata cannot be parsed.
    """
    text = ins.extra("metadata")
    data = Metadata() if text is None else read_metadata(text)
    found = provenance_of(ins, module)
    at = found.source
    if at is not None:
        data = data._replace(
            source_file=at.file,
            source_line=at.line,
            source_end_line=at.end_line,
            source_column=at.column,
            source_end_column=at.end_column,
        )
    return data._replace(op_name=found.op_name)


def _of_location(location: object) -> Provenance:
    """Return the origin that an MLIR location states.

    JAX names the op by a location around the position, or alone.
    """
    if location is mlir.UNKNOWN or not isinstance(location, mlir.Location):
        return Provenance()
    try:
        read = mlir.resolve_location(location)
    except ParseError:
        return Provenance()
    return Provenance(_name(read), "", _trace(read))


_TRACES: Final[dict[int, tuple[object, tuple[Frame, ...]]]] = {}
"""Cached traces by identity of the location.

Entries keep the locations alive, so identities stay unique.
"""
_MOST_TRACES: Final = 1 << 13
_DEEP: Final = 64
"""Maximum number of callers of a cached trace; longer ones would take quadratic memory."""


def _trace(location: mlir.Location) -> tuple[Frame, ...]:
    """Return the source positions of a location, innermost first.

    Ops of one program share their callers, whose traces are cached: AlphaFold's 85,257 ops have 542
    callers, and 11 frames each; all origins take 3 s instead of 14 on a busy machine.
    """
    pending: list[tuple[mlir.Location, list[Frame]]] = []
    at: mlir.Location | None = location
    trace: tuple[Frame, ...] = ()
    while at is not None:
        known = _TRACES.get(id(at))
        if known is not None and known[0] is at:
            trace = known[1]
            break
        own, caller = _until_caller(at)
        pending.append((at, own))
        at = caller
    if len(pending) > _DEEP:
        return (*[frame for _, own in pending for frame in own], *trace)
    for at, own in reversed(pending):
        trace = (*own, *trace)
        if len(_TRACES) >= _MOST_TRACES:
            _TRACES.clear()
        _TRACES[id(at)] = at, trace
    return trace


def _until_caller(location: mlir.Location) -> tuple[list[Frame], mlir.Location | None]:
    """Return the frames of a location before its outermost caller, and the location of that caller.

    The caller is `None` if there is none.
    """
    at, name = mlir.resolve_location(location), ""
    while isinstance(at, mlir.NameLoc):
        name = at.name
        at = mlir.resolve_location(at.child)
    if isinstance(at, mlir.CallSiteLoc):
        return list(_frames(at.callee, name)), mlir.resolve_location(at.caller)
    return list(_frames(at, name)), None


def _name(location: mlir.Location) -> str:
    """Return the outermost name of a location; empty if it has none."""
    todo = [location]
    seen: set[int] = set()  # a fused location may contain itself
    while todo:
        at = todo.pop()
        if id(at) in seen:
            continue
        seen.add(id(at))
        match mlir.resolve_location(at):
            case mlir.NameLoc(name):
                return name
            case mlir.FusedLoc(parts):
                todo += reversed(parts)
            case mlir.CallSiteLoc(callee):
                todo.append(callee)
    return ""


def _frames(location: mlir.Location, function: str) -> Iterator[Frame]:
    """Yield the source positions of a location, innermost first.

    A name around a position is its function; `function` is the outermost one.
    """
    todo = [(location, function)]
    while todo:
        at, name = todo.pop()
        match mlir.resolve_location(at):
            case mlir.FileLoc(file, line, column, end_line, end_column):
                ends = (end_line if end_line >= 0 else line, max(end_column, 0))
                yield Frame(file, name, line, ends[0], column, ends[1])
            case mlir.NameLoc(inner, child):
                todo.append((child, inner))
            case mlir.FusedLoc(parts):
                todo += [(part, name) for part in reversed(parts)]
            case mlir.CallSiteLoc(callee, caller):
                todo += [(caller, ""), (callee, name)]


class SourcePattern(Struct, frozen=True):
    """A source file, or lines of it: `train.py`, `train.py:120`, `layers/attention.py:100-120`.

    A file is given by the end of its path, or by a pattern with `*` and `?`.
    """

    file: str
    first: int = 0
    last: int = 0

    @classmethod
    def parse(cls, text: str) -> SourcePattern:
        """Parse `FILE`, `FILE:LINE` or `FILE:FIRST-LAST`.

        >>> SourcePattern.parse("a/train.py:10-12")
        SourcePattern(file='a/train.py', first=10, last=12)
        """
        found = re.fullmatch(r"(.*?):(\d{1,18})(?:-(\d{1,18}))?", text)
        if found is None:
            return cls(text)
        file, first, last = found.groups()
        return cls(file, int(first), int(last or first))

    def matches(self, frame: Frame) -> bool:
        """Does a source position match the pattern?

        A statement of several lines is at each of them.
        """
        if self.first and not (
            frame.line <= self.last and self.first <= max(frame.end_line, frame.line)
        ):
            return False
        return self._is_file(frame.file)

    def _is_file(self, file: str) -> bool:
        if file == self.file or file.endswith("/" + self.file):
            return True
        pattern = glob(self.file)
        return bool(pattern.fullmatch(file) or pattern.fullmatch(file.rpartition("/")[2]))


def glob(pattern: str) -> re.Pattern[str]:
    """Return a regular expression for a pattern: `*` is any text, `?` any character.

    >>> bool(glob("f32[8,*]").fullmatch("f32[8,128]"))
    True
    """
    parts = (
        {"*": ".*", "?": "."}.get(part, re.escape(part)) for part in re.split(r"([*?])", pattern)
    )
    return re.compile("".join(parts), re.DOTALL)
