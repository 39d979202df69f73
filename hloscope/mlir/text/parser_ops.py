"""Parser of operations, blocks and regions, with the methods that pretty forms use.

Source: MLIR language reference, "Operations", "Blocks", "Regions".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Final, NoReturn

from hloscope.errors import did_you_mean
from hloscope.ir import FunctionType, Type
from hloscope.mlir.definitions import Dialects
from hloscope.mlir.ir import (
    KEPT_TEXT,
    NO_ATTRIBUTES,
    Attribute,
    Block,
    DictAttr,
    Operation,
    Region,
    StringAttr,
    Value,
)
from hloscope.mlir.locations import UNKNOWN
from hloscope.mlir.text.asm import Argument, State
from hloscope.mlir.text.attribute_text import attribute_text
from hloscope.mlir.text.fresh_stack import FreshStack
from hloscope.mlir.text.functions import CORE
from hloscope.mlir.text.lexer import STRING
from hloscope.mlir.text.parser_forms import FormParser
from hloscope.support.lazy import pattern
from hloscope.support.source import Source

NAME_SCOPES: Final = frozenset({"builtin.module", "func.func"})
"""Ops whose regions cannot use values from outside."""

_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_TEXT: Final = pattern(rf"{STRING}|//[^\n]*|\bloc\(|[()\[\]{{}}]|\n|\Z", re.ASCII)
_PLACE: Final = pattern(
    rf"({STRING})|[ \t]*\bloc\((?:{STRING}|[^()\"]|\((?:{STRING}|[^()\"])*\))*\)", re.ASCII
)
_INDENT: Final = pattern(r"\n([ \t]*)")

MOST_REGIONS: Final = 500
"""Maximum nesting of regions."""
LEVELS_A_STACK: Final = 16
"""Nested regions that are read on one stack; each takes at most 12 of Python's 1000 calls.
"""
_MOST_HINTS: Final = 10
_MOST_NAMES: Final = 500
DEFAULT_DIALECTS: Final = {"builtin.module": "builtin", "func.func": "func"}
"""Dialects whose name may be omitted in the regions of an op."""


class OperationParser(FormParser):
    """Parser of operations; implements `AsmParser`.

    Attributes:
        allow_unregistered: Are ops of unknown dialects allowed?
        default_dialect: The dialect whose name may be omitted.
        level: Number of regions around the current token.
        stacks: Threads that read deeply nested regions.
    """

    __slots__ = ("allow_unregistered", "default_dialect", "level", "stacks")

    def __init__(
        self, source: Source, dialects: Dialects, allow_unregistered: bool = True, at: int = 0
    ) -> None:
        super().__init__(source, dialects, at)
        self.allow_unregistered = allow_unregistered
        self.default_dialect = "builtin"
        self.level = 0
        self.stacks: Final = FreshStack()

    # ------------------------------------------------------------------------------ operations

    def operation(self) -> Operation:
        """Read an operation with the names of its results."""
        names = self._result_names() if self.kind == "value" else []
        self.results = sum(count for _, count, _ in names)
        self.used = []
        if self.kind == "string":
            operation, types = self._generic()
        elif self.kind == "word":
            operation, types = self._custom()
        else:
            self.wrong("expected operation name in quotes")
        self._bind(operation, types, names)
        return operation

    def _result_names(self) -> list[tuple[str, int, int]]:
        names = []
        while True:
            if self.kind != "value":
                self.wrong("expected valid ssa identifier")
            name, at = self.tok[1:], self.start
            if "#" in name:
                self.wrong("expected '=' after SSA name")
            self.move(self.end)
            count = 1
            if self.tok == ":":
                self.next()
                if self.kind != "number" or not self.tok.isdecimal():
                    self.wrong("expected integer number of results")
                count = int(self.tok[:10])
                if count < 1:
                    self.fail_plainly("expected named operation to have at least 1 result", at)
                self.next()
            names.append((name, count, at))
            if self.tok != ",":
                break
            self.next()
        self.expect("=", "expected '=' after SSA name")
        return names

    def _bind(
        self, operation: Operation, types: Sequence[Type], names: list[tuple[str, int, int]]
    ) -> None:
        """Make results of these types, with the names in the text."""
        if not names:
            operation.results = tuple(
                Value(type, operation, number) for number, type in enumerate(types)
            )
            return
        at = names[0][2]
        if not types:
            self.fail_plainly("cannot name an operation with no results", at)
        count = sum(count for _, count, _ in names)
        if count != len(types):
            message = f"operation defines {len(types)} results but was provided {count} to bind"
            self.fail_plainly(message, at)
        values: list[Value] = []
        for name, count, at in names:
            group = []
            for _ in range(count):
                value = Value(types[len(values)], operation, len(values), name)
                values.append(value)
                group.append(value)
            self.define(name, tuple(group), at)
            # A use before the definition has made a value, which other ops hold: it is the result,
            # in place of the new one.
            if self.forward:
                start = len(values) - count
                values[start:] = [self.adopt(name, n, v) for n, v in enumerate(group)]
                self._rename(name, values[start:])
        operation.results = tuple(values)

    def _rename(self, name: str, values: Sequence[Value]) -> None:
        for number, value in enumerate(values):
            if number:
                self.scope[f"{name}#{number}"] = value
        self.scope[name] = values[0]

    # ----------------------------------------------------------------------------- generic form

    def _generic(self) -> tuple[Operation, Sequence[Type]]:
        at, end = self.start, self.end
        name = self.string_value().decode("utf-8", "surrogateescape")
        if not name:
            self.fail_plainly("empty operation name is invalid", at, end)
        written, name = name, self.newer_name(name)
        self._check_registered(name, at, end)
        self.next()
        self.expect("(", "expected '(' to start operand list")
        uses = self.uses()
        self.expect(")", "expected ')' to end operand list")
        successors = self._successors() if self.tok == "[" else ()
        inherent = self.inherent.get(name)
        properties: dict[str, Attribute] = {}
        if self.tok == "<":
            self.next()
            properties = self.entries()
            self.expect(">", "expected '>' to close properties")
            if properties and inherent is not None and not inherent:
                self._no_properties(name, properties, at, end)
        regions = self._generic_regions(name) if self.tok == "(" else ()
        attributes: dict[str, Attribute] = {}
        if self.tok == "{":
            # Older texts have inherent attributes in the attribute dictionary, so each entry is
            # sorted by its name.
            for key, value in self.entries().items():
                inside = inherent is not None and key in inherent
                (properties if inside else attributes)[key] = value
        if written != name:
            older = self.dialects.older[written.partition(".")[0]]
            properties = older.renewed(name, properties)
        self.expect(":", "expected ':' followed by operation type")
        at_type = self.start
        type = self.type()
        if not isinstance(type, FunctionType):
            self.fail_plainly("expected function type", at_type)
        if len(type.inputs) != len(uses):
            plural = "" if len(uses) == 1 else "s"
            message = f"expected {len(uses)} operand type{plural} but had {len(type.inputs)}"
            self.fail_plainly(message, at_type)
        operands = tuple(map(self.value, uses, type.inputs))
        operation = Operation(
            name,
            operands,
            (),
            properties or NO_ATTRIBUTES,
            attributes or NO_ATTRIBUTES,
            regions,
            successors,
            (),
            self.location() or UNKNOWN,
            self.source,
            at,
            end,
        )
        return operation, type.results

    def _check_registered(self, name: str, at: int, end: int) -> None:
        if self.allow_unregistered or name in self.inherent:
            return
        if name.partition(".")[0] not in self.dialects.named:
            message = (
                "operation being parsed with an unregistered dialect. If this is intended, please"
                " use -allow-unregistered-dialect with the MLIR tool used"
            )
            self.fail_plainly(message, at, end)

    def _no_properties(
        self, name: str, given: Mapping[str, Attribute], at: int, end: int
    ) -> NoReturn:
        text = attribute_text(DictAttr(tuple(given.items())))
        message = f"invalid properties {text} for op {name}: this operation has empty properties"
        self.fail_plainly(message, at, end)

    def _successors(self) -> tuple[Block, ...]:
        self.next()
        blocks = [self.successor()]
        while self.try_token(","):
            blocks.append(self.successor())
        self.expect("]")
        return tuple(blocks)

    def _generic_regions(self, name: str) -> tuple[Region, ...]:
        self.next()
        used = self.used
        regions = [self._op_region(name, (), pretty=False)]
        while self.try_token(","):
            regions.append(self._op_region(name, (), pretty=False))
        self.expect(")", "expected ')' to end region list")
        self.used = used
        return tuple(regions)

    # ------------------------------------------------------------------------------ pretty form

    def _custom(self) -> tuple[Operation, Sequence[Type]]:
        at, end, written = self.start, self.end, self.tok
        name = self._full_name(written)
        form = self.dialects.forms.get(name)
        read = CORE.get(name) if form is None else form.read
        if read is None:
            stop = self._text_end(name)
            if stop >= 0:
                return self._kept_text(name, stop)
            self._unknown(written, name)
        self.next()
        state = State(name)
        # Regions inside the form read ops of their own, which overwrite both fields.
        outer, self.op = self.op, name
        used = self.used
        read(self, state)
        self.op, self.used = outer, used
        if "." in written and not written.startswith(name.partition(".")[0] + "."):
            older = self.dialects.older[written.partition(".")[0]]
            state.properties = older.renewed(name, state.properties)
        location = self.location() or state.location or UNKNOWN
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
            self.source,
            at,
            end,
        )
        return operation, state.types

    def _text_end(self, name: str) -> int:
        """Return the end of an op of an unknown dialect that is kept as text; -1 for another op.

        Such an op is in a module, begins a line, defines no values, and ends with the line in which
        all its brackets are closed.
        """
        text, at = self.text, self.start
        dialect, dot, _ = name.partition(".")
        known = dialect in self.dialects.named or dialect in ("func", "builtin")
        before = text[text.rfind("\n", 0, at) + 1 : at]
        if not self.allow_unregistered or not dot or known or self.results or before.strip():
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

    def _kept_text(self, name: str, stop: int) -> tuple[Operation, Sequence[Type]]:
        """Return an op of an unknown dialect that has only its text."""
        at, end = self.start, self.end
        self.remarks.setdefault(f"`{name}` is kept as text: its dialect is not known", at)
        text = self.rewritten(at, stop, lines=True).rstrip()
        # Further lines are stored relative to the op's own column, so that the op can be printed at
        # another indentation.
        column = at - self.text.rfind("\n", 0, at) - 1
        text = _INDENT.sub(lambda found: "\n" + found[1][column:], _PLACE.sub(r"\1", text))
        self.move(stop)
        location = self.location() or UNKNOWN
        kept = {KEPT_TEXT: StringAttr.of(text)}
        operation = Operation(
            name, (), (), kept, NO_ATTRIBUTES, (), (), (), location, self.source, at, end
        )
        return operation, ()

    def _full_name(self, written: str) -> str:
        if "." in written:
            return self.newer_name(written)
        name = f"{self.default_dialect}.{written}"
        return name if name in CORE or name in self.dialects.forms else written

    def _unknown(self, written: str, name: str) -> NoReturn:
        dialect, _, rest = written.partition(".")
        if not rest and not self.default_dialect:
            dialect = ""
        tried = f" (tried '{self.default_dialect}.{written}' as well)"
        if not rest and dialect:
            message = f"custom op '{written}' is unknown{tried}"
            self.fail_plainly(message, self.start, self.end)
        if dialect not in self.dialects.named and dialect not in ("func", "builtin"):
            message = f"Dialect `{dialect}' not found for custom op '{written}' "
            self.fail_plainly(message + ("" if rest else tried), self.start, self.end)
        if name in self.inherent:
            message = f"custom op '{name}' has no custom assembly form"
            self.fail_plainly(message, self.start, self.end)
        hint = did_you_mean(name, self.dialects.forms)
        self.fail_plainly(f"custom op '{name}' is unknown{hint}", self.start, self.end)

    # -------------------------------------------------------------------------------- regions

    def region(self, arguments: Sequence[Argument] = ()) -> Region:
        """Read `{…}`, whose entry block has these arguments."""
        used = self.used
        region = self._op_region(self.op, arguments)
        self.used = used
        return region

    @contextmanager
    def _names_of(self, op: str, *, pretty: bool = True) -> Iterator[None]:
        """Set the scope of names for the regions of an op."""
        outer = self.scope, self.forward
        blocks, undefined = self.blocks, self.undefined_blocks
        default, depth, name = self.default_dialect, self.depth, self.op
        level = self.level
        self.depth = 0
        self.level += 1
        self.stacks.check()
        if self.level > MOST_REGIONS:
            self.fail_plainly(f"regions are nested deeper than {MOST_REGIONS}", self.start)
        isolated = op in NAME_SCOPES
        if isolated:
            self.scope, self.forward = {}, {}
        size = len(self.scope)
        self.blocks, self.undefined_blocks = {}, {}
        if pretty:
            self.default_dialect = DEFAULT_DIALECTS.get(op, "")
        self.op = ""
        yield
        for label, at in self.undefined_blocks.items():
            self.fail_plainly(f"reference to an undefined block '^{label}'", at)
        if isolated:
            near = [f"%{name}" for name in islice(reversed(self.scope), _MOST_NAMES)]
            for name, (_, at) in self.forward.items():
                few = len(self.undeclared) < _MOST_HINTS
                self.undeclared.append((at, did_you_mean(f"%{name}", near) if few else ""))
            self.scope, self.forward = outer
        else:
            self.leave(size)
        self.blocks, self.undefined_blocks = blocks, undefined
        self.default_dialect, self.depth, self.op = default, depth, name
        self.level = level

    def _op_region(self, op: str, arguments: Sequence[Argument], *, pretty: bool = True) -> Region:
        self.expect("{", "expected '{' to begin a region")
        if self.tok == "}" and not arguments:
            self.next()
            return Region()
        with self._names_of(op, pretty=pretty):
            if self.level % LEVELS_A_STACK == 0:
                blocks = self.stacks.call(lambda: self._blocks(arguments))
            else:
                blocks = self._blocks(arguments)
            self.next()
        return Region(tuple(blocks))

    def _blocks(self, arguments: Sequence[Argument]) -> list[Block]:
        blocks: list[Block] = []
        if self.kind == "block":
            if arguments:
                message = "invalid block name in region with named arguments"
                self.fail_plainly(message, self.start, self.end)
        else:
            block = Block()
            self._set_arguments(block, arguments, entry=True)
            blocks.append(block)
            self._operations(block)
        while self.kind == "block":
            block = self._label()
            blocks.append(block)
            self._operations(block)
        return blocks

    def _set_arguments(
        self, block: Block, arguments: Sequence[Argument], *, entry: bool = False
    ) -> None:
        values = []
        for number, (name, type, at, location) in enumerate(arguments):
            value = Value(type, block, number, name, location or UNKNOWN, at)
            if entry and name in self.scope:
                message = f"region entry argument '%{name}' is already in use"
                self.fail_plainly(message, at)
            self.define(name, (value,), at)
            if self.forward:
                value = self.adopt(name, 0, value)
                self.scope[name] = value
            values.append(value)
        block.arguments = tuple(values)

    def _label(self) -> Block:
        label, at, end = self.tok[1:], self.start, self.end
        if label in self.blocks and label not in self.undefined_blocks:
            self.fail_plainly(f"redefinition of block '^{label}'", at, end)
        block = self.block_named(label, at)
        self.undefined_blocks.pop(label, None)
        self.next()
        if self.tok == "(":
            self._set_arguments(block, self.arguments(types=True))
        self.expect(":", "expected ':' after block name")
        return block

    def _operations(self, block: Block) -> None:
        """Read the operations up to `}` or the next block."""
        operations: list[Operation] = []
        while True:
            if self.tok == "}" or self.kind == "block":
                break
            operations.append(self.operation())
        for operation in operations:
            operation.parent = block
        block.operations = tuple(operations)

    def successor(self) -> Block:
        """Read `^label`."""
        if self.kind != "block":
            self.wrong("expected block name")
        block = self.block_named(self.tok[1:], self.start)
        self.next()
        return block
