"""All dialects: definitions of their ops, op classes, readers and printers of their types.

>>> sorted(DIALECTS.named)[:4]
['arith', 'bufferization', 'builtin', 'cf']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from hloscope.ir import FutureType, Op, TensorType, TokenType, Type
from hloscope.mlir import (
    I1,
    I64,
    AsmParser,
    Attribute,
    DenseArrayAttr,
    DenseAttr,
    Dialect,
    Dialects,
    Older,
    expanded,
    read_type as read_quantized,
    type_text,
)
from hloscope.mlir.dialects import (
    stablehlo,
    stablehlo as check,
    stablehlo as chlo,
    stablehlo as interpreter,
    upstream,
)
from hloscope.mlir.dialects.attributes import read_chlo, read_stablehlo, write_chlo, write_stablehlo
from hloscope.mlir.dialects.forms import form_of
from hloscope.mlir.dialects.rows import compile_row, given, head, split_rows, suggestion
from hloscope.ops import OPS

# --------------------------------------------------------------------------------------------------
# Reader of StableHLO's own types.  Source: StableHLO spec, "Types".


def read_type(parser: AsmParser, mnemonic: str) -> Type | None:
    """Read the type of `stablehlo` after its mnemonic, as in `!stablehlo.token`, and return it.

    An unknown mnemonic is an error.
    """
    match mnemonic:
        case "token":
            return TokenType()
        case "future":
            return _future(parser)
    parser.fail(f"unknown stablehlo type: {mnemonic}", parser.mnemonic_at)


def _future(parser: AsmParser) -> Type:
    """Read the result types of a future, `<t, u>`, and return the type of the future."""
    at = parser.at
    parser.token("<")
    types = parser.items(parser.type, ">")
    for type in types:
        if not isinstance(type, TensorType):
            text = type_text(type)
            parser.fail(f"future element type must be a ranked tensor, but got '{text}'", at)
    return FutureType(tuple(types))


# --------------------------------------------------------------------------------------------------
# All dialects: definitions of their ops, op classes, readers and printers.


_TABLES: Final[dict[str, tuple[str, ...]]] = {
    "stablehlo": stablehlo.STABLEHLO,
    "chlo": chlo.CHLO,
    "check": (check.CHECK,),
    "interpreter": (interpreter.INTERPRETER,),
    "builtin": (upstream.BUILTIN,),
    "func": (upstream.FUNC,),
    "sdy": (upstream.SDY,),
    "arith": (upstream.ARITH,),
    "tensor": (upstream.TENSOR,),
    "shape": (upstream.SHAPE,),
    "cf": (upstream.CF,),
    "bufferization": (upstream.BUFFERIZATION,),
    "memref": (upstream.MEMREF,),
    "scf": (upstream.SCF,),
}
_CLOSED: Final = frozenset({"stablehlo", "chlo", "check", "interpreter"})
"""Dialects of which all ops are known; other dialects may have more ops."""
_WITHOUT_TABLE: Final = ("llvm", "quant")
"""Dialects that MLIR's tools register, but whose ops have no table here."""

_ROWS: Final = {
    f"{dialect}.{head(row)[0]}": row
    for dialect, texts in _TABLES.items()
    for text in texts
    for row in split_rows(text)
}
_EVERY: Final = {name: compile_row(row, name.partition(".")[0]) for name, row in _ROWS.items()}

DEFINITIONS: Final = {name: _EVERY[name] for name, row in _ROWS.items() if "|" in row}
"""Definitions by full op name: all ops of StableHLO, CHLO, the test dialects, `func` and `builtin`,
and some ops of `sdy`, `arith`, `tensor`, `shape` and `cf`.

>>> [slot.name for slot in DEFINITIONS["stablehlo.dot_general"].operands]
['lhs', 'rhs']
"""


def is_isolated(name: str) -> bool:
    """Is the op `name` isolated, so that its regions cannot read values from outside?

    Source: MLIR's trait `IsolatedFromAbove`.

    >>> is_isolated("func.func"), is_isolated("stablehlo.while")
    (True, False)
    """
    definition = DEFINITIONS.get(name)
    return definition is not None and "isolated" in definition.traits


def _classes() -> Iterator[tuple[str, type[Op]]]:
    """Yield the full name of each op with its class.

    A class is looked up by the full name; for StableHLO and CHLO also by the name without dialect.
    """
    for name, row in _ROWS.items():
        dialect, _, short = name.partition(".")
        found = OPS.get(name)
        if found is None and dialect in ("stablehlo", "chlo"):
            found = OPS.get(head(row)[1].get("class", short))
        if found is not None:
            yield name, found


CLASSES: Final[dict[str, type[Op]]] = dict(_classes())
"""Class of each op, by the op's full name.

>>> CLASSES["stablehlo.if"].name
'case'
"""


CALLEES: Final = {
    name: slot.name
    for name, definition in DEFINITIONS.items()
    for slot in definition.attributes
    if slot.constraint in ("callee", "callees")
}
"""Name of the attribute that lists called functions, by the full name of the op.

>>> CALLEES["stablehlo.composite"]
'decomposition'
"""


def _dialect(name: str) -> Dialect:
    """Return the dialect `name`, with the definitions of its ops."""
    definitions = {op: found for op, found in _EVERY.items() if op.partition(".")[0] == name}
    forms = {op: form_of(definition) for op, definition in definitions.items()}
    suggestions = {op: suggestion(definition) for op, definition in definitions.items()}
    defaults = {op: given(definition) for op, definition in definitions.items()}
    return Dialect(
        name,
        ops={op: found.inherent for op, found in definitions.items() if op in DEFINITIONS},
        forms={op: form for op, form in forms.items() if form is not None},
        open=name not in _CLOSED,
        read_type={"stablehlo": read_type, "quant": read_quantized}.get(name),
        read_attribute={"stablehlo": read_stablehlo, "chlo": read_chlo}.get(name),
        write_attribute={"stablehlo": write_stablehlo, "chlo": write_chlo}.get(name),
        suggestions={op: one for op, one in suggestions.items() if one is not None},
        defaults={op: values for op, values in defaults.items() if values},
        behind=frozenset({"stablehlo.reduce"} if name == "stablehlo" else ()),
    )


def _from_mhlo(name: str, properties: Mapping[str, Attribute]) -> dict[str, Attribute]:
    """Return the inherent attributes of an MHLO op as StableHLO has them.

    MHLO's one-dimensional `dense<…>` of integers or Booleans becomes `array<…>`.

    Args:
        name: Full name of the op in StableHLO.
        properties: The attributes by name.
    """
    types = {slot.name: slot.constraint for slot in DEFINITIONS[name].attributes}
    found = dict(properties)
    for key, value in properties.items():
        element = _LISTS.get(types.get(key, ""))
        if element is not None and isinstance(value, DenseAttr) and _is_list(value):
            found[key] = DenseArrayAttr(element, expanded(value))
    return found


_LISTS: Final = {"dims": I64, "bools": I1}
"""Element types of attributes that are `array<…>` in StableHLO, by the name of their constraint."""


def _is_list(value: DenseAttr) -> bool:
    """Is a literal a vector of integers or Booleans?"""
    type = value.type
    return isinstance(type, TensorType) and type.rank == 1 and type.element in (I64, I1)


DIALECTS: Final = Dialects(
    map(_dialect, sorted({*_TABLES, *_WITHOUT_TABLE})), {"mhlo": Older("stablehlo", _from_mhlo)}
)
"""All dialects, by name and together.

MHLO preceded StableHLO; ops that both dialects have are equivalent.
Source: XLA, `stablehlo_legalize_to_hlo` and `hlo_legalize_to_stablehlo`.
"""
