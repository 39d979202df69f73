"""Builder of maps whose variables have symbolic sizes."""

from __future__ import annotations

from collections.abc import Iterable

from hloscope.affine import NEG_INF, POS_INF, Const, Dim, Expr, Interval, Range, Runtime, variables
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.symbolic.symbols import Shape, Symbols
from hloscope.indexing.variables import Constraint, Variable, below, substituted

UNBOUNDED = below(POS_INF)
"""A variable below a size that a constraint states."""


class SizedBuilder:
    """Builder of one map with variables and constraints; sizes may be symbols."""

    def __init__(self, symbols: Symbols, shape: Shape) -> None:
        self.symbols = symbols
        self.conditions: list[Constraint] = []
        self.dims = [self._variable(Dim(k), size) for k, size in enumerate(shape)]
        self.ranges: list[Variable] = []

    def _variable(self, variable: Expr, size: Expr) -> Variable:
        size = self.symbols.settled(size)
        if isinstance(size, Const):
            return below(size.value)
        self.conditions.append((variable - size, Interval(NEG_INF, -1)))
        return UNBOUNDED

    def range(self, size: Expr) -> Range:
        """Add a range variable below a size."""
        variable = Range(len(self.ranges))
        self.ranges.append(self._variable(variable, size))
        return variable

    def require(self, expr: Expr, lo: int, hi: int) -> None:
        """Add the constraint `lo <= expr <= hi`."""
        settled = self.symbols.settled(expr)
        if isinstance(settled, Const) or set(variables(settled)) & set(variables(expr)):
            expr = settled
        self.conditions.append((expr, Interval(lo, hi)))

    def below(self, expr: Expr, size: Expr) -> None:
        """Add the constraint `0 <= expr < size`."""
        self.require(expr, 0, POS_INF)
        self.require(expr - size, NEG_INF, -1)

    def map(self, results: Iterable[Expr]) -> IndexingMap:
        """Return the map of these variables and constraints; its sizes are runtime variables."""
        settled = [self.symbols.settled(e) for e in results]
        conditions = [(self.symbols.settled(e), i) for e, i in self.conditions]
        used = variables(*settled, *[e for e, _ in conditions])
        sizes = sorted([v for v in used if isinstance(v, Runtime)], key=lambda v: v.index)
        new = {v: Runtime(k) for k, v in enumerate(sizes)}
        exprs = substituted([e for e, _ in conditions], new)  # type: ignore[arg-type]
        return IndexingMap(
            self.dims,
            self.ranges,
            [self.symbols.variables[v.index] for v in sizes],
            substituted(settled, new),  # type: ignore[arg-type]
            [(e, interval) for e, (_, interval) in zip(exprs, conditions, strict=True)],
        ).simplify()
