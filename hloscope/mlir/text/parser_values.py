"""Names of values and blocks: their definitions and uses.

Source: MLIR language reference, "Value scoping".
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from hloscope.errors import Diagnostic
from hloscope.ir import Type
from hloscope.mlir.definitions import Dialects
from hloscope.mlir.ir import Block, Operation, Value
from hloscope.mlir.text.asm import Use
from hloscope.mlir.text.lexer import NAME, TextError
from hloscope.mlir.text.parser_attributes import AttributeParser
from hloscope.mlir.types import type_text
from hloscope.support.lazy import pattern
from hloscope.support.source import Source, Span

_LISTED: Final = pattern(rf" ?%({NAME})(?:#(\d{{1,9}}))?,(?= %)", re.ASCII)


class ValueParser(AttributeParser):
    """Parser with the values and blocks that names refer to.

    Attributes:
        scope: Values by name, in the order of their definition; several results (`%0:2`) are named
            `0#1`, the first one also `0`.
        forward: Values that are used but not defined yet, each with its first use.
        blocks: Blocks of the region being read, by label.
        undefined_blocks: First uses of labels of blocks that are not defined yet.
        undeclared: Uses of undefined values, with similar names.
        unread: Names of the results of skipped ops.
        used: Positions of the uses that the current op has resolved.
    """

    __slots__ = (
        "blocks",
        "forward",
        "scope",
        "undeclared",
        "undefined_blocks",
        "unread",
        "used",
    )

    def __init__(self, source: Source, dialects: Dialects, at: int = 0) -> None:
        super().__init__(source, dialects, at)
        self.scope: dict[str, Value] = {}
        self.forward: dict[str, tuple[Value, int]] = {}
        self.blocks: dict[str, Block] = {}
        self.undefined_blocks: dict[str, int] = {}
        self.undeclared: list[tuple[int, str]] = []
        self.unread: set[str] = set()
        self.used: list[int] = []

    # ----------------------------------------------------------------------------------- uses

    def try_use(self) -> Use | None:
        """Read `%name`; `None` if none begins here."""
        if self.kind != "value":
            return None
        name, _, number = self.tok[1:].partition("#")
        if len(number) > 9 or self.text.startswith("#", self.end):
            self.fail_plainly("invalid SSA value result number", self.start)
        use = Use(name, int(number) if number else 0, self.start)
        self.move(self.end)
        return use

    def use(self) -> Use:
        """Read `%name`."""
        use = self.try_use()
        if use is None:
            self.wrong("expected SSA operand")
        return use

    def uses(self, until: str = "") -> list[Use]:
        """Read uses separated by commas; the list may be empty."""
        uses, at = [], self.start
        while (found := _LISTED.match(self.text, at)) is not None:
            uses.append(Use(found[1], int(found[2] or 0), found.start(1) - 1))
            at = found.end()
        if uses:
            self.move(at)
        first = self.try_use()
        if first is None:
            if uses:
                self.wrong("expected SSA operand")
            return []
        uses.append(first)
        while self.tok == ",":
            if until and self.kind != "value" and self.after() == until:
                break
            self.next()
            uses.append(self.use())
        return uses

    def value(self, use: Use, type: Type) -> Value:
        """Return the value of a use.

        Raises:
            ParseError: The value has another type.
        """
        key = f"{use.name}#{use.number}" if use.number else use.name
        self.used.append(use.at)
        value = self.scope.get(key)
        if value is None:
            value = self._not_yet(key, use, type)
        if value.type is not type and value.type != type:
            self._other_type(use, value, type)
        return value

    def _not_yet(self, key: str, use: Use, type: Type) -> Value:
        first = self.scope.get(use.name)
        if first is not None:
            self.fail_plainly("reference to invalid result number", use.at)
        # The op that defines it was skipped after an error, which is enough of a message.
        if use.name in self.unread:
            return Value(type, name=use.name, index=use.number)
        # MLIR allows a use before the definition. Its value is made now, and `adopt` makes it the
        # result of the definition.
        pending = self.forward.get(key)
        if pending is None:
            pending = self.forward[key] = Value(type, name=use.name, index=use.number), use.at
        return pending[0]

    def _other_type(self, use: Use, value: Value, type: Type) -> NoReturn:
        have, want = type_text(type), type_text(value.type)
        message = (
            f"use of value '%{use.name}' expects different type than prior uses: "
            f"'{have}' vs '{want}'"
        )
        pending = self.forward.get(f"{use.name}#{use.number}" if use.number else use.name)
        note = self._where(value) if pending is None else self._span(pending[1], None)
        self._noted(message, use.at, "prior use here", note)

    def _where(self, value: Value) -> Span | None:
        return value.owner.span if isinstance(value.owner, Operation) else None

    def _noted(self, message: str, at: int, note: str, span: Span | None) -> NoReturn:
        """Raise an error with a note."""
        notes = () if span is None else (Diagnostic(note, span, severity="note"),)
        earlier, self._earlier = tuple(self._earlier), []
        raise TextError(message, span=self._span(at, None), earlier=earlier, notes=notes)

    # ---------------------------------------------------------------------------- definitions

    def define(self, name: str, values: tuple[Value, ...], at: int) -> None:
        """Name values."""
        scope = self.scope
        # The common case, a new name without earlier uses, needs no check.
        if name in scope or self.forward:
            self._define_slowly(name, values, at)
        if len(values) > 1:
            for number, value in enumerate(values):
                if number:
                    scope[f"{name}#{number}"] = value
        scope[name] = values[0]

    def _define_slowly(self, name: str, values: tuple[Value, ...], at: int) -> None:
        known = self.scope.get(name)
        if known is not None:
            message = f"redefinition of SSA value '%{name}'"
            self._noted(message, at, "previously defined here", self._where(known))
        for number, value in enumerate(values):
            pending = self.forward.get(f"{name}#{number}" if number else name)
            if pending is not None and pending[0].type != value.type:
                message = f"definition of SSA value '%{name}#{number}' has type "
                message += f"'{type_text(value.type)}'"
                note = f"previously used here with type '{type_text(pending[0].type)}'"
                self._noted(message, at, note, self._span(pending[1], None))

    def adopt(self, name: str, number: int, value: Value) -> Value:
        """Return the value to define: that of earlier uses if there were any, else `value`."""
        if not self.forward:
            return value
        pending = self.forward.pop(f"{name}#{number}" if number else name, None)
        if pending is None:
            return value
        found = pending[0]
        found.owner, found.index, found.location = value.owner, value.index, value.location
        return found

    # --------------------------------------------------------------------------------- blocks

    def block_named(self, label: str, at: int) -> Block:
        """Return the block of a label, which may be defined later."""
        block = self.blocks.get(label)
        if block is None:
            block = self.blocks[label] = Block(label=label)
            self.undefined_blocks[label] = at
        return block

    def leave(self, size: int) -> None:
        """Remove the values that were defined after the scope had `size` entries."""
        scope = self.scope
        while len(scope) > size:
            scope.popitem()
