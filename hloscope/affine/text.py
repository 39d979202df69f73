"""Expressions as text: XLA's notation, and MLIR's; `hloscope.affine.reading` has the grammar.

`/` and `floordiv` both round down.

Expressions share their parts.  Written out, a part stands wherever it is used, and what uses it
twice, and is used twice itself, makes a text that doubles with each level.  So long expressions are
written with names for what occurs in several places, `expr where t0 = expr, t1 = expr`, where each
may use those before it; XLA's notation has no such names.

Source: XLA's indexing maps as printed, docs/indexing.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field

from hloscope.affine.meaning import postorder, rebuild
from hloscope.affine.nodes import (
    CeilDiv,
    Const,
    Dim,
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    Node,
    Product,
    Range,
    Runtime,
    Sum,
    Var,
    Variable,
    children,
)
from hloscope.affine.order import printed_terms
from hloscope.errors import TooLargeError

Style: TypeAlias = Literal["xla", "mlir"]

_PREFIX: Final[dict[type[Node], str]] = {Dim: "d", Range: "s", Runtime: "rt"}
_SYMBOL: Final[dict[Style, dict[type[Node], str]]] = {
    "xla": {FloorDiv: "/", CeilDiv: "ceildiv", Mod: "mod"},
    "mlir": {FloorDiv: "floordiv", CeilDiv: "ceildiv", Mod: "mod"},
}


MOST_WRITTEN: Final = 1 << 22
"""Expressions of more parts, written out, are not written out."""
RESERVED: Final = frozenset({"mod", "floordiv", "ceildiv", "min", "max", "in", "domain"})
"""Words that are no names."""
LONG: Final = 64
"""Where all expressions together have more divisions, written out, shared parts get names."""
LARGE: Final = 2_000
"""The same for operands of any operation."""
SHORT: Final = 4
"""What is written with no more operations, variables and numbers is written wherever it is."""
_ATOMS: Final = frozenset((Const, Dim, Range, Runtime))
_FIRST: Final = 1 << 62
"""No map has so many runtime variables: those from here on stand for parts."""


def default_name(v: Var) -> str:
    """`d0`, `s0` or `rt0`."""
    return f"{_PREFIX[type(v)]}{v.index}"


def to_text(
    e: Expr,
    names: Mapping[Var, str] | None = None,
    style: Style = "xla",
    *,
    plain: bool = False,
) -> str:
    """The expression in XLA's notation, or with `floordiv` for `/` in style "mlir".

    Args:
        e: The expression.
        names: The names of variables, where they are others than `d0`, `s0`, `rt0`.
        style: How a division is written.
        plain: Write out what occurs in several places, however long that gets.

    Raises:
        TooLargeError: Written out, it has more than `MOST_WRITTEN` parts.

    >>> d0, s0 = Dim(0), Range(0)
    >>> to_text(s0 - d0 // 8 * 2, {s0: "tid"})
    '(d0 / 8) * -2 + tid'
    >>> to_text(-(d0 % 8) // 3, style="mlir")
    '-(d0 mod 8) floordiv 3'
    """
    text, parts = texts([e], names or {}, style, plain=plain)
    return f"{text[0]}{where_text(parts)}"


def texts(
    roots: Sequence[Expr], names: Mapping[Var, str], style: Style = "xla", *, plain: bool = False
) -> tuple[list[str], list[tuple[str, str]]]:
    """The texts of several expressions, and the names for parts in them with what these stand for.

    >>> texts([Dim(0) // 2, Dim(1)], {Dim(1): "row"})
    (['d0 / 2', 'row'], [])
    """
    if plain:
        if (size := written_size(roots)) > MOST_WRITTEN:
            said = f"written out, it has {size} parts, more than {MOST_WRITTEN}"
            raise TooLargeError(said)
        found = Shared([*roots])
    elif not is_long(roots):
        symbols = _SYMBOL[style]
        return [_written(e, names, symbols) for e in roots], []
    else:
        found = shared(roots, [*names.values(), *RESERVED])
    every = {**names, **found.names} if found.names else names
    symbols = _SYMBOL[style]
    parts = [(found.names[v], _written(e, every, symbols)) for v, e in found.parts]
    return [_written(e, every, symbols) for e in found.roots], parts


def where_text(parts: Sequence[tuple[str, str]]) -> str:
    """What names for parts stand for, as it follows a text.

    >>> where_text([("t0", "d0 / 4"), ("t1", "t0 + 1")])
    ' where t0 = d0 / 4, t1 = t0 + 1'
    """
    return f" where {', '.join([f'{name} = {text}' for name, text in parts])}" if parts else ""


def _written(e: Expr, names: Mapping[Var, str], symbols: dict[type[Node], str]) -> str:
    out: list[str] = []
    todo: list[Expr | str] = [e]
    while todo:  # not recursive, and linear in the length of the text
        x = todo.pop()
        if isinstance(x, str):
            out.append(x)
        elif isinstance(x, Const):
            out.append(str(x.value))
        elif isinstance(x, Variable):
            out.append(names.get(x) or default_name(x))
        else:
            todo += reversed(_pieces(x, symbols))
    return "".join(out)


def _pieces(x: Expr, symbols: dict[type[Node], str]) -> list[Expr | str]:
    """The text of a compound expression as words and smaller expressions."""
    match x:
        case Sum():
            return _pieces_of_sum(printed_terms(x), x.const)
        case Product(factors):
            pieces: list[Expr | str] = []
            for f in factors:
                pieces += [" * ", *_operand(f)] if pieces else _operand(f)
            return pieces
        case FloorDiv(num, den) | CeilDiv(num, den) | Mod(num, den):
            negated = isinstance(num, Sum) and not num.const and len(num.terms) == 1
            plain = type(num) is type(x) or (negated and num.terms[0][1] == -1)  # type: ignore[union-attr]
            left: list[Expr | str] = [num] if plain else _operand(num)
            return [*left, f" {symbols[type(x)]} ", *_operand(den)]
        case Min(args) | Max(args):
            name = "min(" if isinstance(x, Min) else "max("
            pieces = [name * (len(args) - 1), args[0]]
            for a in args[1:]:
                pieces += [", ", a, ")"]
            return pieces
        case _:
            return [x]


def _operand(x: Expr) -> list[Expr | str]:
    """In parentheses if it is a binary operation."""
    return ["(", x, ")"] if isinstance(x, Sum | Product | FloorDiv | CeilDiv | Mod) else [x]


def _pieces_of_sum(terms: list[tuple[Expr, int]], const: int) -> list[Expr | str]:
    pieces: list[Expr | str] = []
    for t, c in terms:
        if pieces:
            pieces.append(" + " if c > 0 else " - ")
            c = abs(c)
        if c == 1:
            pieces.append(t)
        elif c == -1:
            pieces += ["-", *_operand(t)]
        else:
            pieces += [*([t] if isinstance(t, Product) else _operand(t)), f" * {c}"]
    if const:
        pieces.append(f" + {const}" if const > 0 else f" - {-const}")
    return pieces


class Shared(Struct, frozen=True):
    """Expressions, in which variables stand for parts that are used several times.

    Attributes:
        roots: The expressions.
        parts: A variable and what it stands for, in which those before it may occur.
        names: The text of each of the variables.
    """

    roots: list[Expr]
    parts: list[tuple[Var, Expr]] = field(default_factory=list)
    names: dict[Var, str] = field(default_factory=dict)


def shared(roots: Sequence[Expr], taken: Collection[str] = ()) -> Shared:
    """The expressions with variables for what is used several times, where they are long.

    Args:
        roots: The expressions.
        taken: Names that are not to be given.

    >>> e = Dim(0)
    >>> for _ in range(8):
    ...     e = (e + 1) // 3 * 5 + (e + 1) % 3
    >>> found = shared([e])
    >>> name, part = found.parts[0]
    >>> found.names[name], part
    ('t0', <((d0 + 1) / 3) * 5 + (d0 + 1) mod 3 + 1>)
    """
    if not is_long(roots):
        return Shared([*roots])
    order = postorder(*roots)
    uses = Counter([*roots, *[y for x in order for y in children(x)]])
    new: dict[Expr, Expr] = {}
    length: dict[Expr, int] = {}
    parts: list[tuple[Var, Expr]] = []
    for x in order:
        inside = children(x)
        changed = any([new[y] is not y for y in inside])
        new[x] = rebuild(x, new.__getitem__) if changed else x
        length[x] = 1 + sum([length[y] for y in inside])
        if uses[x] > 1 and length[x] > SHORT:
            name = Runtime(_FIRST + len(parts))
            parts.append((name, new[x]))
            new[x], length[x] = name, 1
    fresh = _fresh(taken)
    return Shared([new[e] for e in roots], parts, {v: next(fresh) for v, _ in parts})


def _fresh(taken: Collection[str]) -> Iterator[str]:
    """`t0`, `t1` and so on, without those that are taken."""
    k = 0
    while True:
        if (name := f"t{k}") not in taken:
            yield name
        k += 1


def is_long(roots: Sequence[Expr]) -> bool:
    """Would the expressions be long if they were written out?

    >>> is_long([Dim(0) // 2 + 1])
    False
    """
    if sum([e._divisions for e in roots]) > LONG:
        return True
    left = LARGE
    stack = [*roots]
    while stack and left:
        x = stack.pop()
        if type(x) not in _ATOMS:
            left -= 1
            stack += children(x)
    return not left


def written_size(roots: Sequence[Expr]) -> int:
    """How many operations, variables and numbers the expressions have where they are written out.

    >>> written_size([Dim(0) // 2 + Dim(0)])
    5
    """
    size: dict[Expr, int] = {}
    for x in postorder(*roots):
        size[x] = 1 + sum([size[y] for y in children(x)])
    return sum([size[e] for e in roots])


Node.text_of = staticmethod(to_text)
