"""Directives for numbers of dots, convolutions, slices and float formats.

Source: `AssemblyFormat.cpp`; `printWindowAttributes`, `parsePrecisionConfig` of `StablehloOps.cpp`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from hloscope.ir import TensorType
from hloscope.mlir import (
    I1,
    I32,
    I64,
    ArrayAttr,
    AsmParser,
    AsmPrinter,
    Attribute,
    Context,
    DenseArrayAttr,
    DenseAttr,
    Directive,
    EnumAttr,
    FormState,
    IntegerAttr,
    Need,
    Operation,
    Part,
    StructAttr,
    attribute_part,
)
from hloscope.mlir.dialects.attributes.notations import conv_text, read_checked, read_conv_dims
from hloscope.mlir.dialects.attributes.structs import (
    list_text,
    read_list,
    read_value,
    sparse_struct,
    write_fields,
)
from hloscope.mlir.dialects.forms.directives import dims_text, i64_array, small_integers
from hloscope.support.lazy import pattern

_FORMAT: Final = pattern(r"e(\d+)m(\d+)", re.ASCII)
_INT32: Final = 1 << 31


def exponent_mantissa(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<format>`: exponent and mantissa bits, as `e5m2`."""
    names = ("exponent_bits", "mantissa_bits")

    def read(reading: FormState) -> None:
        parser = reading.parser
        at = parser.at
        word = parser.keyword()
        found = _FORMAT.fullmatch(word)
        if found is None:
            parser.fail(f"expected exponent mantissa in format e#m#, saw {word}", at)
        for name, digits in zip(names, found.groups(), strict=True):
            if len(digits.lstrip("0")) > 10 or int(digits) >= _INT32:
                parser.fail(f"unable to parse {name.removesuffix('_bits')} '{digits}'", at)
            reading.state.properties[name] = IntegerAttr(int(digits), I32)

    def bits(op: Operation) -> list[int]:
        return [op.properties[name].value for name in names]  # type: ignore[union-attr,misc]

    def write(printer: AsmPrinter, op: Operation) -> None:
        exponent, mantissa = bits(op)
        printer.write(f"e{exponent}m{mantissa}")

    needs = tuple(Need(name, IntegerAttr, of=I32) for name in names)
    return Part(read, write, needs, lambda op: min(bits(op)) >= 0)


def slice_ranges(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<ranges>`, the ranges of a slice.

    Its text is `[0:4, 1:8:2]`: start, limit and, unless it is 1, stride of each dimension.
    """

    def read(reading: FormState) -> None:
        parser = reading.parser
        parser.token("[")
        starts, limits, strides = [], [], []
        while not parser.try_token("]"):
            starts.append(parser.integer())
            parser.token(":")
            limits.append(parser.integer())
            strides.append(parser.integer() if parser.try_token(":") else 1)
            if parser.try_token("]"):
                break
            parser.token(",")
        for name, values in zip(_RANGES, (starts, limits, strides), strict=True):
            reading.state.properties[name] = i64_array(values)

    def write(printer: AsmPrinter, op: Operation) -> None:
        text = ", ".join(
            f"{start}:{limit}" if stride == 1 else f"{start}:{limit}:{stride}"
            for start, limit, stride in zip(*_ranges(op), strict=True)
        )
        printer.write(f"[{text}]")

    def fits(op: Operation) -> bool:
        return len(set(map(len, _ranges(op)))) == 1

    return Part(read, write, tuple(Need(name, DenseArrayAttr, of=I64) for name in _RANGES), fits)


def _ranges(op: Operation) -> list[tuple[int, ...]]:
    found = (op.properties[name] for name in _RANGES)
    return [x.values for x in found if isinstance(x, DenseArrayAttr)]


_RANGES: Final = ("start_indices", "limit_indices", "strides")


# ---------------------------------------------------------------------------------------- dots


def dot_dims(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<dot>`, the dimension numbers of a dot.

    Its text is `batching_dims = […] x […], contracting_dims = …`.
    """

    def read(parser: AsmParser) -> Attribute:
        values: dict[str, int | tuple[int, ...]] = {}
        if parser.try_keyword("batching_dims"):
            _read_pair(parser, values, "batching")
            parser.token(",")
        parser.keyword("contracting_dims")
        _read_pair(parser, values, "contracting")
        return sparse_struct("stablehlo", "dot", values)

    def write(printer: AsmPrinter, found: StructAttr) -> None:
        fields = dict(found.fields)
        batching = fields.get("lhs_batching_dimensions"), fields.get("rhs_batching_dimensions")
        if batching[0] or batching[1]:
            printer.write(f"batching_dims = {_pair_text(*batching)}, ")
        contracting = (fields.get(f"{side}_contracting_dimensions") for side in ("lhs", "rhs"))
        printer.write(f"contracting_dims = {_pair_text(*contracting)}")

    return attribute_part(Need("dot_dimension_numbers", StructAttr, of="dot"), read, write)


def _read_pair(parser: AsmParser, values: dict[str, int | tuple[int, ...]], kind: str) -> None:
    parser.token("=")
    values[f"lhs_{kind}_dimensions"] = read_list(parser)
    parser.keyword("x")
    values[f"rhs_{kind}_dimensions"] = read_list(parser)


def _pair_text(lhs: object, rhs: object) -> str:
    left, right = (list_text(dims) if isinstance(dims, tuple) else "" for dims in (lhs, rhs))
    return f"[{left}] x [{right}]"


def precision(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<precision>`: `, precision = [HIGH, HIGH]`, or no text.

    `<precision algorithm>` adds `, algorithm = <…>` if the op has an algorithm.

    `arguments` are the words after `precision`.
    """
    with_algorithm = bool(arguments)

    def read(reading: FormState) -> None:
        parser, properties = reading.parser, reading.state.properties
        if not parser.try_token(","):
            return
        if with_algorithm and parser.try_keyword("algorithm"):
            properties["algorithm"] = _read_algorithm(parser)
            return
        parser.keyword("precision")
        parser.token("=")
        parser.token("[")
        values = parser.items(lambda: read_value(parser, "stablehlo", "precision"), "]")
        properties["precision_config"] = ArrayAttr(tuple(values))
        if with_algorithm and parser.try_token(","):
            parser.keyword("algorithm")
            properties["algorithm"] = _read_algorithm(parser)

    def write(printer: AsmPrinter, op: Operation) -> None:
        config = op.properties.get("precision_config")
        if config is not None:
            printer.write(f", precision = [{', '.join(_precisions(config))}]")
        algorithm = op.properties.get("algorithm") if with_algorithm else None
        if algorithm is not None:
            printer.write(", algorithm = ")
            write_fields(printer, algorithm)  # type: ignore[arg-type]

    def fits(op: Operation) -> bool:
        config = op.properties.get("precision_config")
        return config is None or len(_precisions(config)) == len(config.elements)  # type: ignore[union-attr]

    needs = [Need("precision_config", ArrayAttr, optional=True)]
    if with_algorithm:
        needs.append(Need("algorithm", StructAttr, of="dot_algorithm", optional=True))
    return Part(read, write, tuple(needs), fits)


def _precisions(config: Attribute) -> list[str]:
    elements = config.elements if isinstance(config, ArrayAttr) else ()
    return [x.value for x in elements if isinstance(x, EnumAttr) and x.name == "precision"]


def _read_algorithm(parser: AsmParser) -> StructAttr:
    parser.token("=")
    return read_checked(parser, "dot_algorithm")


# -------------------------------------------------------------------------------- convolutions


def conv_dims(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<conv>`: `[b, 0, f]x[0, i, o]->[b, 0, f]`."""
    return attribute_part(
        Need("dimension_numbers", StructAttr, of="conv"),
        read_conv_dims,
        lambda printer, found: printer.write(conv_text(found) or ""),
        lambda found: conv_text(found) is not None,
    )


_WINDOW: Final = {
    "stride": "window_strides",
    "pad": "padding",
    "lhs_dilate": "lhs_dilation",
    "rhs_dilate": "rhs_dilation",
    "reverse": "window_reversal",
}


def window(context: Context, arguments: list[str]) -> Part:
    """Return the part of a pretty form for `<window>`, the attributes of a convolution's window.

    Its text is `stride = [2, 2], pad = [[1, 1], [0, 0]], …`.
    """

    def read(reading: FormState) -> None:
        parser, left = reading.parser, dict(_WINDOW)
        while (word := parser.try_keyword()) is not None:
            name = left.pop(word, None)
            if name is None:
                parser.fail(f"Unexpected keyword {word}")
            parser.token("=")
            parser.token("[")
            # Each word may occur once, in any order.
            reading.state.properties[name] = _read_window(parser, word)
            if not parser.try_token(","):
                break

    def write(printer: AsmPrinter, op: Operation) -> None:
        texts = [
            f"{word} = {_window_text(value)}"
            for word, name in _WINDOW.items()
            if (value := op.properties.get(name)) is not None
        ]
        printer.write(", ".join(texts))

    needs = [
        Need(name, DenseArrayAttr, of=I1 if word == "reverse" else I64, optional=True)
        for word, name in _WINDOW.items()
        if word != "pad"
    ]
    padding = Need("padding", DenseAttr, optional=True)
    return Part(read, write, (padding, *needs), _fits_window)


def _fits_window(op: Operation) -> bool:
    match op.properties.get("padding"):
        case None:
            return True
        case DenseAttr(_, TensorType(element, (_, 2))) as padding:
            return element == I64 and small_integers(padding) is not None
        case _:
            return False


def _read_window(parser: AsmParser, word: str) -> Attribute:
    """Read one field of a window after its `[`: numbers, pairs or Booleans.

    `word` is the name of the field.
    """
    if word == "pad":
        pairs = parser.items(lambda: _read_pad(parser), "]")
        return DenseAttr(_pairs_text(pairs) if pairs else "", TensorType(I64, (len(pairs), 2)))
    values = _read_numbers(parser)
    if word == "reverse":
        return DenseArrayAttr(I1, tuple(int(value != 0) for value in values))
    return i64_array(values)


def _read_numbers(parser: AsmParser) -> list[int]:
    def number() -> int:
        word = parser.try_keyword("true", "false")
        return parser.integer() if word is None else int(word == "true")

    return parser.items(number, "]")


def _read_pad(parser: AsmParser) -> list[int]:
    parser.token("[")
    values = _read_numbers(parser)
    if len(values) != 2:
        parser.fail(f"Expected array with 2 elements, got {len(values)} elements instead")
    return values


def _pairs_text(pairs: Iterable[Sequence[int]]) -> str:
    """Return pairs of integers as the text `[[1, 2], [3, 4]]`."""
    return f"[{', '.join(map(dims_text, pairs))}]"


def _window_text(value: Attribute) -> str:
    if isinstance(value, DenseArrayAttr):
        if value.element == I1:
            return f"[{', '.join('true' if x else 'false' for x in value.values)}]"
        return dims_text(value.values)
    numbers = iter(small_integers(value) or ()) if isinstance(value, DenseAttr) else iter(())
    return _pairs_text(zip(numbers, numbers, strict=True))


DIRECTIVES: Final[dict[str, Directive]] = {
    "format": exponent_mantissa,
    "ranges": slice_ranges,
    "dot": dot_dims,
    "precision": precision,
    "conv": conv_dims,
    "window": window,
}
"""Directives for numbers with their own notation, by name."""
