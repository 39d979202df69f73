"""Metadata, backend configs, origins and stack frames of instructions.

The graph keeps these as text (`Instruction.extras`, `Module.preamble`); the functions here decode
single values on demand.

Source: XLA's `OpMetadata`, `StackFrameIndex`, as printed in HLO text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import Struct

from hloscope import mlir
from hloscope.errors import ParseError
from hloscope.hlo_parser.scanner import (
    fail,
    inside,
    part_end,
    shortened,
    split_attributes,
    split_list,
)
from hloscope.hlo_parser.values import read_dims, read_float, read_string, unquote
from hloscope.ir import Dims, Instruction, Written
from hloscope.mlir import dialects
from hloscope.support.lazy import pattern
from hloscope.support.limits import read_json

# ---------------------------------------------------------------------------------- metadata


class Metadata(NamedTuple):
    """The origin of an instruction in the source program; 0 and `""` mean unknown.

    Attributes:
        others: Fields that no other attribute has, as (name, text).
    """

    op_type: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    source_end_line: int = 0
    source_column: int = 0
    source_end_column: int = 0
    stack_frame_id: int = 0
    scheduling_name: str = ""
    deduplicated_name: str = ""
    others: tuple[tuple[str, str], ...] = ()


_NONE: Final = Metadata()
_TEXTS: Final = {name for name, value in _NONE._asdict().items() if type(value) is str}
_NUMBERS: Final = {name for name, value in _NONE._asdict().items() if type(value) is int}
_FIELD: Final = pattern(r'[\s,]*([\w.-]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^\s{},"]+(?=[\s,]|$))?')


def read_metadata(text: str) -> Metadata:
    """Return the metadata of a text `{op_name="a/b" source_line=3}`.

    >>> read_metadata('{op_name="jit(f)/add" stack_frame_id=7}').op_name
    'jit(f)/add'

    Raises:
        ParseError: Something is not `field=value`.
    """
    inner = inside(text)
    known: dict[str, Any] = {}
    others: list[tuple[str, str]] = []
    at = 0
    while inner[at:].strip():
        found = _FIELD.match(inner, at)
        if found is None:
            fail(f"expected `field=value`, found `{shortened(inner[at:])}`", text, 1 + at)
        name, value, at = found[1], found[2], found.end()
        if value is None:  # a nested group
            start, at = at, part_end(inner, at, stop_at_comma=False)
            value = inner[start:at]
            if not value.startswith("{"):
                fail(f"field `{name}` has no value", text, 1 + found.start(1), 1 + found.end(1))
        if name in _TEXTS:
            known[name] = unquote(value)
        elif name in _NUMBERS and value.isdecimal():
            known[name] = int(value)
        else:
            others.append((name, value))
    return Metadata(**known, others=tuple(others))


def metadata(ins: Instruction) -> Metadata:
    """Return the metadata of an instruction; empty if it has none."""
    text = ins.extra("metadata")
    return _NONE if text is None else read_metadata(text)


# --------------------------------------------------------------------------------- attributes


def read_frontend_attributes(text: str) -> Mapping[str, str]:
    r"""Return the attributes in `{a="b",mesh={x = 1 : i32}}` by name: strings, or a group's text.

    >>> read_frontend_attributes('{a="b\\"c",n={x = 1 : i32}}')["n"]
    '{x = 1 : i32}'
    """
    parts = split_attributes(_with_unquoted_names(inside(text)))
    return MappingProxyType({name: unquote(value) for name, value, _ in parts})


def _with_unquoted_names(text: str) -> str:
    """Return a list of attributes with the quotes around names removed: `a=1` for `"a"=1`.

    Names are at the start of the text and after commas.
    """
    return re.sub(r'(^|,)(\s*)"([\w.-]+)"(?=\s*=)', r"\1\2\3", text)


class BackendConfig(Struct, frozen=True):
    """Data of an instruction for XLA's backend.

    Attributes:
        kind: `json`, `string` (a quoted text), or `mlir` (a dictionary attribute).
        value: The JSON value, the string, or attribute texts by name.
    """

    kind: str
    value: Any

    def __hash__(self) -> int:
        return hash(self.kind)  # JSON objects and lists have no hash


_LAX: Final = pattern(r'("(?:[^"\\]|\\.)*")|([A-Za-z_]\w*)(?=\s*:)|,(?=\s*[}\]])')


def _strict(found: re.Match[str]) -> str:
    """Return the text of a match in a form that JSON allows.

    A bare name gets quotes; a comma before a closing bracket is dropped.
    """
    string, name = found.groups()
    return string or (f'"{name}"' if name else "")


def read_backend_config(text: str) -> BackendConfig:
    """Return the backend config of a text.

    >>> read_backend_config("{uplo = 76 : ui8}")
    BackendConfig(kind='mlir', value={'uplo': '76 : ui8'})
    >>> read_backend_config("{sizes:[32]}")
    BackendConfig(kind='json', value={'sizes': [32]})

    Raises:
        ParseError: The text is neither JSON, nor a string, nor a dictionary attribute.
    """
    text = text.strip()
    known = _string_or_json(text)
    if known is not None:
        return known
    inner = inside(text)
    attributes: dict[str, str] = {}
    for part, at in split_list(inner):
        name, equals, value = part.partition("=")
        if not re.fullmatch(r'"?[A-Za-z_$][\w.$"-]*\s*', name):
            fail(f"expected JSON or `name = value`, found `{shortened(part)}`", text, 1 + at)
        attributes[unquote(name.strip())] = value.strip() if equals else "unit"
    return BackendConfig("mlir", attributes)


def _string_or_json(text: str) -> BackendConfig | None:
    if text.startswith('"'):
        return BackendConfig("string", read_string(text))
    for form in (text, _LAX.sub(_strict, text)):
        try:
            return BackendConfig("json", read_json(form))
        except ValueError:
            continue
    return None


class Config(Written):
    """The text of a backend config, which is parsed on demand."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        """The parsed JSON or MLIR dictionary, also of a quoted one; for other texts, the string.

        >>> Config("{uplo = 76 : ui8}").value
        {'uplo': 76}
        """
        return _config_value(self)


# Cached: `check` of an 11 MB dump takes 1.7 × as long without it.
@lru_cache(maxsize=4096)
def _config_value(text: str) -> Any:
    config = _string_or_json(text.strip())
    if config is None:
        return mlir.python_value(mlir.parse_attribute(text))
    if config.kind == "string" and config.value.startswith("{"):
        return _config_value(config.value)
    return config.value


class FrontendAttributes(Written):
    """The text of frontend attributes, which is parsed on demand."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        """The frontend attributes by name, with values as `frontend_values` returns them.

        >>> FrontendAttributes('{a="b",xla.sdy.manual_axes="#sdy<manual_axes{}>"}').value
        {'a': 'b', 'xla.sdy.manual_axes': ()}
        """
        try:
            return dialects.frontend_values(read_frontend_attributes(self))
        except ParseError:
            return {}


_WRITTEN: Final[dict[str, type[Written]]] = {
    "backend_config": Config,
    "frontend_attributes": FrontendAttributes,
}


def written(name: str, text: str) -> str:
    """Return the value of attribute `name` as text.

    For a backend config or frontend attributes, the text has a property `value` that parses it.
    """
    known = _WRITTEN.get(name)
    return known(text) if known else text


def read_statistics(text: str) -> Mapping[str, float]:
    """Return the numbers in the text `{visualizing_index=1,stat-1=33}` by name."""
    parts = split_attributes(inside(text))
    return MappingProxyType({name: read_float(value) for name, value, _ in parts})


class OriginLeaf(Struct, frozen=True):
    """The origin of a value: instruction `name` of the original program.

    For an instruction with a tuple type, `index` is the shape index of the array.
    """

    name: str
    index: Dims = ()


Origin: TypeAlias = "OriginLeaf | tuple[Origin, ...] | None"
"""Origin of a value: one leaf for each array, nested like the type's tuples; `None` if unknown."""

_LEAF: Final = pattern(r'\{\s*("(?:[^"\\]|\\.)*")\s*(\{[\d,\s]*\})?\s*\}')


def read_origin(text: str) -> Origin | str:
    """Return the origin in the text `{…}`; a marker such as `[synthetic_call]` is returned as text.

    >>> read_origin('{({"v1"}, {"v2" {1}})}')
    (OriginLeaf(name='v1', index=()), OriginLeaf(name='v2', index=(1,)))
    """
    inner = inside(text).strip()
    return inner[1:-1] if inner.startswith("[") else _origin(inner)


def _origin(text: str) -> Origin:
    if text.startswith("("):
        return tuple(_origin(part) for part, _ in split_list(inside(text, "(", ")")))
    if not text.strip("{} "):
        return None
    leaf = _LEAF.fullmatch(text)
    if leaf is None:
        fail(f"expected the origin of a value, found `{shortened(text)}`", text, 0, len(text))
    return OriginLeaf(read_string(leaf[1]), read_dims(leaf[2]) if leaf[2] else ())


# ------------------------------------------------------------------------------- stack frames


class Frame(Struct, frozen=True):
    """A position in the program's source: lines and columns count from 1, 0 means unknown."""

    file: str
    function: str
    line: int = 0
    end_line: int = 0
    column: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class StackFrames(Struct, frozen=True):
    """The stack frame tables of a module: files, functions, locations and frames, by their ids."""

    files: Mapping[int, str]
    functions: Mapping[int, str]
    locations: Mapping[int, Mapping[str, int]]
    frames: Mapping[int, Mapping[str, int]]

    def trace(self, frame_id: int) -> tuple[Frame, ...]:
        """Return the frames of a frame id, innermost first; empty for an unknown id."""
        trace: list[Frame] = []
        # A damaged table may have a cycle of parents; `seen` stops at the first repetition.
        seen: set[int] = set()
        while frame_id in self.frames and frame_id not in seen:
            seen.add(frame_id)
            frame = self.frames[frame_id]
            trace.append(self._frame(self.locations.get(frame.get("file_location_id", 0), {})))
            frame_id = frame.get("parent_frame_id", 1) - 1  # 1 stands for `none`
        return tuple(trace)

    def _frame(self, at: Mapping[str, int]) -> Frame:
        return Frame(
            self.files.get(at.get("file_name_id", 0), ""),
            self.functions.get(at.get("function_name_id", 0), ""),
            *(at.get(name, 0) for name in ("line", "end_line", "column", "end_column")),
        )


_TABLE: Final = pattern(
    r"^(FileNames|FunctionNames|FileLocations|StackFrames)[ \t\r]*\n((?:\d+ [^\n]*\n?)*)",
    re.MULTILINE,
)
_ROW: Final = pattern(r"(\d+) ([^\n]*)")
_ENTRY: Final = pattern(r"(\w+)=(\d+)")


# Cached: `memory` of an 11 MB dump takes 1.5 × as long without it.
@lru_cache(maxsize=16)
def read_stack_frames(preamble: str) -> StackFrames:
    """Return the stack frame tables of a module.

    `preamble` is the text between the module's header and its first computation.
    """
    tables: dict[str, dict[int, str]] = {
        found[1]: {int(row[1]): row[2].strip() for row in _ROW.finditer(found[2])}
        for found in _TABLE.finditer(preamble)
    }

    def strings(table: str) -> Mapping[int, str]:
        return {key: unquote(row) for key, row in tables.get(table, {}).items()}

    def numbers(table: str) -> Mapping[int, Mapping[str, int]]:
        rows = tables.get(table, {}).items()
        return {key: {name: int(n) for name, n in _ENTRY.findall(row)} for key, row in rows}

    return StackFrames(
        strings("FileNames"),
        strings("FunctionNames"),
        numbers("FileLocations"),
        numbers("StackFrames"),
    )


def source_trace(data: Metadata, preamble: str) -> tuple[Frame, ...]:
    """Return the source positions of an instruction, innermost first.

    The tuple is empty if neither the metadata nor the tables in the module's preamble have a
    position.
    """
    trace = read_stack_frames(preamble).trace(data.stack_frame_id) if preamble else ()
    if trace or not data.source_file:
        return trace
    return (
        Frame(
            data.source_file,
            "",
            data.source_line,
            data.source_end_line,
            data.source_column,
            data.source_end_column,
        ),
    )
