"""The syntax of one op: generic `"d.op"(%0) <{…}> ({…}) {…} : (…) -> …` and pretty forms.

The pretty forms of StableHLO, CHLO and most other dialects are one grammar here: operands, words,
`keyword = value`, `[…]` and `{…}` in any order up to the `:` before the types.  What they mean is
the business of `build`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Protocol

from hloscope.errors import ParseError
from hloscope.ir.types import Type
from hloscope.stablehlo.build import Written
from hloscope.stablehlo.lexer import Lexer, fail
from hloscope.stablehlo.types import parse_type, type_end

_REGION: Final = re.compile(r"\{\s*[%^]")

Arguments = list[tuple[str, Type | None]]
"""Names of a region's arguments, without `%`, and their types as far as they are written."""

_START: Final = re.compile(
    r'(?:%[\w$.-]+(?::\d+)?(?:\s*,\s*%[\w$.-]+(?::\d+)?)*\s*=|"[\w.$-]+"\s*\(|[a-z_]\w*\.\w+\b'
    r"|(?:return|call|module)\b|[#!]\w+\s*=)"
)


class Regions(Protocol):
    """Who reads the regions of an op."""

    def region(self, arguments: Arguments, label: str) -> None:
        """Read `{…}`, the current token, whose block has these arguments unless it says its own."""


class Syntax:
    """Reads ops from tokens."""

    def __init__(self, lexer: Lexer, aliases: Mapping[str, str]) -> None:
        self.lexer: Final = lexer
        self.aliases: Final = aliases

    def type(self) -> Type:
        """Read a type."""
        lexer = self.lexer
        start = lexer.start
        end = type_end(lexer.text, start)
        if end < 0 or (lexer.kind not in ("word", "alias") and lexer.token != "("):
            lexer.expected("a type")
        text = lexer.text[start:end]
        try:
            type = parse_type(text, self.aliases)
        except ParseError as error:
            fail(error.message, lexer.source, start, end)
        lexer.move(end)
        return type

    def types(self) -> list[Type]:
        """Read a parenthesised list of types, or one without parentheses."""
        lexer = self.lexer
        if not lexer.accept("("):
            return [self.type()]
        found: list[Type] = []
        while not lexer.accept(")"):
            if found:
                lexer.expect(",")
            found.append(self.type())
            if lexer.token == "{":
                lexer.balanced()
        return found

    def location(self) -> str:
        """Read `loc(…)` if it is there; returns what stands in the parentheses."""
        lexer = self.lexer
        if lexer.token != "loc" or lexer.after() != "(":
            return ""
        lexer.next()
        return lexer.balanced()[1:-1]

    def dictionary(self, written: Written) -> None:
        """Read `{name = value, unit}` into the attributes."""
        lexer = self.lexer
        lexer.expect("{")
        while not lexer.accept("}"):
            if lexer.kind not in ("word", "string"):
                lexer.expected("the name of an attribute")
            start = lexer.start
            name = lexer.next().strip('"')
            text = "unit"
            if lexer.accept("="):
                start = lexer.start
                text = self.value()
            written.attributes[name] = text
            written.at[name] = start, lexer.before
            if lexer.token != "}":
                lexer.expect(",")

    def value(self) -> str:
        """Read the text of an attribute up to a `,` or a closing bracket."""
        lexer = self.lexer
        start = lexer.start
        if lexer.token in (",", "}", ")", "]", ">"):
            lexer.expected("a value")
        while lexer.token not in (",", "}", ")", "]", ">") and lexer.kind != "end":
            lexer.balanced()
        return lexer.text[start : lexer.before]

    # ------------------------------------------------------------------------ generic form

    def generic(self, written: Written, regions: Regions) -> None:
        """Read what follows `"dialect.op"`."""
        lexer = self.lexer
        written.pretty = False
        lexer.expect("(")
        while not lexer.accept(")"):
            if written.operands:
                lexer.expect(",")
            self.operand(written)
        if lexer.token == "[":
            fail("successor blocks are not supported", lexer.source, lexer.start, lexer.end)
        if lexer.token == "<" and lexer.after() == "{":
            lexer.next()
            self.dictionary(written)
            lexer.expect(">")
        if lexer.accept("("):
            while not lexer.accept(")"):
                if written.regions:
                    lexer.expect(",")
                regions.region([], str(written.regions))
                written.regions += 1
        if lexer.token == "{":
            self.dictionary(written)
        lexer.expect(":")
        if lexer.token != "(":
            lexer.expected("`(` and the types of the operands")
        written.operand_types = tuple(self.types())
        lexer.expect("->")
        written.results = tuple(self.types())
        if len(written.operand_types) != len(written.operands):
            found, types = len(written.operands), len(written.operand_types)
            message = f"`{written.name}` has {found} operands and {types} types of operands"
            fail(message, lexer.source, written.start, written.end)

    def operand(self, written: Written) -> None:
        """Read `%name`."""
        start = self.lexer.start
        written.operands.append((self.lexer.take("value", "an operand `%…`")[1:], start))

    # ------------------------------------------------------------------------- pretty forms

    def pretty(self, written: Written, regions: Regions) -> None:
        """Read what follows `dialect.op`."""
        lexer = self.lexer
        if written.name.endswith(".constant"):
            self._constant(written)
            return
        arguments: Arguments = []
        depth = 0
        while lexer.kind != "end":
            token = lexer.token
            if depth == 0 and (token in (":", "}") or (token == "loc" and lexer.after() == "(")):
                break
            if depth == 0 and self._is_next_op():
                break
            if token == "(":
                depth += 1
                lexer.next()
            elif token == ")" and depth:
                depth -= 1
                lexer.next()
            else:
                self._piece(written, arguments, depth, regions)
        if depth:
            lexer.expected("`)`")
        if lexer.accept(":"):
            self._signature(written)
        self._after(written, arguments, regions)

    def _is_next_op(self) -> bool:
        lexer = self.lexer
        return lexer.is_first_on_line() and _START.match(lexer.text, lexer.start) is not None

    def _piece(self, written: Written, arguments: Arguments, depth: int, regions: Regions) -> None:
        lexer = self.lexer
        if lexer.kind == "value":
            follows = lexer.after()
            if depth and follows == "=":
                arguments.append((lexer.next()[1:], None))
                lexer.next()
            elif depth and follows == ":":
                arguments.append(self.argument())
            else:
                self.operand(written)
        elif lexer.token == "," or (lexer.token == ":" and depth):
            lexer.next()
        elif lexer.token == "{":
            if arguments or depth or _REGION.match(lexer.text, lexer.start):
                regions.region(arguments, str(written.regions))
                written.regions += 1
            else:
                self.dictionary(written)
        elif lexer.token == "<" and lexer.after() == "{":
            lexer.next()
            self.dictionary(written)
            lexer.expect(">")
        elif lexer.kind in ("word", "string") and lexer.after() == "=":
            name = lexer.next().strip('"')
            lexer.next()
            start = lexer.start
            written.attributes[name] = self._keyword_value()
            written.at[name] = start, lexer.before
        else:
            written.words.append(self._word())

    def _word(self) -> str:
        lexer = self.lexer
        start = lexer.start
        glued = lexer.kind in ("word", "alias")
        lexer.balanced()
        if glued and lexer.token == "<" and lexer.start == lexer.before:
            lexer.balanced()
        return lexer.text[start : lexer.before]

    def argument(self) -> tuple[str, Type | None]:
        lexer = self.lexer
        name = lexer.take("value", "an argument `%…`")[1:]
        lexer.expect(":")
        type = self.type()
        if lexer.token == "{":
            lexer.balanced()
        self.location()
        return name, type

    def _keyword_value(self) -> str:
        """The text of `[1] x [0]`, `{…}`, `FFT`, `array<i64: 1>`, `"…"`, `3`."""
        lexer = self.lexer
        start = lexer.start
        self._word()
        while (
            lexer.token in ("x", "->") or (lexer.token.startswith("x") and lexer.after() == "[")
        ) and lexer.kind != "string":
            lexer.next()
            lexer.balanced()
        return lexer.text[start : lexer.before]

    def _signature(self, written: Written) -> None:
        lexer = self.lexer
        if lexer.token == "(":
            types = self.types()
            if lexer.accept("->"):
                written.operand_types = tuple(types)
                written.results = tuple(self.types())
                return
        else:
            types = [self.type()]
        while lexer.accept(","):
            types.append(self.type())
        if lexer.accept("->") or lexer.accept("to"):
            written.operand_types = tuple(types)
            written.results = tuple(self.types())
            return
        written.operand_types = tuple(types)
        if written.name.rpartition(".")[2] == "return" or written.name in NO_RESULTS:
            return
        several = written.name in ("stablehlo.while", "stablehlo.optimization_barrier")
        written.results = tuple(types if several else types[-1:])

    def _after(self, written: Written, arguments: Arguments, regions: Regions) -> None:
        """What follows the types: `reducer(…) {…}`, `cond {…} do {…}`, `attributes {…}`."""
        lexer = self.lexer
        if lexer.accept("attributes") or (lexer.token == "{" and not lexer.is_first_on_line()):
            self.dictionary(written)
        if written.name == "stablehlo.while":
            typed: Arguments = [
                (name, type) for (name, _), type in zip(arguments, written.results, strict=False)
            ]
            for word in ("cond", "do"):
                lexer.expect(word)
                regions.region(typed, word)
                written.regions += 1
        elif lexer.token == "reducer":
            lexer.next()
            pairs = []
            while lexer.accept("("):
                left = self.argument()
                lexer.expect(",")
                pairs.append((left, self.argument()))
                lexer.expect(")")
            regions.region([p[0] for p in pairs] + [p[1] for p in pairs], "0")
            written.regions += 1

    def _constant(self, written: Written) -> None:
        """`{attributes} value : type`, where the type belongs to the value."""
        lexer = self.lexer
        called = lexer.accept("(")
        if called:
            lexer.expect(")")
        if lexer.token == "{":
            self.dictionary(written)
        if called:
            lexer.expect(":")
            self._signature(written)
            return
        start = lexer.start
        if lexer.token != ":":
            self._word()
        value = lexer.text[start : lexer.before]
        if lexer.accept(":"):
            written.results = (self.type(),)
            value = lexer.text[start : lexer.before]
        elif value in ("true", "false"):
            written.results = (parse_type("i1"),)
        else:
            text = self.aliases.get(value, value)
            _, colon, type = text.rpartition(":")
            if not colon:
                lexer.expected("`:` and a type")
            written.results = (parse_type(type.strip(), self.aliases),)
        written.attributes["value"] = value


NO_RESULTS: Final = frozenset(
    """
    check.expect_eq check.expect_eq_const check.expect_almost_eq check.expect_almost_eq_const
    check.expect_close check.expect_serialized_eq stablehlo.trace tensor.yield shape.yield
    """.split()
)
"""Ops of other dialects whose pretty form gives types but has no results."""
