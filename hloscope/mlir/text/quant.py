"""Parser of the types of MLIR's Quant dialect.

Source: MLIR's `quant` dialect, its types.
"""

from __future__ import annotations

import re
from typing import Final

from hloscope.ir import FORMATS, DialectType, ElementType, Type, decode
from hloscope.mlir.text.asm import AsmParser
from hloscope.mlir.types import (
    ELEMENTS,
    double_text,
    element_text,
    integer_type,
    is_signless,
    quantized,
    storage_range,
)
from hloscope.support.lazy import pattern

_WIDEST: Final = 32
_MOST: Final = (1 << 31) - 1
_INTEGER: Final = pattern(r"[su]?i\d+", re.ASCII)
_UNSIGNED: Final = pattern(r"u(\d+)")


def read_type(parser: AsmParser, mnemonic: str) -> Type | None:
    """Read the type after `!quant.uniform`, `!quant.any` or `!quant.calibrated`, and return it.

    Another mnemonic is an error.
    """
    match mnemonic:
        case "uniform":
            return _Uniform(parser).read()
        case "any":
            return _any(parser)
        case "calibrated":
            return _calibrated(parser)
    parser.fail(f"unknown quantized type {mnemonic}", parser.mnemonic_at)


def _int64(parser: AsmParser) -> int:
    at = parser.at
    value = parser.integer()
    if value >> 63 not in (0, -1):
        parser.fail("integer value too large", at)
    return value


class _Storage:
    """A storage type such as `i8<-4:3>`: its integer type, its text and its limits."""

    def __init__(self, parser: AsmParser) -> None:
        self.type, self.text = _storage_type(parser)
        self.natural = storage_range(self.type.kind == "signed", self.type.bits)
        self.limits = self.natural
        if parser.try_token("<"):
            at_least = parser.at
            low = _int64(parser)
            parser.token(":")
            at_most = parser.at
            high = _int64(parser)
            parser.token(">")
            if low < self.natural[0]:
                parser.fail(f"illegal storage type minimum: {low}", at_least)
            if high > self.natural[1]:
                parser.fail(f"illegal storage type maximum: {high}", at_most)
            self.limits = low, high

    def check(self, parser: AsmParser, at: int) -> None:
        """Raise an error unless the limits are in ascending order; `at` is their offset."""
        low, high = self.limits
        if high <= low:
            parser.fail(f"illegal storage min and storage max: ({low}:{high})", at)

    def __str__(self) -> str:
        low, high = self.limits
        return self.text + ("" if self.limits == self.natural else f"<{low}:{high}>")


def _storage_type(parser: AsmParser) -> tuple[ElementType, str]:
    at, word = parser.at, parser.peek()
    type = integer_type(word)
    if type is not None or _INTEGER.fullmatch(word):
        found_type = parser.type()
        assert isinstance(found_type, ElementType)
        type = found_type
        if is_signless(type) or type.name.startswith("si"):
            type = ElementType(f"s{type.bits}", type.bits, "signed") if word == "i1" else type
        text = word
    else:
        if ELEMENTS.get(word) is not None:
            parser.fail("illegal storage type prefix", at)
        word = parser.keyword()
        found = _UNSIGNED.fullmatch(word)
        if found is None:
            parser.fail("illegal storage type prefix", at)
        bits = int(found[1][:8])
        type, text = integer_type(f"ui{bits}") if bits else None, word
        if type is None:
            parser.fail(f"illegal storage type size: {bits}", at)
    bits = 1 if word in ("i1", "ui1", "si1") else type.bits
    if not 0 < bits <= _WIDEST:
        parser.fail(f"illegal storage type size: {bits}", at)
    return type, text


def _expressed(parser: AsmParser) -> ElementType:
    at = parser.at
    type = parser.type()
    if not isinstance(type, ElementType) or type.kind != "float":
        parser.fail("invalid kind of type specified", at)
    return type


class _Uniform:
    """Parser of a uniform quantized type, `!quant.uniform<…>`."""

    def __init__(self, parser: AsmParser) -> None:
        self.parser = parser
        self.scales: list[float] = []
        self.zero_points: list[int] = []

    def read(self) -> Type:
        parser = self.parser
        start = parser.at
        parser.token("<")
        storage = _Storage(parser)
        parser.token(":")
        self.expressed = _expressed(parser)
        axes: list[int] = []
        blocks: list[int] = []
        shape: tuple[int, ...] = ()
        by_axis = parser.try_token(":")
        by_blocks = by_axis and parser.try_token("{")
        if by_blocks:
            self._blocks(axes, blocks)
        elif by_axis:
            axes.append(_int64(parser))
        parser.token(",")
        if by_axis:
            parser.token("{")
            shape = self._list()
        else:
            self._parameters()
        parser.token(">")
        storage.check(parser, start)
        for axis in axes:
            if not 0 <= axis <= _MOST:
                parser.fail(f"illegal quantized dimension: {axis}", start)
        for size in blocks:
            if size <= 0:
                parser.fail(f"illegal block size: {size}", start)
        return quantized(
            storage.type,
            self.expressed,
            tuple(self.scales),
            tuple(self.zero_points),
            limits=storage.limits,
            axes=tuple(axes),
            blocks=tuple(blocks),
            blocks_shape=shape if by_blocks else (),
            by_blocks=by_blocks,
            storage_text=storage.text,
        )

    def _blocks(self, axes: list[int], blocks: list[int]) -> None:
        """Read `axis:size` pairs up to the closing brace, as in `0:1, 1:2}`.

        Append them to `axes` and `blocks`.
        """
        parser = self.parser

        def block() -> None:
            axes.append(_int64(parser))
            parser.token(":")
            blocks.append(_int64(parser))

        parser.items(block, "}")

    def _list(self) -> tuple[int, ...]:
        """Read a list of scales after `{`, which may be nested.

        Return the sizes of the nested lists.
        """
        parser = self.parser
        shapes: list[tuple[int, ...] | None] = [None]
        counts = [0]
        while True:
            if parser.try_token("{"):
                shapes.append(None)
                counts.append(0)
                continue
            self._parameters()
            shape: tuple[int, ...] = ()
            while shapes:
                if shapes[-1] not in (None, shape):
                    parser.fail(
                        "tensor literal is invalid; ranks are not consistent between elements"
                    )
                shapes[-1] = shape
                counts[-1] += 1
                if parser.try_token(","):
                    break
                parser.token("}")
                shapes.pop()
                shape = (counts.pop(), *shape)
            else:
                return shape

    def _parameters(self) -> None:
        """Read one scale and zero point, `scale:zero_point`, and store them."""
        parser = self.parser
        scale = parser.floating()
        low, high = scale_range(self.expressed)
        if not low <= scale <= high:
            inside = f"[{low:.6e}, {high:.6e}]"
            parser.fail(f"scale {scale:.6e} out of expressed type range {inside}")
        self.scales.append(scale)
        self.zero_points.append(_int64(parser) if parser.try_token(":") else 0)


def scale_range(expressed: ElementType) -> tuple[float, float]:
    """Return the smallest positive and the largest finite number of a float type, as floats.

    For an unknown type or one of over 64 bits, they are those of `f64`.

    >>> scale_range(ELEMENTS["f16"])
    (5.960464477539063e-08, 65504.0)
    """
    form = FORMATS.get(expressed.name)
    if form is None or form.bits > 64:
        return 5e-324, 1.7976931348623157e308
    largest = (1 << form.exponent + form.mantissa) - 1
    if form.special == "ieee":
        largest -= 1 << form.mantissa
    elif form.special in ("fn", "scale"):
        largest -= 1
    return decode(1 if form.mantissa else 0, expressed.name), decode(largest, expressed.name)


def _any(parser: AsmParser) -> Type:
    start = parser.at
    parser.token("<")
    storage = _Storage(parser)
    text = str(storage)
    if parser.try_token(":"):
        text += f":{element_text(_expressed(parser))}"
    parser.token(">")
    storage.check(parser, start)
    return DialectType(f"!quant.any<{text}>")


def _calibrated(parser: AsmParser) -> Type:
    start = parser.at
    parser.token("<")
    expressed = _expressed(parser)
    parser.token("<")
    low = parser.floating()
    parser.token(":")
    high = parser.floating()
    parser.token(">")
    parser.token(">")
    if high <= low:
        parser.fail(f"illegal min and max: ({low:.6e}:{high:.6e})", start)
    inside = f"<{double_text(low)}:{double_text(high)}>"
    return DialectType(f"!quant.calibrated<{element_text(expressed)}{inside}>")
