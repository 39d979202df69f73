"""Conversion of expressions to SymPy and back, and to LaTeX. SymPy is loaded at its first use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, assert_never

from hloscope.affine import (
    CeilDiv,
    Const,
    Dim,
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    Product,
    Range,
    Runtime,
    Sum,
    Var,
    ceildiv,
    default_name,
    floordiv,
    linear,
    maximum,
    minimum,
    mod,
    parse_expr,
    postorder,
    printed_terms,
    product,
    shared,
)
from hloscope.errors import UnsupportedError
from hloscope.support.lazy import lazy

if TYPE_CHECKING:
    import sympy
else:
    sympy = lazy("sympy")


def to_sympy(e: Expr, names: Mapping[Var, str] | None = None) -> Any:
    """Return the expression as a SymPy expression over integer symbols.

    >>> to_sympy(Dim(0) * 2 + Dim(1) // 4)
    2*d0 + floor(d1/4)
    """
    new: dict[Expr, Any] = {}
    for x in postorder(e):
        match x:
            case Const(value):
                new[x] = sympy.Integer(value)
            case Dim() | Range() | Runtime():
                new[x] = sympy.Symbol((names or {}).get(x) or default_name(x), integer=True)
            case Sum(terms, const):
                new[x] = sympy.Add(const, *[c * new[t] for t, c in terms])
            case Product(factors):
                new[x] = sympy.Mul(*[new[f] for f in factors])
            case FloorDiv(num, den):
                new[x] = sympy.floor(new[num] / new[den])
            case CeilDiv(num, den):
                new[x] = sympy.ceiling(new[num] / new[den])
            case Mod(num, den):
                dividend, divisor = new[num], abs(new[den])
                if dividend.has(sympy.Mod):  # `Mod(2 * Mod(x, 3), 3)` loses its outer part
                    new[x] = dividend - divisor * sympy.floor(dividend / divisor)
                else:
                    new[x] = sympy.Mod(dividend, divisor)
            case Min(args):
                new[x] = sympy.Min(*[new[a] for a in args])
            case Max(args):
                new[x] = sympy.Max(*[new[a] for a in args])
            case _:
                assert_never(x)
    return new[e]


def from_sympy(e: Any, names: Mapping[str, Var] | None = None) -> Expr:
    """Convert a SymPy expression.

    Integers, symbols, sums, products, floor, ceiling, Mod, Min and Max are supported.

    Args:
        e: The SymPy expression.
        names: The variables by the names of symbols; without it `d0`, `s0` and `rt0` are known.

    Raises:
        UnsupportedError: It contains something else.

    >>> import sympy
    >>> x = sympy.Symbol("d0", integer=True)
    >>> print(from_sympy(sympy.floor((x + 3) / 4) * 2 + sympy.Mod(x, 8)))
    ((d0 + 3) / 4) * 2 + d0 mod 8
    """

    def go(x: Any) -> Expr:
        if x.is_Integer:
            return Const(int(x))
        if x.is_Symbol:
            return parse_expr(x.name, names)
        if x.is_Add:
            return linear(*[(go(a), 1) for a in x.args])
        if x.is_Mul and all(not a.is_Rational or a.is_Integer for a in x.args):
            return product(*[go(a) for a in x.args])
        if x.is_Pow and x.exp.is_Integer and x.exp > 0:
            return product(*[go(x.base)] * int(x.exp))
        if isinstance(x, sympy.floor | sympy.ceiling):
            num, den = sympy.fraction(sympy.together(x.args[0]))
            return (floordiv if isinstance(x, sympy.floor) else ceildiv)(go(num), go(den))
        if isinstance(x, sympy.Mod):
            return mod(go(x.args[0]), go(x.args[1]))
        if isinstance(x, sympy.Min | sympy.Max):
            return (minimum if isinstance(x, sympy.Min) else maximum)(*[go(a) for a in x.args])
        raise UnsupportedError(f"no integer expression for SymPy's {x}")

    return go(sympy.expand(e))


def to_latex(e: Expr, names: Mapping[Var, str] | None = None) -> str:
    r"""Return the expression in LaTeX.

    `names` has the names of variables; the others are `d0`, `s0`, `rt0` and so on.

    >>> print(to_latex(Dim(0) // 4 * 2 + Dim(1) % 8))
    2 \left\lfloor \frac{d_{0}}{4} \right\rfloor + d_{1} \bmod 8
    """
    found = shared([e], (names or {}).values())
    every = {**(names or {}), **found.names}
    parts = [f"{_latex_name(found.names[v])} = {_latex(x, every)}" for v, x in found.parts]
    return r",\quad ".join([_latex(found.roots[0], every), *parts])


def _latex(e: Expr, names: Mapping[Var, str]) -> str:
    new: dict[Expr, str] = {}
    for x in postorder(e):
        match x:
            case Const(value):
                new[x] = str(value)
            case Dim() | Range() | Runtime():
                new[x] = _latex_name(names.get(x) or default_name(x))
            case Sum():
                new[x] = _latex_sum(x, new)
            case Product(factors):
                new[x] = r" \cdot ".join(_grouped(f, new) for f in factors)
            case FloorDiv(num, den):
                new[x] = rf"\left\lfloor \frac{{{new[num]}}}{{{new[den]}}} \right\rfloor"
            case CeilDiv(num, den):
                new[x] = rf"\left\lceil \frac{{{new[num]}}}{{{new[den]}}} \right\rceil"
            case Mod(num, den):
                new[x] = rf"{_grouped(num, new)} \bmod {_grouped(den, new)}"
            case Min(args) | Max(args):
                name = r"\min" if isinstance(x, Min) else r"\max"
                inside = ", ".join(new[a] for a in args)
                new[x] = rf"{name}\left({inside}\right)"
            case _:
                assert_never(x)
    return new[e]


def _latex_name(name: str) -> str:
    """Return a variable name in LaTeX.

    Trailing digits, or what follows `_`, become an index; words are italic.
    """
    head = name.rstrip("0123456789")
    if len(head) <= 2 and head.isalpha() and head != name:
        return (
            f"{head}_{{{name[len(head) :]}}}" if len(head) == 1 else _word(head, name[len(head) :])
        )
    stem, _, index = name.partition("_")
    return _word(stem, index) if len(name) > 1 else name


def _word(stem: str, index: str) -> str:
    inside = index.replace("_", r"\_")
    return rf"\mathit{{{stem}}}" + (f"_{{{inside}}}" if index else "")


def _grouped(x: Expr, new: Mapping[Expr, str]) -> str:
    return rf"\left({new[x]}\right)" if isinstance(x, Sum | Mod) else new[x]


def _latex_sum(e: Sum, new: Mapping[Expr, str]) -> str:
    text = ""
    for t, c in printed_terms(e):
        body = new[t] if abs(c) == 1 and not isinstance(t, Sum) else f"{abs(c)} {_grouped(t, new)}"
        if c == -1 and isinstance(t, Mod):
            body = _grouped(t, new)
        sign = "-" if c < 0 else "" if not text else "+"
        text = f"{text} {sign} {body}" if text else sign + body
    if e.const:
        text += f" {'-' if e.const < 0 else '+'} {abs(e.const)}"
    return text
