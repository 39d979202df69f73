"""Reads the blocks of functions and regions.

Most lines of a dump repeat: the same op, attributes and types with other operands.  So a line whose
op fits in it is looked up by its text without the operands' names, and read token by token only
where that text is new.
"""

from __future__ import annotations

import re
from typing import Final

from hloscope.errors import did_you_mean
from hloscope.ir.graph import Body, Computation, Instruction
from hloscope.ir.types import TupleType, Type
from hloscope.ops.base import Op
from hloscope.ops.control import Parameter, Return
from hloscope.source import Source, Span
from hloscope.stablehlo.build import Template, Written, build
from hloscope.stablehlo.lexer import Lexer, fail
from hloscope.stablehlo.nodes import Node, Pairs
from hloscope.stablehlo.scope import Computations, Scope
from hloscope.stablehlo.spelling import SPELLINGS
from hloscope.stablehlo.syntax import Arguments, Syntax

_LINE: Final = re.compile(
    r"\s*(?P<results>(?:(?P<one>%[\w$.-]+)|%[\w$.-]+:(?P<count>\d+)) = )?"
    r'(?P<rest>(?:[a-z_]+\.\w+|return|call)\b[^"\n/]*?|"[a-z_]+\.\w+"\([^"\n/]*?)'
    r"(?P<location> loc\(#?\w+\))?\n"
    r"(?=\s*(?:%[\w$.:-]+ ?[=,]|\}|[a-z_]+\.[a-z]|return\b|call\b))"
)
_OPERAND: Final = re.compile(r"%([\w$.-]+(?:#\d+)?)")
_LONG: Final = 400


class BodyReader:
    """Reads blocks of one module.

    Attributes:
        computations: Functions and regions by name; regions are added when they are read.
        functions: Functions by the name they have in the text.
    """

    def __init__(self, source: Source, aliases: dict[str, str], computations: Computations) -> None:
        self.source: Final = source
        self.aliases: Final = aliases
        self.computations: Final = computations
        self.functions: dict[str, Computation] = {}
        self._templates: Final[dict[str, tuple[Template, int]]] = {}
        self._applied: Final[dict[tuple[str, tuple[Type, ...]], Computation]] = {}

    # ----------------------------------------------------------------------- blocks

    def function(self, scope: Scope, at: int) -> Body:
        """Read the block `{…}` at `at`."""
        lexer = Lexer(self.source, at)
        self._block(lexer, scope, [])
        return self._finish(scope, at)

    def _block(self, lexer: Lexer, scope: Scope, arguments: Arguments) -> int:
        """Read `{…}`, the current token; returns where it ends."""
        lexer.expect("{")
        if lexer.kind == "block":
            arguments = self._label(lexer)
        for name, type in arguments:
            if type is None:
                lexer.expected("the type of each argument")
            self.parameter(scope, name, type, lexer.start, lexer.start)
        at = lexer.before
        text, line = self.source.text, _LINE
        while True:
            found = line.match(text, at)
            if found is not None and self._known_line(scope, found):
                at = found.end() - 1
                continue
            lexer.move(at)
            if lexer.accept("}"):
                return lexer.before
            if lexer.kind == "block":
                message = "a region with several blocks is not supported"
                fail(message, self.source, lexer.start, lexer.end)
            self._op(lexer, scope, found.end() - 1 if found else -1)
            at = lexer.before

    def _label(self, lexer: Lexer) -> Arguments:
        lexer.next()
        syntax = Syntax(lexer, self.aliases)
        arguments: Arguments = []
        if lexer.accept("("):
            while not lexer.accept(")"):
                if arguments:
                    lexer.expect(",")
                arguments.append(syntax.argument())
        lexer.expect(":")
        return arguments

    def parameter(
        self, scope: Scope, name: str, type: Type, start: int, end: int, extras: Pairs = ()
    ) -> None:
        """Add an argument of the block."""
        op = Parameter(len(scope.parameters))
        node = Node(name, type, op, (), (), extras, "", self.source, start, end)
        scope.parameters.append(node)
        scope.instructions.append(node)
        scope.define(name, node, self.source, start)

    def _finish(self, scope: Scope, at: int) -> Body:
        instructions = scope.instructions
        if not instructions or not isinstance(instructions[-1].op, Return):
            source = self.source
            root = Node("return", TupleType(()), Return(), (), (), (), "", source, at, at + 1)
            instructions.append(root)
        return Body(tuple(instructions), tuple(scope.parameters), instructions[-1])

    # -------------------------------------------------------------------------- ops

    def _known_line(self, scope: Scope, line: re.Match[str]) -> bool:
        """Make the op of a line whose text is known but for the operands' names."""
        rest = line["rest"]
        known = self._templates.get(_OPERAND.sub("%", rest))
        if known is None:
            return False
        template, results = known
        written = line["one"]
        if (line["results"] is None) != (results == 0):
            return False
        names = [] if results == 0 else [(written or "")[1:]]
        if written is None and results:
            if int(line["count"]) != results:
                return False
            name = line["results"].strip()[1:].split(":")[0]
            names = [f"{name}#{k}" for k in range(results)]
        elif results > 1:
            return False
        source, at = self.source, line.start("rest")
        operands = [scope.find(m[1], source, at + m.start()) for m in _OPERAND.finditer(rest)]
        location = (line["location"] or "")[5:-1]
        start = line.start("results") if results else at
        end = line.end() - 1
        self._make(scope, template, names, operands, (), location, start, end)
        return True

    def _op(self, lexer: Lexer, scope: Scope, line_end: int) -> None:
        """Read one op token by token."""
        start = lexer.start
        names, declared = self._results(lexer)
        named_end = lexer.start
        if lexer.kind == "string":
            name = lexer.token[1:-1]
        elif lexer.kind == "word":
            name = lexer.token
        else:
            lexer.expected("an operation" if names else "an operation or `}`")
        written = Written(name, lexer.start, lexer.end)
        generic = lexer.kind == "string"
        self._check_name(written, lexer)
        lexer.next()
        label = names[0].split("#")[0] if names else f"{name.rpartition('.')[2]}@{start}"
        regions = _Regions(self, lexer, scope, label)
        syntax = Syntax(lexer, self.aliases)
        if generic:
            syntax.generic(written, regions)
        else:
            syntax.pretty(written, regions)
        end_of_op = lexer.before
        location = syntax.location()
        template = build(written, self.source, self.aliases)
        results = len(template.results)
        if names and declared != results:
            message = f"`{name}` has {_count(results, 'result')}, {declared} named"
            fail(message, self.source, start, named_end)
        if not names and results:
            names = [f"{name.rpartition('.')[2]}@{start}#{k}" for k in range(results)]
        source = self.source
        operands = [scope.find(n, source, at) for n, at in written.operands]
        end = lexer.before
        self._make(scope, template, names, operands, tuple(regions.found), location, start, end)
        one_line = line_end == end and not regions.found
        if one_line and end_of_op - written.start <= _LONG:
            key = _OPERAND.sub("%", source.text[written.start : end_of_op])
            self._templates[key] = template, results

    def _check_name(self, written: Written, lexer: Lexer) -> None:
        known = "." in written.name or written.name in ("return", "call", "module")
        if not known:
            hint = did_you_mean(written.name, [n.partition(".")[2] for n in SPELLINGS])
            message = f"expected an operation `dialect.name`, found `{written.name}`{hint}"
            fail(message, self.source, lexer.start, lexer.end)

    def _results(self, lexer: Lexer) -> tuple[list[str], int]:
        """Read `%a, %b:2 =`; the names `a`, `b#0`, `b#1` and their number."""
        names: list[str] = []
        while lexer.kind == "value":
            name = lexer.next()[1:]
            if lexer.accept(":"):
                count = int(lexer.take("number", "the number of results"))
                names += [f"{name}#{k}" for k in range(count)]
            else:
                names.append(name)
            if not lexer.accept(","):
                lexer.expect("=")
                break
        return names, len(names)

    def _make(
        self,
        scope: Scope,
        template: Template,
        names: list[str],
        operands: list[Instruction],
        calls: tuple[Computation, ...],
        location: str,
        start: int,
        end: int,
    ) -> None:
        """Add an instruction, and one for each result if there are several."""
        if template.swapped:
            operands = operands[::2] + operands[1::2]
        if template.callees:
            calls = (*calls, *[self._callee(name, start, end) for name in template.callees])
        if template.applies:
            calls = (self._apply(template, operands, start, end),)
        results, op = template.results, template.op
        type: Type
        if isinstance(op, Return):
            types = tuple([o.type for o in operands])
            type = types[0] if len(types) == 1 else TupleType(types)
            name = "return" if "return" not in scope.values else "return@"
        elif len(results) == 1:
            type, name = results[0], names[0]
        else:
            type = TupleType(results)
            name = _group(names) or f"{op.name}@{len(scope.instructions)}"
        inputs = tuple(operands)
        source = self.source
        node = Node(name, type, op, inputs, calls, template.extras, location, source, start, end)
        scope.instructions.append(node)
        if len(results) == 1 and not isinstance(op, Return):
            scope.define(name, node, source, start)
        elif results:
            scope.project(node, names, source)

    def _callee(self, name: str, start: int, end: int) -> Computation:
        found = self.functions.get(name)
        if found is None:
            hint = did_you_mean(name, self.functions)
            fail(f"no function `@{name}`{hint}", self.source, start, end)
        return found

    def _apply(
        self, template: Template, operands: list[Instruction], start: int, end: int
    ) -> Computation:
        """The body of `applies stablehlo.add`: made once for each op and type."""
        name = template.applies.strip('"')
        types = tuple([o.type for o in operands[len(operands) // 2 :]])
        known = self._applied.get((name, types))
        if known is not None:
            return known
        spelling = SPELLINGS.get(name)
        if spelling is None or len(types) != 1:
            hint = did_you_mean(name, SPELLINGS) if spelling is None else ""
            fail(
                f"`{name}` cannot be applied to {len(types)} inputs{hint}", self.source, start, end
            )
        short = name.rpartition(".")[2]
        made = self._applied[name, types] = Computation(
            _free(f"{short}", self.computations),
            _applied(spelling.op(), types[0], self.source, start, end),
        )
        self.computations[made.name] = made
        return made


def _applied(op: Op, type: Type, source: Source, start: int, end: int) -> Body:
    def node(name: str, op: Op, *operands: Instruction) -> Node:
        return Node(name, type, op, operands, (), (), "", source, start, end)

    left, right = node("lhs", Parameter(0)), node("rhs", Parameter(1))
    value = node("result", op, left, right)
    root = node("return", Return(), value)
    return Body((left, right, value, root), (left, right), root)


def _free(name: str, taken: Computations) -> str:
    number, found = 0, name
    while found in taken:
        number += 1
        found = f"{name}.{number}"
    return found


def _group(names: list[str]) -> str:
    """The name of an op with several results: `0` for `%0:2`, `a,b` for `%a, %b`."""
    return ",".join(dict.fromkeys(name.split("#")[0] for name in names))


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'s' * (number != 1)}"


class _Regions:
    """The regions of one op."""

    def __init__(self, reader: BodyReader, lexer: Lexer, scope: Scope, label: str) -> None:
        self._reader, self._lexer, self._scope, self._label = reader, lexer, scope, label
        self.found: list[Computation] = []

    def region(self, arguments: Arguments, label: str) -> None:
        """Read `{…}`, the current token."""
        reader, lexer = self._reader, self._lexer
        at = lexer.start
        name = _free(f"{self._scope.name}.{self._label}.{label}", reader.computations)
        inner = Scope(name, self._scope)
        end = reader._block(lexer, inner, arguments)
        body = reader._finish(inner, at)
        made = Computation(name, body, span=Span(reader.source, at, end))
        reader.computations[name] = made
        self.found.append(made)
