"""Parts of pretty forms: words, numbers, symbols, dictionaries, arguments."""

from __future__ import annotations

import re
from typing import Final

from hloscope.ir import Type
from hloscope.mlir.definitions import Dialects
from hloscope.mlir.ir import Attribute, DictAttr, StringAttr, SymbolAttr
from hloscope.mlir.text.asm import Argument, State, Use
from hloscope.mlir.text.functions import CORE_OPS
from hloscope.mlir.text.lexer import NAME
from hloscope.mlir.text.parser_attributes import TOLD
from hloscope.mlir.text.parser_types import KNOWN_TYPES, PLAIN_TYPE
from hloscope.mlir.text.parser_values import ValueParser
from hloscope.support.lazy import pattern
from hloscope.support.source import Source

_LISTED: Final = pattern(rf" ?%({NAME}): ({PLAIN_TYPE}),(?= %)", re.ASCII)
_RESULT: Final = pattern(rf" ?({PLAIN_TYPE})(?: {TOLD})?,(?= \S)", re.ASCII)


class FormParser(ValueParser):
    """Parser of the parts of pretty forms, as in `AsmParser`.

    Attributes:
        inherent: Names of the inherent attributes of every known op.
        results: Number of results that the text names in the current op.
        remarks: Notes about text that is read differently, each with its first position.
    """

    __slots__ = ("inherent", "remarks", "results")

    def __init__(self, source: Source, dialects: Dialects, at: int = 0) -> None:
        super().__init__(source, dialects, at)
        self.inherent = {**CORE_OPS, **dialects.ops}
        self.results = 0
        self.remarks: Final[dict[str, int]] = {}

    def newer_name(self, name: str) -> str:
        """Return the successor's name of an older dialect's op; other names are unchanged.

        >>> FormParser(Source("", ""), Dialects()).newer_name("mhlo.add")
        'mhlo.add'
        """
        dialect, _, rest = name.partition(".")
        older = self.dialects.older.get(dialect)
        if older is None or f"{older.name}.{rest}" not in self.inherent:
            return name
        self.remarks.setdefault(f"ops of `{dialect}` are read as those of `{older.name}`", self.at)
        return f"{older.name}.{rest}"

    def token(self, token: str) -> None:
        """Read punctuation."""
        self.expect(token)

    def try_keyword(self, *words: str) -> str | None:
        """Read one of these words, or any word if none is given."""
        if self.kind != "word" or (words and self.tok not in words):
            return None
        return self.next()

    def keyword(self, *words: str) -> str:
        """Read one of these words, or any word if none is given."""
        found = self.try_keyword(*words)
        if found is None:
            if not words:
                self.fail("expected valid keyword")
            if len(words) == 1:
                self.fail(f"expected '{words[0]}'")
            self.fail(f"expected one of: {', '.join(f'`{word}`' for word in words)}")
        return found if words or "." not in found else self.newer_name(found)

    def resolve(self, use: Use, type: Type, state: State) -> None:
        """Append the value of a use to the operands.

        Raises:
            ParseError: The value has another type.
        """
        state.operands.append(self.value(use, type))

    def integer(self) -> int:
        """Read a decimal integer with its sign."""
        at = self.start
        value = self.try_integer()
        if value is None:
            self.fail("expected integer value")
        if value >= 1 << 63:
            self.fail("integer value too large", at)
        return value

    def try_integer(self) -> int | None:
        """Read a decimal integer with its sign; `None` if none begins here."""
        if self.tok in ("true", "false"):
            return int(self.next() == "true")
        at, negative = self.start, self.tok == "-"
        if negative:
            self.next()
        elif self.kind != "number" or "." in self.tok:
            return None
        if self.kind != "number" or "." in self.tok:
            self.fail("expected integer value")
        token = self.tok
        value = int(token, 0 if token.startswith("0x") else 10) if len(token) < 40 else 1 << 100
        if not -(1 << 63) <= (-value if negative else value) < 1 << 64:
            self.fail("integer value too large", at)
        self.next()
        return -value if negative else value

    def floating(self) -> float:
        """Read a floating-point number with its sign."""
        negative = self.try_token("-")
        if self.kind == "number" and self.tok.isdecimal():
            self.fail("unexpected decimal integer literal for a floating point value")
        if self.kind != "number" or "." not in self.tok:
            self.fail("expected floating point literal")
        value = float(self.next())
        return -value if negative else value

    def string(self) -> bytes:
        """Read `"…"`."""
        if self.kind != "string":
            self.fail("expected string")
        value = self.string_value()
        self.next()
        return value

    def peek(self) -> str:
        """Return the text of the current token."""
        return self.tok

    def bracketed(self) -> str:
        """Return the text of `<…>`, `[…]` or `{…}` up to its closing bracket, in one line."""
        start = self.start
        self.move(self.balanced())
        return self.verbatim(start)

    def try_symbol(self) -> SymbolAttr | None:
        """Read `@name` or `@a::@b`; `None` if none begins here."""
        return self.symbol_attribute() if self.kind == "symbol" else None

    def symbol(self) -> SymbolAttr:
        """Read `@name` or `@a::@b`."""
        if self.kind != "symbol":
            self.fail("expected valid '@'-identifier for symbol name")
        return self.symbol_attribute()

    def dictionary(self, state: State) -> None:
        """Read an optional `{…}` into properties and attributes."""
        if self.tok == "{":
            inherent = self.inherent.get(state.name, frozenset())
            for key, value in self.entries().items():
                (state.properties if key in inherent else state.attributes)[key] = value

    def attributes_with_keyword(self, state: State) -> None:
        """Read an optional `attributes {…}`."""
        if self.tok == "attributes" and self.kind == "word":
            self.next()
            if self.tok != "{":
                self.wrong("expected '{' in attribute dictionary")
            self.dictionary(state)

    def plain_arguments(self) -> list[Argument]:
        """Read arguments `%a: t,` of known types that precede other arguments."""
        arguments, at = [], self.start
        while (found := _LISTED.match(self.text, at)) is not None:
            known = KNOWN_TYPES.get(found[2])
            if known is None:
                break
            arguments.append(Argument(found[1], known, found.start(1) - 1))
            at = found.end()
        if arguments:
            self.move(at)
        return arguments

    def plain_results(self) -> list[tuple[Type, Attribute | None]]:
        """Read results `t,` or `t {a = "…"},` of known types that precede other results."""
        results: list[tuple[Type, Attribute | None]] = []
        at = self.start
        while (found := _RESULT.match(self.text, at)) is not None:
            known = KNOWN_TYPES.get(found[1])
            if known is None:
                break
            told = DictAttr(((found[2], StringAttr.of(found[3])),)) if found[2] else None
            results.append((known, told))
            at = found.end()
        if results:
            self.move(at)
        return results

    def arguments(self, *, types: bool) -> list[Argument]:
        """Read `(%a: t, %b: t)`."""
        self.expect("(")
        found: list[Argument] = []
        while not (self.tok == ")" and not found):
            use = self.use()
            type = None
            if types:
                self.expect(":")
                type = self.type()
            found.append(Argument(use.name, type, use.at, self.location()))  # type: ignore[arg-type]
            if not self.try_token(","):
                break
        self.expect(")")
        return found
