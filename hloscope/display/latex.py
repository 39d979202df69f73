r"""An answer as LaTeX, for papers and notes: one `aligned` environment, needs `amsmath`."""

from __future__ import annotations

import re

from hloscope.display.answer import Answer, OperandAnswer
from hloscope.indexing import Access, Precision
from hloscope.indexing.markup import to_latex as map_to_latex
from hloscope.visible import visible


def to_latex(answer: Answer) -> str:
    """The maps of an answer, one a line, with the name of the tensor that is touched."""
    rows = []
    for output in answer.outputs:
        for operand in output.touched:
            name = operand.name
            if answer.direction == "input_to_output":
                name = answer.instruction.name
            if len(answer.outputs) > 1:
                name = f"{output.number}: {name}"
            rows += _rows(name, operand)
    return "\n".join([r"\begin{aligned}", " \\\\\n".join(rows), r"\end{aligned}"])


def _rows(name: str, operand: OperandAnswer) -> list[str]:
    return [rf"\texttt{{{escaped(name)}}} &: {_access(access)}" for access in operand.accesses]


def _access(access: Access) -> str:
    said = rf"\text{{{escaped(access.reason)}}}" if access.reason else ""
    if access.map is None:
        return said
    text = map_to_latex(access.map)
    return text if access.precision is Precision.EXACT else rf"{text} \quad {said}"


def escaped(text: str) -> str:
    r"""Text as LaTeX prints it.

    >>> print(escaped("a_b{1}"))
    a\_b\{1\}
    """
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return re.sub(
        r"[\\~^_{}&%$#]", lambda m: special.get(m.group(), f"\\{m.group()}"), visible(text)
    )
