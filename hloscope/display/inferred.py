"""Inferred result types of ops beside the declared ones, as rows and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from hloscope.display.table import Table
from hloscope.errors import HloscopeError
from hloscope.ir import TensorType, TupleType, Type
from hloscope.lazy import once_for_each
from hloscope.mlir import type_text
from hloscope.source import Span


class OpTypes(Struct, frozen=True):
    """One op: its position, name, opcode and result types, or the reason why there are none."""

    span: Span | None
    name: str
    op: str
    inferred: tuple[Type, ...] | None
    declared: tuple[Type, ...]
    error: HloscopeError | None = None

    @property
    def refusal(self) -> HloscopeError | None:
        """The error about the op, at the op's position if the error has none."""
        error = self.error
        if error is None or error.span is not None:
            return error
        return type(error)(error.message, span=self.span, rule=error.rule)


def types_table(rows: Iterable[OpTypes], spell: Callable[[Type], str]) -> Table:
    """A row for each op; types are in the program's language."""
    table = []
    spelled = once_for_each(spell)  # rows share their types
    for row in rows:
        line, column = row.span.line_col if row.span else (0, 0)
        types = row.declared if row.inferred is None else row.inferred
        said = ", ".join(map(spelled, types))
        if row.error is not None:
            said = f"refused; declared {said}"
        elif row.inferred is None:
            said = f"declared {said}"
        table.append([f"{line}:{column}", row.name, row.op, said])
    return Table(["line", "name", "op", "types"], table)


def types_json(row: OpTypes) -> dict[str, Any]:
    """One op as JSON."""
    line, column = row.span.line_col if row.span else (None, None)
    return {
        "line": line,
        "column": column,
        "name": row.name,
        "op": row.op,
        "types": None if row.inferred is None else list(map(type_json, row.inferred)),
        "declared": list(map(type_json, row.declared)),
        "error": row.error and {"message": row.error.message, "rule": row.error.rule or None},
    }


def type_json(type: Type) -> dict[str, Any]:
    """The type as JSON: its MLIR text, and for a tensor its element type and sizes.

    >>> from hloscope.ir import ELEMENT_TYPES
    >>> type_json(TensorType(ELEMENT_TYPES["f32"], (2, 3)))
    {'type': 'tensor<2x3xf32>', 'element_type': 'f32', 'dims': [2, 3]}
    """
    if isinstance(type, TupleType):
        return {"type": type_text(type), "elements": list(map(type_json, type.elements))}
    if not isinstance(type, TensorType):
        return {"type": type_text(type)}
    sizes = {"element_type": type_text(type.element), "dims": list(type.sizes)}
    bounds = {"bounds": list(type.bounds)} if any(b is not None for b in type.bounds) else {}
    return {"type": type_text(type), **sizes, **bounds}
