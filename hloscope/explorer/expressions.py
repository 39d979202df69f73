"""Maps as data that a page can evaluate: a list of nodes that refer to earlier nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from hloscope.affine import (
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
    Sum,
)
from hloscope.display import runtime_origins
from hloscope.indexing import IndexingMap
from hloscope.visible import visible
from hloscope.walks import needed_first

SAFE: Final = (1 << 53) - 1
"""The largest integer that JavaScript's numbers hold exactly; larger ones are written as text."""
_LEAVES: Final[dict[type, str]] = {Dim: "d", Range: "s", Runtime: "r"}
_PAIRS: Final[dict[type, str]] = {FloorDiv: "/", CeilDiv: "^", Mod: "%"}
_MANY: Final[dict[type, tuple[str, str]]] = {
    Product: ("*", "factors"),
    Min: ("m", "args"),
    Max: ("M", "args"),
}


def integer(value: int) -> int | str:
    """An integer as lossless JSON: text if JavaScript would round it.

    >>> integer(7), integer(1 << 60)
    (7, '1152921504606846976')
    """
    return value if -SAFE <= value <= SAFE else str(value)


class _Nodes:
    """Expressions as a list of nodes; equal expressions share one node."""

    def __init__(self) -> None:
        self.nodes: list[list[Any]] = []
        self._places: dict[Expr, int] = {}

    def place(self, expr: Expr) -> int:
        """The position of an expression in `nodes`; its parts are added before it."""
        for top in needed_first([expr], lambda e: [*_parts(e)][::-1], self._places):
            self.nodes.append(self._written(top))
            self._places[top] = len(self.nodes) - 1
        return self._places[expr]

    def _written(self, expr: Expr) -> list[Any]:
        match expr:
            case Const(value):
                return ["c", integer(value)]
            case Sum(terms, const):
                pairs = [(self._places[term], integer(by)) for term, by in terms]
                return ["+", integer(const), *[number for pair in pairs for number in pair]]
            case Dim(index) | Range(index) | Runtime(index):
                return [_LEAVES[type(expr)], index]
        sign = _PAIRS.get(type(expr)) or _MANY[type(expr)][0]
        return [sign, *[self._places[part] for part in _parts(expr)]]


def _parts(expr: Expr) -> Iterator[Expr]:
    """Yield the direct subexpressions of an expression."""
    match expr:
        case Sum(terms, _):
            yield from (term for term, _ in terms)
        case FloorDiv(num, den) | CeilDiv(num, den) | Mod(num, den):
            yield from (num, den)
        case Product() | Min() | Max():
            yield from getattr(expr, _MANY[type(expr)][1])


def _ends(interval: Interval) -> list[int | str]:
    return [integer(interval.lo), integer(interval.hi)]


def map_json(m: IndexingMap) -> dict[str, Any]:
    """A map as data: its text, the intervals of its variables, nodes, results and constraints.

    >>> halves = IndexingMap.parse("(d0) -> (d0 / 2), domain: d0 in [0, 9]")
    >>> map_json(halves)["nodes"], map_json(halves)["results"]
    ([['c', 2], ['d', 0], ['/', 1, 0]], [2])
    """
    told: dict[str, Any] = {"text": visible(str(m))}
    if m.is_undefined:
        return told
    if m.is_known_empty:
        return {**told, "empty": 1}
    nodes = _Nodes()
    results = [nodes.place(e) for e in m.results]
    where = [[nodes.place(e), *_ends(interval)] for e, interval in m.constraints]
    told |= {
        "dims": [_ends(v.interval) for v in m.dims],
        "ranges": [_ends(v.interval) for v in m.ranges],
        "nodes": nodes.nodes,
        "results": results,
    }
    if where:
        told["where"] = where
    if m.runtime:
        names = list(m.names.values())[len(m.dims) + len(m.ranges) :]
        origins = runtime_origins(m)
        told["runtime"] = [
            [visible(name), *_ends(v.interval), visible(origin), int(v.is_every)]
            for name, v, origin in zip(names, m.runtime, origins, strict=True)
        ]
    return told
