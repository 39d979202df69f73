"""Text of maps in XLA's grammar.

    (d0, pid)[s0]{rt0} -> (d0 / 8 + s0, rt0), domain: d0 in [0, 9], …, d0 + s0 in [0, 5]

Bounds are inclusive. `/` is floor division, and `floordiv` is accepted too. A map with an empty
domain is `KNOWN EMPTY`, and the map about which nothing is known is `UNDEFINED`. White space does
not matter.

Two extensions of XLA's text: a runtime variable that is clamped to more values than the map holds
for, `rt0 in [0, 2] clamped to [0, 4]`; and names for parts of long expressions, which come last,
`…, where t0 = d0 / 8, t1 = t0 mod 3`.

Source: XLA docs `indexing.md`; the printed maps of its tests.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, NoReturn

from hloscope import affine
from hloscope.affine import (
    NEG_INF,
    POS_INF,
    RESERVED,
    Dim,
    Expr,
    Interval,
    Range,
    Runtime,
    Style,
    Var,
    texts,
    where_text,
)
from hloscope.errors import ParseError
from hloscope.indexing.base import NEVER, M, MapBase
from hloscope.indexing.variables import Constraint, RuntimeVariable, Variable, own_name
from hloscope.support.lazy import pattern
from hloscope.support.limits import refuse_long_numbers
from hloscope.support.source import Source, Span

KNOWN_EMPTY: Final = "KNOWN EMPTY"
UNDEFINED: Final = "UNDEFINED"

_SPACE: Final = pattern(r"\s*")
_NAME: Final = pattern(r"[A-Za-z_][\w.]*")
_INT: Final = pattern(r"-?\s*\d+")
_WRAPPER: Final = pattern(
    r'\s*#?(?:xla\.indexing_map|affine_map)\s*<\s*"?(.*?)"?\s*>\s*', re.DOTALL
)
_TAIL: Final = pattern(r",?\s*is_simplified\s*:\s*(?:true|false)\s*\Z")


class MapTexts(NamedTuple):
    """The pieces of a map's text.

    Attributes:
        arrow: The map without its domain, `(d0)[s0] -> (d0, s0)`.
        bounds: `d0 in [0, 9]` for each variable, in order.
        constraints: Each expression with its interval, in order.
        parts: Each name of a part of long expressions, with the text of the part.
    """

    arrow: str
    bounds: tuple[str, ...] = ()
    constraints: tuple[tuple[str, Interval], ...] = ()
    parts: tuple[tuple[str, str], ...] = ()


def print_map(m: MapBase, style: Style = "xla", *, plain: bool = False) -> str:
    """Return the text of a map.

    Args:
        m: The map.
        style: `"mlir"` writes `floordiv` for `/`.
        plain: Write out shared parts at each use, at any length.

    Raises:
        TooLargeError: With `plain`, the text is too long.
    """
    found = map_texts(m, style, plain=plain)
    text = found.arrow
    if found.bounds or found.constraints:
        constraints = sorted([_in(e, i) for e, i in found.constraints])
        text = f"{text}, domain: {', '.join([*found.bounds, *constraints])}"
    return f"{text},{where_text(found.parts)}" if found.parts else text


def map_texts(m: MapBase, style: Style = "xla", *, plain: bool = False) -> MapTexts:
    """Return the pieces of the text of a map; see `print_map`."""
    if m.is_undefined:
        return MapTexts(UNDEFINED)
    if m.is_known_empty:
        return MapTexts(KNOWN_EMPTY)
    names = m.names
    all_names = list(names.values())
    n_dims, n_ranges = len(m.dims), len(m.ranges)
    head = f"({', '.join(all_names[:n_dims])})"
    if m.ranges:
        head += f"[{', '.join(all_names[n_dims : n_dims + n_ranges])}]"
    if m.runtime:
        head += f"{{{', '.join(all_names[n_dims + n_ranges :])}}}"
    exprs = [*m.results, *[e for e, _ in m.constraints]]
    written, parts = texts(exprs, names, style, plain=plain)
    results, conditions = written[: len(m.results)], written[len(m.results) :]
    arrow = f"{head} -> ({', '.join(results)})"
    if not m.has_domain:
        return MapTexts(arrow, parts=tuple(parts))
    bounds = [_in(names[v], interval) for v, interval in m.box.items()]
    for i, v in enumerate(m.runtime, n_dims + n_ranges):
        if v.clamp is not None:
            bounds[i] += f" clamped to [{v.clamp.lo}, {v.clamp.hi}]"
    intervals = [i for _, i in m.constraints]
    constraints = tuple(zip(conditions, intervals, strict=True))
    return MapTexts(arrow, tuple(bounds), constraints, tuple(parts))


def _in(what: str, interval: Interval) -> str:
    return f"{what} in [{interval.lo}, {interval.hi}]"


def parse_map(cls: type[M], text: str, *, name: str = "<map>") -> M:
    """Parse the text of a map; `name` is the name of the text in error messages.

    Raises:
        ParseError: The text is not in the grammar; the message has the position.
    """
    refuse_long_numbers(Source(name, text))
    start, end = 0, len(text)
    if wrapped := _WRAPPER.fullmatch(text):
        start, end = wrapped.span(1)
    if tail := _TAIL.search(text, start, end):
        end = tail.start()
    return _Reader(Source(name, text), start, end).map(cls)


class _Reader:
    """Parser of one map from `text[start:end]` of a source."""

    def __init__(self, source: Source, start: int, end: int) -> None:
        self.source, self.text, self.at = source, source.text, start
        self.end = start + len(self.text[start:end].rstrip())
        self.names: dict[str, Var] = {}
        self.clamps: dict[Var, Interval] = {}
        self.parts: dict[str, Expr] = {}

    def fail(self, message: str, start: int | None = None, end: int | None = None) -> NoReturn:
        start = self.at if start is None else start
        raise ParseError(message, span=Span(self.source, start, start + 1 if end is None else end))

    def skip(self) -> None:
        self.at = _SPACE.match(self.text, self.at, self.end).end()  # type: ignore[union-attr]

    def accept(self, token: str) -> bool:
        self.skip()
        if found := self.text.startswith(token, self.at, self.end):
            self.at += len(token)
        return found

    def expect(self, token: str, after: str) -> None:
        """Move past `token`, which must follow.

        `after` describes the position in the error message.

        Raises:
            ParseError: Another token follows.
        """
        if not self.accept(token):
            self.fail(f"expected `{token}` {after}, found {self.found()}")

    def found(self) -> str:
        """Return the next token in backquotes, or `the end`, for error messages."""
        if self.at >= self.end:
            return "the end"
        word = _NAME.match(self.text, self.at, self.end)
        return f"`{word.group() if word else self.text[self.at]}`"

    def map(self, cls: type[M]) -> M:
        self.skip()
        whole = " ".join(self.text[self.at : self.end].split())
        if whole == KNOWN_EMPTY:
            return cls(constraints=NEVER)
        if whole == UNDEFINED:
            return cls(is_undefined=True)
        self.expect("(", "before the dimension variables")
        dims = self.variables(Dim, ")")
        ranges = self.variables(Range, "]") if self.accept("[") else []
        runtime = self.variables(Runtime, "}") if self.accept("{") else []
        if (where := affine.find_where(self.text, self.at, self.end)) is not None:
            start, first = where
            self.parts = affine.read_where(self.source, first, self.end, self.names)
            self.end = start
        self.expect("->", "after the variables")
        self.expect("(", "before the results")
        results = self.results()
        constraints: list[Constraint] = []
        bounds: dict[Var, Interval] = {}
        self.accept(",")
        self.skip()
        if self.at < self.end:
            self.expect("domain", "after the results")
            self.expect(":", "after `domain`")
            bounds, constraints = self.domain()

        def variables(kind: type[Dim] | type[Range], names: list[str]) -> list[Variable]:
            return [
                Variable(bounds.get(kind(i), Interval.EVERYTHING), own_name(n, kind))
                for i, n in enumerate(names)
            ]

        rts = [
            RuntimeVariable(
                bounds.get(Runtime(i), Interval.EVERYTHING),
                own_name(n, Runtime),
                clamp=self.clamps.get(Runtime(i)),
            )
            for i, n in enumerate(runtime)
        ]
        return cls(variables(Dim, dims), variables(Range, ranges), rts, results, constraints)

    def variables(self, kind: type[Dim | Range | Runtime], close: str) -> list[str]:
        """Parse names of variables of class `kind` up to the bracket `close`, inclusive."""
        names: list[str] = []
        if self.accept(close):
            return names
        while True:
            self.skip()
            match = _NAME.match(self.text, self.at, self.end)
            if match is None:
                self.fail(f"expected the name of a variable, found {self.found()}")
            name = match.group()
            if name in self.names:
                self.fail(f"variable `{name}` is declared twice", *match.span())
            if name in RESERVED:
                self.fail(f"`{name}` cannot be the name of a variable", *match.span())
            self.names[name] = kind(len(names))
            names.append(name)
            self.at = match.end()
            if self.accept(close):
                return names
            self.expect(",", f"or `{close}` after `{name}`")

    def results(self) -> list[Expr]:
        """Parse the results up to the closing parenthesis, inclusive."""
        results: list[Expr] = []
        if self.accept(")"):
            return results
        while True:
            results.append(self.expr())
            if self.accept(")"):
                return results
            self.expect(",", f"or `)` after result {len(results) - 1}")

    def domain(self) -> tuple[dict[Var, Interval], list[Constraint]]:
        """Parse and return the bounds of all variables, and the constraints."""
        bounds: dict[Var, Interval] = {}
        constraints: list[Constraint] = []
        self.skip()
        while self.at < self.end:
            expr = self.expr()
            self.expect("in", "after the expression")
            self.expect("[", "before the bounds")
            interval = self.interval()
            if isinstance(expr, Dim | Range | Runtime) and expr not in bounds:
                bounds[expr] = interval
                if isinstance(expr, Runtime):
                    self.clamp(expr, interval)
            else:
                constraints.append((expr, interval))
            self.skip()
            if self.at < self.end:
                self.expect(",", "between the parts of the domain")
        missing = [f"`{n}`" for n, v in self.names.items() if v not in bounds]
        if missing:
            n = len(self.names)
            self.fail(f"no bounds for {', '.join(missing)}: {n - len(missing)} of {n} given")
        return bounds, constraints

    def clamp(self, variable: Runtime, interval: Interval) -> None:
        """Parse an optional `clamped to [lo, hi]` and store the interval in `clamps`.

        An interval that equals `interval`, the bounds of the variable, is not stored.

        Raises:
            ParseError: The clamp does not contain `interval`.
        """
        if not self.accept("clamped"):
            return
        self.expect("to", "after `clamped`")
        self.expect("[", "before the bounds")
        start = self.at - 1
        clamp = self.interval()
        if not clamp.contains(interval):
            self.fail(f"{clamp} does not contain {interval}", start, self.at)
        if clamp != interval:
            self.clamps[variable] = clamp

    def interval(self) -> Interval:
        low = self.integer("the low bound")
        self.expect(",", "after the low bound")
        high = self.integer("the high bound")
        self.expect("]", "after the high bound")
        return Interval(low, high)

    def integer(self, what: str) -> int:
        self.skip()
        match = _INT.match(self.text, self.at, self.end)
        if match is None:
            self.fail(f"expected an integer as {what}, found {self.found()}")
        if len(match.group()) > affine.MAX_DIGITS:
            self.fail(f"{len(match.group())} characters do not fit into 64 bits", *match.span())
        value = int("".join(match.group().split()))
        if not NEG_INF <= value <= POS_INF:
            self.fail(f"{value} does not fit into 64 bits", *match.span())
        self.at = match.end()
        return value

    def expr(self) -> Expr:
        """Parse the longest expression at the current position, and move after it."""
        value, self.at = affine.parse_prefix(self.source, self.at, self.names, self.parts)
        return value
