"""What `run` prints: results, and where two runs differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from typing import Any, Final

import click
import numpy as np

from hloscope.api import Tensor
from hloscope.compare import Finding, leaves
from hloscope.interpreter import Statistics, Value, value_text
from hloscope.interpreter.statistics import statistics
from hloscope.ir import TensorType, TupleType, Type
from hloscope.mlir import spell, type_text

MOST_SHOWN: Final = 1000
"""Elements and rows of a result that are printed; of larger ones a summary is."""


def print_results(
    results: Sequence[Value],
    types: Sequence[Type],
    labels: Sequence[str],
    *,
    brief: bool,
    dense: bool,
) -> None:
    """Print every result.

    Args:
        results: The values.
        types: Their types.
        labels: What stands before each.
        brief: Say what it is like instead of printing it.
        dense: Print literals.
    """
    for value, type_, label in zip(results, types, labels, strict=True):
        click.echo(label + _text(value, type_, brief, dense))


def _text(value: Any, type_: Type, brief: bool, dense: bool) -> str:
    if isinstance(type_, TupleType):
        parts = zip(value, type_.elements, strict=True)
        return "\n".join(_text(v, t, brief, dense) for v, t in parts) or "()"
    if not isinstance(type_, TensorType):
        return type_text(type_)
    whole = TensorType(type_.element, value.shape)
    if dense:
        return Tensor(value, whole).to_mlir()
    if brief or max(value.size, prod(value.shape[:-1])) > MOST_SHOWN:
        return f"{type_text(whole)}: {statistics(value)}"
    return value_text(value, type_, spell=spell)


def described(value: Value, type_: Type) -> Any:
    """A result as JSON has it: of a tuple, a list."""
    if isinstance(type_, TupleType):
        assert isinstance(value, tuple)
        return [described(v, t) for v, t in zip(value, type_.elements, strict=True)]
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
    """A number as JSON has it: what is not finite as text, a complex one as a pair."""
    if isinstance(value, complex):
        return [_number(value.real), _number(value.imag)]
    if value is None or isinstance(value, int):
        return value
    number = float(value)
    return number if math.isfinite(number) else str(number)


def finding_text(finding: Finding) -> dict[str, Any]:
    """A comparison as JSON has it."""
    found: dict[str, Any] = {
        "instructions": finding.instructions,
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


def print_finding(finding: Finding) -> None:
    """Say which instruction differs first, and what it was given."""
    ins = finding.instruction
    lost = f" ({finding.left_out:,} were too many to be kept)" if finding.left_out else ""
    if ins is None and not finding.values:
        click.echo(f"nothing was compared: no instruction of one has its like in the other{lost}")
        return
    if ins is None:
        much = f"{finding.values:,} values of {finding.instructions:,} instructions"
        click.echo(f"no difference in {much}{lost}")
        return
    where = ""
    if ins.span is not None:
        line, column = ins.span.line_col
        where = f"{ins.span.source.name}:{line}:{column}: "
    output = f", output {finding.part}" if isinstance(ins.type, TupleType) else ""
    times = f", evaluation {finding.evaluation:,}" if finding.evaluation > 1 else ""
    other = finding.partner
    there = f" ({other.op.name} there)" if other and other.op.name != ins.op.name else ""
    click.echo(f"{where}`{ins.name}` = {ins.op.name}{there}{output}{times}: {finding.difference}")
    if ins.span is not None:
        click.echo(ins.span.render())
    for operand, lines in _operand_lines(finding):
        click.echo(f"operand `{operand.name}` {type_text(operand.type)}: {'; '.join(lines)}")
    click.echo(f"no difference in {finding.values - 1:,} values before{lost}")


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
