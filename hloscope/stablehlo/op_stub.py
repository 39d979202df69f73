"""Types of the builder's methods, for type checkers and editors.

`python -m hloscope.stablehlo.op_stub > hloscope/stablehlo/op_methods.pyi` writes them from the
dialects' tables; a test fails if the file is outdated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hloscope.mlir import AttributeSlot, Definition, Slot
from hloscope.mlir.dialects import DEFINITIONS, ENUMS
from hloscope.stablehlo.builder import Builder, methods_of
from hloscope.stablehlo.making import structure_fields

_INT, _INTS, _FLAG = "int", "Sequence[int]", "bool"
_TABLE, _WORDS = "Sequence[Sequence[int]]", "Sequence[str] | str"
PYTHON_TYPES: Final[dict[str, str]] = {
    **dict.fromkeys(("i64", "i64>=0", "i64>0", "i32", "i32>=0", "i32>0", "api_version"), _INT),
    "f32": "float",
    **dict.fromkeys(("bool", "unit"), _FLAG),
    **dict.fromkeys(("string", "callee"), "str"),
    "callees": "Sequence[str]",
    "dims": _INTS,
    "bools": "Sequence[bool]",
    "pairs": _TABLE,
    **dict.fromkeys(("table", "groups"), f"{_TABLE} | str"),
    "precision": _WORDS,
    "channel": "int | tuple[int, int]",
}
"""Python type of an attribute, by its constraint; other attributes have type `Any`."""

_HEAD: Final = '''\
"""Made by `python -m hloscope.stablehlo.op_stub`; not edited by hand."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from hloscope.mlir.ir import Attribute, Value
from hloscope.stablehlo.making import TypeLike

_Values = Value | Sequence[Value]
_Types = TypeLike | Sequence[TypeLike]
_Region = Callable[..., Any]'''


def stub() -> str:
    """Return the text of `op_methods.pyi`."""
    lines = [_HEAD]
    for name, values in sorted({(enum.type, enum.values) for enum in ENUMS.values()}):
        lines.append(f"_{name} = Literal{list(values)}".replace("'", '"'))
    for dialect, name in (("stablehlo", "StablehloMethods"), ("chlo", "ChloMethods")):
        lines += [f"\nclass {name}:"]
        for method, full in methods_of(dialect).items():
            if method not in vars(Builder):
                lines += _method(method, DEFINITIONS[full])
    return "\n".join(lines) + "\n"


def _method(name: str, definition: Definition) -> Iterator[str]:
    yield f"    def {name}("
    yield "        self,"
    operands = list(_operands(definition.operands))
    yield from [f"        {text}," for text in operands]
    if operands and not operands[-1].startswith("*"):
        yield "        /,"
    if not operands or not operands[-1].startswith("*"):
        yield "        *,"
    for slot in definition.regions:
        yield f"        {slot.name}: {'Sequence[_Region] = ...' if slot.variadic else '_Region'},"
    for attribute in definition.attributes:
        yield from [f"        {text}," for text in _parameters(definition, attribute)]
    yield "        type: _Types | None = ...,"
    yield "        attributes: Mapping[str, Any] = ...,"
    yield f"    ) -> {_returned(definition.results)}: ..."


def _operands(slots: tuple[Slot, ...]) -> Iterator[str]:
    """Yield the operands as Python parameters; only `*operands` if one of them is variadic."""
    if any(slot.count for slot in slots):  # a list may stand for the operands of several slots
        yield "*operands: _Values"
    else:
        yield from (f"{slot.name}: Value" for slot in slots)


def _parameters(definition: Definition, slot: AttributeSlot) -> Iterator[str]:
    dialect = definition.name.partition(".")[0]
    enum = ENUMS.get((dialect, slot.constraint))
    fields = structure_fields(slot)
    if enum is not None:
        python = f"_{enum.type}"
    else:
        python = "Mapping[str, Any]" if fields else PYTHON_TYPES.get(slot.constraint, "Any")
    text = f"{slot.name}: {python}" + " | Attribute" * (python != "Any")
    yield text + (" | None = ..." if slot.optional or slot.default or fields else "")
    for field, empty in fields.items():
        yield f"{field}: {_INT if empty == 0 else _INTS} = ..."


def _returned(slots: tuple[Slot, ...]) -> str:
    if any(slot.count for slot in slots):
        return "Any"
    return {0: "None", 1: "Value"}.get(len(slots), f"tuple[{', '.join(['Value'] * len(slots))}]")


if __name__ == "__main__":
    print(stub(), end="")
