"""Dimension numbers of convolutions: `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`.

The attribute holds the nine numbers of the raw form, which is read too (`#stablehlo.conv<raw …>`).

Source: `parseConvolutionDimensions`, `printConvolutionDimensions` of `StablehloOps.cpp`.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import islice
from typing import Final

from hloscope.dialects.attributes.structs import Free, empty, read_fields
from hloscope.mlir import AsmParser, AsmPrinter, StructAttr

FIELDS: Final = (
    *("input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"),
    "kernel_input_feature_dimension",
    "kernel_output_feature_dimension",
    "kernel_spatial_dimensions",
    *("output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions"),
)
"""Names of the nine numbers and lists of numbers, three for each of input, kernel and output."""

RAW: Final = Free(
    tuple(name if name.endswith("dimensions") else f"{name}*" for name in FIELDS), "dot"
)
_MOST_MISSING: Final = 10


def conv_attribute(values: Sequence[int | tuple[int, ...]]) -> StructAttr:
    """Return the attribute with these nine values."""
    return StructAttr("stablehlo", "conv", tuple(zip(FIELDS, values, strict=True)))


def read_conv(parser: AsmParser) -> StructAttr:
    """Read `<[b, f]x[i, o]->[b, f]>` or `<raw …>`."""
    parser.token("<")
    if parser.try_keyword("raw"):
        return conv_attribute([*(empty(RAW) | read_fields(parser, RAW)).values()])
    conv = read_conv_dims(parser)
    parser.token(">")
    return conv


def read_conv_dims(parser: AsmParser) -> StructAttr:
    """Read `[b, f]x[i, o]->[b, f]`."""
    values = _read_side(parser, "bf")
    parser.keyword("x")
    values += _read_side(parser, "io")
    parser.token("->")
    values += _read_side(parser, "bf")
    return conv_attribute(values)


def _read_side(parser: AsmParser, letters: str) -> list[int | tuple[int, ...]]:
    """Read `[b, 0, f]`; return the dimensions of the two letters, then the spatial dimensions."""
    parser.token("[")
    places: dict[str | int, int] = {}
    while True:
        places[_read_place(parser, letters, places)] = len(places)
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


def _read_place(parser: AsmParser, letters: str, known: Container[str | int]) -> str | int:
    """Read one entry, a letter or a spatial number, which must not be in `known`."""
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
    """Return `[b, f]x[i, o]->[b, f]`, or `None` if the numbers are not valid dimensions.

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
        side = _side(letters, values.get(first), values.get(second), values.get(spatial))
        if side is None:
            return None
        sides.append(side)
    return f"{sides[0]}x{sides[1]}->{sides[2]}"


def _side(letters: str, first: object, second: object, spatial: object) -> str | None:
    """Text of the dimensions of one array; `None` if they are not a permutation."""
    if not (isinstance(first, int) and isinstance(second, int) and isinstance(spatial, tuple)):
        return None
    names: dict[int, str] = {d: str(i) for i, d in enumerate(spatial)}
    names |= {first: letters[0], second: letters[1]}
    if sorted(names) != list(range(len(spatial) + 2)):
        return None
    return f"[{', '.join(names[d] for d in range(len(names)))}]"


def write_conv(printer: AsmPrinter, attribute: StructAttr) -> None:
    """Write `<…>`, in the raw form if the numbers are not valid dimensions."""
    text = conv_text(attribute)
    if text is None:
        fields = ", ".join(
            f"{name} = {list(value) if isinstance(value, tuple) else value}"
            for name, value in attribute.fields
        )
        text = f"raw {fields}"
    printer.write(f"<{text}>")
