"""Enums of the dialects: `#stablehlo<comparison_direction EQ>`.

Source: `StablehloEnums.td`, `ChloEnums.td`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hloscope.mlir import AsmParser, EnumAttr


class Enum(NamedTuple):
    """An enum: its name in messages, its values, and whether its attribute has brackets.

    With brackets it is spelled `#stablehlo.result_accuracy_mode<DEFAULT>`.
    """

    type: str
    values: tuple[str, ...]
    bracketed: bool = False


_ROWS: Final = """
    stablehlo comparison_direction ComparisonDirection EQ NE GE GT LE LT
    stablehlo comparison_type      ComparisonType      NOTYPE FLOAT TOTALORDER SIGNED UNSIGNED
    stablehlo fft_type             FftType             FFT IFFT RFFT IRFFT
    stablehlo precision            Precision           DEFAULT HIGH HIGHEST
    stablehlo rng_algorithm        RngAlgorithm        DEFAULT THREE_FRY PHILOX
    stablehlo rng_distribution     RngDistribution     UNIFORM NORMAL
    stablehlo transpose            Transpose  TRANSPOSE_INVALID NO_TRANSPOSE TRANSPOSE ADJOINT
    stablehlo result_accuracy_mode ResultAccuracyMode  DEFAULT HIGHEST TOLERANCE
    chlo      comparison_direction ComparisonDirection EQ NE GE GT LE LT
    chlo      comparison_type      ComparisonType      NOTYPE FLOAT TOTALORDER SIGNED UNSIGNED
    chlo      precision            Precision           DEFAULT HIGH HIGHEST
"""

ENUMS: Final = {
    (dialect, mnemonic): Enum(type, tuple(values), mnemonic == "result_accuracy_mode")
    for dialect, mnemonic, type, *values in map(str.split, _ROWS.strip().splitlines())
}
"""Every enum by dialect and mnemonic."""

_KNOWN: Final = {
    (dialect, mnemonic, value): EnumAttr(dialect, mnemonic, value)
    for (dialect, mnemonic), enum in ENUMS.items()
    for value in enum.values
}
_FAMILY: Final = {"stablehlo": "StableHLO", "chlo": "CHLO"}


def read_value(parser: AsmParser, dialect: str, mnemonic: str) -> EnumAttr:
    """Read the value of an enum, `EQ`."""
    at = parser.at
    word = parser.try_keyword()
    known = _KNOWN.get((dialect, mnemonic, word)) if word is not None else None
    if known is not None:
        return known
    enum = ENUMS[dialect, mnemonic]
    type = f"::mlir::{dialect}::{enum.type}"
    if word is None:
        parser.report("expected valid keyword or string", at)
    else:
        parser.report(f"expected {type} to be one of: {', '.join(enum.values)}", at)
    parser.fail(
        f"failed to parse {_FAMILY[dialect]}_{enum.type}Attr parameter 'value' "
        f"which is to be a `{type}`",
        at,
    )


def read_enum(parser: AsmParser, dialect: str, mnemonic: str) -> EnumAttr:
    """Read an enum attribute after its mnemonic."""
    if not ENUMS[dialect, mnemonic].bracketed:
        return read_value(parser, dialect, mnemonic)
    parser.token("<")
    found = read_value(parser, dialect, mnemonic)
    parser.token(">")
    return found


def read_value_or_attribute(parser: AsmParser, dialect: str, mnemonic: str) -> EnumAttr:
    """Read `EQ` or `#stablehlo<comparison_direction EQ>`; pretty forms accept both."""
    if not parser.peek().startswith("#"):
        return read_value(parser, dialect, mnemonic)
    at = parser.at
    found = parser.attribute()
    if not isinstance(found, EnumAttr) or (found.dialect, found.name) != (dialect, mnemonic):
        parser.fail("invalid kind of attribute specified", at)
    return found


def enum_text(attribute: EnumAttr) -> str:
    """Return the text of an enum attribute.

    >>> enum_text(EnumAttr("stablehlo", "precision", "HIGH"))
    '#stablehlo<precision HIGH>'
    """
    dialect, name, value = attribute.dialect, attribute.name, attribute.value
    if (enum := ENUMS.get((dialect, name))) is not None and enum.bracketed:
        return f"#{dialect}.{name}<{value}>"
    return f"#{dialect}<{name} {value}>"
