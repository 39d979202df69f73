"""Message templates with numbers, in the format of LLVM's `formatv`.

Source: LLVM's `FormatVariadic.cpp`, `FormatProviders.h`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from hloscope.lazy import pattern

_MOST_WIDTH: Final = 1 << 16
_SPECIFIER: Final = pattern(r"\s*(\d*)\s*(?:,\s*(.??[-=+])??(\d+)\s*)?(?::(.*))?", re.DOTALL)
_UNTERMINATED: Final = "Unterminated brace sequence. Escape with {{ for a literal brace."


class _Piece(NamedTuple):
    """Literal text, or the content of a pair of braces."""

    text: str
    is_specifier: bool


def _pieces(text: str) -> Iterator[_Piece]:
    """Split a template into literal text and specifiers; `{{` is a literal brace."""
    while text:
        if not text.startswith("{"):
            plain, brace, rest = text.partition("{")
            yield _Piece(plain, is_specifier=False)
            text = brace + rest
            continue
        count = len(text) - len(text.lstrip("{"))
        if count > 1:
            yield _Piece("{" * (count // 2), is_specifier=False)
            text = text[count // 2 * 2 :]
            continue
        close, again = text.find("}"), text.find("{", 1)
        if close < 0:
            yield _Piece(_UNTERMINATED, is_specifier=False)
            return
        if 0 < again < close:  # an opening brace without a closing one is literal text
            yield _Piece(text[:again], is_specifier=False)
            text = text[again:]
            continue
        yield _Piece(text[1:close], is_specifier=True)
        text = text[close + 1 :]


def formatted(template: str, numbers: Sequence[int]) -> str:
    """Replace `{0}`, `{1,8}`, `{0:x}` in a template by numbers; a missing number is -1.

    >>> formatted("{0} and {1,4} of {} {{", [7, -2])
    '7 and   -2 of 7 {'
    """
    automatic = 0
    parts: list[str] = []
    for text, is_specifier in _pieces(template):
        if not is_specifier:
            parts.append(text)
            continue
        found = _SPECIFIER.fullmatch(text)
        if found is None:
            continue
        index, where, width, style = found.groups()
        if index:
            number = int(index[:9])
        else:
            number, automatic = automatic, automatic + 1
        value = numbers[number] if number < len(numbers) else -1
        parts.append(_padded(_number(value, (style or "").strip()), where or "", width))
    return "".join(parts)


def _padded(text: str, where: str, width: str | None) -> str:
    size = min(int(width[:9]), _MOST_WIDTH) if width else 0
    fill, alignment = (where[0], where[1]) if len(where) == 2 else (" ", where)
    missing = max(size - len(text), 0)
    if alignment == "-":
        return text + fill * missing
    if alignment == "=":
        return fill * (missing // 2) + text + fill * (missing - missing // 2)
    return fill * missing + text


_STYLE: Final = pattern(r"(?:([xX])([-+]?)|([NnDd]?))(\d*)")


def _number(value: int, style: str) -> str:
    found = _STYLE.fullmatch(style)
    if found is None:
        return str(value)
    kind, prefix, decimal, digits = found.groups()
    least = min(int(digits[:9] or 0), _MOST_WIDTH)
    if kind is None:
        sign, magnitude = "-" * (value < 0), abs(value)
        text = f"{magnitude:,}" if decimal in ("N", "n") and decimal else str(magnitude)
        return sign + text.rjust(least, "0") if decimal not in ("N", "n") else sign + text
    text = f"{value & (1 << 64) - 1:x}"
    text = text.upper() if kind == "X" else text
    if prefix == "-":
        return text.rjust(least, "0")
    return "0x" + text.rjust(least, "0")
