"""Types of a program: inferred ones, and sizes that are unknown before run time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct

from hloscope.display.table import Table
from hloscope.errors import HloscopeError
from hloscope.ir import TensorType, TupleType, Type, UnrankedTensorType
from hloscope.mlir import Block, Operation, StringAttr, TypeAttr, Value, location_text, type_text
from hloscope.passes import is_wrapper
from hloscope.support.lazy import once_for_each
from hloscope.support.source import Span

if TYPE_CHECKING:
    from hloscope.passes import Explanation


# --------------------------------------------------------------------------------------------------
# Sizes that are unknown before the run, with their origins, as text and JSON.


MOST_STEPS: Final = 12
"""Maximum number of steps of a path in text; JSON has all."""


def dynamic_text(explanations: Sequence[Explanation]) -> str:
    r"""Return text about values of unknown size, a paragraph for each origin of sizes.

    It has the values, the longest path from one of them to the origin, and a remedy.

    >>> dynamic_text([])
    'static: every size is known\n'
    """
    if not explanations:
        return "static: every size is known\n"
    groups: dict[tuple[str, str, int], list[Explanation]] = {}
    for each in explanations:
        key = (each.origin.kind, each.origin.remedy, id(each.path[-1].value))
        groups.setdefault(key, []).append(each)
    count = len(explanations)
    lines = [f"{count} value{'s' * (count > 1)} of unknown size"]
    for (kind, remedy, _), group in groups.items():
        last = group[0].path[-1].value
        lines += ["", f"from {_KINDS.get(kind, kind)}: {described(last)}{place_of(last)}"]
        longest = max(group, key=lambda e: len(e.path))
        lines += _path(longest)
        if len(group) > 1:
            lines.append(f"  {len(group)} values have their sizes from there")
        if remedy:
            lines.append(f"  to make it known: {remedy}")
    return "\n".join(lines) + "\n"


_KINDS: Final = {
    "argument": "an argument",
    "data": "data",
    "custom_call": "a custom call",
    "call": "a call",
    "declared": "a declaration",
    "reader": "a reader",
    "unknown": "an unknown op",
    "loop": "a loop",
}


def _path(explanation: Explanation) -> list[str]:
    links = explanation.path
    lines = []
    for k, link in enumerate(links[:MOST_STEPS]):
        arrow = f"{link.why} " if link.why else ""
        after = "" if k + 1 >= len(links) else f"  {arrow}".rstrip()
        lines.append(f"    {described(link.value)}{place_of(link.value)}{after}")
    if len(links) > MOST_STEPS:
        lines.append(f"    … {len(links) - MOST_STEPS} more")
    return lines


def described(value: Value) -> str:
    """Return a value as text: its name, type, and the op that computes it."""
    name = value.name or "?"
    owner = value.owner
    if isinstance(owner, Operation) and is_wrapper(owner):  # refinement put it there
        name = owner.operands[0].name or "?"
        return f"%{name} as it was declared : {type_text(value.type)}"
    if isinstance(owner, Operation):
        number = f"#{value.index}" if len(owner.results) > 1 else ""
        return f"%{name}{number} = {owner.name} : {type_text(value.type)}"
    return f"%{name} : {type_text(value.type)}, argument {value.index} of {_block(owner)}"


def _block(block: Block | None) -> str:
    region = block.parent if block is not None else None
    owner = region.parent if region is not None else None
    if owner is None:
        return "a block"
    name = owner.get("sym_name")
    if isinstance(name, StringAttr):
        return f"@{name.text}"
    return f"a region of {owner.name}"


def place_of(value: Value) -> str:
    """Return the position of a value's definition in the text, as ` (line 3)`."""
    line = line_of(value)
    return "" if line is None else f" (line {line})"


def line_of(value: Value) -> int | None:
    """Return the line of a value's definition, counted from 1; `None` if it is unknown."""
    owner = value.owner
    if isinstance(owner, Block):
        region = owner.parent
        owner = region.parent if region is not None else None
    if not isinstance(owner, Operation) or owner.span is None:
        return None
    return owner.span.line_col[0]


def dynamic_json(explanations: Sequence[Explanation]) -> list[dict[str, Any]]:
    """Return each value of unknown size as JSON, with the path to the origin of its size."""
    return [
        {
            **value_json(each.value),
            "chain": [{**value_json(link.value), "why": link.why or None} for link in each.path],
            "source": {"kind": each.origin.kind, "remedy": each.origin.remedy or None},
        }
        for each in explanations
    ]


def value_json(value: Value) -> dict[str, Any]:
    """Return a value as JSON."""
    owner = value.owner
    is_result = isinstance(owner, Operation)
    return {
        "name": value.name or None,
        "op": owner.name if isinstance(owner, Operation) else None,
        "index": value.index,
        "of": None if is_result else _block(owner if isinstance(owner, Block) else None),
        "type": type_text(value.type),
        "dynamic": _dimensions(value),
        "line": line_of(value),
        "location": _location(value),
    }


def _dimensions(value: Value) -> list[int] | None:
    """Return the numbers of a value's dimensions of unknown size; `None` if its rank is unknown."""
    type = value.type
    if isinstance(type, UnrankedTensorType):
        return None
    if isinstance(type, TensorType):
        return [d for d, size in enumerate(type.sizes) if size is None]
    return []


def _location(value: Value) -> str | None:
    owner = value.owner
    location = owner.location if isinstance(owner, Operation) else value.location
    text = location_text(location)
    return None if text in ("loc(unknown)", "unknown") else text


def signature_text(tree: Operation) -> str | None:
    """Return the type of a program's entry function in MLIR's syntax; `None` without one."""
    functions = [op for op in tree.inside if op.name == "func.func"]
    main = [f for f in functions if f.get("sym_name") == StringAttr(b"main")] or functions[:1]
    written = main[0].get("function_type") if main else None
    return type_text(written.type) if isinstance(written, TypeAttr) else None


class ParametricMap(NamedTuple):
    """One map of an instruction to an operand.

    Attributes:
        operand: Number of the operand.
        text: The map with polynomials of the sizes in it; empty if it is unknown.
        precision: `exact` or `over`, as the maps have at all sizes; `unknown` if `why` is not
            empty.
        why: Why the map is unknown; empty if it is known.
    """

    operand: int
    text: str
    precision: str
    why: str = ""


class Parametric(NamedTuple):
    """The maps of an instruction of a refined program, in terms of sizes.

    Attributes:
        name: Name of the instruction.
        maps: Its maps.
        checked: Sizes at which the maps were compared with those of the refined program.
    """

    name: str
    maps: tuple[ParametricMap, ...]
    checked: tuple[Mapping[str, int], ...]


def parametric_text(instructions: Sequence[Parametric]) -> str:
    """Return maps in terms of named sizes as text, a paragraph for each instruction.

    The maps are interpolated from some sizes and compared at others; they are not proved for all.
    """
    lines: list[str] = []
    for each in instructions:
        lines.append(each.name)
        for one in each.maps:
            known = f"{one.text}   {one.precision} where compared"
            said = known if one.text else f"unknown: {one.why}"
            lines.append(f"  operand {one.operand}  {said}")
    checked = [", ".join(f"{k}={v}" for k, v in sizes.items()) for sizes in instructions[0].checked]
    lines += ["", f"compared with the refined program at {'; '.join(checked)}"]
    return "\n".join(lines) + "\n"


def parametric_json(instructions: Sequence[Parametric]) -> list[dict[str, Any]]:
    """Return the maps of instructions in terms of named sizes, as JSON."""
    return [
        {
            "name": each.name,
            "maps": [
                {
                    "operand": one.operand,
                    "map": one.text or None,
                    "precision": one.precision,
                    "proof": "sampled" if one.text else None,
                    "reason": one.why or None,
                }
                for one in each.maps
            ],
            "checked": [dict(sizes) for sizes in each.checked],
        }
        for each in instructions
    ]


# --------------------------------------------------------------------------------------------------
# Inferred result types of ops beside the declared ones, as rows and JSON.


class OpTypes(Struct, frozen=True):
    """An op with its declared and inferred result types.

    Attributes:
        span: Position of the op in the text; `None` if unknown.
        name: Names of its results.
        op: Its opcode.
        inferred: The inferred types; `None` if the operands do not determine them.
        declared: The types in the text.
        error: The error, if the op is invalid.
    """

    span: Span | None
    name: str
    op: str
    inferred: tuple[Type, ...] | None
    declared: tuple[Type, ...]
    error: HloscopeError | None = None

    @property
    def refusal(self) -> HloscopeError | None:
        """Return the error about the op, at the op's position if the error has none."""
        error = self.error
        if error is None or error.span is not None:
            return error
        return type(error)(error.message, span=self.span, rule=error.rule)


def types_table(rows: Iterable[OpTypes], spell: Callable[[Type], str]) -> Table:
    """Return a table with a row for each op.

    `spell` writes a type in the program's language.
    """
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
    """Return one op as JSON."""
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
    """Return a type as JSON: its MLIR text, and for a tensor its element type and sizes.

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
