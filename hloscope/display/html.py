"""The result of an indexing query as an HTML page or fragment."""

from __future__ import annotations

from hloscope.display.answer import Answer, asked_from
from hloscope.display.boxes import Index
from hloscope.display.pages import page, styled
from hloscope.display.parts import access_parts
from hloscope.display.reads import MAX_UNTOUCHED, to_svg
from hloscope.display.text import headline, untouched_names
from hloscope.hlo_parser import brief_type
from hloscope.indexing import Access, Precision
from hloscope.visible import in_page


def to_html(answer: Answer, at: Index | None = None) -> str:
    """A complete page: the instruction, the picture, the table of maps."""
    return page(headline(answer.instruction, answer.opcode), html_fragment(answer, at))


def html_fragment(answer: Answer, at: Index | None = None, *, picture: bool = True) -> str:
    """The result as HTML without the page around it, for a notebook's cell."""
    rows = "\n".join(
        f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in _rows(answer)
    )
    names = ("output", answer.what, "shape", "map", "where", "precision")
    heads = "".join(f"<th>{name}</th>" for name in names)
    drawn = to_svg(answer, at) if picture and answer.outputs else ""
    return styled(
        f"<p><code>{in_page(headline(answer.instruction, answer.opcode))}</code></p>\n"
        f"{drawn}<table>\n<tr>{heads}</tr>\n{rows}\n</table>\n"
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
