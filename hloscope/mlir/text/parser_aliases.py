"""Aliases and locations in MLIR text.

Source: MLIR language reference, "Attribute value aliases", "Type aliases", "Location attributes".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from hloscope.errors import ParseError
from hloscope.ir import Type
from hloscope.mlir.ir import Attribute, VerbatimAttr
from hloscope.mlir.locations import LazyLoc, LocationTable, check_location, location_names
from hloscope.mlir.text.lexer import STRING, Lexer
from hloscope.mlir.types import type_text
from hloscope.support.lazy import pattern
from hloscope.support.limits import MOST_ALIASED, MOST_NESTING

_LOC: Final = pattern(r"loc\s*\(")
_FUSED: Final = pattern(rf"{STRING}|(fused\s*)(?=<)")
_DEFINED: Final = pattern(r"^[ \t]*(#[\w$.-]+)\s*=\s*loc\s*\(", re.MULTILINE)
_MOST_PLACES: Final = 1000
"""Maximum number of named locations inside a location attribute; beyond it parsing fails."""
_LOCATION_NAME: Final = pattern(r"#[\w$.-]+")
_VERBATIM: Final = pattern(
    rf"(?P<kept>{STRING})|\bloc\s*\(\s*(?P<place>#[\w$.-]+)\s*\)|(?P<space>(?:\s|//[^\n]*(?:\n|\Z))+)"
    r"|(?<![\w$%])(?P<sign>[#!])(?P<alias>\d+|[A-Za-z_$][\w$-]*)(?![\w$.<-])"
    r"|(?<![\w$%])#(?P<dialect>\w+)\.\w+(?=<)",
    re.ASCII,
)
"""Pattern of text to rewrite in attributes that are stored as text: spaces, aliases and others."""
_COMMENT: Final = pattern(r"[ \t]*//[^\n]*")
_DIALECT: Final = pattern(r"[#!](\w+)[.<]")
_HEAD: Final = pattern(r"#(\w+)(?:\.(?:(?=mesh<)|\w+(?=<))|(<)[a-z_]+)")
_STRIPPED: Final = ("sdy",)
"""Dialects that omit the name of an attribute inside another one: `[<@mesh, …>]`.

Source: Shardy's printers; MLIR's `printStrippedAttrOrType`.
"""
_COMMON_LOCATION: Final = pattern(r"loc\((#loc\d*|unknown)\)")
_SPACE: Final = pattern(rf"({STRING})|(?:\s|//[^\n]*\n)+")


class Aliases:
    """The aliases and locations of a text, and the limits of nesting and expansion.

    An alias may be used in the definition of another one, so a short text can expand to a long
    one. Each alias has a weight, its expanded size and depth, which is counted at each use.

    Attributes:
        types: Types by the name after `!`.
        attributes: Attributes and their texts, by the name after `#`.
        locations: Locations by name.
        named_locations: Names of locations in the text, each with its first use.
        depth: Nesting of the current token in types and attributes.
    """

    __slots__ = (
        *("_deepest", "_expanded", "_lexer", "_locations", "_places", "_weights", "attributes"),
        *("depth", "locations", "named_locations", "types"),
    )

    def __init__(self, lexer: Lexer) -> None:
        self._lexer: Final = lexer
        self.types: Final[dict[str, Type]] = {}
        self.attributes: Final[dict[str, tuple[Attribute, str]]] = {}
        self.locations: Final = LocationTable()
        self.named_locations: Final[dict[str, int]] = {}
        self.depth = 0
        # The greatest depth, and the expanded characters, since the definition of an alias began.
        self._deepest = self._expanded = 0
        self._weights: Final[dict[str, tuple[int, int]]] = {}  # depth and expanded characters
        self._places: dict[str, int] | None = None  # end of each `#name = loc(`
        # Asked for each op; ops of one source line share the text of their location.
        self._locations: Final[dict[str, LazyLoc]] = {}

    def nest(self) -> None:
        """Increase the nesting depth by one; the caller restores it.

        Raises:
            ParseError: The nesting is too deep.
        """
        self.depth += 1
        self._deepest = max(self._deepest, self.depth)
        if self.depth > MOST_NESTING:
            self._lexer.fail_plainly(f"nesting is deeper than {MOST_NESTING}")

    # -------------------------------------------------------------------------------- aliases

    def type(self) -> Type:
        """Read the use of an alias of a type, `!name`."""
        name = self._lexer.tok[1:]
        if name not in self.types:
            self._lexer.fail_plainly(f"undefined symbol alias id '{name}'")
        self._expand("!" + name)
        self._lexer.next()
        return self.types[name]

    def attribute(self) -> tuple[Attribute, str]:
        """Read the use of an alias of an attribute, `#name`; return the attribute and its text."""
        lexer = self._lexer
        name = lexer.tok[1:]
        known = self.attributes.get(name)
        if known is None:
            if "#" + name not in self.locations.texts:
                lexer.fail_plainly(f"undefined symbol alias id '{name}'")
            text = f"loc({self._whole_location('#' + name, lexer.start)})"
            known = VerbatimAttr(text), text
        self._expand("#" + name)
        lexer.next()
        return known

    def _expand(self, alias: str) -> None:
        """Count the expanded size and depth of an alias at its use.

        Raises:
            ParseError: The aliases of the text expand to too much.
        """
        lexer = self._lexer
        depth, size = self._weights.get(alias, (0, 0))
        self._expanded += size
        self._deepest = max(self._deepest, self.depth + depth)
        if self.depth + depth > MOST_NESTING:
            lexer.fail_plainly(f"nesting is deeper than {MOST_NESTING}", lexer.start, lexer.end)
        if self._expanded > MOST_ALIASED * 64 + 16 * len(lexer.text):
            lexer.fail_plainly("aliases stand for too much text", lexer.start, lexer.end)

    def _check_expanded(self, size: int, start: int) -> None:
        """Raise an error if an alias expands to more than `MOST_ALIASED` characters.

        `size` is the number of characters, `start` the offset of the text with the alias, for the
        error.
        """
        lexer = self._lexer
        if size > MOST_ALIASED:
            message = f"the aliases in it stand for {size:,} characters, more than {MOST_ALIASED:,}"
            lexer.fail_plainly(message, start, lexer.before)

    def _is_defined(self, sign: str, name: str) -> bool:
        if sign == "!":
            return name in self.types
        return name in self.attributes or "#" + name in self.locations.texts

    def define(
        self, read_type: Callable[[], Type], read_attribute: Callable[[], Attribute]
    ) -> None:
        """Read the definition of an alias, `#name = attribute` or `!name = type`, and store it.

        The two functions read the right side.
        """
        lexer = self._lexer
        sign, name = lexer.tok[0], lexer.tok[1:]
        what = "attribute" if sign == "#" else "type"
        if "." in name:
            message = f"{what} names with a '.' are reserved for dialect-defined names"
            lexer.fail_plainly(message, lexer.start, lexer.end)
        if self._is_defined(sign, name):
            message = f"redefinition of {what} alias id '{name}'"
            lexer.fail_plainly(message, lexer.start, lexer.end)
        lexer.next()
        lexer.expect("=", f"expected '=' in {what} alias definition")
        start, expanded, deepest = lexer.start, self._expanded, self._deepest
        # While the definition is read, `deepest` and `expanded` collect the weight of the new
        # alias, so that each of its uses can be counted without expansion.
        self._deepest = self.depth
        if sign == "!":
            self.types[name] = read_type()
        elif _LOC.match(lexer.text, start):
            lexer.next()
            end = lexer.balanced()
            text = self._location_text(lexer.end, end - 1)
            self._check_location(text, start)
            self.locations.texts["#" + name] = text
            lexer.move(end)
        else:
            attribute = read_attribute()
            self._check_expanded(self._expanded - expanded, start)
            # The text is made only after its length was checked. Making it meets the aliases in it
            # again, so the counters are restored.
            counted = self._expanded, self._deepest
            self.attributes[name] = attribute, self.verbatim(start)
            self._expanded, self._deepest = counted
        inner = self._expanded - expanded
        self._check_expanded(inner, start)
        self._weights[sign + name] = self._deepest - self.depth, lexer.before - start + inner
        self._deepest = max(self._deepest, deepest)

    # ----------------------------------------------------------------------- text as written

    def verbatim(self, start: int) -> str:
        """Return the text from `start` to the end of the previous token, in one line.

        Each alias in it is replaced by its value, because the text may be printed where the alias
        is undefined.

        Raises:
            ParseError: An alias is not defined.
        """
        lexer = self._lexer
        text, end = lexer.text, lexer.before
        if text.find("#", start + 1, end) < 0 and text.find("!", start + 1, end) < 0:
            return _SPACE.sub(lambda found: found[1] or " ", text[start:end])
        return self.rewritten(start, end)

    def rewritten(self, start: int, end: int, *, lines: bool = False) -> str:
        """Return the text `[start, end)` without aliases and comments; in one line unless `lines`.

        Raises:
            ParseError: An alias is not defined.
        """
        lexer = self._lexer
        text = lexer.text
        owner = _DIALECT.match(text, start)
        dialect = owner[1] if owner is not None else lexer.op.partition(".")[0]
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
        """Return the text of an alias in an attribute of `dialect`.

        `found` is the match of `_VERBATIM` for the alias. A number of an unknown dialect is
        returned unchanged.
        """
        lexer = self._lexer
        sign, name = found["sign"], found["alias"]
        if not self._is_defined(sign, name):
            if name.isdecimal():
                return found[0]  # a number in the syntax of an unknown dialect
            message = f"undefined symbol alias id '{name}'"
            lexer.fail_plainly(message, found.start(), found.end())
        self._expand(sign + name)
        if sign == "!":
            return type_text(self.types[name])
        if name not in self.attributes:
            place = self._whole_location("#" + name, found.start())
            inside = lexer.text.endswith(("(", " at "), 0, found.start())  # of another location
            return place if inside else f"loc({place})"
        text = self.attributes[name][1]
        # Some dialects print their own attributes without dialect and name inside of another one.
        head = _HEAD.match(text)
        if head is None or not head[1] == dialect in _STRIPPED:
            return text
        return text[head.end() : -1 if head[2] else None]

    # ------------------------------------------------------------------------------ locations

    def location(self) -> LazyLoc | None:
        """Read `loc(…)` and return the location; `None` if the current token is not `loc`."""
        lexer = self._lexer
        if lexer.tok != "loc":
            return None
        found = _COMMON_LOCATION.match(lexer.text, lexer.start)
        if found is not None:
            at = lexer.start
            lexer.move(found.end())
            return self.location_of(found[1], at)
        lexer.next()
        if lexer.tok != "(":
            lexer.wrong("expected '(' in location")
        start, at = lexer.end, lexer.start
        end = lexer.closing()
        if end < 0:
            lexer.move(lexer.end)
            lexer.fail_plainly("expected ')' in location")
        text = self._location_text(start, end - 1)
        lexer.move(end)
        return self.location_of(text, at)

    def _location_text(self, start: int, end: int) -> str:
        """Return the text `[start, end)` of a location, with aliases in `fused<metadata>` expanded.

        Names of locations stay, since they may be defined later in the text, unlike attributes.
        """
        lexer = self._lexer
        text = lexer.text
        if text.find("<", start, end) < 0:
            return text[start:end].strip()
        parts, at = [], start
        for found in _FUSED.finditer(text, start, end):
            if found[1] is None or found.end() <= at:
                continue
            parts.append(text[at : found.end()])
            lexer.move(found.end())
            at = lexer.balanced()
            lexer.move(at)
            parts.append(self.verbatim(found.end()))
        return "".join([*parts, text[at:end]]).strip()

    def location_of(self, text: str, at: int) -> LazyLoc:
        """Return the location of a text; equal texts share one object.

        `at` is the offset of the text, for errors.
        """
        known = self._locations.get(text)
        if known is None:
            self._check_location(text, at)
            known = self._locations[text] = LazyLoc(text, self.locations)
            if _LOCATION_NAME.fullmatch(text):
                self.named_locations.setdefault(text, at)
        return known

    def inline_location(self) -> VerbatimAttr:
        """Read the attribute `loc(…)`."""
        lexer = self._lexer
        start = lexer.start
        lexer.next()
        if lexer.tok != "(":
            lexer.wrong("expected '(' in inline location")
        inside = lexer.end
        end = lexer.balanced()
        text = self._location_text(inside, end - 1)
        self._check_location(text, start)
        lexer.move(end)
        return VerbatimAttr(f"loc({self._whole_location(text, start)})")

    def _whole_location(self, text: str, at: int) -> str:
        """Return the text of a location in an attribute, with named locations expanded.

        Named locations may be defined later in the text, and are printed under other names. `at` is
        the offset of the text, for errors.

        Raises:
            ParseError: A name is undefined, or defined by itself.
        """
        lexer = self._lexer
        # A location that is defined by itself never runs out of names, so both the length and the
        # number of replacements are limited.
        count = 0
        while (found := next(location_names(text), None)) is not None:
            name = found[0]
            count += 1
            meaning = self._location_named(name)
            if meaning is None:
                lexer.fail_plainly(f"undefined symbol alias id '{name[1:]}'", at)
            text = text[: found.start()] + meaning + text[found.end() :]
            if len(text) > MOST_ALIASED or count > _MOST_PLACES:
                lexer.fail_plainly("aliases stand for too much text", at)
        return text

    def _location_named(self, name: str) -> str | None:
        """Return the text of the location `#name`; `None` if the whole text does not define it."""
        lexer = self._lexer
        known = self.locations.texts.get(name)
        if known is not None:
            return known
        if self._places is None:
            places = _DEFINED.finditer(lexer.text)
            self._places = {found[1]: found.end() for found in places}
        at = self._places.get(name)
        if at is None:
            return None
        # The lexer is moved to the definition and back, so that its brackets are matched as usual.
        here = lexer.start, lexer.before
        lexer.move(at - 1)
        text = self._location_text(at, lexer.balanced() - 1)
        lexer.move(here[0])
        lexer.before = here[1]
        return text

    def _check_location(self, text: str, at: int) -> None:
        try:
            check_location(text)
        except ParseError as error:
            self._lexer.fail_plainly(error.message, at)
