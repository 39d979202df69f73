"""Text of expressions in XLA's and MLIR's notation; `hloscope.affine.reading` has the grammar.

`/` and `floordiv` both round down.

Expressions share their parts. A text that writes out a shared part at each use can double in length
with each level. So long expressions are written with names for the shared parts,
`expr where t0 = expr, t1 = expr`, where each part may use the parts before it. XLA's own notation
has no such names.

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
"""Maximum number of nodes of an expression that is written without names for parts."""
RESERVED: Final = frozenset({"mod", "floordiv", "ceildiv", "min", "max", "in", "domain"})
"""Words of the notation, which cannot be names of variables or parts."""
LONG: Final = 64
"""Number of divisions, shared ones counted each time, above which shared parts get names."""
LARGE: Final = 2_000
"""Number of operands, shared ones counted each time, above which shared parts get names."""
SHORT: Final = 4
"""Parts with at most this many operations, variables and numbers are written out at each use."""
_ATOMS: Final = frozenset((Const, Dim, Range, Runtime))
_FIRST: Final = 1 << 62
"""Index of the first runtime variable that stands for a shared part.

No map has so many runtime variables of its own.
"""


def default_name(v: Var) -> str:
    """Return the default name of a variable: `d0`, `s0` or `rt0`."""
    return f"{_PREFIX[type(v)]}{v.index}"


def to_text(
    e: Expr,
    names: Mapping[Var, str] | None = None,
    style: Style = "xla",
    *,
    plain: bool = False,
) -> str:
    """Return the text of an expression; style "mlir" writes `floordiv` for `/`.

    Args:
        e: The expression.
        names: Names of variables; the default is `d0`, `s0`, `rt0`.
        style: The notation of divisions.
        plain: Write out shared parts at each use, at any length.

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
    """Return the texts of several expressions, and the pairs `(name, text)` of their shared parts.

    Args:
        roots: The expressions.
        names: Names of variables; others have the default names.
        style: The notation of divisions.
        plain: Write out shared parts at each use, at any length.

    Raises:
        TooLargeError: `plain` is true, and the texts have more than `MOST_WRITTEN` parts.

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
    """Return the ` where …` clause that follows a text with named parts; empty if there are none.

    `parts` has the pairs `(name, text)` of the named parts.

    >>> where_text([("t0", "d0 / 4"), ("t1", "t0 + 1")])
    ' where t0 = d0 / 4, t1 = t0 + 1'
    """
    return f" where {', '.join([f'{name} = {text}' for name, text in parts])}" if parts else ""


def _written(e: Expr, names: Mapping[Var, str], symbols: dict[type[Node], str]) -> str:
    """Return the text of an expression; shared parts are written out at each use.

    `names` has the names of variables, `symbols` the text of each operator.
    """
    out: list[str] = []
    todo: list[Expr | str] = [e]
    while todo:  # An explicit stack: not recursive, and linear in the length of the text.
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
    """Return the text of a compound expression as a list of strings and its operands, in order.

    `symbols` has the text of each operator, by the class of the node.
    """
    match x:
        case Sum():
            return _pieces_of_sum(printed_terms(x), x.const)
        case Product(factors):
            pieces: list[Expr | str] = []
            for f in factors:
                pieces += [" * ", *_operand(f)] if pieces else _operand(f)
            return pieces
        case FloorDiv(num, den) | CeilDiv(num, den) | Mod(num, den):
            # A numerator needs no parentheses if it is the same operation, as operators associate
            # to the left, or if it is a negated operand.
            negated = isinstance(num, Sum) and not num.const and len(num.terms) == 1
            plain = type(num) is type(x) or (negated and num.terms[0][1] == -1)  # type: ignore[union-attr]
            left: list[Expr | str] = [num] if plain else _operand(num)
            return [*left, f" {symbols[type(x)]} ", *_operand(den)]
        case Min(args) | Max(args):
            name = "min(" if isinstance(x, Min) else "max("
            # `min` and `max` of more than two operands are written as nested binary calls.
            pieces = [name * (len(args) - 1), args[0]]
            for a in args[1:]:
                pieces += [", ", a, ")"]
            return pieces
        case _:
            return [x]


def _operand(x: Expr) -> list[Expr | str]:
    """Return the pieces of an operand; one that is itself a binary operation gets parentheses."""
    return ["(", x, ")"] if isinstance(x, Sum | Product | FloorDiv | CeilDiv | Mod) else [x]


def _pieces_of_sum(terms: list[tuple[Expr, int]], const: int) -> list[Expr | str]:
    """Return the text of a sum as a list of strings and its terms, in order."""
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
    """Expressions in which runtime variables stand for the shared parts.

    Attributes:
        roots: The expressions.
        parts: Pairs of a variable and its part; a part may use the variables before it.
        names: The name of each of the variables.
    """

    roots: list[Expr]
    parts: list[tuple[Var, Expr]] = field(default_factory=list)
    names: dict[Var, str] = field(default_factory=dict)


def shared(roots: Sequence[Expr], taken: Collection[str] = ()) -> Shared:
    """Return the expressions with repeated parts replaced by variables, if they are long.

    Args:
        roots: The expressions.
        taken: Names that the parts must not get, such as those of variables.

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
        # Operands come first, so every part refers only to parts that are defined already.
        new[x] = rebuild(x, new.__getitem__) if changed else x
        length[x] = 1 + sum([length[y] for y in inside])
        if uses[x] > 1 and length[x] > SHORT:
            name = Runtime(_FIRST + len(parts))
            parts.append((name, new[x]))
            # A user of a named part writes only the name, so the part counts as one node from here
            # on.
            new[x], length[x] = name, 1
    fresh = _fresh(taken)
    return Shared([new[e] for e in roots], parts, {v: next(fresh) for v, _ in parts})


def _fresh(taken: Collection[str]) -> Iterator[str]:
    """Yield `t0`, `t1` and so on, without the names in `taken`."""
    k = 0
    while True:
        if (name := f"t{k}") not in taken:
            yield name
        k += 1


def is_long(roots: Sequence[Expr]) -> bool:
    """Does the text of the expressions exceed `LONG` or `LARGE` if shared parts are repeated?

    >>> is_long([Dim(0) // 2 + 1])
    False
    """
    if sum([e._divisions for e in roots]) > LONG:
        return True
    left = LARGE
    stack = [*roots]
    # The walk counts a shared part at each use, as the text would, and ends at the limit.
    while stack and left:
        x = stack.pop()
        if type(x) not in _ATOMS:
            left -= 1
            stack += children(x)
    return not left


def written_size(roots: Sequence[Expr]) -> int:
    """Return the number of nodes of the expressions, where a shared part counts at each use.

    >>> written_size([Dim(0) // 2 + Dim(0)])
    5
    """
    size: dict[Expr, int] = {}
    for x in postorder(*roots):
        size[x] = 1 + sum([size[y] for y in children(x)])
    return sum([size[e] for e in roots])


Node.text_of = staticmethod(to_text)
