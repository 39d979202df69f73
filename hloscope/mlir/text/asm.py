"""Text of a dialect's ops, types and attributes: protocols for functions that read and write it.

The parsers and the printer of `mlir.text` implement the protocols. They follow MLIR's AsmParser,
OpAsmParser and AsmPrinter, so that a pretty form can follow MLIR's own description.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, NoReturn, Protocol, TypeAlias

from msgspec import Struct, field

from hloscope.errors import HloscopeError, ParseError
from hloscope.ir import FunctionType, Type
from hloscope.mlir.ir import Attribute, Block, Operation, Region, SymbolAttr, Value
from hloscope.mlir.locations import Location


class Use(NamedTuple):
    """An unresolved use of a value in the text: its name without `%`, number, position."""

    name: str
    number: int
    at: int


class Argument(NamedTuple):
    """An argument of a region as a pretty form declares it."""

    name: str
    type: Type
    at: int
    location: Location | None = None


class State(Struct):
    """The parts of one op that a pretty form has read; the parser makes the `Operation` from them.

    `location` is set by a form that reads its own `loc(…)`.
    """

    name: str
    operands: list[Value] = field(default_factory=list)
    types: list[Type] = field(default_factory=list)
    properties: dict[str, Attribute] = field(default_factory=dict)
    attributes: dict[str, Attribute] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)
    successors: list[Block] = field(default_factory=list)
    successor_operands: list[int] = field(default_factory=list)
    location: Location | None = None


class AsmParser(Protocol):
    """Reads types, attributes and their parts at the current token.

    `try_…` methods return `None` or `False`, and read nothing, if the part is absent. The others
    raise `ParseError` with MLIR's message, `expected 'x'`, at the token.
    """

    @property
    def at(self) -> int:
        """Position of the current token in the text."""

    @property
    def mnemonic_at(self) -> int:
        """Position of the last type or attribute of a dialect, with `!` or `#`."""

    def fail(self, message: str, at: int | None = None, end: int | None = None) -> NoReturn:
        """Raise `ParseError` at `at`, by default at the current token.

        While a pretty form is read, the message begins with `custom op 'name' `, as MLIR's does.
        """

    def report(self, message: str, at: int | None = None) -> None:
        """Record an error as `fail` does, and continue: MLIR reports some errors twice."""

    def keep(self, error: ParseError) -> None:
        """Record an error that was raised already, before another is raised."""

    def peek(self) -> str:
        """Return the text of the current token."""

    def try_token(self, token: str) -> bool:
        """Read punctuation (`(`, `->`, `<`, `x` …); false if the token is another."""

    def token(self, token: str) -> None:
        """Read punctuation."""

    def try_keyword(self, *words: str) -> str | None:
        """Read one of these words, or any word if none is given."""

    def keyword(self, *words: str) -> str:
        """Read one of these words, or any word if none is given."""

    def try_integer(self) -> int | None:
        """Read a decimal integer with its sign; `None` if none begins here."""

    def integer(self) -> int:
        """Read a decimal integer with its sign."""

    def floating(self) -> float:
        """Read a floating-point number with its sign."""

    def string(self) -> bytes:
        """Read `"…"`."""

    def bracketed(self) -> str:
        """Return the text of `<…>`, `[…]` or `{…}` up to its closing bracket, in one line."""

    def try_symbol(self) -> SymbolAttr | None:
        """Read `@name` or `@a::@b`; `None` if none begins here."""

    def symbol(self) -> SymbolAttr:
        """Read `@name` or `@a::@b`."""

    def type(self) -> Type:
        """Read a type."""

    def try_type(self) -> Type | None:
        """Read a type; `None` if none begins here."""

    def type_list(self) -> list[Type]:
        """Read one or more types separated by commas, without parentheses."""

    def function_type(self) -> FunctionType:
        """Read `(a, b) -> c` or `(a, b) -> (c, d)`; another type is an error."""

    def try_function_type(self) -> FunctionType | None:
        """Read a function type; `None` if the current token is not `(`."""

    def attribute(self, type: Type | None = None) -> Attribute:
        """Read an attribute; a number without `: type` has the given type (`i64` if none)."""

    def try_attribute(self, type: Type | None = None) -> Attribute | None:
        """Read an attribute; `None` if none begins here."""


class OpAsmParser(AsmParser, Protocol):
    """Reads the parts of an op at the current token."""

    @property
    def results(self) -> int:
        """Number of results that the text names."""

    def operation_name(self) -> str:
        """Read an op's name; that of an older dialect becomes its successor's."""

    def try_use(self) -> Use | None:
        """Read `%name`."""

    def use(self) -> Use:
        """Read `%name`."""

    def uses(self, until: str = "") -> list[Use]:
        """Read uses separated by commas; the list may be empty.

        With `until`, a comma before that token is not read.
        """

    def plain_arguments(self) -> list[Argument]:
        """Read arguments `%a: t,` of known types that precede other arguments."""

    def plain_results(self) -> list[tuple[Type, Attribute | None]]:
        """Read results `t,` or `t {a = "…"},` of known types that precede other results."""

    def resolve(self, use: Use, type: Type, state: State) -> None:
        """Append the value of a use to the operands.

        Raises:
            ParseError: The value has another type.
        """

    def dictionary(self, state: State) -> None:
        """Read an optional `{…}` into properties and attributes."""

    def attributes_with_keyword(self, state: State) -> None:
        """Read an optional `attributes {…}`."""

    def location(self) -> Location | None:
        """Read an optional `loc(…)`."""

    def arguments(self, *, types: bool) -> list[Argument]:
        """Read `(%a: t, %b: t)`, each with an optional `loc(…)`."""

    def successor(self) -> Block:
        """Read `^label`."""

    def region(self, arguments: Sequence[Argument] = ()) -> Region:
        """Read `{…}`, whose entry block has these arguments."""


class UnfitError(HloscopeError):
    """An op lacks a part of its pretty form, so only the generic form can express it.

    Forms raise it before they write anything.
    """


class AsmPrinter(Protocol):
    """Writes the parts of an op."""

    def write(self, text: str) -> None:
        """Write text unchanged."""

    def value(self, value: Value) -> None:
        """Write `%name`."""

    def values(self, values: Sequence[Value]) -> None:
        """Write `%a, %b`."""

    def argument(self, argument: Value, attributes: Attribute | None = None) -> None:
        """Write `%a: t {…}` of a region's argument, with its location if locations are printed."""

    def newline(self) -> None:
        """Begin a line at the current indentation."""

    def type(self, type: Type) -> None:
        """Write a type."""

    def types(self, types: Sequence[Type]) -> None:
        """Write types separated by commas."""

    def function_type(self, inputs: Sequence[Type], results: Sequence[Type]) -> None:
        """Write `(a, b) -> c`, with parentheses around results unless there is exactly one."""

    def attribute(self, attribute: Attribute, *, type: bool = True) -> None:
        """Write an attribute, with its `: type` unless `type` is false."""

    def symbol(self, name: str) -> None:
        """Write `@name`, with quotes if the name needs them."""

    def string(self, value: bytes | str) -> None:
        """Write `"…"` with escapes."""

    def generic(self, op: Operation) -> None:
        """Write the generic form after the op's name, `(%a) <{…}> : (a) -> b`."""

    def dictionary(
        self, op: Operation, leave_out: Sequence[str] = (), *, keyword: bool = False
    ) -> None:
        """Write ` {…}` of properties and attributes; nothing if all are omitted.

        With the keyword it is ` attributes {…}`.
        """

    def successor(self, block: Block) -> None:
        """Write `^label`."""

    def region(self, region: Region, *, arguments: bool = True, terminator: bool = True) -> None:
        """Write `{…}`, without the label of the entry block unless its arguments are written."""


Read: TypeAlias = Callable[[OpAsmParser, State], None]
Write: TypeAlias = Callable[[AsmPrinter, Operation], None]


class Form(NamedTuple):
    """The pretty form of an op.

    Attributes:
        read: Reads it.
        write: Writes it.
        typed_last: Type at the end of the form that no earlier part depends on: `function` type, or
            `same`, a function type or the common type of operands and result; else empty.
        reread: Changes an op as printing and reading it would, where the
            form omits a part of its regions.
    """

    read: Read
    write: Write
    typed_last: str = ""
    reread: Callable[[Operation], None] | None = None


Forms: TypeAlias = Mapping[str, Form]
"""Pretty forms by the op's full name."""
