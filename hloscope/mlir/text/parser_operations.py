"""Parser of operations, blocks and regions.

Source: MLIR language reference, "Operations", "Blocks", "Regions".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NoReturn

from hloscope.errors import Diagnostic, did_you_mean
from hloscope.ir import FunctionType, Type
from hloscope.mlir.constants import attribute_text
from hloscope.mlir.definitions import Dialects
from hloscope.mlir.ir import (
    NO_ATTRIBUTES,
    UNPARSED_TEXT,
    Attribute,
    Block,
    DictAttr,
    Operation,
    Region,
    StringAttr,
)
from hloscope.mlir.locations import UNKNOWN
from hloscope.mlir.text.asm import Argument, State, Use
from hloscope.mlir.text.functions import CORE, CORE_OPS
from hloscope.mlir.text.lexer import NAME, STRING, Lexer, NoMoreErrors, TextError
from hloscope.mlir.text.lines import FreshStack, LineTemplates
from hloscope.mlir.text.parser_attributes import KNOWN_TYPES, PLAIN_TYPE, AttributeParser
from hloscope.mlir.text.parser_scopes import Scope
from hloscope.support.lazy import pattern
from hloscope.support.source import Source

NAME_SCOPES: Final = frozenset({"builtin.module", "func.func"})
"""Ops whose regions cannot use values from outside."""

_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_TEXT: Final = pattern(rf"{STRING}|//[^\n]*|\bloc\(|[()\[\]{{}}]|\n|\Z", re.ASCII)
_PLACE: Final = pattern(
    rf"({STRING})|[ \t]*\bloc\((?:{STRING}|[^()\"]|\((?:{STRING}|[^()\"])*\))*\)", re.ASCII
)
_ARGUMENT: Final = pattern(rf" ?%({NAME}): ({PLAIN_TYPE}),(?= %)", re.ASCII)
_RESULT: Final = pattern(
    rf' ?({PLAIN_TYPE})(?: \{{([A-Za-z_][\w$.]*) = "([^"\\\n]*)"\}})?,(?= \S)', re.ASCII
)
_INDENT: Final = pattern(r"\n([ \t]*)")

MOST_REGIONS: Final = 500
"""Maximum nesting of regions."""
LEVELS_A_STACK: Final = 16
"""Number of nested regions that are read on one thread's stack.

Each takes at most 12 of Python's 1000 nested calls.
"""
DEFAULT_DIALECTS: Final = {"builtin.module": "builtin", "func.func": "func"}
"""Dialects whose name may be omitted in the regions of an op."""


class OperationParser:
    """Parser of operations; implements `OpAsmParser` for their pretty forms.

    Attributes:
        lexer: The current token, and the errors.
        attributes: Parser of types and attributes.
        scope: Names of values and blocks.
        dialects: The known dialects.
        default_dialect: The dialect whose name may be omitted.
        level: Number of regions around the current token.
        results: Number of results that the text names in the current op.
        remarks: Notes about text that is read differently, each with its first position.
    """

    def __init__(
        self,
        source: Source,
        dialects: Dialects,
        *,
        allow_unregistered: bool,
        errors: list[Diagnostic] | None,
    ) -> None:
        self.lexer: Final = Lexer(source, errors)
        self.attributes: Final = AttributeParser(self.lexer, dialects)
        self.scope: Final = Scope(self.lexer)
        self.dialects: Final = dialects
        self.default_dialect = "builtin"
        self.level = self.results = 0
        self.remarks: Final[dict[str, int]] = {}
        self._allow_unregistered: Final = allow_unregistered
        self._inherent: Final = {**CORE_OPS, **dialects.ops}
        self._lines: Final = LineTemplates(self.lexer, self.scope, self.attributes)
        self._stacks: Final = FreshStack()
        self._delegate(self.lexer, self.attributes, self.scope)

    def _delegate(self, lexer: Lexer, attributes: AttributeParser, scope: Scope) -> None:
        """Set methods of `OpAsmParser` to those of the parsers that this parser contains."""
        self.fail, self.report, self.keep = lexer.fail, lexer.report, lexer.keep
        self.peek, self.try_token, self.token = lexer.peek, lexer.try_token, lexer.expect
        self.items, self.tokens = lexer.items, lexer.tokens
        self.try_keyword, self.keyword = lexer.try_keyword, lexer.keyword
        self.try_integer, self.integer = lexer.try_integer, lexer.integer
        self.floating, self.string = lexer.floating, lexer.string
        self.type, self.try_type = attributes.type, attributes.try_type
        self.type_list, self.function_type = attributes.type_list, attributes.function_type
        self.try_function_type = attributes.try_function_type
        self.attribute, self.try_attribute = attributes.attribute, attributes.try_attribute
        self.try_symbol, self.symbol = attributes.try_symbol, attributes.symbol
        self.bracketed, self.location = attributes.bracketed, attributes.aliases.location
        self.try_use, self.use, self.uses = scope.try_use, scope.use, scope.uses
        self.successor = scope.block

    @property
    def at(self) -> int:
        """Position of the current token."""
        return self.lexer.start

    @property
    def mnemonic_at(self) -> int:
        """Position of the last type or attribute of a dialect."""
        return self.attributes.mnemonic_at

    # ------------------------------------------------------------------------------ operations

    def next_operation(self) -> Operation | None:
        """Read an operation.

        `None` if it was invalid and skipped, which happens if errors are collected.

        Raises:
            NoMoreErrors: The text ends with the invalid op, or too many were collected.
        """
        lexer, scope = self.lexer, self.scope
        if lexer.errors is None:
            return self.operation()
        first, state, mark = lexer.start, self._state(), scope.state()
        try:
            return self.operation()
        except TextError as error:
            lexer.take(error)
            # The names and the nesting of the half-read op do not count. Its results are recorded,
            # so that their uses are no further errors.
            self._restore(state)
            self.attributes.aliases.depth = 0
            scope.restore(mark)
            scope.unread.update(lexer.skip_operation(first, error))
            if not lexer.text[lexer.start :].strip():
                raise NoMoreErrors from None  # only an unclosed region could still be reported
            return None

    def operation(self) -> Operation:
        """Read an operation with the names of its results."""
        lexer = self.lexer
        names = self._result_names() if lexer.kind == "value" else []
        self.results = sum(count for _, count, _ in names)
        self.scope.used = []
        if lexer.kind == "string":
            operation, types = self._generic()
        elif lexer.kind == "word":
            operation, types = self._custom()
        else:
            lexer.wrong("expected operation name in quotes")
        self.scope.bind(operation, types, names)
        return operation

    def _result_names(self) -> list[tuple[str, int, int]]:
        names = self.lexer.items(self._result_name)
        self.lexer.expect("=", "expected '=' after SSA name")
        return names

    def _result_name(self) -> tuple[str, int, int]:
        """Read `%name` or `%name:count`; return the name, the count and the offset."""
        lexer = self.lexer
        if lexer.kind != "value":
            lexer.wrong("expected valid ssa identifier")
        name, at = lexer.tok[1:], lexer.start
        if "#" in name:
            lexer.wrong("expected '=' after SSA name")
        lexer.move(lexer.end)
        count = 1
        if lexer.try_token(":"):
            if lexer.kind != "number" or not lexer.tok.isdecimal():
                lexer.wrong("expected integer number of results")
            count = int(lexer.tok[:10])
            if count < 1:
                lexer.fail_plainly("expected named operation to have at least 1 result", at)
            lexer.next()
        return name, count, at

    # ----------------------------------------------------------------------------- generic form

    def _generic(self) -> tuple[Operation, Sequence[Type]]:
        lexer = self.lexer
        at, end = lexer.start, lexer.end
        name = lexer.string_value().decode("utf-8", "surrogateescape")
        if not name:
            lexer.fail_plainly("empty operation name is invalid", at, end)
        written, name = name, self._newer_name(name)
        self._check_registered(name, at, end)
        lexer.next()
        lexer.expect("(", "expected '(' to start operand list")
        uses = self.uses()
        lexer.expect(")", "expected ')' to end operand list")
        successors = self._successors() if lexer.tok == "[" else ()
        inherent = self._inherent.get(name)
        properties: dict[str, Attribute] = {}
        if lexer.tok == "<":
            lexer.next()
            properties = self.attributes.entries()
            lexer.expect(">", "expected '>' to close properties")
            if properties and inherent is not None and not inherent:
                self._no_properties(name, properties, at, end)
        regions = self._generic_regions(name) if lexer.tok == "(" else ()
        attributes: dict[str, Attribute] = {}
        if lexer.tok == "{":
            # Older texts have inherent attributes in the attribute dictionary, so each entry is
            # sorted by its name.
            for key, value in self.attributes.entries().items():
                inside = inherent is not None and key in inherent
                (properties if inside else attributes)[key] = value
        if written != name:
            older = self.dialects.older[written.partition(".")[0]]
            properties = older.renewed(name, properties)
        lexer.expect(":", "expected ':' followed by operation type")
        at_type = lexer.start
        type = self.attributes.type()
        if not isinstance(type, FunctionType):
            lexer.fail_plainly("expected function type", at_type)
        if len(type.inputs) != len(uses):
            plural = "" if len(uses) == 1 else "s"
            message = f"expected {len(uses)} operand type{plural} but had {len(type.inputs)}"
            lexer.fail_plainly(message, at_type)
        operands = tuple(map(self.scope.value, uses, type.inputs))
        operation = Operation(
            name,
            operands,
            (),
            properties or NO_ATTRIBUTES,
            attributes or NO_ATTRIBUTES,
            regions,
            successors,
            (),
            self.attributes.aliases.location() or UNKNOWN,
            lexer.source,
            at,
            end,
        )
        return operation, type.results

    def _check_registered(self, name: str, at: int, end: int) -> None:
        """Raise an error if the op `name` is unknown and such ops are not allowed.

        `[at, end)` is the position of the name.
        """
        if self._allow_unregistered or name in self._inherent:
            return
        if name.partition(".")[0] not in self.dialects.named:
            message = (
                "operation being parsed with an unregistered dialect. If this is intended, please"
                " use -allow-unregistered-dialect with the MLIR tool used"
            )
            self.lexer.fail_plainly(message, at, end)

    def _no_properties(
        self, name: str, given: Mapping[str, Attribute], at: int, end: int
    ) -> NoReturn:
        text = attribute_text(DictAttr(tuple(given.items())))
        message = f"invalid properties {text} for op {name}: this operation has empty properties"
        self.lexer.fail_plainly(message, at, end)

    def _successors(self) -> tuple[Block, ...]:
        self.lexer.next()
        blocks = self.lexer.items(self.scope.block)
        self.lexer.expect("]")
        return tuple(blocks)

    def _generic_regions(self, name: str) -> tuple[Region, ...]:
        lexer = self.lexer
        lexer.next()
        used = self.scope.used
        regions = lexer.items(lambda: self._op_region(name, (), pretty=False))
        lexer.expect(")", "expected ')' to end region list")
        self.scope.used = used
        return tuple(regions)

    # ------------------------------------------------------------------------------ pretty form

    def _custom(self) -> tuple[Operation, Sequence[Type]]:
        lexer = self.lexer
        at, end, written = lexer.start, lexer.end, lexer.tok
        name = self._full_name(written)
        form = self.dialects.forms.get(name)
        read = CORE.get(name) if form is None else form.read
        if read is None:
            stop = self._text_end(name)
            if stop >= 0:
                return self._unparsed_text(name, stop)
            self._unknown(written, name)
        lexer.next()
        state = State(name)
        # Regions inside the form read ops of their own, which overwrite both fields.
        outer, lexer.op = lexer.op, name
        used = self.scope.used
        read(self, state)
        lexer.op, self.scope.used = outer, used
        if "." in written and not written.startswith(name.partition(".")[0] + "."):
            older = self.dialects.older[written.partition(".")[0]]
            state.properties = older.renewed(name, state.properties)
        location = self.attributes.aliases.location() or state.location or UNKNOWN
        operation = Operation(
            name,
            tuple(state.operands),
            (),
            state.properties or NO_ATTRIBUTES,
            state.attributes or NO_ATTRIBUTES,
            tuple(state.regions),
            tuple(state.successors),
            tuple(state.successor_operands),
            location,
            lexer.source,
            at,
            end,
        )
        return operation, state.types

    def _text_end(self, name: str) -> int:
        """Return the end of the op `name` of an unknown dialect that is stored as text.

        -1 for any other op.

        Such an op is in a module, begins a line, defines no values, and ends with the line in which
        all its brackets are closed.
        """
        lexer = self.lexer
        text, at = lexer.text, lexer.start
        dialect, dot, _ = name.partition(".")
        known = dialect in self.dialects.named or dialect in ("func", "builtin")
        before = text[text.rfind("\n", 0, at) + 1 : at]
        if not self._allow_unregistered or not dot or known or self.results or before.strip():
            return -1
        if self.default_dialect != "builtin" or dialect in self.dialects.older:
            return -1
        opened: list[str] = []
        for found in _TEXT.finditer(text, at):
            sign = found[0]
            if sign in _CLOSING or (sign == "loc(" and opened):
                opened.append(_CLOSING[sign[-1]])
            elif sign in (")", "]", "}"):
                if not opened or opened.pop() != sign:
                    # the bracket closes what is around the op, if the op is in its last line
                    return found.start() if not opened and sign == "}" else -1
            elif not opened and (sign in ("\n", "", "loc(") or sign.startswith("//")):
                return found.start()
            elif sign == "":
                break
        return -1

    def _unparsed_text(self, name: str, stop: int) -> tuple[Operation, Sequence[Type]]:
        """Read an op of an unknown dialect as text, and return it with its result types: none.

        `name` is its name, `stop` its end.
        """
        lexer = self.lexer
        at, end = lexer.start, lexer.end
        self.remarks.setdefault(f"`{name}` is kept as text: its dialect is not known", at)
        text = self.attributes.aliases.rewritten(at, stop, lines=True).rstrip()
        # Further lines are stored relative to the op's own column, so that the op can be printed at
        # another indentation.
        column = at - lexer.text.rfind("\n", 0, at) - 1
        text = _INDENT.sub(lambda found: "\n" + found[1][column:], _PLACE.sub(r"\1", text))
        lexer.move(stop)
        location = self.attributes.aliases.location() or UNKNOWN
        kept = {UNPARSED_TEXT: StringAttr.of(text)}
        operation = Operation(
            name, (), (), kept, NO_ATTRIBUTES, (), (), (), location, lexer.source, at, end
        )
        return operation, ()

    def _full_name(self, written: str) -> str:
        if "." in written:
            return self._newer_name(written)
        name = f"{self.default_dialect}.{written}"
        return name if name in CORE or name in self.dialects.forms else written

    def _unknown(self, written: str, name: str) -> NoReturn:
        lexer = self.lexer
        dialect, _, rest = written.partition(".")
        if not rest and not self.default_dialect:
            dialect = ""
        tried = f" (tried '{self.default_dialect}.{written}' as well)"
        if not rest and dialect:
            message = f"custom op '{written}' is unknown{tried}"
            lexer.fail_plainly(message, lexer.start, lexer.end)
        if dialect not in self.dialects.named and dialect not in ("func", "builtin"):
            message = f"Dialect `{dialect}' not found for custom op '{written}' "
            lexer.fail_plainly(message + ("" if rest else tried), lexer.start, lexer.end)
        if name in self._inherent:
            message = f"custom op '{name}' has no custom assembly form"
            lexer.fail_plainly(message, lexer.start, lexer.end)
        hint = did_you_mean(name, self.dialects.forms)
        lexer.fail_plainly(f"custom op '{name}' is unknown{hint}", lexer.start, lexer.end)

    # -------------------------------------------------------------------------------- regions

    def region(self, arguments: Sequence[Argument] = ()) -> Region:
        """Read `{…}`, whose entry block has these arguments."""
        used = self.scope.used
        region = self._op_region(self.lexer.op, arguments)
        self.scope.used = used
        return region

    @contextmanager
    def names_of(self, op: str, *, pretty: bool = True) -> Iterator[None]:
        """In this context, use the name scope and the default dialect of the regions of op `op`.

        Without `pretty`, for the generic form, the default dialect stays.
        """
        self._stacks.check()
        if self.level >= MOST_REGIONS:
            message = f"regions are nested deeper than {MOST_REGIONS}"
            self.lexer.fail_plainly(message, self.lexer.start)
        outer = self._state()
        mark = self.scope.enter(isolated=op in NAME_SCOPES)
        if pretty:
            self.default_dialect = DEFAULT_DIALECTS.get(op, "")
        self.lexer.op = ""
        self.level += 1
        yield
        self.scope.leave(mark)
        self._restore(outer)

    def _state(self) -> tuple[str, str, int]:
        return self.lexer.op, self.default_dialect, self.level

    def _restore(self, state: tuple[str, str, int]) -> None:
        self.lexer.op, self.default_dialect, self.level = state

    def _op_region(self, op: str, arguments: Sequence[Argument], *, pretty: bool = True) -> Region:
        """Read a region of op `op`, whose entry block has these arguments.

        Without `pretty`, the op is in generic form.
        """
        lexer = self.lexer
        lexer.expect("{", "expected '{' to begin a region")
        if lexer.tok == "}" and not arguments:
            lexer.next()
            return Region()
        with self.names_of(op, pretty=pretty):
            if self.level % LEVELS_A_STACK == 0:
                blocks = self._stacks.call(lambda: self._blocks(arguments))
            else:
                blocks = self._blocks(arguments)
            lexer.next()
        return Region(tuple(blocks))

    def _blocks(self, arguments: Sequence[Argument]) -> list[Block]:
        lexer = self.lexer
        blocks: list[Block] = []
        if lexer.kind == "block":
            if arguments:
                message = "invalid block name in region with named arguments"
                lexer.fail_plainly(message, lexer.start, lexer.end)
        else:
            block = Block()
            self.scope.arguments(block, arguments, entry=True)
            blocks.append(block)
            self._operations(block)
        while lexer.kind == "block":
            block = self.scope.label()
            if lexer.tok == "(":
                self.scope.arguments(block, self.arguments(types=True), entry=False)
            lexer.expect(":", "expected ':' after block name")
            blocks.append(block)
            self._operations(block)
        return blocks

    def _newer_name(self, name: str) -> str:
        """Return the name of an op; an op of an older dialect gets the name in its successor."""
        dialect, _, rest = name.partition(".")
        older = self.dialects.older.get(dialect)
        if older is None or f"{older.name}.{rest}" not in self._inherent:
            return name
        self.remarks.setdefault(f"ops of `{dialect}` are read as those of `{older.name}`", self.at)
        return f"{older.name}.{rest}"

    def _operations(self, block: Block) -> None:
        """Read the operations of a block up to `}` or the next label."""
        lexer, lines = self.lexer, self._lines
        operations: list[Operation] = []
        at = lexer.before
        while True:
            at = lines.read(block, operations, self.default_dialect, at)
            lexer.move(at)
            if lexer.tok == "}" or lexer.kind == "block":
                break
            first = lexer.start
            operation = self.next_operation()
            if operation is not None:
                operation.parent = block
                operations.append(operation)
                lines.learn(operation, self.default_dialect, at, first)
            at = lexer.before
        block.operations = tuple(operations)

    # -------------------------------------------------------------------- parts of pretty forms

    def operation_name(self) -> str:
        """Read an op's name; that of an older dialect becomes its successor's."""
        return self._newer_name(self.lexer.keyword())

    def resolve(self, use: Use, type: Type, state: State) -> None:
        """Append the value that `use` names to the operands of `state`.

        Raises:
            ParseError: The value has another type.
        """
        state.operands.append(self.scope.value(use, type))

    def dictionary(self, state: State) -> None:
        """Read an optional `{…}` into the properties and attributes of `state`."""
        if self.lexer.tok == "{":
            inherent = self._inherent.get(state.name, frozenset())
            for key, value in self.attributes.entries().items():
                (state.properties if key in inherent else state.attributes)[key] = value

    def attributes_with_keyword(self, state: State) -> None:
        """Read an optional `attributes {…}` into the properties and attributes of `state`."""
        lexer = self.lexer
        if lexer.tok == "attributes" and lexer.kind == "word":
            lexer.next()
            if lexer.tok != "{":
                lexer.wrong("expected '{' in attribute dictionary")
            self.dictionary(state)

    # Read one by one, the arguments and results of a training step's main function (3.4 MB of text,
    # 1,700 of each) take 15 % of the time of the whole text.

    def plain_arguments(self) -> list[Argument]:
        """Read arguments `%a: t,` of known types that precede other arguments."""
        lexer = self.lexer
        arguments, at = [], lexer.start
        while (found := _ARGUMENT.match(lexer.text, at)) is not None:
            known = KNOWN_TYPES.get(found[2])
            if known is None:
                break
            arguments.append(Argument(found[1], known, found.start(1) - 1))
            at = found.end()
        if arguments:
            lexer.move(at)
        return arguments

    def plain_results(self) -> list[tuple[Type, Attribute | None]]:
        """Read results `t,` or `t {a = "…"},` of known types that precede other results."""
        lexer = self.lexer
        results: list[tuple[Type, Attribute | None]] = []
        at = lexer.start
        while (found := _RESULT.match(lexer.text, at)) is not None:
            known = KNOWN_TYPES.get(found[1])
            if known is None:
                break
            entries = DictAttr(((found[2], StringAttr.of(found[3])),)) if found[2] else None
            results.append((known, entries))
            at = found.end()
        if results:
            lexer.move(at)
        return results

    def arguments(self, *, types: bool) -> list[Argument]:
        """Read arguments `(%a: t, %b: t)`; without `types`, the text is `(%a, %b)`."""

        def argument() -> Argument:
            use = self.scope.use()
            type = None
            if types:
                self.lexer.expect(":")
                type = self.attributes.type()
            return Argument(use.name, type, use.at, self.attributes.aliases.location())  # type: ignore[arg-type]

        self.lexer.expect("(")
        return self.lexer.items(argument, ")")
