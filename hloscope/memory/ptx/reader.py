"""Parser from PTX text to kernels."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from itertools import chain
from typing import Final, NamedTuple, NoReturn, TypeVar

from hloscope.errors import ParseError, did_you_mean
from hloscope.memory.ptx.syntax import (
    TYPES,
    Address,
    Guard,
    Immediate,
    Instruction,
    Kernel,
    Negated,
    Operand,
    Pair,
    PtxModule,
    Register,
    Symbol,
    Variable,
    Vector,
)
from hloscope.support.lazy import pattern
from hloscope.support.limits import MAX_BYTES
from hloscope.support.source import Source, Span

# --------------------------------------------------------------------------------------------------
# Tokens of PTX texts: names, numbers, strings and punctuation marks.


T = TypeVar("T")

_TOKEN: Final = pattern(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<float>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|\d+\.\d*(?:[eE][+-]?\d+)?)
    |(?P<int>0[xX][0-9a-fA-F]{1,32}U?|0[bB][01]{1,128}U?|\d{1,39}U?)
    |(?P<name>[%$A-Za-z_.](?:[\w$.]|::)*|%)
    |(?P<string>"[^"\n]*")
    |(?P<mark>[{}()\[\],;:@!|+\-<>=])""",
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """A token of PTX text; `kind` is `name`, `int`, `float`, `string`, `mark` or `end`."""

    kind: str
    text: str
    at: int


class Cursor:
    """The tokens of one text, with a position among them."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.tokens = list(self._tokens())
        self.at = 0

    def _tokens(self) -> list[Token]:
        found, at, text = [], 0, self.source.text
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ParseError(
                    f"unexpected character `{text[at]}`", span=Span(self.source, at, at + 1)
                )
            if match.lastgroup != "space":
                found.append(Token(str(match.lastgroup), match[0], at))
            at = match.end()
        found.append(Token("end", "end of file", at))
        return found

    @property
    def next(self) -> Token:
        """Return the next token without advancing."""
        return self.tokens[self.at]

    def take(self) -> Token:
        """Return the next token and advance; at the end of the file, return `end` again."""
        token = self.tokens[self.at]
        if token.kind != "end":
            self.at += 1
        return token

    def span(self, token: Token) -> Span:
        """Return the position of a token in the source."""
        return Span(self.source, token.at, token.at + max(1, len(token.text)))

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        """Raise a `ParseError` at a token, by default at the next one."""
        raise ParseError(message, span=self.span(token or self.next))

    def accept(self, text: str) -> bool:
        """Advance if the next token is `text`. Return whether it was."""
        if self.next.text == text:
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Advance past the token `text`.

        Raises:
            ParseError: The next token is another one.
        """
        if not self.accept(text):
            self.fail(f"expected `{text}`, found `{self.next.text}`")

    def name(self, what: str) -> str:
        """Return the text of the next token, which must be a name, and advance.

        `what` describes the expected name in the error message.

        Raises:
            ParseError: The next token is not a name.
        """
        if self.next.kind != "name":
            self.fail(f"expected {what}, found `{self.next.text}`")
        return self.take().text

    def integer(self) -> int:
        """Return the value of the next integer, with the signs before it, and advance past it."""
        negative = False
        while self.next.text in ("+", "-"):  # `[%rd1+-4]`
            negative ^= self.take().text == "-"
        if self.next.kind != "int":
            self.fail(f"expected an integer, found `{self.next.text}`")
        token = self.take()
        try:
            digits = token.text.rstrip("U")
            value = int(digits, 8 if digits[:1] == "0" and digits[1:].isdigit() else 0)
        except ValueError:
            self.fail(f"`{token.text}` is not an integer", token)
        return -value if negative else value

    def skip_line(self) -> None:
        """Skip the remaining tokens of the line of the last token."""
        text = self.source.text
        end = text.find("\n", self.tokens[self.at - 1].at)
        while self.next.kind != "end" and (end < 0 or self.next.at < end):
            self.at += 1

    def take_until(self, *ends: str) -> list[Token]:
        """Return the tokens before the next of `ends`, and advance to it."""
        first = self.at
        while self.next.text not in ends:
            if self.next.kind == "end":
                self.fail(f"expected `{'` or `'.join(ends)}`, found the end of the file")
            self.at += 1
        return self.tokens[first : self.at]

    def listed(self, read: Callable[[], T], close: str) -> list[T]:
        """Return what `read` returns for each part of a list, and advance past its end `close`."""
        found = []
        while not self.accept(close):
            found.append(read())
            if not self.accept(",") and self.next.text != close:
                self.fail(f"expected `,` or `{close}`, found `{self.next.text}`")
        return found

    def skip_block(self) -> None:
        """Skip the tokens from `{` to the matching `}`."""
        self.expect("{")
        depth = 1
        while depth:
            token = self.take()
            if token.kind == "end":
                self.fail("expected `}`, found the end of the file", token)
            depth += {"{": 1, "}": -1}.get(token.text, 0)


def parse_float(text: str) -> Immediate:
    """Return the constant that a float's text, such as `0f3F800000`, denotes."""
    if text[1:2] in ("f", "F"):
        return Immediate(int(text[2:], 16), "f32")
    if text[1:2] in ("d", "D"):
        return Immediate(int(text[2:], 16), "f64")
    return Immediate(int.from_bytes(struct.pack("<d", float(text)), "little"), "f64")


# --------------------------------------------------------------------------------------------------
# Parser from PTX text to kernels.
#
# Statements are stored as instructions without interpretation; `decoding` determines what they
# mean.


MOST_REGISTERS: Final = 1 << 18
"""Maximum number of registers of a kernel; more are an error.

XLA's largest sorts have thousands.
"""
MOST_SIZE: Final = MAX_BYTES
"""Maximum number of bytes of a variable."""
_SPACES: Final = ("global", "const", "shared", "local", "param")
_LINKING: Final = {".visible", ".extern", ".weak", ".common"}
_TO_LINE_END: Final = {".loc", ".file", ".version", ".address_size"}
_WITH_NUMBERS: Final = {
    ".reqntid",
    ".maxntid",
    ".minnctapersm",
    ".maxnctapersm",
    ".maxnreg",
    ".reqnctapercluster",
    ".maxclusterrank",
}
_ALONE: Final = {".noreturn", ".explicitcluster", ".blocksareclusters"}


def parse_ptx(text: str, name: str = "<string>") -> PtxModule:
    """Return the kernels of a PTX text.

    Args:
        text: The text.
        name: Name of the text in messages.

    Raises:
        ParseError: The text is not PTX, with line, column and a caret.
    """
    return _Reader(Source(name, text)).module()


class _Reader(Cursor):
    """Parser of one PTX text: directives, variables and kernels."""

    # The module.

    def module(self) -> PtxModule:
        target, variables = "", list[Variable]()
        kernels, functions = dict[str, Kernel](), list[str]()
        while self.next.kind != "end":
            token = self.take()
            if token.text in _TO_LINE_END:
                self.skip_line()
            elif token.text == ".target":
                target = self.name("a target")
                self.skip_line()
            elif token.text == ".section":
                self.name("a section")
                self.skip_block()
            elif token.text == ".pragma":
                self.skip_statement()
            elif token.text == ".func":
                functions.append(self.device_function())
            elif token.text == ".entry":
                kernel = self.kernel()
                if kernel.name in kernels:
                    self.fail(f"kernel `{kernel.name}` is defined twice", token)
                kernels[kernel.name] = kernel
            elif token.text.removeprefix(".") in _SPACES:
                variables += self.variables(token.text[1:])
            elif token.text not in _LINKING:
                self.fail(f"expected a directive, found `{token.text}`", token)
        return PtxModule(self.source, target, tuple(variables), kernels, tuple(functions))

    def skip_statement(self) -> None:
        self.take_until(";")
        self.take()

    def device_function(self) -> str:
        """Skip a device function, and return its name.

        Executed kernels may not call it.
        """
        if self.accept("("):
            self.take_until(")")
            self.take()
        name = self.name("the name of a function")
        self.take_until("{", ";")
        if not self.accept(";"):
            self.skip_block()
        return name

    def variables(self, space: str, *, is_param: bool = False) -> list[Variable]:
        """Return the variables declared up to `;`, such as `.align 4 .b8 name[16] = {1, 2}`.

        Args:
            space: State space of the variables.
            is_param: Return the one parameter that is declared here.
        """
        align, kind, is_pointer, parts = 0, "", False, 1
        while self.next.text.startswith("."):
            token = self.take()
            word = token.text[1:]
            if word == "align":
                align = self.integer()
            elif word == "ptr":
                is_pointer = True
            elif word in ("v2", "v4"):
                parts = int(word[1])
            elif word in TYPES:
                kind = word
            elif word not in (*_SPACES, "attribute", "managed", "unified"):
                self.fail(f"expected a type, found `{token.text}`", token)
        if not kind:
            self.fail(f"expected a type, found `{self.next.text}`")
        found = []
        while True:
            at = self.next
            name = self.name("the name of a variable")
            width = TYPES[kind].bytes * parts
            size = width * self.lengths(width)
            if size > MOST_SIZE:
                self.fail(f"`{name}` has {size:,} bytes, more than {MOST_SIZE:,}", at)
            data = self.initial(TYPES[kind].bytes, size) if self.accept("=") else b""
            found.append(Variable(name, space, size, align or width, data, kind, is_pointer))
            if is_param or self.accept(";"):
                return found
            self.expect(",")

    def lengths(self, width: int) -> int:
        """Return the number of elements of an array from its lengths: `[4][2]` is 8, a scalar is 1.

        The length `[]` is 0. `width` is the number of bytes of an element; a too large array is an
        error.
        """
        count = 1
        while self.accept("["):
            length = 0 if self.next.text == "]" else self.integer()
            count *= length
            if not 0 <= count * width <= 1 << 62:
                self.fail(f"an array of {count:,} elements is too large")
            self.expect("]")
        return count

    def initial(self, width: int, size: int) -> bytes:
        """Return the bytes of a variable's initial value, such as `{1, 2}`.

        Args:
            width: Bytes of an element.
            size: Maximum number of bytes of the value.
        """
        if self.accept("{"):
            data = b"".join(self.listed(lambda: self.element(width), "}"))
        else:
            data = self.element(width)
        if len(data) > size:
            self.fail(f"{len(data)} bytes of initial values do not fit into {size} bytes")
        return data

    def element(self, width: int) -> bytes:
        """Return the bytes of the next number, an element of `width` bytes of an initial value."""
        if self.next.kind == "float":
            value = parse_float(self.take().text)
            return value.value.to_bytes(8 if value.kind == "f64" else 4, "little")[:width]
        if self.next.kind == "name":
            self.fail("addresses of variables as initial values are not supported")
        return (self.integer() & ((1 << 8 * width) - 1)).to_bytes(width, "little")

    # Kernels.

    def kernel(self) -> Kernel:
        name_token = self.next
        name = self.name("the name of a kernel")
        params = self.listed(self.parameter, ")") if self.accept("(") else []
        limits: dict[str, tuple[int, ...]] = {}
        while self.next.text != "{":
            token = self.take()
            if token.text in _WITH_NUMBERS:
                numbers = [self.integer()]
                while self.accept(","):
                    numbers.append(self.integer())
                limits[token.text] = tuple(numbers)
            elif token.text == ".pragma":
                self.skip_statement()
            elif token.text not in _ALONE:
                self.fail(f"expected `{{` or a directive, found `{token.text}`", token)
        body = _Body(self)
        body.read()
        return Kernel(
            name,
            tuple(chain(*params)),
            body.registers,
            tuple(body.variables),
            tuple(body.code),
            body.labels,
            body.targets,
            limits.get(".reqntid", ()),
            limits.get(".maxntid", ()),
            self.span(name_token),
        )

    def parameter(self) -> list[Variable]:
        if self.name("`.param`") != ".param":
            self.fail("expected `.param`", self.tokens[self.at - 1])
        return self.variables("param", is_param=True)


class _Body:
    """Parser of the statements of one kernel.

    A register declared in an inner `{ }` hides an outer one of the same name. The inner one is
    renamed, so that register names are unique.
    """

    def __init__(self, reader: _Reader) -> None:
        self.reader = reader
        self.registers: dict[str, str] = {}
        self.variables: list[Variable] = []
        self.code: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.targets: dict[str, tuple[str, ...]] = {}
        self.scopes: list[dict[str, str]] = []
        """Registers declared in each open block: the unique name by the written name."""

    def read(self) -> None:
        reader = self.reader
        reader.expect("{")
        self.scopes.append({})
        while self.scopes:
            token = reader.take()
            match token.text:
                case "{":
                    self.scopes.append({})
                case "}":
                    self.scopes.pop()
                case ";":
                    pass
                case ".reg":
                    self.declare_registers()
                case ".shared" | ".local" | ".global" | ".const" | ".param":
                    self.variables += reader.variables(token.text[1:])
                case ".pragma":
                    reader.skip_statement()
                case ".loc":
                    reader.skip_line()
                case _ if token.kind == "name" and reader.next.text == ":":
                    self.label(token)
                case _ if token.kind == "name" or token.text == "@":
                    self.instruction(token)
                case _:
                    reader.fail(f"expected an instruction, found `{token.text}`", token)

    def declare_registers(self) -> None:
        reader = self.reader
        token = reader.next
        kind = reader.name("a type").removeprefix(".")
        if kind not in TYPES:
            reader.fail(f"unknown type `.{kind}` of registers{did_you_mean(kind, TYPES)}", token)
        while True:
            at = reader.next
            name = reader.name("the name of a register")
            names = [name]
            if reader.accept("<"):
                count = reader.integer()
                if count + len(self.registers) > MOST_REGISTERS:
                    reader.fail(f"more than {MOST_REGISTERS:,} registers", at)
                names = [f"{name}{i}" for i in range(count)]
                reader.expect(">")
            for each in names:
                unique = each
                while unique in self.registers:
                    if unique in self.scopes[-1].values():
                        reader.fail(f"register `{each}` is declared twice", at)
                    unique = f"{unique}'"
                self.scopes[-1][each] = unique
                self.registers[unique] = kind
            if reader.accept(";"):
                return
            reader.expect(",")

    def label(self, token: Token) -> None:
        reader = self.reader
        reader.expect(":")
        if reader.next.text in (".branchtargets", ".calltargets", ".callprototype"):
            listed = reader.take().text == ".branchtargets"
            names = reader.take_until(";")
            reader.take()
            if listed:
                self.targets[token.text] = tuple(n.text for n in names if n.kind == "name")
            return
        if token.text in self.labels:
            reader.fail(f"label `{token.text}` is defined twice", token)
        self.labels[token.text] = len(self.code)

    def instruction(self, token: Token) -> None:
        reader, guard = self.reader, None
        if token.text == "@":
            negated = reader.accept("!")
            guard = Guard(self.register(reader.next, reader.name("a predicate")), negated)
            token = reader.next
            reader.name("an instruction")
        operands = tuple(reader.listed(self.operand, ";"))
        self.code.append(Instruction(token.text, operands, guard, reader.span(token)))

    def register(self, token: Token, name: str) -> Register:
        for scope in reversed(self.scopes):
            if name in scope:
                return Register(scope[name])
        if not name.startswith("%") and name != "_":
            self.reader.fail(f"`{name}` is not a register", token)
        return Register(name)

    def operand(self) -> Operand:
        reader = self.reader
        token = reader.take()
        if token.text in ("{", "("):  # `(` of a call's arguments
            return Vector(tuple(reader.listed(self.operand, {"{": "}", "(": ")"}[token.text])))
        if token.text == "[":
            return self.address()
        if token.text == "!":
            at = reader.next
            return Negated(self.register(at, reader.name("a predicate")))
        if token.text == "-" or token.kind == "int":
            reader.at -= 1
            return Immediate(reader.integer())
        if token.kind == "float":
            return parse_float(token.text)
        if token.kind != "name":
            reader.fail(f"expected an operand, found `{token.text}`", token)
        found = self.named(token)
        if reader.accept("|"):
            second = reader.next
            other = self.named(reader.take())
            if not isinstance(found, Register) or not isinstance(other, Register):
                reader.fail("expected two registers around `|`", second)
            return Pair(found, other)
        return found

    def named(self, token: Token) -> Register | Symbol:
        is_register = token.text.startswith("%") or token.text == "_"
        if is_register or any(token.text in scope for scope in self.scopes):
            return self.register(token, token.text)
        return Symbol(token.text)

    def address(self) -> Address:
        reader = self.reader
        token = reader.take()
        if token.kind == "int":
            reader.at -= 1
            base, offset = None, reader.integer()
        elif token.kind == "name":
            base, offset = self.named(token), 0
        else:
            reader.fail(f"expected an address, found `{token.text}`", token)
        while reader.next.text in ("+", "-"):
            offset += reader.integer()
        reader.expect("]")
        return Address(base, offset)
