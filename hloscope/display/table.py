"""Tables as text, HTML, JSON and typed rows, and the table of supported ops."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
)

from hloscope.errors import UnsupportedError
from hloscope.support.lazy import lazy, pattern
from hloscope.support.source import in_page
from hloscope.support.system import library_of

if TYPE_CHECKING:
    import json
else:
    json = lazy("json")


# --------------------------------------------------------------------------------------------------
# Tables of text, printed as columns for a pipe, or fitted to a terminal's width.


T = TypeVar("T")
Side: TypeAlias = Literal["left", "right"]
_NUMBER: Final = pattern(r"[-+]?[\d,. ]*\d(?:[eE][-+]?\d+)?\s?[\w%/]*", re.ASCII)
"""A number with a unit, in the form that tables have."""
NARROWEST: Final = 12
"""Minimum width of a cut cell, in characters."""


class Table(NamedTuple):
    """Cells of text, with the options of their layout.

    Attributes:
        header: Titles of the columns.
        rows: Cells of each row.
        right: Numbers of the columns that are flush right.
        cut: For each column whose cells may be shortened on a narrow terminal, the side that is
            cut.
        optional: Columns that may be left out on a narrow terminal, in this order.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Sequence[int] = ()
    cut: Mapping[int, Side] = MappingProxyType({})
    optional: Sequence[int] = ()


class Column(NamedTuple, Generic[T]):
    """A column of a table, which is made from rows of any kind.

    Attributes:
        title: Its heading.
        cell: Function from a row to the text of a cell.
        is_number: Is the column of numbers, and so flush right?
        cut: The side on which cells may be cut on a narrow terminal; `None` for neither.
        drop: Order in which a narrow terminal loses columns, of equal ones the last first; 0 for
            columns that it keeps.
    """

    title: str
    cell: Callable[[T], str]
    is_number: bool = True
    cut: Side | None = None
    drop: int = 0


def table_of(columns: Sequence[Column[Any]], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table with the titles and the layout of columns; `rows` are its cells."""
    places = [*enumerate(columns)]
    dropped = sorted([(column.drop, -k) for k, column in places if column.drop])
    return Table(
        [column.title for column in columns],
        rows,
        [k for k, column in places if column.is_number],
        {k: column.cut for k, column in places if column.cut is not None},
        [-k for _, k in dropped],
    )


def columns(
    rows: Iterable[Sequence[str]],
    *,
    indent: int = 0,
    gap: int = 2,
    right: Iterable[int] = (),
    widest: int | None = None,
) -> str:
    """Return the rows as lines with aligned columns, without spaces at line ends.

    Args:
        rows: Cells of each row; short rows are padded.
        indent: Spaces before each line.
        gap: Spaces between columns.
        right: Columns that are flush right.
        widest: Maximum width of a column; a longer cell shifts only the rest of its line.

    >>> print(columns([["name", "size"], ["scores", "8"], ["x", "16"]], right=[1]))
    name    size
    scores     8
    x         16
    """
    table = _filled(rows)
    flush_right = frozenset(right)
    widths = _widths(table)
    if widest is not None:
        widths = [min(width, widest) for width in widths]
    lines = (
        (" " * gap).join(
            cell.rjust(width) if i in flush_right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in table
    )
    return "\n".join((" " * indent + line).rstrip() for line in lines)


def table_text(table: Table) -> str:
    """Return a table as lines with aligned columns, the header first."""
    return columns([table.header, *table.rows], right=table.right)


def fitted(table: Table, width: int) -> str:
    """Return a table as text with a rule, no wider than `width` if its columns can be cut.

    >>> row = ["scores", "jit(f)/attention/softmax"]
    >>> print(fitted(Table(["name", "from"], [row], cut={1: "left"}), 22))
    name    from
    ──────────────────────
    scores  …ntion/softmax
    """
    cells = _filled([table.header, *table.rows])
    widths = _widths(cells)
    shown = list(range(len(widths)))
    # Cutting cells loses less than dropping a column, so columns are dropped one by one only while
    # cutting does not suffice.
    for dropped in [None, *table.optional]:
        if dropped is not None:
            shown.remove(dropped)
        room = _room(widths, shown, table.cut, width)
        if sum(room.values()) + 2 * (len(shown) - 1) <= width:
            break
    numbers = frozenset(table.right)
    body = [[_cut(row[i], room[i], table.cut.get(i)) for i in shown] for row in cells]
    lines = columns(body, right=[k for k, i in enumerate(shown) if i in numbers]).splitlines()
    rule = "─" * min(width, max(map(len, lines), default=0))
    return "\n".join([lines[0], rule, *lines[1:]])


def tab_separated(table: Table) -> str:
    r"""Return the rows with tabs between cells; tabs and line ends in cells become spaces.

    A spreadsheet would evaluate a cell that starts with `=`, `+`, `-` or `@`: unless the cell is a
    number, an apostrophe is put before it.

    >>> tab_separated(Table(["a", "b"], [["-1", '=HYPERLINK("x")']]))
    'a\tb\n-1\t\'=HYPERLINK("x")'
    >>> tab_separated(Table(["a", "b c"], [["1", "x\ty"]]))
    'a\tb c\n1\tx y'
    """
    rows = [[*map(_no_formula, row)] for row in [table.header, *table.rows]]
    plain = str.maketrans("\t\n\r", "   ")
    return "\n".join("\t".join(cell.translate(plain) for cell in row) for row in rows)


def _no_formula(cell: str) -> str:
    """Return the cell, after an apostrophe if a spreadsheet would evaluate it as a formula."""
    if not cell.lstrip().startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠")):
        return cell
    return cell if _NUMBER.fullmatch(cell) else f"'{cell}"


def _filled(rows: Iterable[Sequence[str]]) -> list[list[str]]:
    table = [list(row) for row in rows]
    count = max(map(len, table), default=0)
    return [row + [""] * (count - len(row)) for row in table]


def _widths(table: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*table, strict=True)]


def _room(
    widths: Sequence[int], shown: Sequence[int], cuts: Mapping[int, Side], width: int
) -> dict[int, int]:
    """Return the width of each shown column, so that all fit into `width`.

    The widest column that may be cut is narrowed first, down to `NARROWEST`.

    Args:
        widths: Widths of all columns.
        shown: Numbers of the shown columns.
        cuts: Columns that may be cut.
        width: Width of the terminal.
    """
    room = {i: widths[i] for i in shown}
    while (over := sum(room.values()) + 2 * (len(shown) - 1) - width) > 0:
        cuttable = sorted((i for i in room if i in cuts), key=lambda i: room[i])
        if not cuttable or room[cuttable[-1]] <= NARROWEST:
            break
        first = cuttable[-1]
        # One step narrows the widest column to the next widest: the steps are few however wide the
        # cells are.
        second = room[cuttable[-2]] if len(cuttable) > 1 else NARROWEST
        step = max(1, min(over, room[first] - max(second, NARROWEST)))
        room[first] -= step
    return room


def _cut(cell: str, width: int, side: Side | None) -> str:
    if side is None or len(cell) <= width:
        return cell
    return f"…{cell[1 - width :]}" if side == "left" else f"{cell[: width - 1]}…"


# --------------------------------------------------------------------------------------------------
# HTML pages and fragments: no scripts, no links, everything escaped.


_STYLE: Final = """\
.hloscope{font:14px/1.5 system-ui,sans-serif;color:#1c2733;background:#fff;max-width:75em;
padding:.5em 1em;overflow-x:auto}
.hloscope code,.hloscope pre{font:12.5px/1.4 ui-monospace,Menlo,Consolas,monospace}
.hloscope code{white-space:pre-wrap}.hloscope pre{overflow-x:auto;margin:.5em 0}
.hloscope table{border-collapse:collapse;margin:1em 0}
.hloscope td,.hloscope th{text-align:left;vertical-align:top;padding:.3em 1.2em .3em 0;
border-bottom:1px solid #e4e8ee}
.hloscope th{color:#66717f;font-weight:500}
.hloscope td.number,.hloscope th.number{text-align:right;white-space:nowrap}
.hloscope .exact{color:#2b8a3e}.hloscope .over{color:#b35c00}.hloscope .unknown{color:#c92a2a}
.hloscope svg{max-width:100%;height:auto}
@media (prefers-color-scheme:dark){
.hloscope{color:#dfe6ee;background:#14191f}
.hloscope td,.hloscope th{border-color:#38424e}.hloscope th{color:#97a3b0}
.hloscope .exact{color:#69db7c}.hloscope .over{color:#ffa94d}.hloscope .unknown{color:#ff8787}
}
"""


def page(title: str, fragment: str, style: str = "") -> str:
    """Return an HTML page with a title and the given HTML fragment as its body.

    `style` is an HTML element for the head of the page.
    """
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="color-scheme" content="light dark"><title>{in_page(title)}</title>'
        f"{style}</head>\n<body>\n{fragment}</body></html>\n"
    )


def styled(inside: str) -> str:
    """Return an HTML fragment with the style of all pages; wide contents can be scrolled.

    `inside` is the fragment without the style.
    """
    return f'<style>\n{_STYLE}</style>\n<div class="hloscope">\n{inside}</div>\n'


def preformatted(text: str) -> str:
    """Return a text as HTML that preserves its lines and columns."""
    return f"<pre>{chr(10).join(map(in_page, text.split(chr(10))))}</pre>\n"


def table_html(table: Table) -> str:
    """Return a table as HTML; columns of numbers are flush right."""
    rows = [_row("th", table.header, table.right)]
    rows += [_row("td", row, table.right) for row in table.rows]
    return f"<table>\n{''.join(rows)}</table>\n"


def _row(tag: str, cells: Iterable[str], right: Sequence[int]) -> str:
    number = ' class="number"'
    texts = [
        f"<{tag}{number if k in right else ''}>{in_page(cell)}</{tag}>"
        for k, cell in enumerate(cells)
    ]
    return f"<tr>{''.join(texts)}</tr>\n"


class Shown:
    """An object that displays itself: as text when printed, as HTML in a notebook's cell.

    `dir` lists its public names only.
    """

    __slots__ = ()
    _internal: ClassVar[frozenset[str]] = frozenset(("asked_module", "while_asked"))
    """Public names that only this package uses, and that `dir` leaves out."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return styled(preformatted(str(self)))

    def __dir__(self) -> list[str]:
        return [n for n in super().__dir__() if n[0] != "_" and n not in self._internal]


# --------------------------------------------------------------------------------------------------
# Results as rows with typed columns, for pandas, Arrow and Polars.


Kind: TypeAlias = Literal["string", "int64", "double", "bool"]
"""Type of a column, as Arrow names it; every column may have missing values."""
Columns: TypeAlias = Mapping[str, Kind]
_PANDAS: Final = {"string": "string", "int64": "Int64", "double": "Float64", "bool": "boolean"}
_POLARS: Final = {"string": "String", "int64": "Int64", "double": "Float64", "bool": "Boolean"}
_LARGEST: Final = (1 << 63) - 1


class Tabular(Shown):
    """A result that is also a table, with equal rows and columns in every table library.

    A subclass states its columns in `columns` and yields one mapping for each row in `records`.
    """

    __slots__ = ()

    @property
    def columns(self) -> Columns:
        """Return the name and type of each column."""
        raise NotImplementedError

    def records(self) -> Iterable[Mapping[str, Any]]:
        """Return the rows as mappings by column name; unknown values are `None` or left out."""
        raise NotImplementedError

    def to_arrow(self) -> Any:
        """Return the rows as a `pyarrow.Table`.

        Raises:
            InputError: pyarrow is not installed.
            UnsupportedError: An integer does not fit into 64 bits.
        """
        arrow = library_of("tables", "pyarrow", "Arrow tables")
        schema = arrow.schema([*self.columns.items()])
        return arrow.table(self._values(), schema=schema)

    def to_pandas(self) -> Any:
        """Return the rows as a `pandas.DataFrame` with nullable types.

        Raises:
            InputError: pandas is not installed.
            UnsupportedError: An integer does not fit into 64 bits.
        """
        pandas = library_of("tables", "pandas", "data frames")
        values = self._values()
        series = {n: pandas.array(values[n], _PANDAS[kind]) for n, kind in self.columns.items()}
        return pandas.DataFrame(series)

    def to_polars(self) -> Any:
        """Return the rows as a `polars.DataFrame`.

        Raises:
            InputError: Polars is not installed.
            UnsupportedError: An integer does not fit into 64 bits.
        """
        polars = library_of("tables", "polars", "data frames of Polars")
        schema = {name: getattr(polars, _POLARS[kind]) for name, kind in self.columns.items()}
        return polars.DataFrame(self._values(), schema=schema)

    def _values(self) -> dict[str, list[Any]]:
        """Return the values of each column, converted to its type."""
        columns = self.columns
        found: dict[str, list[Any]] = {name: [] for name in columns}
        for record in self.records():
            for name, kind in columns.items():
                value = record.get(name)
                if kind == "int64" and value is not None and abs(value) > _LARGEST:
                    raise UnsupportedError(f"`{name}` is {value}, which does not fit into 64 bits")
                found[name].append(value)
        return found


# --------------------------------------------------------------------------------------------------
# Printed JSON: in UTF-8 for all names, indented or on one line.


def json_text(value: Any, **options: Any) -> str:
    """Return a value as JSON text in UTF-8; bytes of names that are not UTF-8 are escaped.

    `options` are those of `json.dumps`.
    """
    text = json.dumps(value, ensure_ascii=False, **options)
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def json_line(value: Any) -> str:
    """Return a value as JSON on one line without spaces, and without a line end.

    >>> json_line({"maps": [1, 2]})
    '{"maps":[1,2]}'
    """
    return json_text(value, separators=(",", ":"))


# --------------------------------------------------------------------------------------------------
# Support of each op, as rows and JSON.


class OpCoverage(NamedTuple):
    """Support of one op: its maps, tiles and evaluation.

    Attributes:
        op: Name of the op.
        output_to_input: Precision of the rule from outputs to operands.
        input_to_output: Precision of the rule from operands to outputs.
        reason: Why these rules are not exact.
        tiles_to_operands: Is there a rule from tiles of an output to tiles of the operands?
        tiles_to_outputs: Is there a rule from tiles of an operand to tiles of the outputs?
        tile_reason: Why a rule for tiles is missing.
        is_evaluated: Does the interpreter evaluate the op?
        evaluation_reason: Why the op is not evaluated.
    """

    op: str
    output_to_input: str
    input_to_output: str
    reason: str
    tiles_to_operands: bool
    tiles_to_outputs: bool
    tile_reason: str
    is_evaluated: bool
    evaluation_reason: str


_TILES: Final = {
    (True, True): "both ways",
    (True, False): "to operands",
    (False, True): "to outputs",
    (False, False): "none",
}


def coverage_table(rows: Sequence[OpCoverage]) -> Table:
    """Return a table with a row for each op."""
    cells = [
        [
            row.op,
            row.output_to_input,
            row.input_to_output,
            _TILES[row.tiles_to_operands, row.tiles_to_outputs],
            "evaluated" if row.is_evaluated else "missing",
            "; ".join(filter(None, (row.reason, row.evaluation_reason))),
        ]
        for row in rows
    ]
    return Table(["op", "output → input", "input → output", "tiles", "evaluation", "reason"], cells)


def coverage_summary(rows: Sequence[OpCoverage]) -> Iterator[str]:
    """Yield lines with numbers of ops: by precision of their maps, with tiles, and evaluated."""
    for direction in ("output_to_input", "input_to_output"):
        counts = Counter(getattr(row, direction) for row in rows)
        said = ", ".join(f"{counts[p]} {p}" for p in ("exact", "over", "unknown") if counts[p])
        yield f"{direction.replace('_', ' ')}: {said}"
    both = sum(row.tiles_to_operands and row.tiles_to_outputs for row in rows)
    yield f"tiles both ways: {both} of {len(rows)}"
    yield f"evaluated: {sum(row.is_evaluated for row in rows)} of {len(rows)}"


def coverage_json(row: OpCoverage) -> dict[str, Any]:
    """Return the support of one op as an object of `hloscope ops --json`; "" becomes null."""
    return row._asdict() | {
        "reason": row.reason or None,
        "tile_reason": row.tile_reason or None,
        "evaluation_reason": row.evaluation_reason or None,
    }
