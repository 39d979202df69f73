"""Symbolic tiles: the part of an operand that an output tile needs, by the tile's sizes.

The tile of the output lies at the origin, and `d_i` is its *size* along parameter `i`. In each
dimension of the operand it needs `offset + stride * k` for `0 <= k < size`, if the constraints on
the sizes hold. `hloscope.tiling.concrete` computes where a tile really lies.

>>> from hloscope.indexing import IndexingMap
>>> collapse = IndexingMap.parse("(d0, d1) -> (d0 * 8 + d1), domain: d0 in [0, 3], d1 in [0, 7]")
>>> print(symbolic_tile(collapse))
Symbolic tile with
  offset_map: (d0, d1) -> (0)
  size_map: (d0, d1) -> (d0 * d1)
  stride_map: (d0, d1) -> (((-d0 + 5) / 4 - 1) * ((-d1 + 9) / 8) * -8 - (-d1 + 9) / 8 + 1)
  constraints: d0 in [1, 1] || d1 in [1, 1] || d1 in [8, 8]

Source: XLA `SymbolicTile`, `SizeAndStrideExpression`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import (
    ONE,
    ZERO,
    AffineMap,
    Const,
    Dim,
    Expr,
    FloorDiv,
    Interval,
    Mod,
    Range,
    Runtime,
    Sum,
    Var,
    product,
    safe_evaluate,
    substitute,
)
from hloscope.errors import UnsupportedError
from hloscope.indexing import IndexingMap, RuntimeVariable
from hloscope.simplifier import Domain
from hloscope.support.arrays import Ints, np
from hloscope.tiling.constraints import Clause, Divides, OneSign, Run, TileConstraints, values
from hloscope.tiling.tile import Refusal, RefusalCode


class SymbolicTile(Struct, frozen=True):
    """Offset, size and stride along each dimension of the operand, as functions of tile sizes.

    A parameter is a tile size to choose; it divides one dimension.

    Attributes:
        bounds: Whole size of the dimension of each parameter; strides are valid for tile sizes up
            to these.
        offsets: Offset along each dimension, over runtime variables only.
        sizes: Number of elements along each dimension.
        strides: Distance between elements along each dimension.
        constraints: XLA's constraints on the sizes.
        dropped: Constraints that XLA omits: for sizes that violate them the tile misses elements.
        runtime: The runtime variables of the offsets.
    """

    bounds: tuple[int, ...]
    offsets: tuple[Expr, ...]
    sizes: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    constraints: TileConstraints
    dropped: TileConstraints = TileConstraints()
    runtime: tuple[RuntimeVariable, ...] = ()

    @property
    def rank(self) -> int:
        """Number of dimensions of the operand."""
        return len(self.sizes)

    def sizes_at(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the sizes of the operand's tile for given tile sizes of the output.

        `sizes` has one tile size for each parameter, the tile sizes to choose.
        """
        return tuple([_at(e, sizes) for e in self.sizes])

    def strides_at(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the strides of the operand's tile for given tile sizes of the output.

        `sizes` has one tile size for each parameter. Sizes beyond a dimension count as the whole
        dimension, as in XLA.

        >>> from hloscope.indexing import IndexingMap
        >>> tile = symbolic_tile(IndexingMap.parse("(d0) -> (d0 * 3 + 1), domain: d0 in [0, 4]"))
        >>> tile.sizes_at((8,)), tile.strides_at((8,))
        ((8,), (3,))
        """
        clamped = [min(size, bound) for size, bound in zip(sizes, self.bounds, strict=True)]
        return tuple([_at(e, clamped) for e in self.strides])

    def sizes_array(self, sizes: Ints) -> Ints:
        """Return the sizes of the operand's tile for many tilings: [tilings, dimensions].

        `sizes` has the tile sizes of one tiling in each row: [tilings, parameters].
        """
        return _columns(self.sizes, sizes)

    def strides_array(self, sizes: Ints) -> Ints:
        """Return the strides of the operand's tile for many tilings: [tilings, dimensions].

        `sizes` has the tile sizes of one tiling in each row: [tilings, parameters].
        """
        bounds = np.array(self.bounds, dtype=np.int64).reshape(1, -1)
        return _columns(self.strides, np.minimum(sizes, bounds))

    def text(self, indent: str = "") -> str:
        """Return the tile as XLA prints it, each line after `indent`."""
        rows = self.rows()
        return "".join(
            [f"{indent}Symbolic tile with", *[f"\n{indent}  {k}: {v}" for k, v in rows.items()]]
        )

    def rows(self) -> dict[str, str]:
        """Return the texts of the tile's parts, by the names that XLA prints."""
        symbols: dict[Var, Expr] = {Runtime(i): Range(i) for i in range(len(self.runtime))}
        count, offsets = len(self.bounds), [substitute(e, symbols) for e in self.offsets]
        rows = {
            "offset_map": str(AffineMap(count, len(self.runtime), tuple(offsets))),
            "size_map": str(AffineMap(count, 0, self.sizes)),
            "stride_map": str(AffineMap(count, 0, self.strides)),
        }
        if self.runtime:
            bounds = [f"s{i} in {v.interval}" for i, v in enumerate(self.runtime)]
            rows["rt_vars"] = ", ".join(bounds)
        if self.constraints.clauses:
            rows["constraints"] = _expanded(self.constraints)
        if self.dropped.clauses:
            rows["dropped by XLA"] = _expanded(self.dropped)
        return rows

    def __str__(self) -> str:
        return self.text()


def _expanded(constraints: TileConstraints) -> str:
    try:
        return str(constraints.expand())
    except UnsupportedError:
        return str(constraints)


def _at(e: Expr, sizes: Sequence[int]) -> int:
    found = safe_evaluate(e, {Dim(i): int(size) for i, size in enumerate(sizes)})
    if found is None:
        raise ValueError(f"no value of {e} for tile sizes {tuple(sizes)}")
    return found


def _columns(exprs: Sequence[Expr], sizes: Ints) -> Ints:
    """Return the values of expressions for many tilings: [tilings, expressions]."""
    if not exprs:
        return np.zeros((len(sizes), 0), dtype=np.int64)
    return np.stack([values(e, sizes) for e in exprs], axis=1)


# ------------------------------------------------------------------------------- derivation

_ZERO: Final = Interval(0, 0)


def symbolic_tile(m: IndexingMap) -> SymbolicTile | Refusal:
    """Return the symbolic tile of a map, or a refusal with the reason.

    Args:
        m: Map from the elements of the output to those of the operand.

    >>> from hloscope.indexing import IndexingMap
    >>> print(symbolic_tile(IndexingMap.parse("(d0) -> ((d0 * 5) / 6), domain: d0 in [0, 4]")))
    UNIMPLEMENTED: a quotient of something else than one dimension: (d0 * 5) / 6, dimension 0
    """
    if m.is_undefined:
        return _no("the map is undefined")
    m = m.simplify(replace_points=False)
    if m.is_known_empty:
        return _no("nothing of the operand is read: the domain is empty")
    points = [e for e, interval in m.constraints if interval == _ZERO]
    may_be_points = len(points) <= m.results.count(ZERO)  # simplified to 0 where they are results
    asked: list[Clause] = []
    for e, interval in m.constraints:
        if interval == _ZERO and may_be_points:
            point = _part(e, m)
            if isinstance(point, Refusal):
                return point
            asked += point.clauses
            continue
        if interval.lo != 0 or e not in m.results:
            reason = f"the constraint {e} in {interval} does not cut a result at its high end"
            return Refusal(RefusalCode.UNIMPLEMENTED, reason, constraint=(e, interval))
    origin: dict[Var, Expr] = dict.fromkeys(map(Dim, range(len(m.dims))), ZERO)
    # The offset is the value at the origin; what remains is 0 there and gives size and stride.
    origin |= dict.fromkeys(map(Range, range(len(m.ranges))), ZERO)
    domain = Domain(m.box, m.constraints)
    offsets = [domain.simplify(substitute(e, origin)) for e in m.results]
    moved = [e - offset for e, offset in zip(m.results, offsets, strict=True)]
    parts = []
    for number, e in enumerate(m.with_(results=moved).simplify(replace_points=False).results):
        part = _part(e, m)
        if isinstance(part, Refusal):
            return replace(part, result=number)
        parts.append(part)
    return SymbolicTile(
        tuple([v.interval.hi + 1 for v in m.dims]),
        tuple(offsets),
        tuple([part.size for part in parts]),
        tuple([part.stride for part in parts]),
        TileConstraints.of(*asked, *[c for part in parts for c in part.clauses]),
        TileConstraints.of(*[c for part in parts for c in part.dropped]),
        m.runtime,
    )


def _no(reason: str, e: Expr | None = None) -> Refusal:
    return Refusal(RefusalCode.UNIMPLEMENTED, reason, expr=e)


class _Part(Struct, frozen=True):
    """Size and stride of the tile along one result of a map, and the constraints for them.

    The constraints are on tile sizes.
    """

    size: Expr
    stride: Expr
    clauses: tuple[Clause, ...] = ()
    dropped: tuple[Clause, ...] = ()


_Found: TypeAlias = _Part | Refusal


def _part(e: Expr, m: IndexingMap) -> _Found:
    """Return the tile's size and stride along one result of a map, by the result's expression.

    Args:
        e: The result, which is 0 at the origin.
        m: The map.
    """
    if isinstance(e, Sum) and (len(e.terms) > 1 or e.const):
        return _of_sum(e, m)
    term, factor = e.terms[0] if isinstance(e, Sum) else (e, 1)
    match term:
        case Const():
            part: _Found = _Part(ONE, ZERO)
        case Dim():
            part = _Part(term, ONE)
        case Range(index):
            interval = m.ranges[index].interval
            part = _Part(Const(interval.hi + 1), ONE)
            if interval.lo != 0:
                reason = f"a range variable that does not begin at 0 but runs over {interval}"
                part = _no(reason, term)
        case FloorDiv():
            part = _of_floordiv(term)
        case Mod():
            part = _of_mod(term)
        case Runtime():
            return _no("no tile of a value read at run time that is multiplied or divided", e)
        case _:
            return _no("no tile of this expression", e)
    if factor == 1 or isinstance(part, Refusal):
        return part
    # XLA copies size and stride of the multiplied term and drops its constraints.
    return _Part(part.size, part.stride * factor, (), part.clauses + part.dropped)


def _of_floordiv(e: FloorDiv) -> _Found:
    if not isinstance(e.den, Const) or e.den.value <= 0:
        return _no("a quotient whose divisor is not a positive constant", e)
    if not isinstance(e.num, Dim):
        return _no("a quotient of something else than one dimension", e)
    return _Part((e.num + (e.den.value - 1)) // e.den, ONE)


def _of_mod(e: Mod) -> _Found:
    if not isinstance(e.den, Const) or e.den.value <= 0:
        return _no("a remainder whose divisor is not a positive constant", e)
    inner = _of_floordiv(e.num) if isinstance(e.num, FloorDiv) else None
    size = inner.size if isinstance(inner, _Part) else e.num
    if not isinstance(e.num, Dim) and size is e.num:
        return _no("a remainder of something else than one dimension or a quotient of it", e)
    block = e.den.value
    return _Part(size - ((size - 1) // block) * block, ONE, (Divides(size, block),))


def _of_sum(e: Sum, m: IndexingMap) -> _Found:
    """Return the tile's size and stride along a result that is a sum with nested strides.

    An example is `d0 * 48 + d1 * 6 + d2`.
    """
    if e.const:
        return _no("a sum with a constant that is not its offset", e)
    summands: list[tuple[Expr, int, int]] = []  # size, stride, size of the whole
    for term, factor in e.terms:
        part = _part(term, m)
        if isinstance(part, Refusal):
            return part
        whole = _dimension_size(part.size, m)
        if whole is None or not isinstance(part.stride, Const):
            return _no("a sum of more than single dimensions that begin at 0", e)
        summands.append((part.size, part.stride.value * factor, whole))
    summands.sort(key=lambda summand: -abs(summand[1]))
    for (_, above, _), (_, stride, whole) in pairwise(summands):
        # Each stride must be the number of elements of all faster dimensions, or the sum has gaps
        # or repeats.
        if whole * abs(stride) != abs(above):
            reason = (
                f"a sum of dimensions that are not contiguous: size {whole} times stride "
                f"{abs(stride)} is {whole * abs(stride)}, but the next stride is {abs(above)}"
            )
            return _no(reason, e)
    nested: Expr = ZERO
    for size, stride, whole in summands:
        # The stride of the whole is that of the fastest dimension whose tile size is not 1.
        nested = _unless_one(size, Const(stride), nested, whole)
    sizes, wholes = tuple([s for s, _, _ in summands]), tuple([w for _, _, w in summands])
    down = tuple([size for size, stride, _ in summands if stride < 0])
    up = tuple([size for size, stride, _ in summands if stride > 0])
    mixed = (OneSign(down, up),) if down and up else ()
    return _Part(product(*sizes), nested, (Run(sizes, wholes),), mixed)


def _dimension_size(size: Expr, m: IndexingMap) -> int | None:
    """Return the size of the dimension of which `size` is the tile size.

    A constant `size` is its own result. The result is `None` for other expressions, and for
    dimensions that do not begin at 0.
    """
    if isinstance(size, Const):
        return size.value
    if not isinstance(size, Dim) or m.dims[size.index].interval.lo != 0:
        return None
    return m.dims[size.index].interval.hi + 1


def _unless_one(size: Expr, one: Expr, other: Expr, largest: int) -> Expr:
    """Return `one` if `size != 1`, else `other`, as an expression for sizes in `[1, largest]`."""
    largest = max(largest, 1)
    is_one = (Const(largest + 1) - size) // largest
    return is_one * other + (1 - is_one) * one
