"""MLIR text → module: aliases, modules, functions; bodies are the business of `body`."""

from __future__ import annotations

import re
from typing import Final

from hloscope.ir.graph import Body, Computation, Module
from hloscope.ir.types import TupleType, Type
from hloscope.ops.control import UnknownOp
from hloscope.source import Source, Span
from hloscope.stablehlo.attributes import read_string
from hloscope.stablehlo.body import BodyReader
from hloscope.stablehlo.build import Written
from hloscope.stablehlo.lexer import BLANK, Lexer, block_end, fail
from hloscope.stablehlo.nodes import Node
from hloscope.stablehlo.scope import Computations, Scope
from hloscope.stablehlo.syntax import Syntax

Pairs = tuple[tuple[str, str], ...]

_ALIAS: Final = re.compile(r"^([#!][A-Za-z_][\w$.-]*)\s*=\s*", re.MULTILINE)
_MLIR: Final = re.compile(
    BLANK + r'(?:"?builtin\.module\b|module\s*(?:@|\{|attributes\b)|"?func\.func\b'
    r'|"?(?:stablehlo|chlo|sdy)\.\w|%[\w$.-]+(?::\d+)?(?:\s*,\s*%[\w$.-]+)*\s*=\s*"?[a-z_]+\.\w+"?'
    r"(?:\s+[%@\[{d#]|\()|[#!][A-Za-z_][\w$.-]*\s*=)"
)
_NAME: Final = r'@(?:[\w$.-]+|"(?:[^"\\\n]|\\.)*")'


def is_mlir(text: str) -> bool:
    """Does the text look like MLIR?

    >>> is_mlir("module @jit_f {}"), is_mlir("HloModule f")
    (True, False)
    """
    return _MLIR.match(text) is not None


def parse_stablehlo(text: str, *, name: str = "<string>") -> Module:
    """Read a module of StableHLO.

    Functions are computations whose root is a `Return`; so are regions, which may read values from
    outside.  The entry is the function `main`, else the first public one.

    Args:
        text: MLIR text; a module, or what stands in one.
        name: What error messages call the text.

    Raises:
        ParseError: The text is not in the grammar, or names something that does not exist.

    >>> module = parse_stablehlo('''
    ... func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
    ...   %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    ...   return %0 : tensor<3x2xf32>
    ... }''')
    >>> module.entry["0"].op
    Transpose(permutation=(1, 0))
    """
    return _ModuleReader(Source(name, text)).read()


class _Pending:
    """A function whose body is read later."""

    def __init__(self, scope: Scope, at: int, results: tuple[Type, ...], start: int) -> None:
        self.scope, self.at, self.results, self.start = scope, at, results, start


class _ModuleReader:
    def __init__(self, source: Source) -> None:
        self.source: Final = source
        self.aliases: Final = self._read_aliases()
        self.computations: Final[Computations] = {}
        self.bodies: Final = BodyReader(source, self.aliases, self.computations)
        self.extras: Final[list[tuple[str, str]]] = []
        self.public: Final[list[str]] = []
        self.name = ""

    def _read_aliases(self) -> dict[str, str]:
        """All `#name = value` and `!name = type`, wherever they stand; locations stay unread."""
        text = self.source.text
        aliases: dict[str, str] = {}
        for found in _ALIAS.finditer(text):
            if text.startswith("loc(", found.end()):
                continue
            lexer = Lexer(self.source, found.end())
            start = lexer.start
            while True:
                lexer.balanced()
                if lexer.is_first_on_line() or lexer.kind == "end":
                    break
            aliases[found[1]] = text[start : lexer.before]
        return aliases

    def read(self) -> Module:
        lexer = Lexer(self.source)
        self._items(lexer, "", top=True)
        for computation in list(self.computations.values()):
            computation.body  # noqa: B018  (reads it, and adds its regions)
        if not self.computations:
            fail("the text has no function", self.source, 0, 1)
        entry = "main" if "main" in self.computations else [*self.public, *self.computations][0]
        preamble = "\n".join(f"{name} = {value}" for name, value in self.aliases.items())
        return Module(
            self.name or "module",
            self.computations,
            self.computations[entry],
            extras=tuple(self.extras),
            preamble=preamble,
        )

    def _items(self, lexer: Lexer, prefix: str, *, top: bool = False) -> None:
        """Read what stands in a module, up to its `}` or the end."""
        syntax = Syntax(lexer, self.aliases)
        while lexer.kind != "end" and lexer.token != "}":
            word = lexer.token.strip('"')
            if lexer.kind == "alias":
                self._skip_alias(lexer)
            elif word in ("module", "builtin.module"):
                self._module(lexer, syntax, prefix, top=top)
            elif word == "func.func":
                self._function(lexer, syntax, prefix)
            elif lexer.kind in ("word", "string") and "." in lexer.token:
                self._other(lexer, syntax)
            elif lexer.kind == "value":
                self._loose(lexer)
            else:
                lexer.expected("`module`, `func.func` or another operation")
        if top and lexer.token == "}":
            lexer.expected("an operation")

    def _skip_alias(self, lexer: Lexer) -> None:
        lexer.next()
        lexer.expect("=")
        while True:
            lexer.balanced()
            if lexer.is_first_on_line() or lexer.kind == "end":
                return

    def _module(self, lexer: Lexer, syntax: Syntax, prefix: str, *, top: bool) -> None:
        generic = lexer.kind == "string"
        lexer.next()
        written = Written("builtin.module", lexer.start, lexer.end)
        if generic:
            self._generic_module(lexer, syntax, prefix, written)
        else:
            name = read_string(lexer.next()) if lexer.kind == "symbol" else ""
            if lexer.accept("attributes"):
                syntax.dictionary(written)
            inner = prefix if top else f"{prefix}{name}::"
            lexer.expect("{")
            self._items(lexer, inner)
            lexer.expect("}")
            if top:
                self.name = self.name or name
        location = syntax.location()
        if top:
            self.name = self.name or read_string(written.attributes.pop("sym_name", ""))
            self.extras.extend(written.attributes.items())
            self.extras.extend([("loc", location)] * bool(location))

    def _generic_module(self, lexer: Lexer, syntax: Syntax, prefix: str, written: Written) -> None:
        lexer.expect("(")
        lexer.expect(")")
        if lexer.accept("<"):
            syntax.dictionary(written)
            lexer.expect(">")
        lexer.expect("(")
        lexer.expect("{")
        if lexer.kind == "block":
            lexer.next()
            lexer.expect(":")
        self._items(lexer, prefix)
        lexer.expect("}")
        lexer.expect(")")
        if lexer.token == "{":
            syntax.dictionary(written)
        lexer.expect(":")
        syntax.types()
        lexer.expect("->")
        syntax.types()

    # --------------------------------------------------------------------- functions

    def _function(self, lexer: Lexer, syntax: Syntax, prefix: str) -> None:
        start = lexer.start
        if lexer.kind == "string":
            self._generic_function(lexer, syntax, prefix)
            return
        lexer.next()
        visibility = lexer.next() if lexer.kind == "word" else "public"
        at = lexer.start
        name = prefix + read_string(lexer.take("symbol", "the function's name `@…`"))
        scope = Scope(name)
        self._arguments(lexer, syntax, scope)
        written = Written("func.func", start, lexer.end)
        results: tuple[Type, ...] = ()
        if lexer.accept("->"):
            results = tuple(syntax.types())
        if lexer.accept("attributes"):
            syntax.dictionary(written)
        extras = (("sym_visibility", visibility), *written.attributes.items())
        body_at = -1
        if lexer.token == "{":
            body_at = lexer.start
            lexer.move(block_end(self.source, body_at))
        location = syntax.location()
        extras += (("loc", location),) if location else ()
        self._add(name, at, _Pending(scope, body_at, results, start), extras, lexer.before)

    def _arguments(self, lexer: Lexer, syntax: Syntax, scope: Scope) -> None:
        lexer.expect("(")
        while not lexer.accept(")"):
            if scope.parameters:
                lexer.expect(",")
            start = lexer.start
            name = f"arg{len(scope.parameters)}"
            if lexer.kind == "value":
                name = lexer.next()[1:]
                lexer.expect(":")
            type = syntax.type()
            written = Written("", start, lexer.before)
            if lexer.token == "{":
                syntax.dictionary(written)
            location = syntax.location()
            extras = (*written.attributes.items(), *[("loc", location)] * bool(location))
            self.bodies.parameter(scope, name, type, start, lexer.before, extras)

    def _generic_function(self, lexer: Lexer, syntax: Syntax, prefix: str) -> None:
        start = lexer.start
        lexer.next()
        written = Written("func.func", start, lexer.end)
        lexer.expect("(")
        lexer.expect(")")
        if lexer.accept("<"):
            syntax.dictionary(written)
            lexer.expect(">")
        body_at = -1
        if lexer.accept("("):
            body_at = lexer.start
            lexer.move(block_end(self.source, body_at))
            lexer.expect(")")
        if lexer.token == "{":
            syntax.dictionary(written)
        lexer.expect(":")
        syntax.types()
        lexer.expect("->")
        syntax.types()
        location = syntax.location()
        name = prefix + read_string(written.attributes.pop("sym_name", ""))
        extras = (*written.attributes.items(), *[("loc", location)] * bool(location))
        pending = _Pending(Scope(name), body_at, (), start)
        self._add(name, start, pending, extras, lexer.before)

    def _add(self, name: str, at: int, pending: _Pending, extras: Pairs, end: int) -> None:
        if name in self.computations:
            fail(f"`@{name}` is defined twice", self.source, at, at + len(name) + 1)
        span = Span(self.source, pending.start, end)
        made = Computation(name, lambda: self._body(pending), extras=extras, span=span)
        self.computations[name] = self.bodies.functions[name] = made
        if ("sym_visibility", "private") not in extras:
            self.public.append(name)

    def _body(self, pending: _Pending) -> Body:
        if pending.at >= 0:
            return self.bodies.function(pending.scope, pending.at)
        parameters = tuple(pending.scope.parameters)
        results = pending.results
        type = results[0] if len(results) == 1 else TupleType(results)
        op, at = UnknownOp("func.func"), pending.start
        root = Node("body", type, op, parameters, (), (), "", self.source, at, at + 9)
        return Body((*parameters, root), parameters, root)

    # --------------------------------------------------------------- everything else

    def _other(self, lexer: Lexer, syntax: Syntax) -> None:
        """Keep an op outside functions, such as `sdy.mesh`, as written."""
        start = lexer.start
        written = Written(lexer.token.strip('"'), start, lexer.end)
        generic = lexer.kind == "string"
        lexer.next()
        if generic:
            syntax.generic(written, self)
        else:
            syntax.pretty(written, self)
        text = self.source.text[start : lexer.before]
        syntax.location()
        self.extras.append((written.name, text))

    def region(self, arguments: list[tuple[str, Type | None]], label: str) -> None:
        """Ops outside functions have no regions that are read."""
        lexer = Lexer(self.source)
        lexer.expected("no region")

    def _loose(self, lexer: Lexer) -> None:
        """Ops without a function around them."""
        lexer.expected("`func.func`: values stand in functions")


__all__ = ["is_mlir", "parse_stablehlo"]
