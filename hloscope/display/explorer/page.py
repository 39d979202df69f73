"""The HTML page of the explorer: style, script and data in one file; maps and results as data."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, Final, NamedTuple

from msgspec import Struct

from hloscope.affine import (
    CeilDiv,
    Const,
    Dim,
    Expr,
    FloorDiv,
    Interval,
    Max,
    Min,
    Mod,
    Product,
    Range,
    Runtime,
    Sum,
)
from hloscope.display import access_parts, runtime_origins
from hloscope.indexing import Access, Accesses, IndexingMap, Precision
from hloscope.support.source import in_page, visible
from hloscope.support.walks import needed_first

# --------------------------------------------------------------------------------------------------
# The page: style, script and data in one file.
#
# No text of a program becomes markup.  Names and texts are JSON, compressed and in base64; the page
# decodes them when it shows them, as text nodes only.  The title is escaped.  The content security
# policy allows only the page's own script and style, by their hashes, and forbids loading anything.


SCRIPTS: Final = (
    "data.js", "expressions.js", "program.js", "rows.js", "tensors.js", "grid.js", "graph.js",
    "layout.js", "elements.js", "maps.js", "verdicts.js", "differences.js", "overview.js",
    "help.js", "main.js",
)  # fmt: skip
"""Files of the page's script, in the order in which they run."""
LIBRARY: Final = "dagre.min.js"
"""The library that lays out graphs, unchanged; its licence is in the same folder."""
FRAME_HEIGHT: Final = 720
_LEVEL: Final = 6
"""Level of compression: the highest one takes four times as long and saves another 3 %."""
_SHELL: Final = (
    '<div id="app"><noscript>This page needs JavaScript; it loads nothing from elsewhere.'
    "</noscript></div>"
)


class Contents(Struct, frozen=True):
    """The contents of a page.

    Attributes:
        title: The program's name.
        file: The file of the program.
        language: HLO or StableHLO.
        instructions: Number of instructions.
        computations: Number of computations.
        device: The GPU that kernels are judged for.
        parts: The optional parts that the page has.
        chunks: Data by name; each is compressed and decoded separately.
    """

    title: str
    file: str
    language: str
    instructions: int
    computations: int
    device: str
    parts: tuple[str, ...]
    chunks: Mapping[str, Any]


def packed(value: Any) -> str:
    """Return a value as JSON, compressed by gzip, in base64; equal values have equal texts.

    >>> import base64, gzip
    >>> gzip.decompress(base64.b64decode(packed({"name": "</script>"})))
    b'{"name":"</script>"}'
    """
    text = value if isinstance(value, Written) else written(value)
    return base64.b64encode(gzip.compress(text.encode(), _LEVEL, mtime=0)).decode()


def embedded(value: Any) -> str:
    r"""Return a value as JSON for a script element, escaped so that it cannot end the element.

    >>> embedded("</script><!--")
    '"\\u003c/script\\u003e\\u003c!--"'
    """
    return written(value).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _script() -> str:
    """Return the page's script.

    Each file is inside a function, so that files share only the variable `H`.
    """
    folder = files("hloscope.display.explorer").joinpath("app")
    parts = [folder.joinpath(name).read_text("utf-8") for name in SCRIPTS]
    inside = "\n".join(f"(() => {{\n{part}}})();" for part in parts)
    return f'"use strict";\n{_library()}const H = {{}};\n{inside}\n'


def _library() -> str:
    """Return the text of the graph library: its licence, then the code without its source map.

    Two zero-width characters in its strings are written as escapes, which does not change the
    strings.
    """
    folder = files("hloscope.display.explorer").joinpath("app", "vendor")
    licence = folder.joinpath(f"{LIBRARY}.LEGAL.txt").read_text("utf-8")
    code, _, _ = folder.joinpath(LIBRARY).read_text("utf-8").partition("//# sourceMappingURL=")
    return licence + visible(code)


def _style() -> str:
    return files("hloscope.display.explorer").joinpath("app", "style.css").read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _policy(script: str, style: str) -> str:
    """Return the page's content security policy: only its own script and style are allowed."""
    return (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )


def page_of(contents: Contents) -> str:
    """Return the complete page as HTML."""
    head = {
        "title": visible(contents.title),
        "file": visible(contents.file),
        "language": contents.language,
        "instructions": contents.instructions,
        "computations": contents.computations,
        "device": contents.device,
        "parts": contents.parts,
    }
    chunks = "".join(
        f'<script type="text/plain" id="data-{name}">{packed(value)}</script>\n'
        for name, value in contents.chunks.items()
    )
    script, style = _script(), _style()
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(script, style)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta name="generator" content="hloscope">\n'
        f"<title>{in_page(contents.title)} · hloscope</title>\n"
        f"<style>{style}</style></head>\n<body>\n{_SHELL}\n"
        f'<script type="application/json" id="head">{embedded(head)}</script>\n'
        f"{chunks}<script>{script}</script>\n</body></html>\n"
    )


def frame(whole: str) -> str:
    """Return a page inside a sandboxed frame for notebooks: it may run scripts and nothing else.

    `whole` is the HTML of the page.
    """
    return (
        f'<iframe srcdoc="{html.escape(whole)}" sandbox="allow-scripts" width="100%" '
        f'height="{FRAME_HEIGHT}" style="border:1px solid #8884;border-radius:6px" '
        'title="hloscope explorer"></iframe>'
    )


# --------------------------------------------------------------------------------------------------
# Indexing results as data: equal parts are stored once and referred to by number.


NOTHING: Final = -1
"""Number that stands for an instruction without a result."""


class Read(NamedTuple):
    """The accesses to one tensor, in each order of indices.

    Attributes:
        number: Number of the operand that the maps lead to; for maps from an operand, number of the
            output.
        leaf: Number of the tensor in it.
        logical: Accesses between logical indices.
        physical: Accesses between physical indices.
        linear: Accesses between positions in memory, in elements.
    """

    number: int
    leaf: int
    logical: Accesses
    physical: Accesses
    linear: Accesses


class Answers:
    """The indexing results of a program, in the form of the page's data.

    The result for an instruction is `{"reads": [[output, rows]], "reaches": [[operand, leaf,
    rows]]}`. Its rows are numbers of rows `[number, leaf, logical, physical, linear]` (see `Read`),
    whose accesses are numbers, too.
    """

    def __init__(self, count: int) -> None:
        """Create results for `count` instructions; each has none yet."""
        self._accesses: Final = Shared(_access_json)
        self._rows: Final = Shared(list)
        self._answers: Final = Shared(_answer_json)
        self._column: Final = [NOTHING] * count
        self.errors: Final[dict[int, str]] = {}

    def add(
        self,
        instruction: int,
        reads: Sequence[tuple[int, Sequence[int]]],
        reaches: Sequence[tuple[int, int, Sequence[int]]],
        left_out: str = "",
    ) -> None:
        """Add the result for an instruction.

        Args:
            instruction: Its number.
            reads: (output, rows): the rows with what the output's elements read, as numbers by
                `row`.
            reaches: (operand, leaf, rows): the rows with the outputs that depend on this tensor.
            left_out: Text on what is missing in the result, and why; empty if nothing is.
        """
        there = tuple([(output, tuple(some)) for output, some in reads])
        back = tuple([(operand, leaf, tuple(some)) for operand, leaf, some in reaches])
        self._column[instruction] = self._answers.number((there, back, left_out))

    def repeat(self, instruction: int, other: int, count: int = 1) -> None:
        """Give instructions the results of other, equal ones.

        The `count` instructions from number `instruction` on get the results of those from number
        `other` on.
        """
        self._column[instruction : instruction + count] = self._column[other : other + count]

    def refuse(self, instruction: int, reason: str) -> None:
        """Record why an instruction, given by its number, has no result."""
        self.errors[instruction] = visible(reason)

    def to_json(self) -> Written:
        """Return all results, and the number of each instruction's result, as JSON."""
        return written_object(
            {
                "accesses": self._accesses.values,
                "rows": self._rows.values,
                "answers": self._answers.values,
                "of": numbers(self._column),
                "errors": self.errors,
            }
        )

    def row(self, read: Read) -> int:
        """Return the number of a row with the accesses to one tensor; it is added if it is new."""
        orders = read.logical, read.physical, read.linear
        numbers = [tuple(map(self._accesses.number, some)) for some in orders]
        if numbers[1] == numbers[0]:
            numbers[1] = ()  # `[]` means: equal to the logical ones
        return self._rows.number((read.number, read.leaf, *numbers))


def _answer_json(answer: tuple[Any, Any, str]) -> dict[str, Any]:
    reads, reaches, left_out = answer
    told: dict[str, Any] = {"reads": reads, "reaches": reaches}
    return {**told, "left_out": visible(left_out)} if left_out else told


def _access_json(access: Access) -> dict[str, Any]:
    """Return an access as JSON, without the fields that have their default value."""
    told: dict[str, Any] = {} if access.map is None else map_json(access.map)
    if access.precision is not Precision.EXACT:
        told |= {"precision": str(access.precision), "reason": visible(access.reason)}
    if access.replica is not None:
        told["device"] = visible(access_parts(access, ()).element.partition(" on ")[2])
    return told


# --------------------------------------------------------------------------------------------------
# Maps as data that a page can evaluate: a list of nodes that refer to earlier nodes.


SAFE: Final = (1 << 53) - 1
"""Largest integer that JavaScript's numbers hold exactly; larger ones are written as text."""
_LEAVES: Final[dict[type, str]] = {Dim: "d", Range: "s", Runtime: "r"}
_PAIRS: Final[dict[type, str]] = {FloorDiv: "/", CeilDiv: "^", Mod: "%"}
_MANY: Final[dict[type, tuple[str, str]]] = {
    Product: ("*", "factors"),
    Min: ("m", "args"),
    Max: ("M", "args"),
}


def integer(value: int) -> int | str:
    """Return an integer as JSON without loss: as text if JavaScript would round it.

    >>> integer(7), integer(1 << 60)
    (7, '1152921504606846976')
    """
    return value if -SAFE <= value <= SAFE else str(value)


class _Nodes:
    """The nodes of expressions in a list; equal expressions share one node."""

    def __init__(self) -> None:
        self.nodes: list[list[Any]] = []
        self._places: dict[Expr, int] = {}

    def place(self, expr: Expr) -> int:
        """Return the position of an expression in `nodes`.

        The expression and its subexpressions are added if they are new.
        """
        for top in needed_first([expr], lambda e: [*_parts(e)][::-1], self._places):
            self.nodes.append(self._written(top))
            self._places[top] = len(self.nodes) - 1
        return self._places[expr]

    def _written(self, expr: Expr) -> list[Any]:
        match expr:
            case Const(value):
                return ["c", integer(value)]
            case Sum(terms, const):
                pairs = [(self._places[term], integer(by)) for term, by in terms]
                return ["+", integer(const), *[number for pair in pairs for number in pair]]
            case Dim(index) | Range(index) | Runtime(index):
                return [_LEAVES[type(expr)], index]
        sign = _PAIRS.get(type(expr)) or _MANY[type(expr)][0]
        return [sign, *[self._places[part] for part in _parts(expr)]]


def _parts(expr: Expr) -> Iterator[Expr]:
    """Yield the direct subexpressions of an expression."""
    match expr:
        case Sum(terms, _):
            yield from (term for term, _ in terms)
        case FloorDiv(num, den) | CeilDiv(num, den) | Mod(num, den):
            yield from (num, den)
        case Product() | Min() | Max():
            yield from getattr(expr, _MANY[type(expr)][1])


def _ends(interval: Interval) -> list[int | str]:
    return [integer(interval.lo), integer(interval.hi)]


def map_json(m: IndexingMap) -> dict[str, Any]:
    """Return a map as JSON: its text, the intervals of its variables, nodes, results, constraints.

    >>> halves = IndexingMap.parse("(d0) -> (d0 / 2), domain: d0 in [0, 9]")
    >>> map_json(halves)["nodes"], map_json(halves)["results"]
    ([['c', 2], ['d', 0], ['/', 1, 0]], [2])
    """
    told: dict[str, Any] = {"text": visible(str(m))}
    if m.is_undefined:
        return told
    if m.is_known_empty:
        return {**told, "empty": 1}
    nodes = _Nodes()
    results = [nodes.place(e) for e in m.results]
    where = [[nodes.place(e), *_ends(interval)] for e, interval in m.constraints]
    told |= {
        "dims": [_ends(v.interval) for v in m.dims],
        "ranges": [_ends(v.interval) for v in m.ranges],
        "nodes": nodes.nodes,
        "results": results,
    }
    if where:
        told["where"] = where
    if m.runtime:
        names = list(m.names.values())[len(m.dims) + len(m.ranges) :]
        origins = runtime_origins(m)
        told["runtime"] = [
            [visible(name), *_ends(v.interval), visible(origin), int(v.is_every)]
            for name, v, origin in zip(names, m.runtime, origins, strict=True)
        ]
    return told


# --------------------------------------------------------------------------------------------------
# Columns of repeated values: a table of the distinct values, and numbers.


_DIGITS: Final = "0123456789"
_MOST_DIGITS: Final = 9


_AS_IT_IS: Final = json.JSONEncoder(separators=(",", ":"))
_SORTED: Final = json.JSONEncoder(separators=(",", ":"), sort_keys=True)


class Written(str):
    """A text that is already JSON."""

    __slots__ = ()


def written(value: Any, *, sort_keys: bool = False) -> Written:
    """Encode a value as JSON without spaces; with `sort_keys`, objects have sorted keys.

    >>> written({"b": [1, 2], "a": None})
    '{"b":[1,2],"a":null}'
    """
    return Written((_SORTED if sort_keys else _AS_IT_IS).encode(value))


def written_object(members: Mapping[str, Any]) -> Written:
    """Encode an object as JSON; `Written` members are inserted unchanged.

    >>> written_object({"b": numbers([1, 2]), "a": [None]})
    '{"b":[1,2],"a":[null]}'
    """
    texts = [
        f"{written(name)}:{value if isinstance(value, Written) else written(value)}"
        for name, value in members.items()
    ]
    return Written(f"{{{','.join(texts)}}}")


def numbers(value: int | Sequence[Any] | None) -> Written:
    """Encode integers, `None` or lists of them as JSON, by `str`, which is faster than `json`."""
    return Written(str(value).replace(" ", "").replace("None", "null"))


class Shared:
    """Collects the distinct values of a column; each is encoded when it first occurs.

    `values` has the encoded values by number.

    >>> types = Shared(str.upper)
    >>> [types.number(t) for t in ("f32", "s8", "f32")], types.values
    ([0, 1, 0], ['F32', 'S8'])
    """

    def __init__(self, write: Callable[[Any], Any] = lambda value: value) -> None:
        """Create an empty collection; `write` encodes a value."""
        self._same: Final[dict[int, tuple[Hashable, int]]] = {}
        self.values: Final[list[Any]] = []
        self._write: Final = write
        self._numbers: Final[dict[Hashable, int]] = {}

    def number(self, value: Hashable) -> int:
        """Return the number of a value: the position of its encoding in `values`."""
        known = self._numbers.get(value)
        if known is None:
            known = self._numbers[value] = len(self.values)
            self.values.append(self._write(value))
        return known

    def number_of_same(self, value: Hashable) -> int:
        """Return the number of a value.

        An object seen before is found by identity, not by comparison.
        """
        known = self._same.get(id(value))
        if known is None:
            known = self._same[id(value)] = value, self.number(value)  # which keeps it alive
        return known[1]


def in_sequence(names: Iterable[str]) -> list[str | int]:
    """Compress names: a name that continues a count is replaced by the number of its stem.

    A name is a stem and a number; `add.8` continues the count of the stem `add.` if the latest name
    of that stem ended in 7. Stems are numbered in the order in which their first names occur.

    >>> in_sequence(["arg0", "arg1", "sum", "arg2", "x.08", "x.9", "arg5", "arg6"])
    ['arg0', 0, 'sum', 0, 'x.08', 'x.9', 'arg5', 0]
    """
    stems: dict[str, list[int]] = {}  # number of the stem, and its latest count
    found: list[str | int] = []
    for name in names:
        stem = name.rstrip(_DIGITS)
        digits = name[len(stem) :]
        if not _is_plain(digits):
            found.append(name)
            continue
        at = int(digits)
        known = stems.get(stem)
        if known is None:
            stems[stem] = [len(stems), at]
            found.append(name)
            continue
        found.append(known[0] if at == known[1] + 1 else name)
        known[1] = at
    return found


def _is_plain(digits: str) -> bool:
    return 0 < len(digits) <= _MOST_DIGITS and (digits[0] != "0" or len(digits) == 1)


def readable(value: Any) -> Any:
    """Escape every string in a JSON value with `visible`.

    The recursion is as deep as the value, whose depth its schema bounds.
    """
    match value:
        case str():
            return visible(value)
        case Mapping():
            return {key: readable(part) for key, part in value.items()}
        case list() | tuple():
            return [readable(part) for part in value]
    return value
