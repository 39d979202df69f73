"""Parser of expressions in XLA's and MLIR's notation.

Grammar: `expr := term {(+|-) term}`, `term := factor {(*|/|mod|ceildiv|floordiv) factor}` with one
precedence level, associated to the left, `factor := int | name | -factor | (expr) | min(expr, expr)
| max(expr, expr)`.  `/` and `floordiv` both round down.  Parts may have names: `expr where t0 =
expr, t1 = expr`, where each part may use the parts before it.

Source: XLA's indexing maps as printed, docs/indexing.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NoReturn

from hloscope.affine.meaning import largest_number, maximum, minimum
from hloscope.affine.nodes import (
    Const,
    Dim,
    Expr,
    Product,
    Range,
    Runtime,
    Sum,
    Var,
    ceildiv,
    floordiv,
    linear,
    mod,
    product,
)
from hloscope.affine.text import RESERVED
from hloscope.errors import ParseError, did_you_mean
from hloscope.support.lazy import pattern
from hloscope.support.limits import refuse_long_numbers
from hloscope.support.source import Source, Span

MAX_DIGITS: Final = 4000
"""Maximum number of digits of an integer; no tensor has so many elements."""
MOST_PARTS: Final = 10_000
"""Maximum number of named parts (`where t0 = …`) in a text."""
MOST_FACTORS: Final = 1_000
"""Maximum number of factors of a named part; a product of parts has the factors of all of them."""
_TOKEN: Final = pattern(r"\s*(?:(\d+)|([A-Za-z_]\w*)|(//|[-+*/%(),]))")
_WORDS: Final = {
    "mod": "mod", "%": "mod", "/": "/", "//": "/", "floordiv": "/", "floorDiv": "/",
    "ceildiv": "ceildiv", "ceilDiv": "ceildiv", "*": "*",
}  # fmt: skip
_DEFAULT_NAME: Final = pattern(r"(d|s|rt)(\d+)")
_KINDS: Final[dict[str, type[Dim] | type[Range] | type[Runtime]]] = {
    "d": Dim, "s": Range, "rt": Runtime,
}  # fmt: skip
_BINARY: Final[dict[str, Callable[[Expr, Expr], Expr]]] = {
    "*": product, "/": floordiv, "ceildiv": ceildiv, "mod": mod,
}  # fmt: skip


class _Level:
    """State of the reader inside one parenthesis: the terms read so far, and the one being read."""

    __slots__ = ("negated", "opened", "operator", "parts", "pending", "sign", "term", "word")

    def __init__(self, word: str, opened: int, negated: bool) -> None:
        self.word, self.opened = word, opened  # "", "(", "min" or "max", and its position
        self.negated = negated
        self.pending: list[Expr] = []  # earlier arguments of min and max
        self.start()

    def start(self) -> None:
        """Begin an expression: drop the terms read so far."""
        self.parts: list[tuple[Expr, int]] = []
        self.sign = 1  # sign of the term being read
        self.term: Expr | None = None
        self.operator = ""  # between the term and the next factor

    def take(self, factor: Expr) -> None:
        """Combine the term being read with its next factor, by the operator between the two."""
        self.term = factor if self.term is None else _BINARY[self.operator](self.term, factor)

    def next_term(self, sign: int) -> None:
        """Finish the term being read, and begin one with the sign `sign`, which is 1 or -1."""
        assert self.term is not None
        self.parts.append((self.term, self.sign))
        self.term, self.sign = None, sign

    def value(self) -> Expr:
        """Return the sum of all terms."""
        assert self.term is not None
        if not self.parts and self.sign == 1:
            return self.term
        return linear(*self.parts, (self.term, self.sign))


class _Reader:
    """Parser of one expression with an explicit stack, so that nesting has no limit."""

    def __init__(
        self,
        source: Source,
        start: int,
        names: Mapping[str, Var] | None,
        parts: Mapping[str, Expr] | None = None,
        *,
        is_xla: bool = False,
    ) -> None:
        self.source, self.text, self.at, self.names = source, source.text, start, names
        self.is_xla = is_xla
        self.parts = {} if parts is None else dict(parts)

    def fail(self, message: str, start: int, stop: int = -1) -> NoReturn:
        raise ParseError(message, span=Span(self.source, start, max(stop, start + 1)))

    def expected(self, expected_text: str) -> NoReturn:
        """Raise a `ParseError` at the next token; the message has `expected_text` and the token."""
        start = self.at
        while start < len(self.text) and self.text[start].isspace():
            start += 1
        if start >= len(self.text):
            self.fail(f"expected {expected_text}, found the end", len(self.text.rstrip()))
        token = _TOKEN.match(self.text, start)
        stop = token.end() if token else start + 1
        self.fail(f"expected {expected_text}, found {self.text[start:stop]!r}", start, stop)

    def variable(self, name: str, start: int, stop: int) -> Expr:
        """Return the variable or named part `name`, whose text goes from `start` to `stop`.

        Raises:
            ParseError: The name is unknown.
        """
        if name in self.parts:
            return self.parts[name]
        if self.names is None:
            if known := _DEFAULT_NAME.fullmatch(name):
                return _KINDS[known[1]](int(known[2]))
            self.fail(f"unknown variable {name!r}: expected a name like d0, s0 or rt0", start, stop)
        if name in self.names:
            return self.names[name]
        self.fail(f"unknown variable {name!r}{did_you_mean(name, self.names)}", start, stop)

    def read(self) -> Expr:
        """Read the longest expression from `self.at`, which moves to the position after it."""
        # One `_Level` for each open parenthesis, so that the depth of nesting is not limited by
        # Python's stack.
        levels = [_Level("", self.at, negated=False)]
        while True:
            factor = self.open_or_factor(levels)
            while factor is not None:
                level = levels[-1]
                if level.operator == "mod" and type(factor) is Const and factor.value < 0:
                    self.check_sign(factor.value)
                level.take(factor)
                if self.operator(level):
                    break
                # Without another operator, a level is complete: either the whole expression or a
                # parenthesis to close.
                if len(levels) == 1:
                    return level.value()
                factor = self.close(levels)

    def check_sign(self, divisor: int) -> None:
        """Refuse a negative divisor of `mod`, unless the text is XLA's (`is_xla`).

        `1 mod -3` is 1 in XLA and -2 in Python.

        Raises:
            ParseError: The text is not known to be XLA's.
        """
        if not self.is_xla:
            message = f"mod {divisor}: needs a positive divisor, XLA and Python differ in its sign"
            self.fail(message, self.at - 1)

    def open_or_factor(self, levels: list[_Level]) -> Expr | None:
        """Read signs and a factor and return it, or open a parenthesis and return `None`.

        A parenthesis adds a level to `levels`.
        """
        minus = False
        while True:
            token = _TOKEN.match(self.text, self.at)
            if token is None:
                self.expected(_FACTOR)
            number, name, mark = token.groups()
            if mark == "-":
                minus = not minus
            elif number is not None:
                if len(number) > MAX_DIGITS:
                    digits = f"{len(number)} digits are more than the {MAX_DIGITS} of an integer"
                    # Converting digits to an integer takes quadratic time.
                    self.fail(digits, token.start(1), token.end(1))
                value = Const(int(number))
                self.at = token.end()
                return -value if minus else value
            elif mark == "(" or name in ("min", "max"):
                levels.append(_Level(name or mark, token.start(token.lastindex or 0), minus))
                if name is not None:
                    self.at = token.end()
                    token = _TOKEN.match(self.text, self.at)
                    if token is None or token[3] != "(":
                        self.expected(f"'(' after {name}")
                self.at = token.end()
                return None
            elif name is not None and name not in _WORDS:
                variable = self.variable(name, token.start(2), token.end())
                self.at = token.end()
                return -variable if minus else variable
            else:
                self.expected(_FACTOR)
            self.at = token.end()

    def operator(self, level: _Level) -> bool:
        """Read the next binary operator into `level`; return whether there was one."""
        token = _TOKEN.match(self.text, self.at)
        word = token[2] or token[3] if token else None
        if token is None or word is None:
            return False
        if word in _WORDS:
            level.operator = _WORDS[word]
        elif word in "+-":
            level.next_term(1 if word == "+" else -1)
        else:
            return False
        self.at = token.end()
        return True

    def close(self, levels: list[_Level]) -> Expr | None:
        """Close the innermost parenthesis, the last one in `levels`, and return its value.

        Return `None` after a comma between the operands of `min` or `max`.

        Raises:
            ParseError: Neither a closing parenthesis nor an allowed comma follows.
        """
        level = levels[-1]
        token = _TOKEN.match(self.text, self.at)
        mark = token[3] if token else None
        if token is not None and mark == "," and level.word != "(":
            self.at = token.end()
            level.pending.append(level.value())
            level.start()
            return None
        # `min` and `max` take two operands at least.
        if token is None or mark != ")" or (level.word != "(" and not level.pending):
            line, column = Span(self.source, level.opened, level.opened + 1).line_col
            opened = f"{level.word!r} opened at {line}:{column}"
            closer = "','" if level.word != "(" and not level.pending else "')'"
            self.expected(f"an operator or {closer} for {opened}")
        self.at = token.end()
        levels.pop()
        value = level.value()
        if level.word != "(":
            value = (minimum if level.word == "min" else maximum)(*level.pending, value)
        return -value if level.negated else value


_FACTOR: Final = "a number, a variable or '('"


def parse_prefix(
    source: Source | str,
    start: int = 0,
    names: Mapping[str, Var] | None = None,
    parts: Mapping[str, Expr] | None = None,
) -> tuple[Expr, int]:
    """Parse the longest expression that begins at `start`; return it and the position after it.

    For readers of larger texts.

    Args:
        source: The text; errors point into it.
        start: Position of the first character.
        names: The variables, as `parse_expr` takes them.
        parts: The named parts that the text may use, by name.

    Raises:
        ParseError: No expression begins there, or it uses an unknown name.

    >>> parse_prefix("(d0 + 1, d1)", 1)
    (<d0 + 1>, 7)
    """
    if isinstance(source, str):
        source = Source("<string>", source)
        refuse_long_numbers(source)
    reader = _Reader(source, start, names, parts)
    return reader.read(), reader.at


def parse_expr(text: str, names: Mapping[str, Var] | None = None) -> Expr:
    """Read an expression.

    Args:
        text: XLA's or MLIR's notation; `mod` by a negative constant means what it means in XLA.
        names: The variables by name; without it `d0`, `s0`, `rt0` and so on are known.

    Raises:
        ParseError: The text is not an expression, or uses an unknown name.

    >>> parse_expr("(d0 floordiv 2) * 4 + tid mod 8", {"d0": Dim(0), "tid": Dim(1)})
    <(d0 / 2) * 4 + d1 mod 8>
    """
    source = Source("<string>", text)
    refuse_long_numbers(source)
    end, parts = len(text), dict[str, Expr]()
    if (where := find_where(text, 0, end)) is not None:
        parts, end = read_where(source, where[1], end, names, is_xla=True), where[0]
    reader = _Reader(source, 0, names, parts, is_xla=True)
    e = reader.read()
    if reader.at < end and text[reader.at : end].strip():
        reader.expected("an operator or the end")
    return e


_WHERE: Final = pattern(r",?\s*\bwhere\s+(?=[A-Za-z_]\w*\s*=)")
_PART: Final = pattern(r"\s*([A-Za-z_]\w*)\s*=")
_COMMA: Final = pattern(r"\s*,")


def find_where(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Return the positions of `where` and of the first name after it, in `text[start:end]`.

    Positions are counted from the start of `text`. The result is `None` without named parts.
    """
    found = _WHERE.search(text, start, end)
    return found.span() if found else None


def read_where(
    source: Source,
    at: int,
    end: int,
    names: Mapping[str, Var] | None = None,
    *,
    is_xla: bool = False,
) -> dict[str, Expr]:
    """Parse the named parts after `where`; return the expression of each name.

    Args:
        source: The text.
        at: Position of the first name.
        end: Position after the last part.
        names: The variables, as `parse_expr` takes them.
        is_xla: Whether `mod` by a negative constant is allowed, with XLA's meaning.

    Raises:
        ParseError: The text is not a list `name = expression, …`.
    """
    reader = _Reader(source, at, names, is_xla=is_xla)
    while True:
        found = _PART.match(source.text, reader.at)
        if found is None:
            reader.expected("a name and `=`")
        name = found[1]
        is_variable = _DEFAULT_NAME.fullmatch(name) if names is None else name in names
        # A part must not hide a variable or a keyword.
        if name in reader.parts or name in RESERVED or is_variable:
            reader.fail(f"`{name}` cannot be the name of a part", *found.span(1))
        if len(reader.parts) == MOST_PARTS:
            reader.fail(f"more than {MOST_PARTS} parts have names", *found.span(1))
        reader.at = start = found.end()
        part = reader.read()
        # Each part may use the one before it twice, so sizes could double with every part.
        if not _is_moderate(part):
            reader.fail(f"the numbers or products of `{name}` are too large", start, reader.at)
        reader.parts[name] = part
        if not source.text[reader.at : end].strip():
            return reader.parts
        comma = _COMMA.match(source.text, reader.at)
        if comma is None:
            reader.expected("`,` or the end")
        reader.at = comma.end()


def _is_moderate(part: Expr) -> bool:
    """Is the named part small enough that other parts may use it?

    Each use may double the number of its digits and factors.
    """
    if largest_number(part).bit_length() > MAX_DIGITS:
        return False
    terms = [t for t, _ in part.terms] if isinstance(part, Sum) else [part]
    return not any(isinstance(t, Product) and len(t.factors) > MOST_FACTORS for t in terms)
