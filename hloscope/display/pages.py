"""HTML pages and fragments: no scripts, no links, everything escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from hloscope.display.table import Table
from hloscope.visible import in_page

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


def page(title: str, fragment: str) -> str:
    """A complete page with the given fragment."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="color-scheme" content="light dark"><title>{in_page(title)}</title>'
        f"</head>\n<body>\n{fragment}</body></html>\n"
    )


def styled(inside: str) -> str:
    """A fragment with the style of all pages; wide contents can be scrolled."""
    return f'<style>\n{_STYLE}</style>\n<div class="hloscope">\n{inside}</div>\n'


def preformatted(text: str) -> str:
    """A text as HTML that keeps its lines and columns."""
    return f"<pre>{chr(10).join(map(in_page, text.split(chr(10))))}</pre>\n"


def table_html(table: Table) -> str:
    """A table as HTML; columns of numbers are flush right."""
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
    """Names without an underscore that only this package uses."""

    def _repr_html_(self) -> str:
        return styled(preformatted(str(self)))

    def __dir__(self) -> list[str]:
        return [n for n in super().__dir__() if n[0] != "_" and n not in self._internal]
