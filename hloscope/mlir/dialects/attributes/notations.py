"""Attributes with their own notation: convolutions, accuracy of results, axes of meshes."""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import islice
from typing import Final

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
from hloscope.mlir.dialects.attributes.structs import (
    FieldValue,
    OptionalFields,
    attribute_of,
    empty,
    parameter_failed,
    read_fields,
    read_required_fields,
    write_field,
    write_fields,
)
from hloscope.ops import check_dot_algorithm

# --------------------------------------------------------------------------------------------------
# Dimension numbers of convolutions: `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`.
#
# The attribute has the nine numbers of the raw form, which is read too (`#stablehlo.conv<raw …>`).
#
# Source: `parseConvolutionDimensions`, `printConvolutionDimensions` of `StablehloOps.cpp`.


FIELDS: Final = (
    *("input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"),
    "kernel_input_feature_dimension",
    "kernel_output_feature_dimension",
    "kernel_spatial_dimensions",
    *("output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions"),
)
"""Names of the nine fields of `#stablehlo.conv`: three each for input, kernel and output."""

RAW: Final = OptionalFields(
    tuple(name if name.endswith("dimensions") else f"{name}*" for name in FIELDS), "dot"
)
_MOST_MISSING: Final = 10


def conv_attribute(values: Sequence[int | tuple[int, ...]]) -> StructAttr:
    """Return the attribute `#stablehlo.conv` with these nine values, in the order of `FIELDS`."""
    return StructAttr("stablehlo", "conv", tuple(zip(FIELDS, values, strict=True)))


def read_conv(parser: AsmParser) -> StructAttr:
    """Return the dimension numbers in `<[b, f]x[i, o]->[b, f]>` or `<raw …>`."""
    parser.token("<")
    if parser.try_keyword("raw"):
        return conv_attribute([*(empty(RAW) | read_fields(parser, RAW)).values()])
    conv = read_conv_dims(parser)
    parser.token(">")
    return conv


def read_conv_dims(parser: AsmParser) -> StructAttr:
    """Return the dimension numbers in `[b, f]x[i, o]->[b, f]`."""
    values = _read_side(parser, "bf")
    parser.keyword("x")
    values += _read_side(parser, "io")
    parser.token("->")
    values += _read_side(parser, "bf")
    return conv_attribute(values)


def _read_side(parser: AsmParser, letters: str) -> list[int | tuple[int, ...]]:
    """Return the dimensions in the text `[b, 0, f]` of one array.

    The result has three entries: the positions of the two dimensions in `letters`, then the tuple
    of the positions of the spatial dimensions.
    """
    parser.token("[")
    places: dict[str | int, int] = {}
    while True:
        places[_read_entry(parser, letters, places)] = len(places)
        if not parser.try_token(","):
            break
    if missing := [letter for letter in letters if letter not in places]:
        parser.fail(f"Expected dimensions {', '.join(missing)} not specified")
    parser.token("]")
    spatial = sorted(name for name in places if isinstance(name, int))
    if spatial and spatial[-1] != len(spatial) - 1:
        known = set(spatial)
        gaps = islice((n for n in range(spatial[-1]) if n not in known), _MOST_MISSING)
        parser.fail(f"Expected spatial dimensions {', '.join(map(str, gaps))} not specified")
    return [*(places[letter] for letter in letters), tuple(places[name] for name in spatial)]


def _read_entry(parser: AsmParser, letters: str, known: Container[str | int]) -> str | int:
    """Read one entry of a list `[b, 0, f]`: one of `letters`, or the number of a spatial dimension.

    An entry in `known`, those already read, is an error.
    """
    at = parser.at
    number = parser.try_integer()
    if number is not None:
        if number < 0:
            parser.fail(f"Unexpected dimension {number}", at)
        if number in known:
            parser.fail(f"Duplicate entries for spatial dimension {number}", at)
        return number
    word = parser.keyword()
    missing = [letter for letter in letters if letter not in known]
    if len(word) != 1 or not missing:
        parser.fail(f"Unexpected keyword {word}", at)
    if word not in missing:
        parser.fail(f"Unexpected dimension {word}, expecting {', '.join(missing)}", at)
    return word


def conv_text(attribute: StructAttr) -> str | None:
    """Return the attribute `conv` as the text `[b, f]x[i, o]->[b, f]`.

    `None` if the numbers are not valid dimensions.

    >>> conv_text(conv_attribute([0, 2, (1,), 0, 2, (1,), 0, 2, (1,)]))
    '[b, 0, f]x[i, 0, o]->[b, 0, f]'
    >>> conv_text(conv_attribute([0, 0, (1,), 0, 2, (1,), 0, 2, (1,)])) is None
    True
    """
    values = dict(attribute.fields)
    sides = []
    for letters, (first, second, spatial) in zip(
        ("bf", "io", "bf"), (FIELDS[:3], FIELDS[3:6], FIELDS[6:]), strict=True
    ):
        side = _dimension_list(letters, values.get(first), values.get(second), values.get(spatial))
        if side is None:
            return None
        sides.append(side)
    return f"{sides[0]}x{sides[1]}->{sides[2]}"


def _dimension_list(letters: str, first: object, second: object, spatial: object) -> str | None:
    """Return the text `[b, 0, f]` of one array's dimensions; `None` if they are not a permutation.

    `first` and `second` are the positions of the dimensions that `letters` names, `spatial` has
    those of the spatial dimensions.
    """
    if not (isinstance(first, int) and isinstance(second, int) and isinstance(spatial, tuple)):
        return None
    names: dict[int, str] = {d: str(i) for i, d in enumerate(spatial)}
    names |= {first: letters[0], second: letters[1]}
    if sorted(names) != list(range(len(spatial) + 2)):
        return None
    return f"[{', '.join(names[d] for d in range(len(names)))}]"


def write_conv(printer: AsmPrinter, attribute: StructAttr) -> None:
    """Write dimension numbers as `<[b, f]x[i, o]->[b, f]>`.

    Numbers that are not valid dimensions are written as `<raw …>`.
    """
    text = conv_text(attribute)
    if text is None:
        fields = ", ".join(
            f"{name} = {list(value) if isinstance(value, tuple) else value}"
            for name, value in attribute.fields
        )
        text = f"raw {fields}"
    printer.write(f"<{text}>")


# --------------------------------------------------------------------------------------------------
# Attributes with their own notation: accuracy of results, axes of device meshes.
#
# Source: `StablehloAttrs.td`; `ResultAccuracyAttr::verify`.


_SIGN: Final = 1 << 63


def read_result_accuracy(parser: AsmParser) -> StructAttr:
    """Return the accuracy in `<atol = 1.0, rtol = 0.0, ulps = 2, mode = …>`."""
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
    parser.tokens("mode", "=")
    mode = _read_mode(parser)
    parser.token(">")
    # Zero is the default, so it is not stored: texts with and without it have equal attributes.
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
    """Read the fields of a structure such as `dot_algorithm`, and check them as StableHLO does.

    `mnemonic` is the structure's name, which has been read.
    """
    at = parser.at
    attribute = read_required_fields(parser, mnemonic)
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
    """Raise an error if no known hardware supports a dot algorithm.

    `at` is the offset of the attribute, for the error.
    """
    values = [value for _, value in attribute.fields]
    lhs, rhs, accumulation = (type_text(x.type) for x in values if isinstance(x, TypeAttr))
    first, second, operations = (x for x in values if isinstance(x, int))
    imprecise = values[-1] == BoolAttr(True)
    try:
        check_dot_algorithm(lhs, rhs, accumulation, first, second, operations, imprecise=imprecise)
    except VerifyError as error:
        parser.fail(error.message, at)


def read_sub_axis(parser: AsmParser) -> StructAttr:
    """Return the sub-axis in `(2)4`: size 4, after coarser sub-axes of total size 2."""
    parser.token("(")
    before = parser.integer()
    parser.token(")")
    fields = (("pre_size", before), ("size", parser.integer()))
    return StructAttr("stablehlo", "sub_axis_info", fields)


def read_axis_ref(parser: AsmParser) -> StructAttr:
    """Return the axis in `<name = "x", sub_axis_info = (2)4>`.

    The order of the fields is free; the second one is optional.
    """
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
    """Write an axis as `<name = "x", sub_axis_info = (2)4>`."""
    printer.write("<")
    for position, (name, value) in enumerate(attribute.fields):
        printer.write(f"{', ' if position else ''}{name} = ")
        if isinstance(value, StructAttr):
            write_sub_axis(printer, value)
        else:
            write_field(printer, value)
    printer.write(">")


def write_sub_axis(printer: AsmPrinter, attribute: StructAttr) -> None:
    """Write a sub-axis as `(2)4`."""
    printer.write(f"({attribute.get('pre_size')}){attribute.get('size')}")


def read_mesh(parser: AsmParser) -> StructAttr:
    """Return the mesh in `<axes = [<name = "x", size = 2>], device_ids = dense<…> : tensor<…>>`."""
    parser.tokens("<", "axes", "=", "[")
    axes: list[Attribute] = parser.items(lambda: _read_axis(parser))
    parser.token("]")
    fields: list[tuple[str, FieldValue]] = [("axes", ArrayAttr(tuple(axes)))]
    if parser.try_token(","):
        parser.tokens("device_ids", "=")
        fields.append(("device_ids", attribute_of(parser, DenseAttr)))
    parser.token(">")
    return StructAttr("stablehlo", "mesh", tuple(fields))


def _read_axis(parser: AsmParser) -> StructAttr:
    """Return an axis of a mesh, written in full or as the fields of `mesh_axis`."""
    if not parser.peek().startswith("#"):
        return read_required_fields(parser, "mesh_axis")
    at = parser.at
    match found := parser.attribute():
        case StructAttr("stablehlo", "mesh_axis"):
            return found
        case _:
            parser.fail("invalid kind of attribute specified", at)


def write_mesh(printer: AsmPrinter, attribute: StructAttr) -> None:
    """Write a mesh as `<axes=[<name = "x", size = 2>], device_ids=dense<…> : tensor<…>>`."""
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
