"""What rules share: sizes of values, a builder of maps, the maps that recur in most families."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hloscope.affine import NEG_INF, POS_INF, Expr, Interval, Range, Runtime, first_dims
from hloscope.errors import UnsupportedError
from hloscope.indexing.access import Access, Accesses, Precision
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.variables import Constraint, RuntimeVariable, Variable, below
from hloscope.ir import BufferType, Dims, Instruction, TensorType, TupleType, Type, of_last
from hloscope.walks import nested

NEVER: Accesses = ()
"""The accesses of a tensor that is not touched."""


def leaves(type: Type) -> tuple[Type, ...]:
    """The arrays (and tokens) of a type in order; a type that is no tuple is its own leaf.

    >>> from hloscope.ir.types import TokenType, TupleType
    >>> len(leaves(TupleType((TokenType(), TupleType((TokenType(), TokenType()))))))
    3
    """
    if not isinstance(type, TupleType):
        return (type,)
    if type.depth == 1:
        return type.elements
    every = nested(type.elements, lambda t: t.elements if isinstance(t, TupleType) else ())
    return tuple([t for t in every if not isinstance(t, TupleType)])


def first_leaf(type: Type, index: int) -> int:
    """The number of the first leaf of element `index` of a tuple.

    >>> from hloscope.ir.types import TokenType, TupleType
    >>> first_leaf(TupleType((TupleType((TokenType(), TokenType())), TokenType())), 1)
    2
    """
    elements = type.elements if isinstance(type, TupleType) else ()
    return sum(len(leaves(element)) for element in elements[:index])


def sizes(type: Type) -> Dims:
    """The sizes of an array, a dynamic one by its bound; `()` for tokens and opaque values.

    Raises:
        UnsupportedError: A dimension has neither size nor bound.
    """
    if isinstance(type, TensorType) and None not in type.sizes:
        return type.sizes  # type: ignore[return-value]  # none of them is unknown
    if isinstance(type, BufferType):
        type = type.element
    if not isinstance(type, TensorType):
        return ()
    if None in type.sizes and not type.bounds:
        raise UnsupportedError(f"dimension {type.sizes.index(None)} has no bound")
    for k, size in enumerate(type.sizes):
        if size is None and type.bounds[k] is None:
            raise UnsupportedError(f"dimension {k} has no bound")
    return type.shape


def is_data(type: Type) -> bool:
    """Does the type hold elements (a token and an opaque value do not)?"""
    return isinstance(type, TensorType | BufferType)


def output_sizes(ins: Instruction, output: int = 0) -> Dims:
    """The sizes of one output."""
    if isinstance(ins.type, TupleType):
        return sizes(leaves(ins.type)[output])
    return sizes(ins.type)


def all_output_sizes(ins: Instruction) -> tuple[Dims, ...]:
    """The sizes of every output."""
    return tuple([sizes(leaf) for leaf in leaves(ins.type)])


def integers(type: Type) -> tuple[int, int]:
    """The least and the greatest integer that an element can be.

    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> integers(TensorType(ELEMENT_TYPES["s8"], (3,)))
    (-128, 127)
    """
    if not isinstance(type, TensorType) or type.element.kind not in ("signed", "unsigned"):
        return NEG_INF, POS_INF
    bits = type.element.bits
    if type.element.kind == "unsigned":
        return 0, min((1 << bits) - 1, POS_INF)
    return -(1 << bits - 1), (1 << bits - 1) - 1


def dynamic_dimensions(type: Type) -> tuple[int, ...]:
    """The dimensions whose size is not known."""
    if not isinstance(type, TensorType) or None not in type.sizes:
        return ()
    return tuple([k for k, size in enumerate(type.sizes) if size is None])


@of_last
def has_dynamic_sizes(ins: Instruction) -> bool:
    """Has an operand or the result a size that is not known?"""
    type = ins.type
    if isinstance(type, TensorType) and None in type.sizes:
        return True
    for operand in ins.operands:
        type = operand.type
        if isinstance(type, TensorType) and None in type.sizes:
            return True
    return False


@of_last
def has_unknown_sizes(ins: Instruction) -> bool:
    """Has an operand or the result a size without a bound?

    >>> from hloscope.ir import Instruction, TensorType
    >>> from hloscope.ir.types import ELEMENT_TYPES
    >>> from hloscope.ops import Parameter
    >>> has_unknown_sizes(Instruction("p", TensorType(ELEMENT_TYPES["f32"], (None,)), Parameter(0)))
    True
    """
    return any(map(is_unbounded, [ins.type, *[operand.type for operand in ins.operands]]))


def is_unbounded(type: Type) -> bool:
    """Has a type a size without a bound?"""
    if isinstance(type, TensorType):
        return None in type.sizes and None in type.most
    return any([isinstance(leaf, TensorType) and None in leaf.most for leaf in leaves(type)])


class MapBuilder:
    """Collects the variables and conditions of one map.

    >>> d0, d1 = dims(2)
    >>> at = MapBuilder((4, 6))
    >>> s = at.range(3)
    >>> at.require(d1 + s, 1, 6)
    >>> print(at.map((d0, d1 + s - 1)))
    (d0, d1)[s0] -> (d0, d1 + s0 - 1), domain: d0 in [0, 3], d1 in [0, 5], s0 in [0, 2], \
d1 + s0 in [1, 6]
    """

    __slots__ = ("constraints", "dims", "ranges", "runtime")

    def __init__(self, dims: Iterable[int]) -> None:
        self.dims = [below(size) for size in dims]
        self.ranges: list[Variable] = []
        self.runtime: list[RuntimeVariable] = []
        self.constraints: list[Constraint] = []

    def range(self, size: int) -> Range:
        """A new range variable over `[0, size)`."""
        self.ranges.append(below(size))
        return Range(len(self.ranges) - 1)

    def read(
        self, lo: int, hi: int, origin: Instruction | None, index: Sequence[Expr] = ()
    ) -> Runtime:
        """A new runtime variable in `[lo, hi]`, read from `origin` at `index`."""
        self.runtime.append(RuntimeVariable(Interval(lo, hi), "", origin, tuple(index)))
        return Runtime(len(self.runtime) - 1)

    def position(self, collective: Instruction, lo: int, hi: int, size: int | None) -> Runtime:
        """The position of the device in its group of a collective, where it is in `[lo, hi]`.

        Args:
            collective: The instruction whose groups these are.
            lo: Least position for which the map holds.
            hi: Greatest position for which the map holds.
            size: How many members a group has; `None` if that is not written.
        """
        inside = Interval(lo, hi)
        every = Interval(0, POS_INF if size is None else size - 1)
        clamp = None if inside == every else every
        self.runtime.append(RuntimeVariable(inside, clamp=clamp, collective=collective))
        return Runtime(len(self.runtime) - 1)

    def member(self, collective: Instruction, size: int | None) -> Expr:
        """A new variable over the positions in the group of a collective."""
        if size is not None:
            return self.range(size)
        every = Interval(0, POS_INF)
        self.runtime.append(RuntimeVariable(every, collective=collective, is_every=True))
        return Runtime(len(self.runtime) - 1)

    def require(self, expr: Expr, lo: int, hi: int) -> None:
        """Add the condition `lo <= expr <= hi`."""
        self.constraints.append((expr, Interval(lo, hi)))

    def bound(self, k: int, lo: int, hi: int) -> None:
        """Keep the index of dimension `k` in `[lo, hi]`: `require` of a variable, found sooner."""
        self.dims[k] = Variable(self.dims[k].interval & Interval(lo, hi))

    def quotient(self, value: Expr, step: int, size: int) -> Expr:
        """The index `i` in `[0, size)` with `i * step == value`, required to exist."""
        self.require(value, 0, (size - 1) * step)
        if step == 1:
            return value
        self.require(value % step, 0, 0)
        return value // step

    def map(self, results: Iterable[Expr | int]) -> IndexingMap:
        """The map of these variables and conditions."""
        return IndexingMap(self.dims, self.ranges, self.runtime, tuple(results), self.constraints)

    def simplified(self, results: Iterable[Expr | int]) -> IndexingMap:
        """The map in its simplest form, without range variables it does not use."""
        return self.map(results).simplify().remove_unused_symbols()


def trailing(source: Dims, target: Dims) -> Dims:
    """The last dimensions of the target, as many as the source has."""
    return tuple(range(len(target) - len(source), len(target)))


def exact(*maps: IndexingMap) -> Accesses:
    """These maps together are precisely what is touched."""
    return tuple([Access(m) for m in maps])


def over(reason: str, *maps: IndexingMap) -> Accesses:
    """These maps together contain what is touched."""
    return tuple(Access(m, Precision.OVER, reason) for m in maps)


def unknown(reason: str) -> Accesses:
    """Nothing is known."""
    return (Access.unknown(reason),)


def dims(count: int) -> list[Expr]:
    """The first dimension variables."""
    return [*first_dims(count)]


def identity_map(shape: Dims) -> IndexingMap:
    """Each index touches the same index.

    >>> print(identity_map((4, 6)))
    (d0, d1) -> (d0, d1), domain: d0 in [0, 3], d1 in [0, 5]
    """
    return IndexingMap([below(size) for size in shape], results=first_dims(len(shape)))


def identity(shape: Dims) -> Accesses:
    """Each index touches the same index."""
    return exact(identity_map(shape))


def everything_map(shape: Dims, target: Dims) -> IndexingMap:
    """Each index of `shape` touches every element of `target`.

    >>> print(everything_map((4,), (2, 3)))
    (d0)[s0, s1] -> (s0, s1), domain: d0 in [0, 3], s0 in [0, 1], s1 in [0, 2]
    >>> print(everything_map((4,), ()))
    (d0) -> (), domain: d0 in [0, 3]
    """
    at = MapBuilder(shape)
    return at.map([at.range(size) for size in target])


def everything(shape: Dims, target: Dims) -> Accesses:
    """Each index of `shape` touches every element of `target`; of a scalar, its one element."""
    return exact(everything_map(shape, target))


def runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """First and last number of each run of neighbours among ascending numbers.

    >>> runs([0, 1, 4])
    [(0, 1), (4, 4)]
    """
    found: list[tuple[int, int]] = []
    for n in numbers:
        if found and found[-1][1] == n - 1:
            found[-1] = found[-1][0], n
        else:
            found.append((n, n))
    return found


def all_of_operands(ins: Instruction, first: int) -> tuple[Accesses, ...]:
    """Every output element reads all of the operands from this one on: indices, sizes."""
    shape = sizes(ins.type)
    return tuple(everything(shape, sizes(operand.type)) for operand in ins.operands[first:])


def everywhere(ins: Instruction, operand: int) -> tuple[Accesses, ...]:
    """Every element of the operand influences every element of every output."""
    source = sizes(ins.operands[operand].type)
    return tuple(everything(source, target) for target in all_output_sizes(ins))
