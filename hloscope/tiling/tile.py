"""Tiles: strided boxes whose offsets and sizes are expressions, and refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from hloscope.affine import (
    ONE,
    ZERO,
    Const,
    Dim,
    Expr,
    Range,
    Runtime,
    Var,
    evaluate,
    expr,
    parse_expr,
    substitute,
    to_text,
    variables,
)
from hloscope.indexing import Constraint
from hloscope.ir import Instruction

# --------------------------------------------------------------------------------------------------
# Tiles: boxes with strides whose offsets and sizes are expressions.
#
# The expressions use the variables of a tiling space: `tid_i`, the number of the tile along
# dimension `i`, is `Dim(i)`; `ts_i`, the tile size of dimension `i`, is `Range(i)`; `rt_j`, a run-
# time value, is `Runtime(j)`.


_KINDS: Final[dict[str, type[Dim] | type[Range] | type[Runtime]]] = {
    "tid": Dim,
    "ts": Range,
    "rt": Runtime,
}
_PREFIXES: Final = {kind: prefix for prefix, kind in _KINDS.items()}


def variable_name(v: Var) -> str:
    """Return the name of a variable of a tiling space.

    >>> variable_name(Dim(0)), variable_name(Range(1)), variable_name(Runtime(2))
    ('tid_0', 'ts_1', 'rt_2')
    """
    return f"{_PREFIXES[type(v)]}_{v.index}"


def expression_text(e: Expr) -> str:
    """Return the text of an expression, with the names of a tiling space.

    >>> expression_text(Dim(0) * Range(0) + 1)
    'tid_0 * ts_0 + 1'
    """
    return to_text(e, {v: variable_name(v) for v in variables(e)})


def read_expression(text: str, dimensions: int, runtime: int = 0) -> Expr:
    """Return the expression that a text with the names of a tiling space describes.

    Args:
        text: The text, such as `tid_0 * ts_0`.
        dimensions: Number of dimensions of the space.
        runtime: Number of runtime variables of the space.

    Raises:
        ParseError: The text is not an expression, or has an unknown name.

    >>> read_expression("tid_0 * ts_0 + rt_0", 1, 1) is Dim(0) * Range(0) + Runtime(0)
    True
    """
    names: dict[str, Var] = {}
    for prefix, count in (("tid", dimensions), ("ts", dimensions), ("rt", runtime)):
        names |= {f"{prefix}_{i}": _KINDS[prefix](i) for i in range(count)}
    return parse_expr(text, names)


class DimTile(Struct, frozen=True):
    """The indices `offset + stride * k`, `0 <= k < size`, that are in `[0, upper_bound)`.

    >>> print(DimTile(Dim(0) * 4, Const(4), Const(1), Const(10)))
    offset [tid_0 * 4], size [4], stride [1], upper bound [10]
    """

    offset: Expr
    size: Expr
    stride: Expr
    upper_bound: Expr

    @classmethod
    def of(cls, offset: Expr | int, size: Expr | int, stride: int, bound: int) -> DimTile:
        """Return the tile of one dimension; an integer stands for a constant expression.

        Args:
            offset: First index.
            size: Number of indices.
            stride: Distance between indices.
            bound: Exclusive upper bound of indices; those beyond are cut off.
        """
        return cls(expr(offset), expr(size), Const(stride), Const(bound))

    def __str__(self) -> str:
        parts = zip(
            ("offset", "size", "stride", "upper bound"),
            (self.offset, self.size, self.stride, self.upper_bound),
            strict=True,
        )
        return ", ".join(f"{name} [{expression_text(e)}]" for name, e in parts)

    @property
    def last(self) -> Expr:
        """The index of the last element, if the size is not 0."""
        return self.offset + (self.size - 1) * self.stride

    def mapped(self, change: Callable[[Expr], Expr]) -> DimTile:
        """Return the tile with `change` applied to every expression."""
        return DimTile(
            change(self.offset), change(self.size), change(self.stride), change(self.upper_bound)
        )

    def indices(self, at: Mapping[Var, int]) -> range:
        """Return the indices of the tile for values of the variables.

        A stride of 0 repeats one index, which is returned once.

        >>> list(DimTile.of(Dim(0) * 4, 4, 1, 10).indices({Dim(0): 2}))
        [8, 9]
        """
        offset, size = evaluate(self.offset, at), evaluate(self.size, at)
        step, bound = evaluate(self.stride, at), evaluate(self.upper_bound, at)
        if step == 0:
            step, size = 1, min(size, 1)
        if step > 0:
            first = max(0, -(offset // step))
            last = min(size - 1, (bound - 1 - offset) // step)
        else:
            first = max(0, -((bound - 1 - offset) // -step))
            last = min(size - 1, offset // -step)
        return range(offset + first * step, offset + (max(last, first - 1) + 1) * step, step)


UNIT: Final = DimTile(ZERO, ONE, ONE, ONE)
"""The tile of a dimension of size 1."""


def whole_dimension(size: int) -> DimTile:
    """Return the tile that covers a dimension of this size.

    Its size is the next power of two, cut off at the end of the dimension.

    >>> print(whole_dimension(6))
    offset [0], size [8], stride [1], upper bound [6]
    """
    return DimTile.of(0, 1 << max(size - 1, 0).bit_length(), 1, size)


class Tile(Struct, frozen=True):
    """A tile of an array: the product of the tiles of its dimensions.

    Attributes:
        dims: Tile of each dimension.
        replicas: For an array that collectives gather from several devices: tiles of the positions,
            in the collectives' groups, of the devices that are read.

    >>> print(Tile((DimTile.of(Dim(0) * Range(0), Range(0), 1, 10),)))
    offsets [tid_0 * ts_0] sizes [ts_0] strides [1] upper bounds [10]
    """

    dims: tuple[DimTile, ...] = ()
    replicas: tuple[DimTile, ...] = ()

    @property
    def offsets(self) -> tuple[Expr, ...]:
        """The first index in every dimension."""
        return tuple([d.offset for d in self.dims])

    @property
    def sizes(self) -> tuple[Expr, ...]:
        """The number of indices in every dimension, before the cut at the bounds."""
        return tuple([d.size for d in self.dims])

    @property
    def strides(self) -> tuple[Expr, ...]:
        """The distance between indices in every dimension."""
        return tuple([d.stride for d in self.dims])

    @property
    def upper_bounds(self) -> tuple[Expr, ...]:
        """The exclusive upper bound of indices in every dimension."""
        return tuple([d.upper_bound for d in self.dims])

    def fields(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the expressions of all dimensions as texts: pairs (name of the field, texts)."""
        return _fields(self.dims)

    def replica_fields(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the expressions of `replicas` as texts: pairs (name of the field, texts)."""
        return _fields(self.replicas)

    def __str__(self) -> str:
        text = _line(self.fields())
        return f"{text} replica ids {{ {_line(self.replica_fields())} }}" if self.replicas else text

    def text(self, dimensions: int, runtime: int = 0) -> str:
        """Return the text of the tile, preceded by the names of the variables of its space.

        `dimensions` and `runtime` are the numbers of these variables.

        Source: XLA's experimental `Tile::ToString`.

        >>> print(Tile((DimTile.of(Dim(0) * 4, 4, 1, 8),)).text(1))
        (tid_0) -> offsets [tid_0 * 4] sizes [4] strides [1] upper bounds [8]
        """
        ids = ", ".join([f"tid_{i}" for i in range(dimensions)])
        read = ", ".join([f"rt_{i}" for i in range(runtime)])
        return f"({ids}){f'{{{read}}}' if read else ''} -> {self}"

    def mapped(self, change: Callable[[Expr], Expr]) -> Tile:
        """Return the tile with `change` applied to every expression."""
        return Tile(
            tuple([d.mapped(change) for d in self.dims]),
            tuple([d.mapped(change) for d in self.replicas]),
        )

    def substituted(self, values: Mapping[Var, Expr | int]) -> Tile:
        """Return the tile with some variables replaced by values.

        >>> print(Tile((DimTile.of(Dim(0) * Range(0), Range(0), 1, 8),)).substituted({Range(0): 4}))
        offsets [tid_0 * 4] sizes [4] strides [1] upper bounds [8]
        """
        return self.mapped(lambda e: substitute(e, values))

    def with_dims(self, dims: Iterable[DimTile]) -> Tile:
        """Return a tile with other tiles of dimensions, `dims`, and the same `replicas`."""
        return Tile(tuple(dims), self.replicas)

    def permuted(self, order: Sequence[int]) -> Tile:
        """Return the tile whose dimension `k` is dimension `order[k]` of this one."""
        return self.with_dims([self.dims[k] for k in order])

    def variables(self) -> frozenset[Var]:
        """Return all variables of the tile's expressions."""
        every = [
            e
            for d in (*self.dims, *self.replicas)
            for e in (d.offset, d.size, d.stride, d.upper_bound)
        ]
        return variables(*every) if every else frozenset()

    def indices(self, at: Mapping[Var, int]) -> tuple[range, ...]:
        """Return the indices of the tile in each dimension, at the values `at` of the variables."""
        return tuple([d.indices(at) for d in self.dims])


def _fields(dims: Sequence[DimTile]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return (
        ("offsets", tuple([expression_text(d.offset) for d in dims])),
        ("sizes", tuple([expression_text(d.size) for d in dims])),
        ("strides", tuple([expression_text(d.stride) for d in dims])),
        ("upper bounds", tuple([expression_text(d.upper_bound) for d in dims])),
    )


def _line(fields: Iterable[tuple[str, tuple[str, ...]]]) -> str:
    return " ".join(f"{name} [{', '.join(texts)}]" for name, texts in fields)


# --------------------------------------------------------------------------------------------------
# Refusals: reasons why something cannot be tiled, as results and not as errors.


class RefusalCode(StrEnum):
    """Kinds of refusals, named as XLA's status codes."""

    UNIMPLEMENTED = "UNIMPLEMENTED"
    """Tiles exist, but this case is not implemented."""
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    """There is no rule for this op or tile."""
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    """The kernel or tile is too large to be analysed; tiles may exist."""
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    """There is a rule, but the program or sizes do not satisfy its conditions."""


class Refusal(Struct, frozen=True):
    """The reason why something is not tiled, with its location.

    Attributes:
        code: Kind of the refusal.
        reason: The reason, in words.
        instruction: The refused instruction; `None` if the caller knows it.
        expr: The index expression that causes the refusal, if any.
        result: Number of the map's result that contains the expression.
        constraint: The constraint of the indexing map that causes the refusal, if any.

    >>> print(Refusal(RefusalCode.UNIMPLEMENTED, "interior padding"))
    UNIMPLEMENTED: interior padding
    """

    code: RefusalCode
    reason: str
    instruction: Instruction | None = None
    expr: Expr | None = None
    result: int | None = None
    constraint: Constraint | None = None

    def __str__(self) -> str:
        what = f": {self.expr}" if self.expr is not None else ""
        dimension = f", dimension {self.result}" if self.result is not None else ""
        where = f" (`{self.instruction.name}`)" if self.instruction is not None else ""
        return f"{self.code}: {self.reason}{what}{dimension}{where}"


class RefusedError(Exception):
    """Raised inside an analysis to end it with a refusal, which the caller returns."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


def refused(
    reason: str, at: Instruction | None = None, code: str = "UNIMPLEMENTED"
) -> RefusedError:
    """Return an exception with a refusal, for the caller to raise.

    Args:
        reason: The reason, in words.
        at: The refused instruction; `None` if the caller knows it.
        code: Kind of the refusal, a value of `RefusalCode`.
    """
    return RefusedError(Refusal(RefusalCode(code), reason, at))
