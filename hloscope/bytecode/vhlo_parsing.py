"""Parsing of VHLO's attributes and types, by the rows that printing uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hloscope.bytecode.attribute_ways import ENUMS
from hloscope.bytecode.values import WAYS
from hloscope.bytecode.vhlo_forms import FORMS, ROWS
from hloscope.bytecode.ways import DYNAMIC
from hloscope.errors import ParseError
from hloscope.lazy import pattern
from hloscope.mlir import (
    DenseAttr,
    FloatAttr,
    IntegerAttr,
    parse_attribute,
    parse_type,
    type_text,
    unquoted,
)
from hloscope.vhlo import CodeRow

_DEEPEST: Final = 100
_NAME: Final = pattern(r"\s*([!#])vhlo\.(\w+)")
_ENUM: Final = pattern(r"\s*#vhlo<\s*(\w+)\s+(\w+)\s*>")
_SPACE: Final = pattern(r"\s*")
_INT: Final = pattern(r"\s*(-?\d{1,20})\b")
_NUMBER: Final = pattern(r"\s*(-?\d[\w.+-]*)")
_SIZES: Final = pattern(r"\s*((?:(?:\d{1,20}|\?)x)*)")
_BOUND: Final = pattern(r"\s*(-?\d{1,20}|\?)")
_TRUTH: Final = pattern(r"\s*(true|false)\b")
_STRING: Final = pattern(r'\s*("(?:[^"\\]|\\.)*")')
_SIGNS: Final = pattern(r'"(?:[^"\\]|\\.)*"|->|>=|[<\[({]|[>\])}]|,')


class SpellingError(ValueError):
    """A text is not an attribute or type of VHLO."""


def parse_spelled(text: str) -> Any:
    """Parse an attribute or type of VHLO or of MLIR's builtin dialect.

    >>> parse_spelled("!vhlo.tensor_v1<2x?x!vhlo.i32_v1>").sizes
    (2, None)

    Raises:
        SpellingError: The text is neither of them.
    """
    cursor = _Cursor(text)
    try:
        found = cursor.one()
    except ParseError as error:
        raise SpellingError(str(error).partition("\n")[0].rpartition("error: ")[2]) from None
    if cursor.at != len(text):
        raise SpellingError(f"unexpected `{text[cursor.at : cursor.at + 20]}`")
    return found


class _Cursor:
    """A position in a text, with reading functions."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0

    def one(self) -> Any:
        """Read an attribute or type."""
        enum = _ENUM.match(self.text, self.at)
        if enum is not None:
            self.at = enum.end()
            return enum_of(enum[1], enum[2])
        name = _NAME.match(self.text, self.at)
        if name is None:
            return self._of_mlir()
        self.at = name.end()
        self.depth += 1
        if self.depth > _DEEPEST:
            raise SpellingError("nesting is too deep")
        found = self._of_vhlo(name[1], name[2])
        self.depth -= 1
        return found

    def _of_vhlo(self, sign: str, name: str) -> Any:
        key = f"#{name}" if sign == "#" else name
        rows = ROWS.get(key)
        if rows is None or rows[0].value[0] == "enum":
            what = "unknown vhlo attribute" if sign == "#" else f"unknown vhlo type: {name}"
            raise SpellingError(what)
        whole, fields, skipped = None, {}, False
        # The spelling is followed piece by piece. An optional part begins with text, so that text
        # decides whether the part is present.
        for piece in FORMS.get(key, ()):
            if piece.optional and not piece.kind:
                skipped = not self._sees(piece.text)
            if piece.optional and skipped:
                continue
            if not piece.kind:
                self._text(piece.text)
            elif piece.kind in _WHOLE:
                whole = _WHOLE[piece.kind](self)
            else:
                fields[piece.text] = _READERS[piece.kind](self)
        return _made(rows, fields) if whole is None else whole

    def _text(self, text: str) -> None:
        for word in text.split():
            self.expect(word)

    def _sees(self, text: str) -> bool:
        at = self.at
        seen = all(self._word(word) for word in text.split())
        self.at = at
        return seen

    def expect(self, word: str) -> None:
        """Skip a required word."""
        if not self._word(word):
            raise SpellingError(f"expected `{word}`")

    def _word(self, word: str) -> bool:
        """Skip a word if it is next; symbols may have spaces between them."""
        at = self.at
        for sign in word if not word[0].isalpha() else (word,):
            at = self._blank(at)
            if not self.text.startswith(sign, at):
                return False
            at += len(sign)
        self.at = at
        return True

    def _blank(self, at: int) -> int:
        found = _SPACE.match(self.text, at)
        return found.end() if found else at

    def matched(self, wanted: Any, what: str) -> str:
        """Read the text that a pattern matches, or fail with `what` was expected."""
        found = wanted.match(self.text, self.at)
        if found is None:
            raise SpellingError(f"expected {what}")
        self.at = found.end()
        return str(found[1])

    def list(self, read: Callable[[], Any], closers: str) -> tuple[Any, ...]:
        """Read a list with commas, up to one of the closing brackets."""
        if self.text[self._blank(self.at) :][:1] in closers:
            return ()
        found = [read()]
        while self._word(","):
            found.append(read())
        return tuple(found)

    def types(self) -> tuple[Any, ...]:
        """Read types, or `()` for an empty list."""
        if self._sees("()"):
            self._text("()")
            return ()
        return self.list(self.one, ")>")

    def rest(self) -> str:
        """Return the text up to a comma or the closing bracket, which is not skipped."""
        start, depth = self.at, 0
        for sign in _SIGNS.finditer(self.text, start):
            # Strings, arrows and `>=` contain bracket characters that do not nest.
            if sign[0][0] in '"-' or sign[0] == ">=":
                continue
            if not depth and sign[0] in ",>])}":
                self.at = sign.start()
                return self.text[start : self.at]
            depth += (sign[0] in "<[({") - (sign[0] in ">])}")
        self.at = len(self.text)
        return self.text[start:]

    def whole(self) -> str:
        """Return the text up to the closing bracket, commas included."""
        parts = [self.rest()]
        while self._sees(","):
            self._text(",")
            parts.append(self.rest())
        return ",".join(parts)

    def _of_mlir(self) -> Any:
        text = self.rest().strip()
        is_type = text.startswith(("!", "tensor<", "(")) or _is_type(text)
        return parse_type(text) if is_type else parse_attribute(text)

    def pairs(self) -> tuple[tuple[Any, Any], ...]:
        """Read pairs `key = value` with commas."""

        def pair() -> tuple[Any, Any]:
            if not self._sees("#vhlo.string_v1"):
                raise SpellingError("expected VHLO key attribute")
            key = self.one()
            self.expect("=")
            return key, self.one()

        return self.list(pair, "}")

    def mode(self) -> Any:
        """Read the mode of a result accuracy."""
        if not self._sees("#vhlo") or not _ENUM.match(self.text, self.at):
            raise SpellingError("expected VHLO result accuracy mode")
        return self.one()


def _is_type(text: str) -> bool:
    try:
        parse_type(text)
    except ParseError:
        return False
    return True


def _size(text: str) -> int:
    return DYNAMIC if text == "?" else int(text)


def enum_of(name: str, value: str) -> Any:
    """Return the value of an enum, by VHLO's names of enum and value.

    Raises:
        SpellingError: The enum has no such value.
    """
    base = name.removesuffix("_v1")
    known = ENUMS.get(base)
    if known is None or f"#{name}" not in ROWS:
        raise SpellingError("unknown vhlo attribute")
    if value not in known or not value:
        raise SpellingError(f"expected one of {', '.join(filter(None, known))}")
    return WAYS["enum"].make(base, known.index(value))


def _made(rows: tuple[CodeRow, ...], fields: dict[str, Any]) -> Any:
    """Return the value with the given fields, in the encoding of its row."""
    row = rows[-1] if "encoding" in fields else rows[0]
    argument = row.value[1] if len(row.value) > 1 else row.name
    return WAYS[row.value[0]].make(argument, *[fields.get(name) for name, _ in row.fields])


def _f64(cursor: _Cursor) -> int:
    value = parse_attribute(f"{cursor.matched(_NUMBER, 'a number')} : f64")
    assert isinstance(value, FloatAttr)
    return value.bits


def _plain(cursor: _Cursor) -> Any:
    value = parse_attribute(cursor.whole().strip())
    if not isinstance(value, IntegerAttr | DenseAttr):
        raise SpellingError("expected an integer or a tensor")
    return value


def _number(cursor: _Cursor) -> Any:
    text = cursor.matched(_NUMBER, "a number")
    cursor.expect(":")
    value = parse_attribute(f"{text} : {type_text(cursor.one())}")
    if not isinstance(value, FloatAttr):
        raise SpellingError("expected a floating point number")
    return value


def _string(cursor: _Cursor) -> bytes:
    return unquoted(cursor.matched(_STRING, "a string"))


_WHOLE: Final[Mapping[str, Callable[[_Cursor], Any]]] = {"plain": _plain, "number": _number}
"""Readers that return the whole value, not a field."""

_READERS: Final[Mapping[str, Callable[[_Cursor], Any]]] = {
    "one": _Cursor.one,
    "mode": _Cursor.mode,
    "many": lambda cursor: cursor.list(cursor.one, ">]"),
    "types": _Cursor.types,
    "int": lambda cursor: int(cursor.matched(_INT, "a number")),
    "ints": lambda cursor: cursor.list(lambda: int(cursor.matched(_INT, "a number")), "]"),
    "f64": _f64,
    "f64s": lambda cursor: cursor.list(lambda: _f64(cursor), "]"),
    "sizes": lambda cursor: tuple(map(_size, cursor.matched(_SIZES, "sizes").split("x")[:-1])),
    "bounds": lambda cursor: cursor.list(lambda: _size(cursor.matched(_BOUND, "a bound")), "]"),
    "truth": lambda cursor: int(cursor.matched(_TRUTH, "`true` or `false`") == "true"),
    "string": _string,
    "pairs": _Cursor.pairs,
}
