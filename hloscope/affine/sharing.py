"""Names for what occurs in several places, so that texts are as long as expressions are as graphs.

Expressions share their parts.  Written out, a part stands wherever it is used, and what uses it
twice, and is used twice itself, makes a text that doubles with each level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import field
from typing import Final

from hloscope.affine.meaning import postorder, rebuild
from hloscope.affine.nodes import Const, Dim, Expr, Range, Runtime, Var, children
from hloscope.lazy import dataclass

LONG: Final = 64
"""Where all expressions together have more divisions, written out, shared parts get names."""
LARGE: Final = 2_000
"""The same for operands of any operation."""
SHORT: Final = 4
"""What is written with no more operations, variables and numbers is written wherever it is."""
_FIRST: Final = 1 << 62
"""No map has so many runtime variables: those from here on stand for parts."""


@dataclass(frozen=True, slots=True)
class Shared:
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
        if not isinstance(x, Const | Dim | Range | Runtime):
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
