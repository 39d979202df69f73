"""Parser of attributes; locations are checked and kept as text.

Source: MLIR language reference, "Builtin attributes", "Location attributes".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NoReturn, cast

from hloscope.errors import ParseError
from hloscope.ir import TensorType, Type, VectorType
from hloscope.mlir.definitions import Dialects
from hloscope.mlir.ir import (
    ArrayAttr,
    Attribute,
    BoolAttr,
    DictAttr,
    ResourceTable,
    StringAttr,
    SymbolAttr,
    TypeAttr,
    UnitAttr,
    VerbatimAttr,
)
from hloscope.mlir.locations import LazyLoc, LocationTable, check_location, location_names
from hloscope.mlir.text.asm import AsmParser
from hloscope.mlir.text.lexer import STRING
from hloscope.mlir.text.parser_elements import ElementParser
from hloscope.mlir.types import type_text
from hloscope.support.lazy import pattern
from hloscope.support.limits import MOST_ALIASED, MOST_NESTING
from hloscope.support.source import Source

UNIT: Final = UnitAttr()
TRUE: Final = BoolAttr(True)
FALSE: Final = BoolAttr(False)

_LOC: Final = pattern(r"loc\s*\(")
TOLD: Final = r'\{([A-Za-z_][\w$.]*) = "([^"\\\n]*)"\}'
"""A dictionary with one plain string, as results of JAX's functions have."""
_TOLD: Final = pattern(TOLD, re.ASCII)
_FUSED: Final = pattern(rf"{STRING}|(fused\s*)(?=<)")
_DEFINED: Final = pattern(r"^[ \t]*(#[\w$.-]+)\s*=\s*loc\s*\(", re.MULTILINE)
_MOST_PLACES: Final = 1000
"""Named locations inside a location attribute."""
_LOCATION_NAME: Final = pattern(r"#[\w$.-]+")
_VERBATIM: Final = pattern(
    rf"(?P<kept>{STRING})|\bloc\s*\(\s*(?P<place>#[\w$.-]+)\s*\)|(?P<space>(?:\s|//[^\n]*(?:\n|\Z))+)"
    r"|(?<![\w$%])(?P<sign>[#!])(?P<alias>\d+|[A-Za-z_$][\w$-]*)(?![\w$.<-])"
    r"|(?<![\w$%])#(?P<dialect>\w+)\.\w+(?=<)",
    re.ASCII,
)
"""Text to rewrite in attributes kept as text: spaces, aliases, attributes of a dialect."""
_COMMENT: Final = pattern(r"[ \t]*//[^\n]*")
_DIALECT: Final = pattern(r"[#!](\w+)[.<]")
_HEAD: Final = pattern(r"#(\w+)(?:\.(?:(?=mesh<)|\w+(?=<))|(<)[a-z_]+)")
_STRIPPED: Final = ("sdy",)
"""Dialects that print an attribute in another without its name: `[<@mesh, …>]`.

Source: Shardy's printers; MLIR's `printStrippedAttrOrType`.
"""
_COMMON_LOCATION: Final = pattern(r"loc\((#loc\d*|unknown)\)")


class AttributeParser(ElementParser):
    """Parser of attributes.

    Attributes:
        attribute_aliases: Attributes and their texts, by the name after `#`.
        locations: Locations by name.
        named_locations: Names of locations in the text, each with its first use.
        resources: Data at the end of the text, `{-# … #-}`.
    """

    __slots__ = (
        "_lazy",
        "_places",
        "_weights",
        "attribute_aliases",
        "locations",
        "named_locations",
        "resources",
    )

    def __init__(self, source: Source, dialects: Dialects, at: int = 0) -> None:
        super().__init__(source, dialects, at)
        self.attribute_aliases: dict[str, tuple[Attribute, str]] = {}
        self._weights: dict[str, tuple[int, int]] = {}  # expanded depth and number of characters
        self._places: dict[str, int] | None = None  # end of each `#name = loc(`
        self.locations: Final = LocationTable()
        self.resources: Final = ResourceTable()
        self.named_locations: Final[dict[str, int]] = {}
        # Asked for each op; ops of one source line share the text of their location.
        self._lazy: dict[str, LazyLoc] = {}

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
        """Read an attribute; `None` if none begins here."""
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
        return self.number(type, negative=False)

    def _negative(self, type: Type | None) -> Attribute:
        self.next()
        if self.kind != "number":
            self.wrong("expected constant integer or floating point value")
        return self.number(type, negative=True)

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
        """Read the entries of `{a = 1, b}`, in order."""
        told = _TOLD.match(self.text, self.start)
        if told is not None and self.depth < MOST_NESTING:
            self.deepest = max(self.deepest, self.depth + 1)
            self.move(told.end())
            return {told[1]: StringAttr(told[2].encode("utf-8", "surrogateescape"))}
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
        return VerbatimAttr(f"{text} : {type_text(type)}", self.resources)

    # ----------------------------------------------------------------------------- as written

    def verbatim(self, start: int) -> str:
        """Return the text from `start` to the end of the last token, in one line, without aliases.

        An alias is replaced by its value, because the text may be printed where the alias is
        undefined.

        Raises:
            ParseError: An alias is not defined.
        """
        text, end = self.text, self.before
        if text.find("#", start + 1, end) < 0 and text.find("!", start + 1, end) < 0:
            return super().verbatim(start)
        return self.rewritten(start, end)

    def rewritten(self, start: int, end: int, *, lines: bool = False) -> str:
        """Return the text `[start, end)` without aliases and comments; in one line unless `lines`.

        Raises:
            ParseError: An alias is not defined.
        """
        text = self.text
        owner = _DIALECT.match(text, start)
        dialect = owner[1] if owner is not None else self.op.partition(".")[0]
        parts: list[str] = []
        at = start
        for found in _VERBATIM.finditer(text, start, end):
            new = found[0]
            if found["space"] is not None:
                if not lines:
                    new = " "
                elif "//" in new:
                    new = _COMMENT.sub("", new)
            elif found["place"] is not None:
                new = f"loc({self._whole_location(found['place'], found.start())})"
            elif found["alias"] is not None and found.start() > start:
                new = self._alias_text(found, dialect)
            elif found["dialect"] is not None and found.start() > start:
                new = "" if found["dialect"] == dialect in _STRIPPED else new
            parts += text[at : found.start()], new
            at = found.end()
        return "".join([*parts, text[at:end]])

    def _alias_text(self, found: re.Match[str], dialect: str) -> str:
        """Return the text of an alias that `_VERBATIM` found in an attribute of the dialect."""
        sign, name = found["sign"], found["alias"]
        if not self._is_defined(sign, name):
            if name.isdecimal():
                return found[0]  # a number in the syntax of an unknown dialect
            message = f"undefined symbol alias id '{name}'"
            self.fail_plainly(message, found.start(), found.end())
        self._expand(sign + name)
        if sign == "!":
            return type_text(self.type_aliases[name])
        if name not in self.attribute_aliases:
            place = self._whole_location("#" + name, found.start())
            inside = self.text.endswith(("(", " at "), 0, found.start())  # of another location
            return place if inside else f"loc({place})"
        text = self.attribute_aliases[name][1]
        # Some dialects print their own attributes without dialect and name inside of another one.
        head = _HEAD.match(text)
        if head is None or not head[1] == dialect in _STRIPPED:
            return text
        return text[head.end() : -1 if head[2] else None]

    def _kept(self, type: Type | None) -> Attribute:
        """Read `word<…>` and an optional `: type` as text."""
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
        inside = self.end
        end = self.balanced()
        text = self._location_text(inside, end - 1)
        self._check_location(text, start)
        self.move(end)
        return VerbatimAttr(f"loc({self._whole_location(text, start)})")

    def _whole_location(self, text: str, at: int) -> str:
        """Return the text of a location in an attribute, with named locations expanded.

        Named locations may be defined later in the text, and are printed under other names.

        Raises:
            ParseError: A name is undefined, or defined by itself.
        """
        # A location that is defined by itself never runs out of names, so both the length and the
        # number of replacements are limited.
        count = 0
        while (found := next(location_names(text), None)) is not None:
            name = found[0]
            count += 1
            meaning = self._location_named(name)
            if meaning is None:
                self.fail_plainly(f"undefined symbol alias id '{name[1:]}'", at)
            text = text[: found.start()] + meaning + text[found.end() :]
            if len(text) > MOST_ALIASED or count > _MOST_PLACES:
                self.fail_plainly("aliases stand for too much text", at)
        return text

    def _location_named(self, name: str) -> str | None:
        """Return the text of a named location, defined before or after; `None` if undefined."""
        known = self.locations.texts.get(name)
        if known is not None:
            return known
        if self._places is None:
            places = _DEFINED.finditer(self.text)
            self._places = {found[1]: found.end() for found in places}
        at = self._places.get(name)
        if at is None:
            return None
        # The lexer is moved to the definition and back, so that its brackets are matched as usual.
        here = self.start, self.before
        self.move(at - 1)
        text = self._location_text(at, self.balanced() - 1)
        self.move(here[0])
        self.before = here[1]
        return text

    def _extended_attribute(self, type: Type | None) -> Attribute:
        start, name = self.start, self.tok[1:]
        dialect, dot, mnemonic = name.partition(".")
        opaque = not dot and self.text.startswith("<", self.end)
        if not dot and not opaque:
            return self._attribute_alias(name)[0]
        if dot and not mnemonic:
            self.next()
            self.fail_plainly("expected valid keyword", self.start, self.end)
        older = self.dialects.older.get(dialect)
        known = self.dialects.named.get(dialect if older is None else older.name)
        if known is None or known.read_attribute is None:
            self.next()
            if self.tok == "<" and self.start == self.before:
                self.move(self.balanced())
            if type is None and self.tok == ":":
                self.next()
                self.type()
            return VerbatimAttr(self.verbatim(start))
        mnemonic = self._mnemonic(mnemonic, opaque)
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
                text = f"loc({self._whole_location('#' + name, self.start)})"
                known = VerbatimAttr(text), text
            else:
                self._undefined(name)
        self._expand("#" + name)
        self.next()
        return known

    def _type_alias(self, name: str) -> Type:
        if name not in self.type_aliases:
            self._undefined(name)
        self._expand("!" + name)
        self.next()
        return self.type_aliases[name]

    def _expand(self, alias: str) -> None:
        """Count the expanded size and depth of an alias at its use.

        Raises:
            ParseError: The aliases of the text expand to too much.
        """
        depth, size = self._weights.get(alias, (0, 0))
        self.expanded += size
        self.deepest = max(self.deepest, self.depth + depth)
        if self.depth + depth > MOST_NESTING:
            self.fail_plainly(f"nesting is deeper than {MOST_NESTING}", self.start, self.end)
        if self.expanded > MOST_ALIASED * 64 + 16 * len(self.text):
            self.fail_plainly("aliases stand for too much text", self.start, self.end)

    def _check_expanded(self, size: int, start: int) -> None:
        """Raise an error if an alias expands to more than `MOST_ALIASED` characters."""
        if size > MOST_ALIASED:
            message = f"the aliases in it stand for {size:,} characters, more than {MOST_ALIASED:,}"
            self.fail_plainly(message, start, self.before)

    def _undefined(self, name: str) -> NoReturn:
        self.fail_plainly(f"undefined symbol alias id '{name}'", self.start, self.end)

    def _is_defined(self, sign: str, name: str) -> bool:
        if sign == "!":
            return name in self.type_aliases
        return name in self.attribute_aliases or "#" + name in self.locations.texts

    def alias_definition(self) -> None:
        """Read `#name = attribute` or `!name = type`."""
        sign, name = self.tok[0], self.tok[1:]
        what = "attribute" if sign == "#" else "type"
        if "." in name:
            message = f"{what} names with a '.' are reserved for dialect-defined names"
            self.fail_plainly(message, self.start, self.end)
        if self._is_defined(sign, name):
            message = f"redefinition of {what} alias id '{name}'"
            self.fail_plainly(message, self.start, self.end)
        self.next()
        self.expect("=", f"expected '=' in {what} alias definition")
        start, expanded, deepest = self.start, self.expanded, self.deepest
        # While the definition is read, `deepest` and `expanded` collect the weight of the new
        # alias, so that each of its uses can be counted without expansion.
        self.deepest = self.depth
        if sign == "!":
            self.type_aliases[name] = self.type()
        elif _LOC.match(self.text, start):
            self.next()
            end = self.balanced()
            text = self._location_text(self.end, end - 1)
            self._check_location(text, start)
            self.locations.texts["#" + name] = text
            self.move(end)
        else:
            attribute = self.attribute()
            self._check_expanded(self.expanded - expanded, start)
            # The text is made only after its length was checked. Making it meets the aliases in it
            # again, so the counters are restored.
            counted = self.expanded, self.deepest
            self.attribute_aliases[name] = attribute, self.verbatim(start)
            self.expanded, self.deepest = counted
        inner = self.expanded - expanded
        self._check_expanded(inner, start)
        self._weights[sign + name] = self.deepest - self.depth, self.before - start + inner
        self.deepest = max(self.deepest, deepest)

    def _encoding(self) -> str:
        start = self.start
        if self.kind == "hash" and "." not in self.tok and not self.text.startswith("<", self.end):
            return self._attribute_alias(self.tok[1:])[1]
        return "" if self.try_attribute() is None else self.verbatim(start)

    # ------------------------------------------------------------------------------ locations

    def location(self) -> LazyLoc | None:
        """Read an optional `loc(…)`."""
        if self.tok != "loc":
            return None
        found = _COMMON_LOCATION.match(self.text, self.start)
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
        text = self._location_text(start, end - 1)
        self.move(end)
        return self.lazy(text, at)

    def _location_text(self, start: int, end: int) -> str:
        """Return the text of a location, with aliases in its `fused<metadata>` expanded.

        Names of locations are kept: unlike attributes they may be defined later in the text.
        """
        text = self.text
        if text.find("<", start, end) < 0:
            return text[start:end].strip()
        parts, at = [], start
        for found in _FUSED.finditer(text, start, end):
            if found[1] is None or found.end() <= at:
                continue
            parts.append(text[at : found.end()])
            self.move(found.end())
            at = self.balanced()
            self.move(at)
            parts.append(self.verbatim(found.end()))
        return "".join([*parts, text[at:end]]).strip()

    def lazy(self, text: str, at: int) -> LazyLoc:
        """Return the location of a text; equal texts share one object."""
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
