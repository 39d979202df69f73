"""Maps as LaTeX and HTML, for notebooks."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from html import escape

from hloscope.affine import (
    NEG_INF,
    POS_INF,
    CeilDiv,
    Const,
    Dim,
    Expr,
    FloorDiv,
    Interval,
    Max,
    Min,
    Mod,
    Product,
    Range,
    Runtime,
    Shared,
    Sum,
    Var,
    postorder,
    shared,
)
from hloscope.indexing.base import MapBase
from hloscope.indexing.text import map_texts, print_map


def to_latex(m: MapBase, omitted: Collection[str] = ()) -> str:
    r"""Return the map as LaTeX without dollar signs.

    Conditions in `omitted`, as `conditions_latex` writes them, are left out.

    >>> from hloscope.indexing.variables import below
    >>> print(to_latex(MapBase([below(8)], results=[Dim(0) // 2])))
    (d_{0}) \mapsto \left(\left\lfloor \frac{d_{0}}{2} \right\rfloor\right),\quad 0 \le d_{0} \le 7
    """
    if m.is_undefined or m.is_known_empty:
        return r"\varnothing" if m.is_known_empty else r"\text{undefined}"
    found, names = _shared(m)
    results = ", ".join([expr_latex(e, names) for e in found.roots[: len(m.results)]])
    text = rf"({', '.join(list(names.values())[: len(m.dims)])}) \mapsto \left({results}\right)"
    return ",\\quad ".join([text, *[c for c in conditions_latex(m) if c not in omitted]])


def conditions_latex(m: MapBase) -> list[str]:
    """Return the bounds, constraints and named parts of a map as LaTeX conditions."""
    found, names = _shared(m)
    conditions = [_between(names[v], i) for v, i in m.box.items()]
    rest = zip(found.roots[len(m.results) :], m.constraints, strict=True)
    conditions += [_between(expr_latex(e, names), i) for e, (_, i) in rest]
    conditions += [f"{names[v]} = {expr_latex(e, names)}" for v, e in found.parts]
    return [condition for condition in conditions if condition]


def _shared(m: MapBase) -> tuple[Shared, dict[Var, str]]:
    """Return the expressions of a map with shared parts named, and all variables' LaTeX names."""
    taken = m.names
    found = shared([*m.results, *[e for e, _ in m.constraints]], taken.values())
    return found, {v: _name(text) for v, text in {**taken, **found.names}.items()}


def _name(text: str) -> str:
    r"""Return a name in LaTeX: `d0` as `d_{0}`, `th_x` as `\mathrm{th}_{x}`."""
    match = re.fullmatch(r"([a-zA-Z]+)_?(\w*)", text)
    if match is None:
        return rf"\mathrm{{{text.replace('_', chr(92) + '_')}}}"
    stem, sub = match.groups()
    stem = stem if len(stem) == 1 else rf"\mathrm{{{stem}}}"
    return f"{stem}_{{{sub.replace('_', chr(92) + '_')}}}" if sub else stem


def _between(what: str, interval: Interval) -> str:
    """Return the LaTeX condition that `what` lies in the interval; empty if there are no bounds."""
    if interval.is_point:
        return f"{what} = {interval.lo}"
    low = rf"{interval.lo} \le " if interval.lo > NEG_INF else ""
    high = rf" \le {interval.hi}" if interval.hi < POS_INF else ""
    return f"{low}{what}{high}" if low or high else ""


def expr_latex(e: Expr, names: Mapping[Var, str]) -> str:
    r"""Return an expression as LaTeX.

    >>> print(expr_latex(Dim(0) % 8 * 2 - 1, {Dim(0): "d"}))
    2 \left(d \bmod 8\right) - 1
    """
    done: dict[Expr, str] = {}
    for x in postorder(e):
        done[x] = _node(x, done, names)
    return done[e]


def _node(x: Expr, done: Mapping[Expr, str], names: Mapping[Var, str]) -> str:
    match x:
        case Const(value):
            return str(value)
        case Dim() | Range() | Runtime():
            return names[x]
        case Sum(terms, const):
            parts = [(c, _factor(t, done)) for t, c in terms] + [(const, "")] * bool(const)
            return _signed(parts)
        case Product(factors):
            return r" \cdot ".join([_factor(f, done) for f in factors])
        case FloorDiv(num, den):
            return rf"\left\lfloor \frac{{{done[num]}}}{{{done[den]}}} \right\rfloor"
        case CeilDiv(num, den):
            return rf"\left\lceil \frac{{{done[num]}}}{{{done[den]}}} \right\rceil"
        case Mod(num, den):
            return rf"{_factor(num, done)} \bmod {_factor(den, done)}"
        case Min(args) | Max(args):
            name = "min" if isinstance(x, Min) else "max"
            return rf"\{name}\left({', '.join([done[a] for a in args])}\right)"


def _factor(x: Expr, done: Mapping[Expr, str]) -> str:
    """Return the LaTeX of a factor, with parentheses around sums and remainders.

    `done` has the LaTeX of each operand.
    """
    return rf"\left({done[x]}\right)" if isinstance(x, Sum | Mod) else done[x]


def _signed(parts: list[tuple[int, str]]) -> str:
    """Return the LaTeX of a sum, given its terms as pairs (coefficient, text)."""
    out = ""
    for c, text in parts:
        sign = ("-" if c < 0 else "") if not out else (" - " if c < 0 else " + ")
        size = "" if abs(c) == 1 and text else str(abs(c))
        out += f"{sign}{size}{' ' if size and text else ''}{text}"
    return out


def to_html(m: MapBase) -> str:
    """Return the map as an HTML table: its text, and a row for each variable and constraint."""
    if m.is_undefined or m.is_known_empty or not m.has_domain:
        return f"<code>{escape(print_map(m))}</code>"
    names = m.names
    texts = map_texts(m)
    rows = [(names[v], f"{i.lo} … {i.hi}") for v, i in m.box.items()]
    rows += [(e, f"{i.lo} … {i.hi}") for e, i in texts.constraints]
    rows += [(name, f"= {text}") for name, text in texts.parts]
    lines = "".join(
        f"<tr><td><code>{escape(what)}</code></td><td>{escape(said)}</td></tr>"
        for what, said in rows
    )
    return f"<table><caption><code>{escape(texts.arrow)}</code></caption>{lines}</table>"
