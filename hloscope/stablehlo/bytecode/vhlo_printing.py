"""Printing of a VHLO module as text, with VHLO's syntax of attributes and types.

In memory the values are StableHLO's. So a second module is printed whose attributes and types are
texts. Kinds of fields in that syntax:

| kind | what is written |
|---|---|
| `one` `many` `types` | an attribute or type; several with commas; types, `()` for an empty list |
| `int` `ints` `f64` `f64s` | numbers |
| `sizes` `bounds` | `4x?x`, `4, ?` |
| `truth` `string` `mode` | `true`, `"a"`, an accuracy's mode |
| `pairs` | `#vhlo.string_v1<"a"> = …` with commas |
| `number` `plain` | the attribute itself as MLIR spells it, its type as VHLO's or as MLIR's |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from hloscope.ir import DialectType, Type, format_float
from hloscope.mlir import (
    Attribute,
    BoolAttr,
    DenseAttr,
    EnumAttr,
    IntegerAttr,
    Operation,
    VerbatimAttr,
    attribute_text,
    print_mlir,
    type_text,
)
from hloscope.stablehlo.bytecode.encodings import ChosenEncoding, choose_encoding
from hloscope.stablehlo.bytecode.numbering import VhloValues
from hloscope.stablehlo.bytecode.types import DYNAMIC
from hloscope.stablehlo.bytecode.vhlo_parsing import FORMS, VHLO_DIALECTS
from hloscope.stablehlo.cloning import clone
from hloscope.stablehlo.vhlo import is_vhlo_op

_PLAIN: Final = (IntegerAttr, DenseAttr)


def print_vhlo(
    module: Operation, *, generic: bool = False, locations: bool = False, aliases: bool = True
) -> str:
    """Print a module of VHLO, of any version.

    Args:
        module: The module.
        generic: Print all ops in generic form; by default functions have a pretty form.
        locations: Print the locations of ops and arguments.
        aliases: Print aliases for locations and long attributes.

    >>> from hloscope.stablehlo.bytecode.artifacts import in_version
    >>> from hloscope.mlir.dialects import DIALECTS
    >>> from hloscope.mlir import parse_mlir
    >>> text = "func.func @f(%x: tensor<2xf32>) { return }"
    >>> tree = in_version(parse_mlir(text, dialects=DIALECTS), (1, 0, 0)).module
    >>> print(print_vhlo(tree).splitlines()[1])
      vhlo.func_v1 @f(%arg0: !vhlo.tensor_v1<2x!vhlo.f32_v1>) -> () {
    """
    return print_mlir(
        _TextModule().run(module),
        dialects=VHLO_DIALECTS,
        generic=generic,
        locations=locations,
        aliases=aliases,
    )


class _TextModule:
    """Builds a copy of a VHLO module whose attributes and types are their texts."""

    def __init__(self) -> None:
        self._flavours = VhloValues()
        # By `id`: ops share types and attributes. Each entry holds the value, so the `id` is not
        # reused.
        self._texts: dict[int, tuple[Any, Any]] = {}

    def run(self, module: Operation) -> Operation:
        module = clone(module, {})
        for op in module.walk():
            op.source = None  # without a source only explicit locations are printed
            # Casts outside of VHLO keep the types of their other side.
            values = [value for value in op.results if self._flavours.of(value)]
            if is_vhlo_op(op):
                values += [argument for block in op.blocks for argument in block.arguments]
                op.properties = self._attributes(op.properties)
                op.attributes = self._attributes(op.attributes)
            for value in values:
                value.type = self._type(value.type)
        return module

    def _type(self, type: Type) -> Type:
        found = self._texts.get(id(type))
        if found is None:
            found = self._texts[id(type)] = type, DialectType(vhlo_text(type))
        return found[1]

    def _attributes(self, attributes: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
        return {name: self._attribute(value) for name, value in attributes.items()}

    def _attribute(self, value: Attribute) -> Attribute:
        found = self._texts.get(id(value))
        if found is None:
            text = vhlo_text(value)
            needs_of_present_form = not text.startswith("#vhlo")
            found = self._texts[id(value)] = (
                value,
                value if needs_of_present_form else VerbatimAttr(text),
            )
        return found[1]


def vhlo_text(value: Any) -> str:
    """Return an attribute or type as text in VHLO's syntax.

    >>> from hloscope.mlir import I64, ArrayAttr
    >>> vhlo_text(ArrayAttr((IntegerAttr(1, I64),)))
    '#vhlo.array_v1<[#vhlo.integer_v1<1 : i64>]>'
    """
    if isinstance(value, EnumAttr | BoolAttr | DenseAttr):
        # These have no parts in VHLO's spelling.
        return _simple(value)
    chosen = choose_encoding(value, vhlo=True)
    if chosen.dialect != "vhlo":
        return type_text(value) if isinstance(value, Type) else attribute_text(value)
    is_type = isinstance(value, Type)
    name = chosen.row.name
    head = f"!vhlo.{name}" if is_type else f"#vhlo.{name}"
    pieces = FORMS.get(name if is_type else f"#{name}")
    if pieces is None:
        return head
    fields = _named(chosen)
    texts = [
        piece.text if not piece.kind else _WRITERS[piece.kind](fields[piece.text], value)
        for piece in pieces
        if not piece.optional or _is_written(pieces, fields)
    ]
    return head + "".join(texts)


def _simple(value: EnumAttr | BoolAttr | DenseAttr) -> str:
    if isinstance(value, EnumAttr):
        return f"#vhlo<{value.name}_v1 {value.value}>"
    if isinstance(value, BoolAttr):
        return f"#vhlo.bool_v1<{attribute_text(value)}>"
    return f"#vhlo.tensor_v1<{attribute_text(value)}>"


def _named(chosen: ChosenEncoding) -> dict[str, Any]:
    names = (name for name, _ in chosen.row.fields)
    return dict(zip(names, chosen.fields, strict=False))


def _is_written(pieces: Sequence[Any], fields: Mapping[str, Any]) -> bool:
    """Is an optional part of the syntax written, given the values of the fields?

    It is if its field has a value. `pieces` are the pieces of the part.
    """
    (name,) = (piece.text for piece in pieces if piece.optional and piece.kind)
    return fields.get(name) is not None


def _many(values: Sequence[Any], _: object = None) -> str:
    return ", ".join(map(vhlo_text, values))


def _sizes(values: Sequence[int], _: object) -> str:
    return "".join(f"{'?' if value == DYNAMIC else value}x" for value in values)


def _bounds(values: Sequence[int], _: object) -> str:
    return ", ".join("?" if value == DYNAMIC else str(value) for value in values)


def _f64(bits: int, _: object = None) -> str:
    return format_float(bits & ((1 << 64) - 1), "f64")


def _pairs(pairs: Sequence[tuple[Any, Any]], _: object) -> str:
    return ", ".join(f"{vhlo_text(key)} = {vhlo_text(value)}" for key, value in pairs)


def _number(_: object, value: Any) -> str:
    return f"{attribute_text(value, type=False)} : {vhlo_text(value.type)}"


_WRITERS: Final[Mapping[str, Callable[[Any, Any], str]]] = {
    "one": lambda value, _: vhlo_text(value),
    "mode": lambda value, _: vhlo_text(value),
    "many": _many,
    "types": lambda values, _: _many(values) or "()",
    "int": lambda value, _: str(value),
    "ints": lambda values, _: ", ".join(map(str, values)),
    "f64": _f64,
    "f64s": lambda values, _: ", ".join(map(_f64, values)),
    "sizes": _sizes,
    "bounds": _bounds,
    "truth": lambda value, _: "true" if value else "false",
    "string": lambda _, value: attribute_text(value, type=False),
    "pairs": _pairs,
    "number": _number,
    "plain": lambda _, value: attribute_text(value),
}
