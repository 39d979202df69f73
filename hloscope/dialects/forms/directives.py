"""Directives of forms for attributes.

Each one takes the context of the row and its own arguments; `hloscope.mlir.text.form_language`
explains how forms are read.
Source: MLIR's generated parsers.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from hloscope.dialects.attributes.enums import read_value_or_attribute
from hloscope.dialects.forms.special import literal_type
from hloscope.errors import VerifyError
from hloscope.ir import ElementType, TensorType
from hloscope.mlir import (
    F64,
    I1,
    I32,
    I64,
    INDEX,
    NONE,
    AsmParser,
    AsmPrinter,
    BoolAttr,
    Context,
    DenseArrayAttr,
    DenseAttr,
    Directive,
    EnumAttr,
    FloatAttr,
    IntegerAttr,
    Need,
    Operation,
    Part,
    Reading,
    StringAttr,
    SymbolAttr,
    elements,
)

_MOST: Final = 1 << 13


def read_dims(parser: AsmParser) -> tuple[int, ...]:
    """Read `[1, 2]`."""
    parser.token("[")
    if parser.try_token("]"):
        return ()
    dims = [_dim(parser)]
    while parser.try_token(","):
        dims.append(_dim(parser))
    parser.token("]")
    return tuple(dims)


def _dim(parser: AsmParser) -> int:
    """Read one integer of a list, with MLIR's errors."""
    value = parser.try_integer()
    if value is None:
        if not parser.try_token("]"):
            parser.report("expected integer value")  # MLIR reports the missing bracket too
            parser.token("]")
        parser.fail("expected integer value")
    if value >= 1 << 63:
        parser.fail("integer value too large")
    return value


def dims_text(dims: Sequence[int]) -> str:
    """Return `[1, 2]`."""
    return f"[{', '.join(map(str, dims))}]"


def i64_array(values: Sequence[int]) -> DenseArrayAttr:
    """Return the attribute `array<i64: …>`."""
    return DenseArrayAttr(I64, tuple(values))


def small_integers(literal: DenseAttr) -> tuple[int, ...] | None:
    """Return the elements of a small literal of 64-bit integers; `None` for other literals.

    >>> small_integers(DenseAttr("7", TensorType(I64, (2, 1))))
    (7, 7)
    """
    match literal.type:
        case TensorType(element, sizes) if element in (I64, INDEX) and None not in sizes:
            count = literal.type.num_elements
        case _:
            return None
    if count > _MOST or not count:
        return () if not count else None
    try:
        found = elements(literal)
    except VerifyError:
        return None
    raw = bytes(found.raw) * count if found.splat else found.raw
    return struct.unpack(f"<{count}q", raw)


def dims(context: Context, arguments: list[str]) -> Part:
    """`<dims name>`: `[1, 2]` of an `array<i64: 1, 2>`."""
    (name,) = arguments

    def read(reading: Reading) -> None:
        reading.state.properties[name] = i64_array(read_dims(reading.parser))

    def write(printer: AsmPrinter, op: Operation) -> None:
        printer.write(dims_text(op.properties[name].values))  # type: ignore[union-attr]

    return Part(read, write, (Need(name, DenseArrayAttr, of=I64),))


def _integer(type: ElementType) -> Directive:
    """Directive for an integer attribute of a type."""
    bits = type.bits

    def directive(context: Context, arguments: list[str]) -> Part:
        (name,) = arguments

        def read(reading: Reading) -> None:
            parser = reading.parser
            value = parser.try_integer()
            if value is None:
                found = parser.attribute(type)
                if not isinstance(found, IntegerAttr):
                    parser.fail("invalid kind of attribute specified")
                reading.state.properties[name] = found
            elif -(1 << bits - 1) <= value < 1 << bits:
                wrapped = value - (1 << bits) if value >> bits - 1 == 1 else value
                reading.state.properties[name] = IntegerAttr(wrapped, type)
            else:
                parser.fail("integer constant out of range for attribute")

        def write(printer: AsmPrinter, op: Operation) -> None:
            printer.write(str(op.properties[name].value))  # type: ignore[union-attr]

        return Part(read, write, (Need(name, IntegerAttr, of=type),))

    return directive


def boolean(context: Context, arguments: list[str]) -> Part:
    """`<bool name>`: `true` or `false`."""
    (name,) = arguments

    def read(reading: Reading) -> None:
        found = reading.parser.attribute(I1)
        if isinstance(found, IntegerAttr):
            found = BoolAttr(found.value != 0)
        if not isinstance(found, BoolAttr):
            reading.parser.fail("invalid kind of attribute specified")
        reading.state.properties[name] = found

    def write(printer: AsmPrinter, op: Operation) -> None:
        printer.write("true" if op.properties[name].value else "false")  # type: ignore[union-attr]

    return Part(read, write, (Need(name, BoolAttr),))


def string(context: Context, arguments: list[str]) -> Part:
    """`<string name>`: `"…"`."""
    (name,) = arguments

    def read(reading: Reading) -> None:
        parser = reading.parser
        at = parser.at
        if not parser.peek().startswith('"'):
            parser.attribute(NONE)
            parser.fail("invalid kind of attribute specified", at)
        reading.state.properties[name] = StringAttr(parser.string())

    def write(printer: AsmPrinter, op: Operation) -> None:
        printer.string(op.properties[name].value)  # type: ignore[union-attr,arg-type]

    return Part(read, write, (Need(name, StringAttr),))


def symbol(context: Context, arguments: list[str]) -> Part:
    """`<symbol name>`: `@name` for the string attribute `"name"`."""
    (name,) = arguments

    def read(reading: Reading) -> None:
        found = reading.parser.symbol()
        assert isinstance(found, SymbolAttr)
        reading.state.properties[name] = StringAttr.of(found.root)

    def write(printer: AsmPrinter, op: Operation) -> None:
        printer.symbol(op.properties[name].text)  # type: ignore[union-attr]

    return Part(read, write, (Need(name, StringAttr),))


def number(context: Context, arguments: list[str]) -> Part:
    """`<float name>`: a number of type `f64`."""
    (name,) = arguments

    def read(reading: Reading) -> None:
        found = reading.parser.attribute(F64)
        if not isinstance(found, FloatAttr):
            reading.parser.fail("invalid kind of attribute specified")
        reading.state.properties[name] = found

    def write(printer: AsmPrinter, op: Operation) -> None:
        printer.attribute(op.properties[name], type=False)

    return Part(read, write, (Need(name, FloatAttr, of=F64),))


def enum(context: Context, arguments: list[str]) -> Part:
    """`<enum mnemonic name>`: the value of `#stablehlo<mnemonic VALUE>`.

    Without `name`, the attribute is named like the mnemonic.
    """
    mnemonic, name = arguments[0], arguments[-1]

    def read(reading: Reading) -> None:
        reading.state.properties[name] = read_value_or_attribute(
            reading.parser, "stablehlo", mnemonic
        )

    def write(printer: AsmPrinter, op: Operation) -> None:
        printer.write(op.properties[name].value)  # type: ignore[union-attr,arg-type]

    return Part(read, write, (Need(name, EnumAttr, of=mnemonic),))


def value(context: Context, arguments: list[str]) -> Part:
    """`<value name operand>`, `<value name result>`: a literal of the operand's or result type."""
    name, role = arguments
    if role == "result":
        context.outputs += 1

    def read(reading: Reading) -> None:
        at = reading.parser.at
        found = reading.parser.attribute()
        type = literal_type(found)
        if type is None:
            reading.parser.fail("invalid kind of attribute specified", at)
        reading.state.properties[name] = found
        (reading.types if role == "operand" else reading.state.types).append(type)

    def write(printer: AsmPrinter, op: Operation) -> None:
        printer.attribute(op.properties[name])

    def fits(op: Operation) -> bool:
        found = op.properties.get(name)
        values = op.operands if role == "operand" else op.results
        return found is not None and literal_type(found) == values[0].type

    return Part(read, write, (Need(name, object),), fits)


DIRECTIVES: Final[dict[str, Directive]] = {
    "dims": dims,
    "i64": _integer(I64),
    "i32": _integer(I32),
    "index": _integer(INDEX),
    "bool": boolean,
    "string": string,
    "symbol": symbol,
    "float": number,
    "enum": enum,
    "value": value,
}
"""Directives for attributes."""
