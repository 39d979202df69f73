"""Text of a dialect's ops, types and attributes: protocols for functions that read and write it.

The parsers and the printer of `mlir.text` implement the protocols. They follow MLIR's AsmParser,
OpAsmParser and AsmPrinter, so that a pretty form can follow MLIR's own description.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, NoReturn, Protocol, TypeAlias, TypeVar

from msgspec import Struct, field

from hloscope.errors import HloscopeError, ParseError
from hloscope.ir import FunctionType, Type
from hloscope.mlir.ir import Attribute, Block, Operation, Region, SymbolAttr, Value
from hloscope.mlir.locations import Location

T = TypeVar("T")


class Use(NamedTuple):
    """A use `%name#number` of a value that is not yet resolved.

    `number` is 0 without `#`; `at` is the offset of the use in the text.
    """

    name: str
    number: int
    at: int


class Argument(NamedTuple):
    """An argument `%name: type` of a region, as read by a pretty form before its `Value` exists.

    `at` is the offset of the name in the text.
    """

    name: str
    type: Type
    at: int
    location: Location | None = None


class State(Struct):
    """The parts of one op that a pretty form has read; the parser makes an `Operation` of them.

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
    """Reads types, attributes and their parts, from the current token of a text on.

    `try_…` methods return `None` or `False`, and read nothing, if the part is absent. The others
    raise `ParseError` with MLIR's message, `expected 'x'`, at the token.
    """

    @property
    def at(self) -> int:
        """Offset of the current token in the text."""

    @property
    def mnemonic_at(self) -> int:
        """Offset of the `!` or `#` of the dialect type or attribute that was read last."""

    def fail(self, message: str, at: int | None = None, end: int | None = None) -> NoReturn:
        """Raise a `ParseError` at offsets `[at, end)`, by default at the current token.

        While a pretty form is read, the message begins with `custom op 'name' `, as MLIR's does.
        """

    def report(self, message: str, at: int | None = None) -> None:
        """Record the error that `fail` would raise; MLIR reports some errors twice."""

    def keep(self, error: ParseError) -> None:
        """Record a caught error, so that it is reported before the error that stops parsing."""

    def peek(self) -> str:
        """Return the text of the current token."""

    def try_token(self, token: str) -> bool:
        """Read the punctuation `token` (`(`, `->`, `<`, `x` …); return false if it is not there."""

    def token(self, token: str) -> None:
        """Read the punctuation `token`."""

    def tokens(self, *tokens: str) -> None:
        """Read these words and punctuation marks, in this order."""

    def try_keyword(self, *words: str) -> str | None:
        """Read one of these words, or any word if none is given; return it, or `None` if absent."""

    def keyword(self, *words: str) -> str:
        """Read and return one of these words, or any word if none is given."""

    def try_integer(self) -> int | None:
        """Read and return a decimal integer with its sign; `None` if none begins here."""

    def integer(self) -> int:
        """Read and return a decimal integer with its sign."""

    def floating(self) -> float:
        """Read and return a floating-point number with its sign."""

    def string(self) -> bytes:
        """Read a string `"…"`, and return its bytes without quotes and escapes."""

    def bracketed(self) -> str:
        """Read `<…>`, `[…]` or `{…}`, and return its text in one line."""

    def try_symbol(self) -> SymbolAttr | None:
        """Read and return the symbol `@name` or `@a::@b`; `None` if none begins here."""

    def symbol(self) -> SymbolAttr:
        """Read and return the symbol `@name` or `@a::@b`."""

    def type(self) -> Type:
        """Read and return a type."""

    def try_type(self) -> Type | None:
        """Read and return a type; `None` if none begins here."""

    def items(self, read: Callable[[], T], close: str = "", message: str = "") -> list[T]:
        """Read and return items that `read` reads, separated by commas.

        With `close`, the list may be empty, and the token `close` after it is read, too; `message`
        is the error if it is missing.
        """

    def type_list(self) -> list[Type]:
        """Read and return one or more types separated by commas, without parentheses."""

    def function_type(self) -> FunctionType:
        """Read and return a function type, `(a, b) -> c` or `(a, b) -> (c, d)`.

        Another type is an error.
        """

    def try_function_type(self) -> FunctionType | None:
        """Read and return a function type; `None` if the current token is not `(`."""

    def attribute(self, type: Type | None = None) -> Attribute:
        """Read and return an attribute.

        A number without `: type` has the type `type`, or `i64` by default.
        """

    def try_attribute(self, type: Type | None = None) -> Attribute | None:
        """Read and return an attribute; `None` if none begins here.

        A number without `: type` has the type `type`.
        """


class OpAsmParser(AsmParser, Protocol):
    """Reads the parts of an op, from the current token of a text on."""

    @property
    def results(self) -> int:
        """Number of results that the text names before the op."""

    def operation_name(self) -> str:
        """Read and return an op's name; that of an older dialect becomes its successor's."""

    def try_use(self) -> Use | None:
        """Read and return the use of a value, `%name`; `None` if none begins here."""

    def use(self) -> Use:
        """Read and return the use of a value, `%name`."""

    def uses(self) -> list[Use]:
        """Read and return uses of values separated by commas; the list may be empty."""

    def plain_arguments(self) -> list[Argument]:
        """Read and return arguments `%a: t,` at the start of a list, if `t` occurred before."""

    def plain_results(self) -> list[tuple[Type, Attribute | None]]:
        """Read and return results `t,` or `t {…},` at a list's start, if `t` occurred before."""

    def resolve(self, use: Use, type: Type, state: State) -> None:
        """Append the value that `use` names to the operands of `state`.

        Raises:
            ParseError: The value has another type.
        """

    def dictionary(self, state: State) -> None:
        """Read an optional `{…}` into the properties and attributes of `state`."""

    def attributes_with_keyword(self, state: State) -> None:
        """Read an optional `attributes {…}` into the properties and attributes of `state`."""

    def location(self) -> Location | None:
        """Read and return an optional `loc(…)`; `None` if there is none."""

    def arguments(self, *, types: bool) -> list[Argument]:
        """Read and return arguments `(%a: t, %b: t)`, each with an optional `loc(…)`.

        Without `types`, the text is `(%a, %b)`.
        """

    def successor(self) -> Block:
        """Read and return a successor block, `^label`."""

    def region(self, arguments: Sequence[Argument] = ()) -> Region:
        """Read and return a region `{…}`, whose entry block has these arguments."""


class UnfitError(HloscopeError):
    """An op lacks a part of its pretty form, so that only the generic form can express it.

    A form raises it before it writes text.
    """


class AsmPrinter(Protocol):
    """Writes the parts of an op to the text."""

    def write(self, *parts: str | Value) -> None:
        """Write each part: a text unchanged, a value as `%name`."""

    def values(self, values: Sequence[Value]) -> None:
        """Write values as `%a, %b`."""

    def typed(self, values: Sequence[Value]) -> None:
        """Write values and their types as `%a, %b : t, u`."""

    def argument(self, argument: Value, attributes: Attribute | None = None) -> None:
        """Write a region's argument as `%a: t {…}`, with its location if locations are printed.

        `attributes` is the dictionary that is written.
        """

    def newline(self) -> None:
        """Begin a new line at the current indentation."""

    def type(self, type: Type) -> None:
        """Write a type as MLIR prints it."""

    def types(self, values: Sequence[Value]) -> None:
        """Write the types of values, separated by commas."""

    def function_type(self, operands: Sequence[Value], results: Sequence[Value]) -> None:
        """Write the function type of an op as `(a, b) -> c`.

        Results are in parentheses unless there is exactly one.
        """

    def attribute(self, attribute: Attribute, *, type: bool = True) -> None:
        """Write an attribute; without `: type` if `type` is false."""

    def symbol(self, name: str) -> None:
        """Write a symbol as `@name`, with quotes if the name needs them."""

    def string(self, value: bytes | str) -> None:
        """Write a string as `"…"` with escapes."""

    def generic(self, op: Operation) -> None:
        """Write the generic form of an op after its name, `(%a) <{…}> : (a) -> b`."""

    def dictionary(
        self, op: Operation, leave_out: Sequence[str] = (), *, keyword: bool = False
    ) -> None:
        """Write the properties and attributes of an op as ` {…}`, except those in `leave_out`.

        If all are left out, nothing is written. With `keyword` the text is ` attributes {…}`.
        """

    def successor(self, block: Block) -> None:
        """Write a successor block as `^label`."""

    def region(self, region: Region, *, arguments: bool = True, terminator: bool = True) -> None:
        """Write a region as `{…}`.

        The label of the entry block is written only if its arguments are. Without `terminator`, the
        last op of the entry block is omitted.
        """


Read: TypeAlias = Callable[[OpAsmParser, State], None]
Write: TypeAlias = Callable[[AsmPrinter, Operation], None]


class Form(NamedTuple):
    """The pretty form of an op.

    Attributes:
        read: Function that reads the form.
        write: Function that writes the form.
        typed_last: Type at the end of the form that no earlier part depends on: `function` type, or
            `same`, a function type or the common type of operands and result; else empty.
        reread: Function that changes an op as printing and reading it would, if the form omits a
            part of its regions.
    """

    read: Read
    write: Write
    typed_last: str = ""
    reread: Callable[[Operation], None] | None = None


Forms: TypeAlias = Mapping[str, Form]
"""Pretty forms of ops, by the op's full name."""
