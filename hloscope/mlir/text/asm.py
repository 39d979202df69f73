"""How a dialect says the pretty forms of its ops: two functions, one that reads, one that writes.

`mlir.parser` and `mlir.printer` implement the two protocols.  They follow MLIR's OpAsmParser and
OpAsmPrinter, so that a form can be said in the terms of MLIR's own descriptions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, NoReturn, Protocol, TypeAlias

from msgspec import Struct, field

from hloscope.errors import HloscopeError, ParseError
from hloscope.ir import FunctionType, Type
from hloscope.mlir.attributes import Attribute, SymbolAttr
from hloscope.mlir.ir import Block, Operation, Region, Value
from hloscope.mlir.locations import Location


class Use(NamedTuple):
    """A use of a value in the text, not resolved yet: its name without `%`, number, position."""

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
    """What a pretty form has read of one op.  The reader makes the `Operation` of it.

    `location` is that of a form which reads its own `loc(…)`.
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
    """Reads the parts of an op at the current token.

    `try_…` return `None` or `False` and read nothing if the part is not there; the others raise
    `ParseError` with MLIR's message, `expected 'x'`, at the token.
    """

    @property
    def at(self) -> int:
        """Position of the current token in the text."""

    @property
    def mnemonic_at(self) -> int:
        """Where the last type or attribute of a dialect begins, with `!` or `#`."""

    @property
    def results(self) -> int:
        """How many results the text gives names to."""

    def fail(self, message: str, at: int | None = None, end: int | None = None) -> NoReturn:
        """Raise `ParseError` there, at the current token by default.

        While a pretty form is read the message begins with `custom op 'name' ` as MLIR's does.
        """

    def report(self, message: str, at: int | None = None) -> None:
        """Note an error as `fail` does, but go on: MLIR says some errors in two messages."""

    def keep(self, error: ParseError) -> None:
        """Note an error that was raised already, before another is raised."""

    def peek(self) -> str:
        """The text of the current token."""

    def try_token(self, token: str) -> bool:
        """Read punctuation (`(`, `->`, `<`, `x` …) or fail to."""

    def token(self, token: str) -> None:
        """Read punctuation."""

    def try_keyword(self, *words: str) -> str | None:
        """Read one of these words, or any word if none is given."""

    def keyword(self, *words: str) -> str:
        """Read one of these words, or any word if none is given."""

    def try_use(self) -> Use | None:
        """Read `%name`."""

    def use(self) -> Use:
        """Read `%name`."""

    def plain_arguments(self) -> list[Argument]:
        """Read `%a: t,` as often as it comes before other arguments, with types known already."""

    def plain_results(self) -> list[tuple[Type, Attribute | None]]:
        """Read `t,` or `t {a = "…"},` as often as it comes before other results.

        Their types are known already.
        """

    def uses(self, until: str = "") -> list[Use]:
        """Read uses separated by commas; none at all is fine."""

    def type(self) -> Type:
        """Read a type."""

    def try_type(self) -> Type | None:
        """Read a type."""

    def type_list(self) -> list[Type]:
        """Read one or more types separated by commas, without parentheses."""

    def function_type(self) -> FunctionType:
        """Read `(a, b) -> c` or `(a, b) -> (c, d)`; another type is an error."""

    def try_function_type(self) -> FunctionType | None:
        """The same if the current token is `(`."""

    def resolve(self, use: Use, type: Type, state: State) -> None:
        """Find the value of a use, which has this type, and append it to the operands."""

    def attribute(self, type: Type | None = None) -> Attribute:
        """Read an attribute; a number without `: type` has the given type (`i64` if none)."""

    def try_attribute(self, type: Type | None = None) -> Attribute | None:
        """Read an attribute."""

    def floating(self) -> float:
        """Read a floating-point number with its sign."""

    def bracketed(self) -> str:
        """Read `<…>`, `[…]` or `{…}` up to the bracket that closes it: the text, in one line."""

    def integer(self) -> int:
        """Read a decimal integer with its sign."""

    def try_integer(self) -> int | None:
        """Read a decimal integer with its sign."""

    def string(self) -> bytes:
        """Read `"…"`."""

    def try_symbol(self) -> SymbolAttr | None:
        """Read `@name` or `@a::@b`."""

    def symbol(self) -> SymbolAttr:
        """Read `@name` or `@a::@b`."""

    def dictionary(self, state: State) -> None:
        """Read `{…}` if it is there; each entry goes to properties or attributes."""

    def attributes_with_keyword(self, state: State) -> None:
        """Read `attributes {…}` if it is there."""

    def location(self) -> Location | None:
        """Read `loc(…)` if it is there."""

    def arguments(self, *, types: bool) -> list[Argument]:
        """Read `(%a: t, %b: t)`, each with its `loc(…)` if it has one."""

    def successor(self) -> Block:
        """Read `^label`."""

    def region(self, arguments: Sequence[Argument] = ()) -> Region:
        """Read `{…}`, whose entry block has these arguments."""


class UnfitError(HloscopeError):
    """An op lacks what its pretty form says, so that only the generic form can say it.

    Forms raise it before they write anything.
    """


class AsmPrinter(Protocol):
    """Writes the parts of an op."""

    def write(self, text: str) -> None:
        """Write as is."""

    def value(self, value: Value) -> None:
        """Write `%name`."""

    def values(self, values: Sequence[Value]) -> None:
        """Write `%a, %b`."""

    def argument(self, argument: Value, attributes: Attribute | None = None) -> None:
        """Write `%a: t {…}` of a region's argument, with its location where they are written."""

    def newline(self) -> None:
        """Begin a line at the current indentation."""

    def type(self, type: Type) -> None:
        """Write a type."""

    def types(self, types: Sequence[Type]) -> None:
        """Write types separated by commas."""

    def function_type(self, inputs: Sequence[Type], results: Sequence[Type]) -> None:
        """Write `(a, b) -> c`, with parentheses around results unless there is exactly one."""

    def attribute(self, attribute: Attribute, *, type: bool = True) -> None:
        """Write an attribute, with its `: type` unless asked not to."""

    def symbol(self, name: str) -> None:
        """Write `@name`, with quotes where it needs them."""

    def string(self, value: bytes | str) -> None:
        """Write `"…"` with escapes."""

    def generic(self, op: Operation) -> None:
        """Write what follows the name in the generic form, `(%a) <{…}> : (a) -> b`."""

    def dictionary(
        self, op: Operation, leave_out: Sequence[str] = (), *, keyword: bool = False
    ) -> None:
        """Write ` {…}` of properties and attributes not left out, nothing if none remains.

        With the keyword it is ` attributes {…}`.
        """

    def successor(self, block: Block) -> None:
        """Write `^label`."""

    def region(self, region: Region, *, arguments: bool = True, terminator: bool = True) -> None:
        """Write `{…}`, without the label of the entry block unless its arguments are written."""


Read: TypeAlias = Callable[[AsmParser, State], None]
Write: TypeAlias = Callable[[AsmPrinter, Operation], None]


class Form(NamedTuple):
    """The pretty form of an op.

    Attributes:
        read: Reads it.
        write: Writes it.
        typed_last: What ends it and nothing before it depends on: `function`, the type of one, or
            `same`, which is that or the type of all operands and the result; else empty.
        reread: Makes an op equal to the one that is read from the form written of it, where the
            form leaves out something of its regions.
    """

    read: Read
    write: Write
    typed_last: str = ""
    reread: Callable[[Operation], None] | None = None


Forms: TypeAlias = Mapping[str, Form]
"""Pretty forms by the op's full name."""
