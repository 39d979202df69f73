"""Maps without intervals: `(d0, d1)[s0] -> (d0 + s0, d1 mod 4)`, as MLIR and XLA write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn

from msgspec import Struct

from hloscope.affine.meaning import postorder, replace, substitute, variables
from hloscope.affine.nodes import Const, Dim, Expr, ExprLike, Max, Min, Product, Range, Var
from hloscope.affine.reading import parse_prefix
from hloscope.affine.text import Style, texts, where_text
from hloscope.errors import ParseError, UnsupportedError
from hloscope.lazy import pattern
from hloscope.source import Source, Span


class AffineMap(Struct, frozen=True):
    """A function from dimensions `d_i` and symbols `s_i` to a tuple of integers.

    >>> m = AffineMap.parse("(d0, d1)[s0] -> (d0 + s0, d1 mod 4)")
    >>> print(m.compose(AffineMap.parse("(d0) -> (d0 * 2, d0)")))
    (d0)[s0] -> (d0 * 2 + s0, d0 mod 4)
    """

    num_dims: int
    num_symbols: int
    results: tuple[Expr, ...]

    @classmethod
    def identity(cls, num_dims: int) -> AffineMap:
        """`(d0, ..., dn) -> (d0, ..., dn)`.

        >>> print(AffineMap.identity(2))
        (d0, d1) -> (d0, d1)
        """
        return cls(num_dims, 0, tuple(Dim(i) for i in range(num_dims)))

    @classmethod
    def parse(cls, text: str) -> AffineMap:
        """Read `(dims)[symbols] -> (results)`.

        Raises:
            ParseError: The text is not a map.
        """
        found, stop = parse_map_prefix(text)
        if text[stop:].strip():
            start = len(text) - len(text[stop:].lstrip())
            _fail("expected the end", Source("<string>", text), start)
        return found

    def __str__(self) -> str:
        dims = ", ".join(f"d{i}" for i in range(self.num_dims))
        symbols = ", ".join(f"s{i}" for i in range(self.num_symbols))
        results, parts = texts(self.results, {})
        head = f"({dims}){f'[{symbols}]' if symbols else ''}"
        return f"{head} -> ({', '.join(results)}){where_text(parts)}"

    def text(self, style: Style = "xla") -> str:
        """Return the map as text in XLA's or MLIR's notation.

        MLIR has no nested `min` and `max` and no products of variables.

        Raises:
            UnsupportedError: In style "mlir", the map is not quasi-affine.
            TooLargeError: The results share parts, and written out they are too long.

        >>> print(AffineMap.parse("(d0) -> (d0 / 2)").text("mlir"))
        (d0) -> (d0 floordiv 2)
        """
        if style == "mlir":
            for e in postorder(*self.results):
                if isinstance(e, Min | Max | Product):
                    raise UnsupportedError(f"MLIR's affine expressions cannot contain {e}")
        head = str(AffineMap(self.num_dims, self.num_symbols, ()))[:-1]
        return head + ", ".join(texts(self.results, {}, style, plain=True)[0]) + ")"

    @property
    def is_empty(self) -> bool:
        """Does the map have no results?"""
        return not self.results

    @property
    def is_identity(self) -> bool:
        """Are the results `(d0, ..., dn)`? Symbols are ignored."""
        return self.results == tuple(Dim(i) for i in range(self.num_dims))

    @property
    def is_constant(self) -> bool:
        """Are all results constants?"""
        return all(isinstance(e, Const) for e in self.results)

    @property
    def constant_results(self) -> tuple[int, ...]:
        """The results of a constant map.

        Raises:
            ValueError: Some result is not a constant.
        """
        for i, e in enumerate(self.results):
            if not isinstance(e, Const):
                raise ValueError(f"result {i} is not a constant: {e}")
        return tuple(e.value for e in self.results if isinstance(e, Const))

    @property
    def used(self) -> frozenset[Var]:
        """Variables that occur in some result."""
        return variables(*self.results)

    @property
    def unused_dims(self) -> tuple[bool, ...]:
        """One flag per dimension: true if no result uses it."""
        used = self.used
        return tuple(Dim(i) not in used for i in range(self.num_dims))

    @property
    def unused_symbols(self) -> tuple[bool, ...]:
        """One flag per symbol: true if no result uses it."""
        used = self.used
        return tuple(Range(i) not in used for i in range(self.num_symbols))

    def slice_results(self, start: int, length: int) -> AffineMap:
        """Return a map to the results `start` up to `start + length`, exclusive."""
        if start < 0 or length < 0 or start + length > len(self.results):
            raise ValueError(
                f"results {start}..{start + length} are out of bounds: there are "
                f"{len(self.results)}"
            )
        return self.sub_map(range(start, start + length))

    def sub_map(self, indices: Sequence[int]) -> AffineMap:
        """Return a map to the results at `indices`, in that order."""
        return AffineMap(self.num_dims, self.num_symbols, tuple(self.results[i] for i in indices))

    def replace(self, values: Mapping[Expr, ExprLike]) -> AffineMap:
        """Return a map with subexpressions of the results replaced simultaneously."""
        return AffineMap(
            self.num_dims, self.num_symbols, tuple(replace(e, values) for e in self.results)
        )

    def replace_dims_and_symbols(
        self,
        dims: Sequence[ExprLike],
        symbols: Sequence[ExprLike],
        num_dims: int,
        num_symbols: int,
    ) -> AffineMap:
        """Return a map with its variables replaced by expressions.

        An empty sequence leaves that kind of variable unchanged.
        """
        values: dict[Var, ExprLike] = {Dim(i): e for i, e in enumerate(dims)}
        values.update({Range(i): e for i, e in enumerate(symbols)})
        return AffineMap(num_dims, num_symbols, tuple(substitute(e, values) for e in self.results))

    def compose(self, inner: AffineMap) -> AffineMap:
        """Return the composition `self(inner(x))`.

        The symbols of `self` come before those of `inner`.

        Raises:
            ValueError: `inner` has another number of results than `self` has dimensions.
        """
        if len(inner.results) != self.num_dims:
            raise ValueError(
                f"cannot compose: the outer map has {self.num_dims} dimensions, the inner one "
                f"{len(inner.results)} results"
            )
        # Both maps number their symbols from 0: `inner`'s are shifted past those of `self`.
        shifted: dict[Var, ExprLike] = {
            Range(i): Range(i + self.num_symbols) for i in range(inner.num_symbols)
        }
        dims = [substitute(e, shifted) for e in inner.results]
        return self.replace_dims_and_symbols(
            dims, (), inner.num_dims, self.num_symbols + inner.num_symbols
        )

    def with_num_dims(self, num_dims: int) -> AffineMap:
        """Return a map with the same results and `num_dims` dimensions.

        Dropped dimensions must be unused.
        """
        for i, unused in enumerate(self.unused_dims):
            if i >= num_dims and not unused:
                raise ValueError(f"cannot decrease the dimensions to {num_dims}: d{i} is used")
        return AffineMap(num_dims, self.num_symbols, self.results)

    def compress_dims(self, remove: Sequence[bool]) -> AffineMap:
        """Drop the flagged dimensions, which must be unused, and renumber the others."""
        values = _renumber(Dim, remove, self.unused_dims, "dimension d")
        results = tuple(substitute(e, values) for e in self.results)
        return AffineMap(self.num_dims - sum(remove), self.num_symbols, results)

    def compress_symbols(self, remove: Sequence[bool]) -> AffineMap:
        """Drop the flagged symbols, which must be unused, and renumber the others."""
        values = _renumber(Range, remove, self.unused_symbols, "symbol s")
        results = tuple(substitute(e, values) for e in self.results)
        return AffineMap(self.num_dims, self.num_symbols - sum(remove), results)


def _renumber(
    kind: Callable[[int], Var], remove: Sequence[bool], unused: Sequence[bool], what: str
) -> dict[Var, Expr]:
    values: dict[Var, Expr] = {}
    for i, drop in enumerate(remove):
        if drop and not unused[i]:
            raise ValueError(f"cannot drop {what}{i}: it is used")
        if not drop:
            values[kind(i)] = kind(len(values))
    return values


# ------------------------------------------------------------------------------------ parsing

_NAMES: Final = pattern(r"\s*([A-Za-z_]\w*(?:\s*,\s*[A-Za-z_]\w*)*)?\s*")


def parse_map_prefix(text: str) -> tuple[AffineMap, int]:
    """Parse the map at the beginning of a text; return it and the position after it.

    >>> m, stop = parse_map_prefix("(d0) -> (d0) domain: d0 in [0, 1]")
    >>> print(m, stop)
    (d0) -> (d0) 12
    """
    source = Source("<string>", text)
    names: dict[str, Var] = {}
    at, dims = _names(source, 0, "(", ")", "dimension")
    names.update({name: Dim(i) for i, name in enumerate(dims)})
    symbols: list[str] = []
    if text[at:].lstrip().startswith("["):
        at, symbols = _names(source, at, "[", "]", "symbol")
        names.update({name: Range(i) for i, name in enumerate(symbols)})
    at = _expect(source, at, "->", "'->'")
    at = _expect(source, at, "(", "'(' before the results")
    results: list[Expr] = []
    # An empty result list is allowed, but no trailing comma.
    if not text[at:].lstrip().startswith(")"):
        while True:
            e, at = parse_prefix(source, at, names)
            results.append(e)
            if not text[at:].lstrip().startswith(","):
                break
            at = _expect(source, at, ",", "','")
    at = _expect(source, at, ")", "',' or ')' after a result")
    return AffineMap(len(dims), len(symbols), tuple(results)), at


def _names(source: Source, at: int, opening: str, closing: str, what: str) -> tuple[int, list[str]]:
    at = _expect(source, at, opening, f"{opening!r} before the {what} list")
    found = _NAMES.match(source.text, at)
    assert found is not None
    at = _expect(source, found.end(), closing, f"a name or {closing!r} in the {what} list")
    names = [name.strip() for name in found[1].split(",")] if found[1] else []
    for i, name in enumerate(names):
        if name in names[:i]:
            _fail(f"the {what} {name!r} is declared twice", source, found.start(1))
    return at, names


def _expect(source: Source, at: int, token: str, what: str) -> int:
    """Return the position after `token`, which must come next, after white space."""
    text = source.text
    while at < len(text) and text[at].isspace():
        at += 1
    if text.startswith(token, at):
        return at + len(token)
    found = repr(text[at : at + 1]) if at < len(text) else "the end"
    _fail(f"expected {what}, found {found}", source, at)


def _fail(message: str, source: Source, at: int) -> NoReturn:
    raise ParseError(message, span=Span(source, at, at + 1))
