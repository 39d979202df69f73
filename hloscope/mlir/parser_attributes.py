"""Reads attributes.  Source: MLIR language reference, "Builtin attributes"."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, cast

from hloscope.errors import ParseError
from hloscope.ir.types import ElementType, TensorType, Type, VectorType
from hloscope.mlir.asm import AsmParser
from hloscope.mlir.attributes import (
    ArrayAttr,
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DenseAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolAttr,
    TypeAttr,
    UnitAttr,
    VerbatimAttr,
)
from hloscope.mlir.dense import LiteralError, check_brackets, check_dense, limits
from hloscope.mlir.dialects import Dialects
from hloscope.mlir.floats import FORMATS, encode
from hloscope.mlir.lexer import NAME, STRING
from hloscope.mlir.locations import LazyLoc, LocationTable, check_location
from hloscope.mlir.parser_types import TypeParser
from hloscope.mlir.types import F64, I1, I64, type_text
from hloscope.source import Source

UNIT: Final = UnitAttr()
TRUE: Final = BoolAttr(True)
FALSE: Final = BoolAttr(False)

_COMMENT: Final = re.compile(rf"({STRING})|//[^\n]*")
_IN_DENSE: Final = re.compile(rf"{STRING}|//[^\n]*|[<>]|\Z")
_NUMBERS: Final = re.compile(r"\s*-?\d+\s*(?:,\s*-?\d+\s*)*>")
_DEFINITION: Final = re.compile(rf"^[ \t]*([#!]{NAME})\s*=", re.ASCII | re.MULTILINE)
_LOCATION_NAME: Final = re.compile(r"#[\w$.-]+")
_LOCATION: Final = re.compile(r"loc\((#loc\d*|unknown)\)")
_LOC: Final = re.compile(r"loc\s*\(")


class AttributeParser(TypeParser):
    """Reads attributes and locations.

    Attributes:
        attribute_aliases: Attributes and their text by the name after `#`.
        locations: Locations by their names.
        named_locations: Names of locations the text uses, where it does so first.
    """

    __slots__ = ("_definitions", "_lazy", "attribute_aliases", "locations", "named_locations")

    def __init__(self, source: Source, dialects: Dialects, at: int = 0) -> None:
        super().__init__(source, dialects, at)
        self.attribute_aliases: dict[str, tuple[Attribute, str]] = {}
        self.locations: Final = LocationTable()
        self.named_locations: Final[dict[str, int]] = {}
        self._lazy: dict[str, LazyLoc] = {}
        self._definitions: dict[str, int] | None = None

    # -------------------------------------------------------------------------------- choices

    def attribute(self, type: Type | None = None) -> Attribute:
        """Read an attribute; a number without `: type` has the given type."""
        op, self.op = self.op, ""
        depth = self.depth
        self.nest()
        attribute = self._attribute(type)
        self.depth, self.op = depth, op
        return attribute

    def try_attribute(self, type: Type | None = None) -> Attribute | None:
        """Read an attribute if one begins here."""
        if self.kind in _KINDS or self.tok in _READERS:
            return self.attribute(type)
        found = self.try_type()
        return None if found is None else TypeAttr(found)

    def _attribute(self, type: Type | None) -> Attribute:
        reader = _KINDS.get(self.kind) or _READERS.get(self.tok)
        if reader is not None:
            return reader(self, type)
        found = self.try_type()
        if found is None:
            self.wrong("expected attribute value")
        return TypeAttr(found)

    def _positive(self, type: Type | None) -> Attribute:
        return self._number(type, negative=False)

    def _negative(self, type: Type | None) -> Attribute:
        self.next()
        if self.kind != "number":
            self.wrong("expected constant integer or floating point value")
        return self._number(type, negative=True)

    def _string(self, type: Type | None) -> Attribute:
        value = self.string_value()
        self.next()
        if type is None and self.try_token(":"):
            type = self.type()
        return StringAttr(value, type)

    def _symbol(self, type: Type | None) -> Attribute:
        return self.symbol_attribute()

    def _dictionary(self, type: Type | None) -> Attribute:
        return DictAttr(tuple(sorted(self.entries().items())))

    # --------------------------------------------------------------------------------- pieces

    def symbol_attribute(self) -> SymbolAttr:
        """Read `@root::@nested`."""
        root = self._symbol_name()
        nested = []
        while self.tok == "::":
            self.next()
            if self.kind != "symbol":
                self.fail("expected nested symbol reference identifier")
            nested.append(self._symbol_name())
        return SymbolAttr(root, tuple(nested))

    def _symbol_name(self) -> str:
        token = self.tok
        name = (
            self.string_value().decode("utf-8", "surrogateescape") if token[1] == '"' else token[1:]
        )
        self.next()
        return name

    def _array(self, type: Type | None) -> Attribute:
        self.next()
        elements: list[Attribute] = []
        while not (self.tok == "]" and not elements):
            elements.append(self.attribute())
            if not self.try_token(","):
                break
        self.expect("]")
        return ArrayAttr(tuple(elements))

    def entries(self) -> dict[str, Attribute]:
        """Read `{a = 1, b}`, in its order."""
        self.expect("{", "expected '{' in attribute dictionary")
        entries: dict[str, Attribute] = {}
        while not (self.tok == "}" and not entries):
            name = self._entry_name()
            if name in entries:
                self.fail_plainly(f"duplicate key '{name}' in dictionary attribute", self.start)
            self.next()
            entries[name] = self.attribute() if self.try_token("=") else UNIT
            if not self.try_token(","):
                break
        self.expect("}", "expected '}' in attribute dictionary")
        return entries

    def _entry_name(self) -> str:
        if self.kind == "word":
            return self.tok
        if self.kind != "string":
            self.wrong("expected attribute name")
        name = self.string_value().decode("utf-8", "surrogateescape")
        if not name:
            self.fail_plainly("expected valid attribute name", self.start)
        return name

    def _number(self, type: Type | None, *, negative: bool) -> Attribute:
        token, at, end = self.tok, self.start, self.end
        self.next()
        is_float = "." in token
        if type is None:
            type = self.type() if self.try_token(":") else F64 if is_float else I64
        kind = type.kind if isinstance(type, ElementType) else ""
        if isinstance(type, ElementType) and kind == "float" and type.name in FORMATS:
            return FloatAttr(self.float_bits(token, type, negative, at, end), type)
        if is_float or kind == "float":
            message = "floating point value not valid for specified type"
            self.fail_plainly(message, self.start)
        if not isinstance(type, ElementType) or kind not in ("pred", "signed", "unsigned"):
            self.fail_plainly("integer literal not valid for specified type", at, end)
        value = self.in_range(token, type, negative, at, end)
        return BoolAttr(value != 0) if type == I1 else IntegerAttr(value, type)

    def float_bits(self, token: str, type: ElementType, negative: bool, at: int, end: int) -> int:
        """The bits of a literal."""
        if token.startswith("0x"):
            bits = int(token, 16) if len(token) < 100 else 1 << 200
            if negative:
                message = "hexadecimal float literal should not have a leading minus"
                self.fail_plainly(message, at, end)
            if bits >> type.bits:
                self.fail_plainly("hexadecimal float constant out of range for type", at, end)
            return bits
        if "." not in token:
            message = "unexpected decimal integer literal for a floating point attribute"
            self.fail_plainly(message, at, end)
        return encode(float(("-" if negative else "") + token), type.name)

    def in_range(self, token: str, type: ElementType, negative: bool, at: int, end: int) -> int:
        """The value of an integer literal; of a signless type as a signed number."""
        if negative and type.kind == "unsigned":
            message = "negative integer literal not valid for unsigned integer type"
            self.fail_plainly(message, at, end)
        low, high = limits(type)
        value = int(token, 0 if token.startswith("0x") else 10) if len(token) < 4000 else high + 1
        if negative:
            value = -value
        if not low <= value <= high:
            self.fail_plainly("integer constant out of range for attribute", at, end)
        if type.kind == "signed" and value > max(-low - 1, 0):
            value -= 1 << type.bits
        return value

    # ------------------------------------------------------------------------- of many elements

    def _dense(self, type: Type | None) -> Attribute:
        at, end = self.start, self.end
        self.next()
        if self.tok != "<":
            self.wrong("expected '<' after 'dense'")
        start = self.end
        stop = self._dense_end(start)
        literal = self.text[start : stop - 1].strip()
        if "//" in literal:
            literal = _COMMENT.sub(lambda found: found[1] or "", literal).strip()
        self.move(stop)
        if self.tok != ":" and "//" not in literal:
            self._check_brackets(start, stop - 1)
            self.move(stop)
        type = self._elements_type(at, end, type)
        try:
            check_dense(literal, type)
        except LiteralError as error:
            if error.at >= 0 and self.text.startswith(literal, start):
                at = end = start + error.at
            self.fail_plainly(str(error), at)
        return DenseAttr(literal, type)

    def _dense_end(self, start: int) -> int:
        for found in _IN_DENSE.finditer(self.text, start):
            if found[0] == ">":
                return found.end()
            if found[0] in ("<", ""):
                break
        at = self._check_brackets(start, found.start())
        self.move(at)
        self.wrong("expected '>'")

    def _check_brackets(self, start: int, end: int) -> int:
        """Are these elements and lists?"""
        try:
            return start + check_brackets(self.text[start:end].rstrip())
        except LiteralError as error:
            self.move(start + error.at)
            self.wrong(str(error))

    def _elements_type(self, at: int, end: int, type: Type | None) -> TensorType | VectorType:
        if type is None:
            self.expect(":")
            type = self.type()
        if not isinstance(type, TensorType | VectorType):
            self.fail_plainly("elements literal must be a shaped type", at, end)
        if None in type.sizes:
            self.fail_plainly("elements literal type must have static shape", at, end)
        return type

    def _dense_array(self, type: Type | None) -> Attribute:
        self.next()
        self.expect("<", "expected '<' after 'array'")
        at, end = self.start, self.end
        element = self.type()
        kinds = ("pred", "signed", "unsigned", "float")
        if (
            not isinstance(element, ElementType)
            or element.kind not in kinds
            or element.name == "index"
        ):
            text = type_text(element)
            self.fail_plainly(f"expected integer or float type, got: {text}", at, end)
        if element != I1 and element.bits % 8:
            message = "element type bitwidth must be a multiple of 8"
            self.fail_plainly(message, at, end)
        if self.try_token(">"):
            return DenseArrayAttr(element, ())
        self.expect(":", "expected ':' after dense array type")
        if element == I64:
            found = _NUMBERS.match(self.text, self.start)
            if found is not None and len(found[0]) < 1000:
                values = tuple(map(int, found[0][:-1].split(",")))
                if all(-(1 << 63) <= value < 1 << 63 for value in values):
                    self.move(found.end())
                    return DenseArrayAttr(element, values)
        elements = [self._array_element(element)]
        while self.try_token(","):
            elements.append(self._array_element(element))
        self.expect(">", "expected '>' to close an array attribute")
        return DenseArrayAttr(element, tuple(elements))

    def _array_element(self, element: ElementType) -> int:
        at = self.start
        negative = self.try_token("-")
        token, end = self.tok, self.end
        if token in ("true", "false"):
            if element != I1:
                message = "expected i1 type for 'true' or 'false' values"
                self.fail_plainly(message, at, end)
            self.next()
            return int(token == "true")
        if element.kind == "float":
            if self.kind != "number":
                self.fail_plainly("expected floating point literal", at, end)
            bits = self.float_bits(token, element, negative, at, end)
            self.next()
            return bits
        if self.kind != "number" or "." in token:
            self.fail_plainly("expected integer literal", at, end)
        if element == I1:
            self.fail_plainly("expected 'true' or 'false' values for i1 type", at, end)
        value = self.in_range(token, element, negative, at, end)
        self.next()
        return value

    def _resource(self, type: Type | None) -> Attribute:
        start = self.start
        self.next()
        if self.tok != "<":
            self.wrong("expected '<' after 'dense_resource'")
        self.move(self.balanced())
        text = self.verbatim(start)
        if type is None:
            at = self.start
            self.expect(":")
            type = self.type()
            if not isinstance(type, TensorType | VectorType):
                self.fail_plainly("`dense_resource` expected a shaped type", at)
        return VerbatimAttr(f"{text} : {type_text(type)}")

    # ----------------------------------------------------------------------------- as written

    def _kept(self, type: Type | None) -> Attribute:
        """Read `word<…>` and perhaps `: type`, and keep them as written."""
        start, word = self.start, self.next()
        if word == "distinct" and self.tok == "[":
            self.move(self.balanced())
        if self.tok != "<":
            self.wrong(f"expected '<' after '{word}'")
        self.move(self.balanced())
        text = self.verbatim(start)
        if word in ("sparse", "opaque") and type is None:
            self.expect(":")
            type = self.type()
        if word in ("sparse", "opaque") and type is not None:
            return VerbatimAttr(f"{text} : {type_text(type)}")
        return VerbatimAttr(text)

    def _inline_location(self, type: Type | None) -> Attribute:
        start = self.start
        self.next()
        if self.tok != "(":
            self.wrong("expected '(' in inline location")
        self.move(self.balanced())
        return VerbatimAttr(self.verbatim(start))

    def _extended_attribute(self, type: Type | None) -> Attribute:
        start, name = self.start, self.tok[1:]
        dialect, dot, mnemonic = name.partition(".")
        opaque = not dot and self.text.startswith("<", self.end)
        if not dot and not opaque:
            return self._attribute_alias(name)[0]
        if dot and not mnemonic:
            self.next()
            self.fail_plainly("expected valid keyword", self.start, self.end)
        known = self.dialects.named.get(dialect)
        if known is None or known.read_attribute is None:
            self.next()
            if self.tok == "<" and self.start == self.before:
                self.move(self.balanced())
            if type is None and self.tok == ":":
                self.next()
                self.type()
            return VerbatimAttr(self.verbatim(start))
        self.mnemonic_at = start
        self.next()
        if self.tok == "<" and self.start == self.before:
            self.balanced()
        if opaque:
            self.next()
            if self.kind != "word":
                self.fail("expected valid keyword")
            mnemonic = self.next()
        attribute = known.read_attribute(cast(AsmParser, self), mnemonic)
        if attribute is None:
            message = f"unknown attribute `{mnemonic}` in dialect `{dialect}`"
            self.fail_plainly(message, start)
        if opaque:
            self.expect(">")
        if self.try_token(":"):
            self.type()
        return attribute

    # -------------------------------------------------------------------------------- aliases

    def _attribute_alias(self, name: str) -> tuple[Attribute, str]:
        known = self.attribute_aliases.get(name)
        if known is None:
            if "#" + name in self.locations.texts:
                known = VerbatimAttr(f"loc(#{name})"), ""
            else:
                self._later("#", name)
                known = self.attribute_aliases[name]
        self.next()
        return known

    def _type_alias(self, name: str) -> Type:
        if name not in self.type_aliases:
            self._later("!", name)
        self.next()
        return self.type_aliases[name]

    def _later(self, sign: str, name: str) -> None:
        """Read the definition of an alias that is used before it."""
        if self._definitions is None:
            found = _DEFINITION.finditer(self.text)
            self._definitions = {definition[1]: definition.start(1) for definition in found}
        at, depth = self.start, self.depth
        defined = self._definitions.get(sign + name, -1)
        if defined <= at:
            self.fail_plainly(f"undefined symbol alias id '{name}'", at, self.end)
        self.nest()
        self.move(defined)
        self.alias_definition()
        self.move(at)
        self.depth = depth

    def alias_definition(self) -> None:
        """Read `#name = attribute` or `!name = type`."""
        sign, name = self.tok[0], self.tok[1:]
        what = "attribute" if sign == "#" else "type"
        if "." in name:
            message = f"{what} names with a '.' are reserved for dialect-defined names"
            self.fail_plainly(message, self.start, self.end)
        self.next()
        self.expect("=", f"expected '=' in {what} alias definition")
        start = self.start
        if sign == "!":
            self.type_aliases[name] = self.type()
        elif _LOC.match(self.text, start):
            self.next()
            end = self.balanced()
            text = self.text[self.end : end - 1].strip()
            self._check_location(text, start)
            self.locations.texts["#" + name] = text
            self.move(end)
        else:
            attribute = self.attribute()
            self.attribute_aliases[name] = attribute, self.verbatim(start)

    def _encoding(self) -> str:
        start = self.start
        if self.kind == "hash" and "." not in self.tok and not self.text.startswith("<", self.end):
            return self._attribute_alias(self.tok[1:])[1]
        return "" if self.try_attribute() is None else self.verbatim(start)

    # ------------------------------------------------------------------------------- locations

    def location(self) -> LazyLoc | None:
        """Read `loc(…)` if it is there."""
        if self.tok != "loc":
            return None
        found = _LOCATION.match(self.text, self.start)
        if found is not None:
            at = self.start
            self.move(found.end())
            return self.lazy(found[1], at)
        self.next()
        if self.tok != "(":
            self.wrong("expected '(' in location")
        start, at = self.end, self.start
        end = self.closing()
        if end < 0:
            self.move(self.end)
            self._raise("expected ')' in location", self._span(None, None))
        self.move(end)
        return self.lazy(self.text[start : end - 1].strip(), at)

    def lazy(self, text: str, at: int) -> LazyLoc:
        """The location with this text, one object for each text."""
        known = self._lazy.get(text)
        if known is None:
            self._check_location(text, at)
            known = self._lazy[text] = LazyLoc(text, self.locations)
            if _LOCATION_NAME.fullmatch(text):
                self.named_locations.setdefault(text, at)
        return known

    def _check_location(self, text: str, at: int) -> None:
        try:
            check_location(text)
        except ParseError as error:
            self.fail_plainly(error.message, at)


def _word(value: Attribute) -> Callable[[AttributeParser, Type | None], Attribute]:
    def read(parser: AttributeParser, type: Type | None) -> Attribute:
        parser.next()
        return value

    return read


_KINDS: Final[dict[str, Callable[[AttributeParser, Type | None], Attribute]]] = {
    "number": AttributeParser._positive,
    "string": AttributeParser._string,
    "symbol": AttributeParser._symbol,
    "hash": AttributeParser._extended_attribute,
}
_READERS: Final[dict[str, Callable[[AttributeParser, Type | None], Attribute]]] = {
    "[": AttributeParser._array,
    "{": AttributeParser._dictionary,
    "-": AttributeParser._negative,
    "unit": _word(UNIT),
    "true": _word(TRUE),
    "false": _word(FALSE),
    "dense": AttributeParser._dense,
    "array": AttributeParser._dense_array,
    "dense_resource": AttributeParser._resource,
    "loc": AttributeParser._inline_location,
    **dict.fromkeys(
        ("affine_map", "affine_set", "sparse", "opaque", "strided", "distinct"),
        AttributeParser._kept,
    ),
}
