"""Parser of types and attributes of dialects; `parser_builtin` has those that MLIR defines itself.

Source: MLIR language reference, "Type system", "Attributes".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from hloscope.ir import DialectType, FunctionType, Type
from hloscope.mlir.definitions import Dialect, Dialects
from hloscope.mlir.ir import (
    ArrayAttr,
    Attribute,
    DictAttr,
    ResourceTable,
    StringAttr,
    SymbolAttr,
    TypeAttr,
    UnitAttr,
    VerbatimAttr,
)
from hloscope.mlir.text.lexer import Lexer
from hloscope.mlir.text.parser_aliases import Aliases
from hloscope.mlir.text.parser_builtin import ATTRIBUTES, INTEGER, TYPES, read_integer, read_number
from hloscope.mlir.types import ELEMENTS, type_text
from hloscope.support.lazy import pattern

_UNIT: Final = UnitAttr()
PLAIN_TYPE: Final = r'(?:tensor<[^<>"#!/()]*(?:complex<f\d+>)?>|[su]?i\d+\b|b?f\d+\b|index\b)'
_PLAIN: Final = pattern(PLAIN_TYPE, re.ASCII)
# Asked for each type in a text; equal texts give one object, which `lines` compares by identity
# first.
KNOWN_TYPES: Final[dict[str, Type]] = {}
"""Types of plain syntax (`PLAIN_TYPE`) that were read before, by their text."""
_MOST_KNOWN: Final = 1 << 12
"""Maximum entries of `KNOWN_TYPES`; when it is full, it is emptied."""


class AttributeParser:
    """Parser of MLIR types and attributes, from the current token of a lexer on.

    Dialects read their own types and attributes with it, by the protocol `AsmParser`.

    Attributes:
        lexer: The lexer of the text, at the current token.
        dialects: The dialects whose types and attributes are known.
        aliases: Parser of aliases and locations; it stores those that are defined.
        resources: The resources at the end of the text, `{-# … #-}`.
        mnemonic_at: Offset in the text of the dialect type or attribute that was read last.
    """

    def __init__(self, lexer: Lexer, dialects: Dialects) -> None:
        self.lexer: Final = lexer
        self.dialects: Final = dialects
        self.aliases: Final = Aliases(lexer)
        self.resources: Final = ResourceTable()
        self.mnemonic_at = 0
        self.fail, self.report, self.keep = lexer.fail, lexer.report, lexer.keep
        self.peek, self.try_token, self.token = lexer.peek, lexer.try_token, lexer.expect
        self.items, self.tokens = lexer.items, lexer.tokens
        self.try_keyword, self.keyword = lexer.try_keyword, lexer.keyword
        self.try_integer, self.integer = lexer.try_integer, lexer.integer
        self.floating, self.string = lexer.floating, lexer.string

    @property
    def at(self) -> int:
        """Position of the current token."""
        return self.lexer.start

    # ---------------------------------------------------------------------------------- types

    def type(self) -> Type:
        """Read a type."""
        lexer = self.lexer
        found = _PLAIN.match(lexer.text, lexer.start)
        if found is not None:
            known = KNOWN_TYPES.get(found[0])
            if known is None:
                known = self._type()
                if lexer.before == found.end():
                    if len(KNOWN_TYPES) > _MOST_KNOWN:
                        KNOWN_TYPES.clear()
                    KNOWN_TYPES[found[0]] = known
            else:
                lexer.move(found.end())
            return known
        return self._type()

    def try_type(self) -> Type | None:
        """Read a type; `None` if none begins here."""
        lexer = self.lexer
        token = lexer.tok
        if token == "(" or lexer.kind == "type":
            return self.type()
        if lexer.kind != "word":
            return None
        known = token in ELEMENTS or token in TYPES or INTEGER.fullmatch(token)
        return self.type() if known else None

    def type_list(self) -> list[Type]:
        """Read one or more types separated by commas."""
        return self.lexer.items(self.type)

    def paren_types(self) -> list[Type]:
        """Read `(a, b)`."""
        self.lexer.expect("(")
        return self.lexer.items(self.type, ")")

    def result_types(self) -> list[Type]:
        """Read one type, or `(a, b)`."""
        return self.paren_types() if self.lexer.tok == "(" else [self.type()]

    def function_type(self) -> FunctionType:
        """Read `(a, b) -> c`."""
        lexer = self.lexer
        at = lexer.start
        type = self.type()
        if not isinstance(type, FunctionType):
            found = type_text(type)
            message = "invalid kind of type specified: expected builtin.function, but found"
            lexer.fail(f"{message} '{found}'", at)
        return type

    def try_function_type(self) -> FunctionType | None:
        """Read `(a, b) -> c`; `None` if the current token is not `(`."""
        return self.function_type() if self.lexer.tok == "(" else None

    def _function(self) -> FunctionType:
        inputs = self.paren_types()
        self.lexer.expect("->", "expected '->' in function type")
        return FunctionType(tuple(inputs), tuple(self.result_types()))

    def _type(self) -> Type:
        depth = self.aliases.depth
        self.aliases.nest()
        type = self._nested_type()
        self.aliases.depth = depth
        return type

    def _nested_type(self) -> Type:
        lexer = self.lexer
        if lexer.tok == "(":
            return self._function()
        if lexer.kind == "type":
            return self._extended_type()
        if lexer.kind == "word":
            reader = TYPES.get(lexer.tok)
            if reader is not None:
                return reader(self)
            simple = ELEMENTS.get(lexer.tok)
            if simple is not None:
                lexer.next()
                return simple
            if INTEGER.fullmatch(lexer.tok):
                return read_integer(self)
        lexer.wrong("expected non-function type")

    # ----------------------------------------------------------------------------- attributes

    def attribute(self, type: Type | None = None) -> Attribute:
        """Read an attribute; a number without `: type` has the given type."""
        lexer = self.lexer
        op, lexer.op = lexer.op, ""
        depth = self.aliases.depth
        self.aliases.nest()
        attribute = self._attribute(type)
        self.aliases.depth, lexer.op = depth, op
        return attribute

    def try_attribute(self, type: Type | None = None) -> Attribute | None:
        """Read an attribute; `None` if none begins here.

        A number without `: type` has the type `type`.
        """
        lexer = self.lexer
        if lexer.kind in _KINDS or lexer.tok in _READERS:
            return self.attribute(type)
        found = self.try_type()
        return None if found is None else TypeAttr(found)

    def _attribute(self, type: Type | None) -> Attribute:
        lexer = self.lexer
        reader = _KINDS.get(lexer.kind) or _READERS.get(lexer.tok)
        if reader is not None:
            return reader(self, type)
        found = self.try_type()
        if found is None:
            lexer.wrong("expected attribute value")
        return TypeAttr(found)

    def _string(self, type: Type | None) -> Attribute:
        lexer = self.lexer
        value = lexer.string_value()
        lexer.next()
        if type is None and lexer.try_token(":"):
            type = self.type()
        return StringAttr(value, type)

    def try_symbol(self) -> SymbolAttr | None:
        """Read `@name` or `@a::@b`; `None` if none begins here."""
        return self.symbol() if self.lexer.kind == "symbol" else None

    def symbol(self) -> SymbolAttr:
        """Read `@name` or `@a::@b`."""
        lexer = self.lexer
        if lexer.kind != "symbol":
            lexer.fail("expected valid '@'-identifier for symbol name")
        root = self._symbol_name()
        nested = []
        while lexer.tok == "::":
            lexer.next()
            if lexer.kind != "symbol":
                lexer.fail("expected nested symbol reference identifier")
            nested.append(self._symbol_name())
        return SymbolAttr(root, tuple(nested))

    def _symbol_name(self) -> str:
        lexer = self.lexer
        token = lexer.tok
        quoted = token[1] == '"'
        name = lexer.string_value().decode("utf-8", "surrogateescape") if quoted else token[1:]
        lexer.next()
        return name

    def _array(self) -> Attribute:
        self.lexer.next()
        return ArrayAttr(tuple(self.lexer.items(self.attribute, "]")))

    def entries(self) -> dict[str, Attribute]:
        """Read the entries of `{a = 1, b}`, in order."""
        lexer = self.lexer
        lexer.expect("{", "expected '{' in attribute dictionary")
        entries: dict[str, Attribute] = {}
        while not (lexer.tok == "}" and not entries):
            name = self._entry_name()
            if name in entries:
                lexer.fail_plainly(f"duplicate key '{name}' in dictionary attribute", lexer.start)
            lexer.next()
            entries[name] = self.attribute() if lexer.try_token("=") else _UNIT
            if not lexer.try_token(","):
                break
        lexer.expect("}", "expected '}' in attribute dictionary")
        return entries

    def _entry_name(self) -> str:
        lexer = self.lexer
        if lexer.kind == "word":
            return lexer.tok
        if lexer.kind != "string":
            lexer.wrong("expected attribute name")
        name = lexer.string_value().decode("utf-8", "surrogateescape")
        if not name:
            lexer.fail_plainly("expected valid attribute name", lexer.start)
        return name

    def encoding(self) -> str:
        """Read the encoding of a tensor and return its text, with aliases expanded."""
        lexer = self.lexer
        start = lexer.start
        if (
            lexer.kind == "hash"
            and "." not in lexer.tok
            and not lexer.text.startswith("<", lexer.end)
        ):
            return self.aliases.attribute()[1]
        return "" if self.try_attribute() is None else self.aliases.verbatim(start)

    def bracketed(self) -> str:
        """Return the text of `<…>`, `[…]` or `{…}` up to its closing bracket, in one line."""
        start = self.lexer.start
        self.lexer.move(self.lexer.balanced())
        return self.aliases.verbatim(start)

    # ------------------------------------------------------------- types and attributes of dialects

    def _extended_name(self) -> tuple[str, str, bool]:
        """Split the start of a dialect's type or attribute, `!dialect.mnemonic` or `!dialect<`.

        The sign may also be `#`.

        Returns:
            The names after the sign, empty for an alias, and whether it is `!dialect<`.
        """
        lexer = self.lexer
        dialect, dot, mnemonic = lexer.tok[1:].partition(".")
        opaque = not dot and lexer.text.startswith("<", lexer.end)
        if dot and not mnemonic:
            lexer.next()
            lexer.fail_plainly("expected valid keyword")
        return dialect if dot or opaque else "", mnemonic, opaque

    def _dialect(self, name: str) -> Dialect | None:
        """Return the dialect `name`, or the successor of the older dialect of that name.

        The result is `None` for an unknown dialect.
        """
        older = self.dialects.older.get(name)
        return self.dialects.named.get(name if older is None else older.name)

    def _extended_type(self) -> Type:
        lexer = self.lexer
        start = lexer.start
        dialect, mnemonic, opaque = self._extended_name()
        if not dialect:
            return self.aliases.type()
        known = self._dialect(dialect)
        if known is None or known.read_type is None:
            self._skip_unknown()
            return DialectType(self.aliases.verbatim(start))
        op, lexer.op = lexer.op, ""
        mnemonic = self._mnemonic(mnemonic, opaque)
        type = known.read_type(self, mnemonic)
        if type is None:
            lexer.fail_plainly(f"unknown  type `{mnemonic}` in dialect `{dialect}`", start)
        if opaque:
            lexer.expect(">")
        lexer.op = op
        return type

    def _extended_attribute(self, type: Type | None) -> Attribute:
        lexer = self.lexer
        start = lexer.start
        dialect, mnemonic, opaque = self._extended_name()
        if not dialect:
            return self.aliases.attribute()[0]
        known = self._dialect(dialect)
        if known is None or known.read_attribute is None:
            self._skip_unknown()
            if type is None and lexer.try_token(":"):
                self.type()
            return VerbatimAttr(self.aliases.verbatim(start))
        mnemonic = self._mnemonic(mnemonic, opaque)
        attribute = known.read_attribute(self, mnemonic)
        if attribute is None:
            message = f"unknown attribute `{mnemonic}` in dialect `{dialect}`"
            lexer.fail_plainly(message, start)
        if opaque:
            lexer.expect(">")
        if lexer.try_token(":"):
            self.type()
        return attribute

    def _mnemonic(self, mnemonic: str, opaque: bool) -> str:
        """Read and return the name after `dialect.`; for an opaque type, open `<name …>`.

        Args:
            mnemonic: The name, empty for an opaque type or attribute.
            opaque: Is it written `!dialect<name …>`?
        """
        lexer = self.lexer
        self.mnemonic_at = lexer.start
        lexer.next()
        if lexer.tok == "<" and lexer.start == lexer.before:
            lexer.balanced()
        if opaque:
            lexer.next()
            if lexer.kind != "word":
                lexer.fail("expected valid keyword")
            mnemonic = lexer.next()
        return mnemonic

    def _skip_unknown(self) -> None:
        """Skip `!dialect.name<…>` of a dialect whose syntax is unknown."""
        lexer = self.lexer
        lexer.next()
        if lexer.tok == "<" and lexer.start == lexer.before:
            lexer.move(lexer.balanced())


_Read: TypeAlias = Callable[[AttributeParser, Type | None], Attribute]
_KINDS: Final[dict[str, _Read]] = {
    "number": read_number,
    "string": AttributeParser._string,
    "symbol": lambda parser, _: parser.symbol(),
    "hash": AttributeParser._extended_attribute,
}
_READERS: Final[dict[str, _Read]] = {
    "[": lambda parser, _: parser._array(),
    "{": lambda parser, _: DictAttr(tuple(sorted(parser.entries().items()))),
    "loc": lambda parser, _: parser.aliases.inline_location(),
    **ATTRIBUTES,
}
