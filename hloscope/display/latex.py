r"""A result as LaTeX: one `aligned` environment, which needs `amsmath`."""

from __future__ import annotations

import re
from collections.abc import Collection

from hloscope.display.answer import Answer, OperandAnswer
from hloscope.indexing import Access, Precision, conditions_latex, to_latex as map_to_latex
from hloscope.support.source import visible


def to_latex(answer: Answer) -> str:
    """Return the maps of a result as LaTeX, one per line, each with the accessed tensor's name.

    Conditions that all maps share are stated once, below them.
    """
    rows = []
    shared = _shared(answer)
    for output in answer.outputs:
        for operand in output.touched:
            name = operand.name
            if answer.direction == "input_to_output":
                leaf = f" from {operand.name}{{{operand.leaf}}}" if operand.leaf else ""
                name = f"{answer.instruction.name}{leaf}"
            if len(answer.outputs) > 1:
                name = f"{output.number}: {name}"
            rows += _rows(name, operand, shared)
    if shared:
        rows.append(r"&\phantom{:} " + r",\quad ".join(shared))
    return "\n".join([r"\begin{aligned}", " \\\\\n".join(rows), r"\end{aligned}"])


def _shared(answer: Answer) -> list[str]:
    """Return the conditions of a result's maps that all maps share, as LaTeX.

    Empty if there is only one map, or a map without a domain.
    """
    operands = [operand for output in answer.outputs for operand in output.touched]
    maps = [a.map for operand in operands for a in operand.accesses if a.map is not None]
    if len(maps) < 2 or any(m.is_undefined or m.is_known_empty for m in maps):
        return []
    every = [conditions_latex(m) for m in maps]
    return [condition for condition in every[0] if all(condition in some for some in every)]


def _rows(name: str, operand: OperandAnswer, shared: Collection[str]) -> list[str]:
    start = rf"\texttt{{{escaped(name)}}} &: "
    return [start + _access(access, shared) for access in operand.accesses]


def _access(access: Access, shared: Collection[str]) -> str:
    said = rf"\text{{{escaped(access.reason)}}}" if access.reason else ""
    if access.map is None:
        return said
    text = map_to_latex(access.map, shared)
    return text if access.precision is Precision.EXACT else rf"{text} \quad {said}"


def escaped(text: str) -> str:
    r"""Return a text with LaTeX's special characters escaped.

    >>> print(escaped("a_b{1}"))
    a\_b\{1\}
    """
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return re.sub(
        r"[\\~^_{}&%$#]", lambda m: special.get(m.group(), f"\\{m.group()}"), visible(text)
    )
