"""Attributes with their own notation: accuracy of results, axes of device meshes.

Source: `StablehloAttrs.td`; `ResultAccuracyAttr::verify`.
"""

from __future__ import annotations

from typing import Final

from hloscope.dialects.attributes.structs import (
    FieldValue,
    parameter_failed,
    read_fixed,
    write_field,
    write_fields,
)
from hloscope.errors import ParseError, VerifyError
from hloscope.mlir import (
    F64,
    ArrayAttr,
    AsmParser,
    AsmPrinter,
    Attribute,
    BoolAttr,
    DenseAttr,
    EnumAttr,
    FloatAttr,
    StringAttr,
    StructAttr,
    SymbolAttr,
    TypeAttr,
    type_text,
)
from hloscope.ops import check_dot_algorithm

_SIGN: Final = 1 << 63


def read_result_accuracy(parser: AsmParser) -> StructAttr:
    """Read `<atol = 1.0, rtol = 0.0, ulps = 2, mode = #stablehlo.result_accuracy_mode<…>>`."""
    parser.token("<")
    fields: dict[str, FieldValue] = {}
    for name in ("atol", "rtol"):
        if parser.try_keyword(name):
            parser.token("=")
            fields[name] = _read_float(parser)
            parser.token(",")
    if parser.try_keyword("ulps"):
        parser.token("=")
        fields["ulps"] = parser.integer()
        parser.token(",")
    parser.keyword("mode")
    parser.token("=")
    mode = _read_mode(parser)
    parser.token(">")
    # Zero is the default, so it is not stored: texts with and without it give equal attributes.
    tolerances = tuple((name, value) for name, value in fields.items() if not _is_zero(value))
    if any(_is_negative(value) for _, value in tolerances):
        parser.fail("Negative tolerance")
    if mode.value != "TOLERANCE" and tolerances:
        parser.fail(
            f"Invalid tolerances for ResultAccuracyAttr with mode {mode.value}, must be all zero."
        )
    return StructAttr("stablehlo", "result_accuracy", (*tolerances, ("mode", mode)))


def _read_float(parser: AsmParser) -> FloatAttr:
    at = parser.at
    if parser.peek().isdecimal():
        parser.fail("unexpected decimal integer literal for a floating point value", at)
    found = parser.attribute(F64)
    if not isinstance(found, FloatAttr):
        parser.fail("expected floating point literal", at)
    return found


def _read_mode(parser: AsmParser) -> EnumAttr:
    at = parser.at
    found = parser.attribute()
    if not isinstance(found, EnumAttr) or found.name != "result_accuracy_mode":
        parser.fail("invalid kind of attribute specified", at)
    return found


def _is_zero(value: FieldValue) -> bool:
    return value == 0 or (isinstance(value, FloatAttr) and value.bits in (0, _SIGN))


def _is_negative(value: FieldValue) -> bool:
    if isinstance(value, FloatAttr):
        return value.bits >= _SIGN
    return isinstance(value, int) and value < 0


def read_checked(parser: AsmParser, mnemonic: str) -> StructAttr:
    """Read a fixed structure, and check it as StableHLO's verifier does."""
    at = parser.at
    attribute = read_fixed(parser, mnemonic)
    match attribute.name:
        case "dot_algorithm":
            _check_algorithm(parser, attribute, at)
        case "replica_group_mesh_axes":
            match attribute.get("mesh"):
                case SymbolAttr(_, ()) | StructAttr("stablehlo", "mesh"):
                    pass
                case _:
                    parser.fail("mesh must be a FlatSymbolRefAttr or MeshAttr", at)
    return attribute


def _check_algorithm(parser: AsmParser, attribute: StructAttr, at: int) -> None:
    """Check that a dot algorithm is supported by some hardware."""
    values = [value for _, value in attribute.fields]
    lhs, rhs, accumulation = (type_text(x.type) for x in values if isinstance(x, TypeAttr))
    first, second, operations = (x for x in values if isinstance(x, int))
    imprecise = values[-1] == BoolAttr(True)
    try:
        check_dot_algorithm(lhs, rhs, accumulation, first, second, operations, imprecise=imprecise)
    except VerifyError as error:
        parser.fail(error.message, at)


def read_sub_axis(parser: AsmParser) -> StructAttr:
    """Read `(2)4`: a sub-axis of size 4, after coarser sub-axes of total size 2."""
    parser.token("(")
    before = parser.integer()
    parser.token(")")
    fields = (("pre_size", before), ("size", parser.integer()))
    return StructAttr("stablehlo", "sub_axis_info", fields)


def read_axis_ref(parser: AsmParser) -> StructAttr:
    """Read `<name = "x", sub_axis_info = (2)4>`; the order is free, the second one optional."""
    parser.token("<")
    name: StringAttr | None = None
    part: StructAttr | None = None
    while True:
        at = parser.at
        word = parser.keyword()
        if word == "name" and name is None:
            parser.token("=")
            try:
                name = StringAttr(parser.string())
            except ParseError as error:
                parameter_failed(parser, error, "StableHLO_AxisRef", "name", "::llvm::StringRef")
        elif word == "sub_axis_info" and part is None:
            parser.token("=")
            try:
                part = read_sub_axis(parser)
            except ParseError as error:
                parameter_failed(parser, error, "StableHLO_AxisRef", word, "SubAxisInfoAttr")
        else:
            parser.fail(f"duplicate or unknown struct parameter name: {word}", at)
        if not parser.try_token(","):
            break
    parser.token(">")
    if name is None:
        parser.fail("struct is missing required parameter: name")
    fields: tuple[tuple[str, FieldValue], ...] = (("name", name),)
    return StructAttr(
        "stablehlo", "axis_ref", fields if part is None else (*fields, ("sub_axis_info", part))
    )


def write_axis_ref(printer: AsmPrinter, attribute: StructAttr) -> None:
    """Write `<name = "x", sub_axis_info = (2)4>`."""
    printer.write("<")
    for position, (name, value) in enumerate(attribute.fields):
        printer.write(f"{', ' if position else ''}{name} = ")
        if isinstance(value, StructAttr):
            write_sub_axis(printer, value)
        else:
            write_field(printer, value)
    printer.write(">")


def write_sub_axis(printer: AsmPrinter, attribute: StructAttr) -> None:
    """Write `(2)4`."""
    printer.write(f"({attribute.get('pre_size')}){attribute.get('size')}")


def read_mesh(parser: AsmParser) -> StructAttr:
    """Read `<axes = [<name = "x", size = 2>], device_ids = dense<…> : tensor<…>>`."""
    parser.token("<")
    parser.keyword("axes")
    parser.token("=")
    parser.token("[")
    axes: list[Attribute] = [_read_axis(parser)]
    while parser.try_token(","):
        axes.append(_read_axis(parser))
    parser.token("]")
    fields: list[tuple[str, FieldValue]] = [("axes", ArrayAttr(tuple(axes)))]
    if parser.try_token(","):
        parser.keyword("device_ids")
        parser.token("=")
        at = parser.at
        ids = parser.attribute()
        if not isinstance(ids, DenseAttr):
            parser.fail("invalid kind of attribute specified", at)
        fields.append(("device_ids", ids))
    parser.token(">")
    return StructAttr("stablehlo", "mesh", tuple(fields))


def _read_axis(parser: AsmParser) -> StructAttr:
    """Read an axis of a mesh, in full or as the fields of `mesh_axis`."""
    if not parser.peek().startswith("#"):
        return read_fixed(parser, "mesh_axis")
    at = parser.at
    match found := parser.attribute():
        case StructAttr("stablehlo", "mesh_axis"):
            return found
        case _:
            parser.fail("invalid kind of attribute specified", at)


def write_mesh(printer: AsmPrinter, attribute: StructAttr) -> None:
    """Write `<axes=[<name = "x", size = 2>], device_ids=dense<…> : tensor<…>>`."""
    axes, ids = attribute.get("axes"), attribute.get("device_ids")
    printer.write("<axes=[")
    for position, axis in enumerate(axes.elements if isinstance(axes, ArrayAttr) else ()):
        printer.write(", " if position else "")
        if isinstance(axis, StructAttr):
            write_fields(printer, axis)
    printer.write("]")
    if isinstance(ids, DenseAttr):
        printer.write(", device_ids=")
        printer.attribute(ids)
    printer.write(">")
