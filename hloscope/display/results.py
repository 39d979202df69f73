"""Results of programs, and the first difference of two runs, as text and JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from hloscope.interpreter import Statistics, Value, statistics, text_size, value_text
from hloscope.ir import TensorType, TupleType, Type
from hloscope.mlir import array_text, spell, type_text
from hloscope.proof import Finding, leaves
from hloscope.support.arrays import np

MOST_SHOWN: Final = 1000
"""Maximum number of elements and rows of a result that are printed; larger ones are summarised."""


def result_text(value: Any, type_: Type, *, brief: bool = False, dense: bool = False) -> str:
    """Return a result as text; each part of a tuple is on separate lines.

    Args:
        value: The value.
        type_: Its type.
        brief: Print a summary instead of the elements.
        dense: Print literals.
    """
    if isinstance(type_, TupleType):
        parts = zip(value, type_.elements, strict=True)
        return "\n".join(result_text(v, t, brief=brief, dense=dense) for v, t in parts) or "()"
    if not isinstance(type_, TensorType):
        return type_text(type_)
    whole = TensorType(type_.element, value.shape)
    if dense:
        return array_text(value, whole)
    if brief or text_size(value.shape) > MOST_SHOWN:
        return f"{type_text(whole)}: {statistics(value)}"
    return value_text(value, type_, spell=spell)


def result_json(value: Value, type_: Type) -> Any:
    """Return a result as JSON; a tuple is a list."""
    if isinstance(type_, TupleType):
        assert isinstance(value, tuple)
        return [result_json(v, t) for v, t in zip(value, type_.elements, strict=True)]
    if not isinstance(type_, TensorType):
        return {"type": type_text(type_)}
    array = np.asarray(value)
    found: dict[str, Any] = {
        "type": type_text(TensorType(type_.element, array.shape)),
        "statistics": _described(statistics(array)),
    }
    if array.size <= MOST_SHOWN:
        found["values"] = [_number(x) for x in array.reshape(-1).tolist()]
    return found


def _described(found: Statistics) -> dict[str, Any]:
    return {name: _number(value) for name, value in found._asdict().items()}


def _number(value: Any) -> Any:
    """Return a number as JSON: infinities and NaN as text, a complex number as a pair."""
    if isinstance(value, complex):
        return [_number(value.real), _number(value.imag)]
    if value is None or isinstance(value, int):
        return value
    number = float(value)
    return number if math.isfinite(number) else str(number)


def finding_json(finding: Finding) -> dict[str, Any]:
    """Return the comparison of two runs as JSON."""
    found: dict[str, Any] = {
        "instructions": finding.instructions,
        "of": finding.of,
        "by_source": finding.by_source,
        "unlike": finding.unlike,
        "values": finding.values,
        "first": None,
    }
    ins = finding.instruction
    if ins is not None:
        line, column = ins.span.line_col if ins.span is not None else (None, None)
        found["first"] = {
            "name": ins.name,
            "op": ins.op.name,
            "other": finding.partner.name if finding.partner else None,
            "line": line,
            "column": column,
            "output": finding.part,
            "evaluation": finding.evaluation,
            "difference": str(finding.difference),
            "operands": [
                {"name": operand.name, "type": type_text(operand.type), "values": lines}
                for operand, lines in _operand_lines(finding)
            ],
        }
    return found


def finding_text(finding: Finding) -> Iterator[str]:
    """Yield lines about the first instruction that differs, with its operands."""
    ins = finding.instruction
    lost = f" ({finding.left_out:,} were too many to be kept)" if finding.left_out else ""
    if ins is None and not finding.values:
        yield f"nothing was compared: no instruction of one matches one of the other{lost}"
        return
    if ins is None:
        much = f"{finding.values:,} values of {_how_many(finding)}"
        yield f"no difference in {much}{lost}"
        yield from _about_sources(finding)
        return
    where = ""
    if ins.span is not None:
        line, column = ins.span.line_col
        where = f"{ins.span.source.name}:{line}:{column}: "
    output = f", output {finding.part}" if isinstance(ins.type, TupleType) else ""
    times = f", evaluation {finding.evaluation:,}" if finding.evaluation > 1 else ""
    other = finding.partner
    there = f" ({other.op.name} there)" if other and other.op.name != ins.op.name else ""
    yield f"{where}`{ins.name}` = {ins.op.name}{there}{output}{times}: {finding.difference}"
    if ins.span is not None:
        yield ins.span.render()
    for operand, lines in _operand_lines(finding):
        yield f"operand `{operand.name}` {type_text(operand.type)}: {'; '.join(lines)}"
    yield f"no difference in {finding.values - 1 - finding.unlike:,} values before{lost}"
    yield f"compared: {_how_many(finding)}"
    yield from _about_sources(finding)


def _how_many(finding: Finding) -> str:
    """Return a text with the number of compared instructions, and of all."""
    of = f" of {finding.of:,}" if finding.of else ""
    return f"{finding.instructions:,}{of} instructions"


def _about_sources(finding: Finding) -> Iterator[str]:
    """Yield notes on the instructions that were matched by their source position."""
    if finding.by_source:
        yield f"matched by op_name, source and shape: {finding.by_source:,}"
    if finding.unlike and finding.instruction is None:
        yield f"of these {finding.unlike:,} differ, which no result shows: other steps of a line"


def _operand_lines(finding: Finding) -> list[tuple[Any, list[str]]]:
    return [
        (
            operand,
            ["unknown"]
            if value is None
            else [str(statistics(array)) for array, _ in leaves(value, operand.type)],
        )
        for operand, value in finding.operands
    ]
