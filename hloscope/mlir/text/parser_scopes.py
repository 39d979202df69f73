"""Names of values and blocks: their definitions and uses.

Source: MLIR language reference, "Value scoping".
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple, NoReturn

from hloscope.errors import Diagnostic, did_you_mean
from hloscope.ir import Type
from hloscope.mlir.ir import Block, Operation, Value
from hloscope.mlir.locations import UNKNOWN
from hloscope.mlir.text.asm import Argument, Use
from hloscope.mlir.text.lexer import Lexer
from hloscope.mlir.types import type_text
from hloscope.support.source import Span

_MOST_HINTS: Final = 10
_MOST_NAMES: Final = 500


class ScopeState(NamedTuple):
    """The state of a scope before a region or an op, to which `Scope.restore` returns.

    Attributes:
        values: Values by name.
        size: Number of values that are defined.
        forward: Values that are used but not defined yet, each with its first use.
        blocks: Blocks by label.
        undefined_blocks: Offset of the first use of each block that is not defined yet.
    """

    values: dict[str, Value]
    size: int
    forward: dict[str, tuple[Value, int]]
    blocks: dict[str, Block]
    undefined_blocks: dict[str, int]


class Scope:
    """The values and blocks that names refer to.

    Attributes:
        values: Values by name, in the order of their definition; several results (`%0:2`) are named
            `0#1`, the first one also `0`.
        forward: Values that are used but not defined yet, each with its first use.
        undeclared: Uses of undefined values, with similar names.
        unread: Names of the results of skipped ops.
        used: Positions of the uses that the current op has resolved.
    """

    __slots__ = (
        *("_blocks", "_lexer", "_undefined_blocks"),
        *("forward", "undeclared", "unread", "used", "values"),
    )

    def __init__(self, lexer: Lexer) -> None:
        self._lexer: Final = lexer
        self.values: dict[str, Value] = {}
        self.forward: dict[str, tuple[Value, int]] = {}
        self._blocks: dict[str, Block] = {}
        self._undefined_blocks: dict[str, int] = {}
        self.undeclared: Final[list[tuple[int, str]]] = []
        self.unread: Final[set[str]] = set()
        self.used: list[int] = []

    # ---------------------------------------------------------------------------------- regions

    def state(self) -> ScopeState:
        """Return the current state, for `restore`."""
        return ScopeState(
            self.values, len(self.values), self.forward, self._blocks, self._undefined_blocks
        )

    def restore(self, state: ScopeState) -> None:
        """Forget the names that were defined since `state` was returned."""
        self.values, size, self.forward, self._blocks, self._undefined_blocks = state
        while len(self.values) > size:
            self.values.popitem()

    def enter(self, *, isolated: bool) -> ScopeState:
        """Begin a region, whose ops can use no values from outside if it is isolated."""
        state = self.state()
        if isolated:
            self.values, self.forward = {}, {}
        self._blocks, self._undefined_blocks = {}, {}
        return state

    def leave(self, state: ScopeState) -> None:
        """End the region before which `enter` returned `state`.

        Raises:
            ParseError: A block is undefined.
        """
        for label, at in self._undefined_blocks.items():
            self._lexer.fail_plainly(f"reference to an undefined block '^{label}'", at)
        if self.forward is not state.forward:
            near = [f"%{name}" for name in islice(reversed(self.values), _MOST_NAMES)]
            for name, (_, at) in self.forward.items():
                few = len(self.undeclared) < _MOST_HINTS
                self.undeclared.append((at, did_you_mean(f"%{name}", near) if few else ""))
        self.restore(state)

    # ----------------------------------------------------------------------------------- uses

    def try_use(self) -> Use | None:
        """Read a use `%name`; return `None` if the current token is not one."""
        lexer = self._lexer
        if lexer.kind != "value":
            return None
        name, _, number = lexer.tok[1:].partition("#")
        if len(number) > 9 or lexer.text.startswith("#", lexer.end):
            lexer.fail_plainly("invalid SSA value result number", lexer.start)
        use = Use(name, int(number) if number else 0, lexer.start)
        lexer.move(lexer.end)
        return use

    def use(self) -> Use:
        """Read `%name`."""
        use = self.try_use()
        if use is None:
            self._lexer.wrong("expected SSA operand")
        return use

    def uses(self) -> list[Use]:
        """Read uses separated by commas; the list may be empty."""
        lexer = self._lexer
        first = self.try_use()
        if first is None:
            return []
        uses = [first]
        while lexer.tok == ",":
            lexer.next()
            uses.append(self.use())
        return uses

    def value(self, use: Use, type: Type) -> Value:
        """Return the value of a use.

        Raises:
            ParseError: The value has another type.
        """
        key = f"{use.name}#{use.number}" if use.number else use.name
        self.used.append(use.at)
        value = self.values.get(key)
        if value is None:
            value = self._not_yet(key, use, type)
        if value.type is not type and value.type != type:
            self._other_type(use, value, type)
        return value

    def _not_yet(self, key: str, use: Use, type: Type) -> Value:
        """Return a value for a use before the definition, which `define` takes over.

        `key` is the key of the value in `values`.
        """
        first = self.values.get(use.name)
        if first is not None:
            self._lexer.fail_plainly("reference to invalid result number", use.at)
        # The op that defines it was skipped after an error, which is enough of a message.
        if use.name in self.unread:
            return Value(type, name=use.name, index=use.number)
        # MLIR allows a use before the definition. Its value is made now, and
        # `define` makes it the result of the definition.
        pending = self.forward.get(key)
        if pending is None:
            pending = self.forward[key] = Value(type, name=use.name, index=use.number), use.at
        return pending[0]

    def _other_type(self, use: Use, value: Value, type: Type) -> NoReturn:
        """Raise an error about a use of a value with another type, `type`, than the value has."""
        have, want = type_text(type), type_text(value.type)
        message = (
            f"use of value '%{use.name}' expects different type than prior uses: "
            f"'{have}' vs '{want}'"
        )
        pending = self.forward.get(f"{use.name}#{use.number}" if use.number else use.name)
        note = self._where(value) if pending is None else self._lexer.span(pending[1], None)
        self._fail_with_note(message, use.at, "prior use here", note)

    def _where(self, value: Value) -> Span | None:
        return value.owner.span if isinstance(value.owner, Operation) else None

    def _fail_with_note(self, message: str, at: int, note: str, span: Span | None) -> NoReturn:
        """Raise an error with message `message` at offset `at`, and a note at `span`."""
        notes = () if span is None else (Diagnostic(note, span, severity="note"),)
        self._lexer.fail_plainly(message, at, notes=notes)

    # ---------------------------------------------------------------------------- definitions

    def define(self, name: str, values: Sequence[Value], at: int) -> Sequence[Value]:
        """Define `name` as these values, at offset `at`; return the values.

        A value that was used before its definition is returned in place of the new one.
        """
        # The common case, a new name without earlier uses, needs no check.
        if name in self.values or self.forward:
            values = self._defined(name, values, at)
        for number in range(1, len(values)):
            self.values[f"{name}#{number}"] = values[number]
        self.values[name] = values[0]
        return values

    def _defined(self, name: str, values: Sequence[Value], at: int) -> Sequence[Value]:
        known = self.values.get(name)
        if known is not None:
            message = f"redefinition of SSA value '%{name}'"
            self._fail_with_note(message, at, "previously defined here", self._where(known))
        keys = [f"{name}#{number}" if number else name for number in range(len(values))]
        for number, (key, value) in enumerate(zip(keys, values, strict=True)):
            pending = self.forward.get(key)
            if pending is not None and pending[0].type != value.type:
                message = f"definition of SSA value '%{name}#{number}' has type "
                message += f"'{type_text(value.type)}'"
                note = f"previously used here with type '{type_text(pending[0].type)}'"
                self._fail_with_note(message, at, note, self._lexer.span(pending[1], None))
        # A use before the definition has made a value, which other ops hold: it is the result, in
        # place of the new one.
        defined = []
        for key, value in zip(keys, values, strict=True):
            found = self.forward.pop(key, (value, at))[0]
            found.owner, found.index, found.location = value.owner, value.index, value.location
            defined.append(found)
        return defined

    def bind(
        self, operation: Operation, types: Sequence[Type], names: list[tuple[str, int, int]]
    ) -> None:
        """Create the results of an op with these types, and define their names.

        `names` has (name, number of results, offset) for each name before the `=`.
        """
        lexer = self._lexer
        if not names:
            operation.results = tuple(Value(type, operation, i) for i, type in enumerate(types))
            return
        at = names[0][2]
        if not types:
            lexer.fail_plainly("cannot name an operation with no results", at)
        count = sum(count for _, count, _ in names)
        if count != len(types):
            message = f"operation defines {len(types)} results but was provided {count} to bind"
            lexer.fail_plainly(message, at)
        values: list[Value] = []
        for name, count, at in names:
            start = len(values)
            group = [Value(types[i], operation, i, name) for i in range(start, start + count)]
            values += self.define(name, group, at)
        operation.results = tuple(values)

    def arguments(self, block: Block, arguments: Sequence[Argument], *, entry: bool) -> None:
        """Make and name the arguments of a block; an entry block cannot hide names from outside."""
        values: list[Value] = []
        for number, (name, type, at, location) in enumerate(arguments):
            value = Value(type, block, number, name, location or UNKNOWN, at)
            if entry and name in self.values:
                message = f"region entry argument '%{name}' is already in use"
                self._lexer.fail_plainly(message, at)
            values += self.define(name, (value,), at)
        block.arguments = tuple(values)

    # --------------------------------------------------------------------------------- blocks

    def block(self) -> Block:
        """Read the use of a block, `^label`; it may be defined later."""
        lexer = self._lexer
        if lexer.kind != "block":
            lexer.wrong("expected block name")
        label = lexer.tok[1:]
        block = self._blocks.get(label)
        if block is None:
            block = self._blocks[label] = Block(label=label)
            self._undefined_blocks[label] = lexer.start
        lexer.next()
        return block

    def label(self) -> Block:
        """Read `^label` where the block is defined."""
        lexer = self._lexer
        label = lexer.tok[1:]
        if label in self._blocks and label not in self._undefined_blocks:
            lexer.fail_plainly(f"redefinition of block '^{label}'")
        block = self.block()
        self._undefined_blocks.pop(label, None)
        return block
