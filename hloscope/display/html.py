"""An answer as one HTML page or fragment: no scripts, no links, everything escaped."""

from __future__ import annotations

from typing import Final

from hloscope.display.answer import Answer, asked_from
from hloscope.display.boxes import Index
from hloscope.display.parts import access_parts
from hloscope.display.reads import MAX_UNTOUCHED, to_svg
from hloscope.display.text import headline, untouched_names
from hloscope.hlo_parser import brief_type
from hloscope.indexing import Access, Precision
from hloscope.visible import in_page

_STYLE: Final = """\
.hloscope{font:14px/1.5 system-ui,sans-serif;color:#1c2733;background:#fff;max-width:75em;
padding:.5em 1em}
.hloscope code{font:12.5px ui-monospace,Menlo,Consolas,monospace;white-space:pre-wrap}
.hloscope table{border-collapse:collapse;margin:1em 0}
.hloscope td,.hloscope th{text-align:left;vertical-align:top;padding:.3em 1.2em .3em 0;
border-bottom:1px solid #e4e8ee}
.hloscope th{color:#66717f;font-weight:500}
.hloscope .exact{color:#2b8a3e}.hloscope .over{color:#b35c00}.hloscope .unknown{color:#c92a2a}
.hloscope svg{max-width:100%;height:auto}
@media (prefers-color-scheme:dark){
.hloscope{color:#dfe6ee;background:#14191f}
.hloscope td,.hloscope th{border-color:#38424e}.hloscope th{color:#97a3b0}
.hloscope .exact{color:#69db7c}.hloscope .over{color:#ffa94d}.hloscope .unknown{color:#ff8787}
}
"""


def to_html(answer: Answer, at: Index | None = None) -> str:
    """A complete page: the instruction, the picture, the table of maps."""
    return page(headline(answer.instruction, answer.opcode), html_fragment(answer, at))


def page(title: str, fragment: str) -> str:
    """A complete page around a fragment."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="color-scheme" content="light dark"><title>{in_page(title)}</title>'
        f"</head>\n<body>\n{fragment}</body></html>\n"
    )


def styled(inside: str) -> str:
    """A fragment in the style of all pages."""
    return f'<style>\n{_STYLE}</style>\n<div class="hloscope">\n{inside}</div>\n'


def html_fragment(answer: Answer, at: Index | None = None, *, picture: bool = True) -> str:
    """The same for the inside of a page or a notebook's cell."""
    rows = "\n".join(
        f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in _rows(answer)
    )
    names = ("output", answer.what, "shape", "map", "where", "precision")
    heads = "".join(f"<th>{name}</th>" for name in names)
    drawn = to_svg(answer, at) if picture and answer.outputs else ""
    return (
        f'<style>\n{_STYLE}</style>\n<div class="hloscope">\n'
        f"<p><code>{in_page(headline(answer.instruction, answer.opcode))}</code></p>\n"
        f"{drawn}<table>\n<tr>{heads}</tr>\n{rows}\n</table>\n</div>\n"
    )


def _rows(answer: Answer) -> list[list[str]]:
    rows = []
    sources = {} if answer.direction == "output_to_input" else asked_from(answer)
    for output in answer.outputs:
        for operand in output.touched:
            source = sources.get(operand.leaf, operand)
            asked = source.type if sources else output.type
            name = f"{operand.number} <code>{in_page(source.name)}</code>"
            head = [str(output.number), name, f"<code>{in_page(brief_type(source.type))}</code>"]
            for access in operand.accesses:
                rows.append([*head, *_cells(access, answer.sizes(asked))])
                head = ["", "", ""]
        if len(output.operands) > len(output.touched):
            names = in_page(untouched_names(answer, output, MAX_UNTOUCHED))
            rows.append([str(output.number), names, "", "not touched", "", ""])
    return rows


def _cells(access: Access, sizes: tuple[int, ...]) -> list[str]:
    parts = access_parts(access, sizes)
    where = "<br>".join(f"<code>{in_page(t)}</code>" for t in (*parts.where, *parts.origins))
    claim = f'<span class="{access.precision}">{access.precision}</span>'
    if access.precision is not Precision.EXACT:
        claim += f"<br>{in_page(access.reason)}"
    return [f"<code>{in_page(parts.arrow)}</code>", where, claim]
