"""Affine maps in MLIR's notation, and evaluation of expressions at arrays of points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import prod
from typing import TYPE_CHECKING, Any, Final, NoReturn, assert_never

from msgspec import Struct

from hloscope.affine.meaning import postorder, replace, substitute, variables
from hloscope.affine.nodes import (
    CeilDiv,
    Const,
    Dim,
    Expr,
    ExprLike,
    FloorDiv,
    Max,
    Min,
    Mod,
    Product,
    Range,
    Runtime,
    Sum,
    Var,
)
from hloscope.affine.reading import parse_prefix
from hloscope.affine.text import Style, texts, where_text
from hloscope.errors import ParseError, UnsupportedError
from hloscope.support.arrays import Ints, np
from hloscope.support.lazy import pattern
from hloscope.support.source import Source, Span

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


# --------------------------------------------------------------------------------------------------
# Maps without intervals: `(d0, d1)[s0] -> (d0 + s0, d1 mod 4)`, as MLIR and XLA write them.


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
        """Return `(d0, …, dn) -> (d0, …, dn)` with `num_dims` dimensions.

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
        """Return the map to the results `start` (included) to `start + length` (excluded).

        Raises:
            ValueError: Some of these results do not exist.
        """
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
        """Return a map with subexpressions of the results replaced simultaneously.

        `values` has the new expression for each subexpression to replace.
        """
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

        Args:
            dims: The expression for each dimension, in order; those without one stay unchanged.
            symbols: The expression for each symbol, in order; those without one stay unchanged.
            num_dims: Number of dimensions of the new map.
            num_symbols: Number of symbols of the new map.
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

        Raises:
            ValueError: A result uses one of the removed dimensions.
        """
        for i, unused in enumerate(self.unused_dims):
            if i >= num_dims and not unused:
                raise ValueError(f"cannot decrease the dimensions to {num_dims}: d{i} is used")
        return AffineMap(num_dims, self.num_symbols, self.results)

    def compress_dims(self, remove: Sequence[bool]) -> AffineMap:
        """Return a map without the dimensions whose flag in `remove` is true.

        The others are renumbered.

        Raises:
            ValueError: A result uses a removed dimension.
        """
        values = _renumber(Dim, remove, self.unused_dims, "dimension d")
        results = tuple(substitute(e, values) for e in self.results)
        return AffineMap(self.num_dims - sum(remove), self.num_symbols, results)

    def compress_symbols(self, remove: Sequence[bool]) -> AffineMap:
        """Return a map without the symbols whose flag in `remove` is true.

        The others are renumbered.

        Raises:
            ValueError: A result uses a removed symbol.
        """
        values = _renumber(Range, remove, self.unused_symbols, "symbol s")
        results = tuple(substitute(e, values) for e in self.results)
        return AffineMap(self.num_dims, self.num_symbols - sum(remove), results)


def _renumber(
    kind: Callable[[int], Var], remove: Sequence[bool], unused: Sequence[bool], what: str
) -> dict[Var, Expr]:
    """Return the new number of each variable that stays, as a mapping from old to new variables.

    Args:
        kind: Class of the variables, `Dim` or `Range`.
        remove: For each variable, whether it is removed.
        unused: For each variable, whether no result uses it.
        what: Letter of the variables in the error message.

    Raises:
        ValueError: A variable that is used would be removed.
    """
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
    """Read a list of distinct names between `opening` and `closing`, from position `at`.

    Return the position after `closing`, and the names. `what` says in messages what the names are.

    Raises:
        ParseError: The text is not such a list.
    """
    at = _expect(source, at, opening, f"{opening!r} before the {what} list")
    found = _NAMES.match(source.text, at)
    assert found is not None
    at = _expect(source, found.end(), closing, f"a name or {closing!r} in the {what} list")
    names = [name.strip() for name in found[1].split(",")] if found[1] else []
    for i, name in enumerate(names):
        if name in names[:i]:
            _fail(f"the {what} {name!r} is declared twice", source, found.start(1))
    return at, names


def _expect(source: Source, at: int, token: str, expected_text: str) -> int:
    """Return the position after `token`, which must follow at `at`.

    White space before it is skipped.

    Raises:
        ParseError: Another text follows; the message says that `expected_text` was expected.
    """
    text = source.text
    while at < len(text) and text[at].isspace():
        at += 1
    if text.startswith(token, at):
        return at + len(token)
    found = repr(text[at : at + 1]) if at < len(text) else "the end"
    _fail(f"expected {expected_text}, found {found}", source, at)


def _fail(message: str, source: Source, at: int) -> NoReturn:
    raise ParseError(message, span=Span(source, at, at + 1))


# --------------------------------------------------------------------------------------------------
# Values of an expression at many points at once.


def evaluate_array(e: Expr, at: Mapping[Var, ArrayLike]) -> Ints:
    """Return the values of an expression at many points; arrays broadcast as in numpy.

    Every variable of `e` has an integer array in `at`; the result has the shape that all arrays of
    `at` broadcast to.  Shared subexpressions are computed once, in int64 where that holds all of
    them.  Otherwise they are Python's integers, and so are the results if int64 doesn't hold them:
    these are an array of objects.

    Raises:
        ValueError: A division by zero at some point, or a variable without values.
        OverflowError: A value in `at` does not fit into int64.

    >>> evaluate_array(Dim(0) // 2 + 1, {Dim(0): [0, 1, 2, 3]}).tolist()
    [1, 1, 2, 2]
    >>> evaluate_array(Dim(0) * 2**40, {Dim(0): [3, 2**40]}).tolist() == [3 * 2**40, 2**80]
    True
    >>> int(evaluate_array(Dim(0) * 2**62 // 7, {Dim(0): 9})) == 9 * 2**62 // 7
    True
    """
    given = {v: np.asarray(values, dtype=np.int64) for v, values in at.items()}
    nodes = postorder(e)
    shape = np.broadcast_shapes(*(np.shape(values) for values in given.values()))
    # The bound covers every intermediate value, so int64 cannot overflow.
    if _largest_value(nodes, given) < _END:
        return np.broadcast_to(np.asarray(_values(nodes, given, np.int64)[e], np.int64), shape)
    if (total := _sum_modulo_word(nodes, given)) is not None:
        return np.broadcast_to(total, shape)
    # Python's integers are exact at any size; the result goes back to int64 if its values fit.
    exact: Any = np.asarray(_values(nodes, given, int)[e], object)
    fits = all(-_END <= value < _END for value in exact.flat)
    return np.broadcast_to(exact.astype(np.int64) if fits else exact, shape)


def _largest_value(nodes: Sequence[Expr], given: Mapping[Var, Ints]) -> int:
    """Return an upper bound of the absolute values of all nodes and of their partial sums.

    `nodes` has operands before their users, and `given` the values of the variables.

    Raises:
        ValueError: A variable has no values in `given`.
    """
    most: dict[Expr, int] = {}
    for x in nodes:
        match x:
            case Const(number):
                most[x] = abs(number)
            case Dim() | Range() | Runtime():
                if x not in given:
                    raise ValueError(f"no values are given for {x}")
                values = given[x]
                most[x] = max(int(values.max()), -int(values.min())) if values.size else 0
            # A sum is bounded by the sum of absolute values, with at least `abs(c)` per term: so
            # the coefficient itself and every partial sum fit too, in any order of addition.
            case Sum(terms, const):
                most[x] = sum(abs(c) * max(1, most[t]) for t, c in terms) + abs(const)
            case Product(args):
                most[x] = prod(most[a] for a in args)
            case Min(args) | Max(args):
                most[x] = max(most[a] for a in args)
            case FloorDiv(num, Const(den)) | CeilDiv(num, Const(den)):
                # Rounding moves a quotient by less than 1, hence `+ 1`.
                most[x] = most[num] // max(1, abs(den)) + 1
            case FloorDiv(num, _) | CeilDiv(num, _):
                most[x] = most[num] + 1
            case Mod(_, den):
                # A remainder lies in `[0, |den|)`.
                most[x] = most[den]
            case _:
                assert_never(x)
    return max(most.values())


def _sum_modulo_word(nodes: Sequence[Expr], given: Mapping[Var, Ints]) -> Ints | None:
    """Return the values of a sum of int64 terms, even if its partial sums exceed int64.

    `nodes` has operands before their users; the sum is the last node. `given` has the values of the
    variables. The result is `None` if the last node is not a sum, or if the sum or its terms may
    not fit into int64. Sums modulo 2**64 are right if the true ones are within int64. Floats decide
    that: their error is below 2**60 where no partial sum passes 2**100.
    """
    # `nodes` is in postorder, so the last node is the whole expression.
    *inside, last = nodes
    if not isinstance(last, Sum) or not inside or _largest_value(inside, given) >= _END:
        return None
    numbers = [last.const, *[c for _, c in last.terms]]
    if _largest_value(nodes, given) >= 1 << 100 or max(map(abs, numbers)) >= _END:
        return None
    values = _values(inside, given, np.int64)
    # The true value is within 2**60 of the float one, so below 2**62 + 2**60 < 2**63: int64 holds
    # it, and the wrapped sum is equal to it.
    about = sum(values[t] * float(c) for t, c in last.terms) + float(last.const)
    if np.any(np.abs(about) >= 2.0**62):
        return None
    with np.errstate(over="ignore"):
        parts = [np.multiply(values[t], np.int64(c)) for t, c in last.terms]
        return np.asarray(reduce(np.add, parts) + np.int64(last.const), np.int64)


def _values(
    nodes: Sequence[Expr], values: Mapping[Var, Any], number: Callable[[int], Any]
) -> dict[Expr, Any]:
    """Return the values of every node, as arrays; `nodes` has operands before their users.

    `values` has the values of the variables. `number` converts constants, and is `np.int64` or
    `int`. With `int` the arrays hold Python's integers.
    """
    value: dict[Expr, Any] = {}
    for x in nodes:
        match x:
            case Const(it):
                value[x] = number(it)
            case Dim() | Range() | Runtime():
                value[x] = values[x] if number is np.int64 else values[x].astype(object)
            case Sum(terms, const):
                parts = [value[t] if c == 1 else value[t] * number(c) for t, c in terms]
                value[x] = sum(parts, number(const))
            case Product(args) | Min(args) | Max(args):
                value[x] = reduce(getattr(np, _REDUCED[type(x)]), [value[a] for a in args])
            case FloorDiv(num, den) | CeilDiv(num, den) | Mod(num, den):
                if not np.all(value[den]):
                    raise ValueError(f"division by zero in {x}")
                value[x] = _DIVISION[type(x)](np, value[num], value[den])
            case _:
                assert_never(x)
        if number is not np.int64:  # of single numbers ufuncs take what fits into their types
            value[x] = np.asarray(value[x], object)
    return value


_END: Final = 1 << 63
"""The first positive integer that int64 does not hold."""
_REDUCED: dict[type, str] = {Product: "multiply", Min: "minimum", Max: "maximum"}
_DIVISION: dict[type, Callable[[Any, Any, Any], Any]] = {
    FloorDiv: lambda np, x, y: np.floor_divide(x, y),
    CeilDiv: lambda np, x, y: -np.floor_divide(-x, y),
    Mod: lambda np, x, y: np.mod(x, np.abs(y)),
}
