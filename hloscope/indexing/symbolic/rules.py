"""What elements read where sizes are not known, op by op, from the output to the operands.

Each rule is the op's definition with symbols for sizes.  The other direction is the inverse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, Final, NamedTuple, TypeAlias

from hloscope.affine import NEG_INF, POS_INF, Const, Dim, Expr
from hloscope.errors import UnsupportedError
from hloscope.indexing.access import Accesses
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.rules.build import NEVER, exact, over, unknown
from hloscope.indexing.rules.contraction import dot_labels
from hloscope.indexing.rules.dependence import Bodies
from hloscope.indexing.symbolic.frames import Frame, Leaf
from hloscope.indexing.symbolic.maps import SizedBuilder
from hloscope.indexing.symbolic.reshaping import regrouped
from hloscope.indexing.symbolic.symbols import Shape
from hloscope.ir import ByOp, Instruction, Op
from hloscope.ops import (
    ELEMENTWISE,
    BitcastConvert,
    BroadcastInDim,
    Concatenate,
    Constant,
    DotGeneral,
    DynamicBroadcastInDim,
    DynamicIota,
    DynamicPad,
    DynamicReshape,
    DynamicSlice,
    Elementwise,
    GetDimensionSize,
    Iota,
    Pad,
    RealDynamicSlice,
    Reduce,
    ReduceWindow,
    Reshape,
    Reverse,
    Slice,
    Sort,
    Transpose,
    control,
)

NO_RULE: Final = "no rule tells it for sizes that are not known; refine the program first"
_SOME: Final = "the body does not use all it is given in every case"
_MOST_CASES: Final = 4


class Asked(NamedTuple):
    """An instruction, its values in terms of symbols, and the output asked about."""

    frame: Frame
    ins: Instruction
    result: Shape
    operands: list[Leaf]
    bodies: Bodies

    def builder(self) -> SizedBuilder:
        """For a map from an index of the output."""
        return SizedBuilder(self.frame.symbols, self.result)

    def shape(self, operand: int) -> Shape:
        """The sizes of an operand."""
        found = self.operands[operand].shape
        if found is None:
            raise UnsupportedError("an operand that is no array")
        return found

    def everything(self, operand: int) -> Accesses:
        """All elements of an operand are read by every element of the output."""
        at = self.builder()
        return exact(at.map([at.range(size) for size in self.shape(operand)]))

    def all_of(self, first: int) -> list[Accesses]:
        """All elements of the operands from a number on are read."""
        return [self.everything(k) for k in range(first, len(self.operands))]


Answer: TypeAlias = Sequence[Accesses]
Rule: TypeAlias = Callable[[Asked, Any], Answer]
RULES: Final = ByOp[Rule]()


def _dims(shape: Sequence[Expr]) -> list[Expr]:
    return [Dim(k) for k in range(len(shape))]


@RULES.add(Elementwise)
def _(asked: Asked, op: Elementwise) -> Answer:
    rank, found = len(asked.result), []
    for k in range(len(asked.operands)):
        same = len(asked.shape(k)) == rank
        found.append(
            exact(asked.builder().map(_dims(asked.result))) if same else asked.everything(k)
        )
    return found


@RULES.add(Constant, Iota, DynamicIota, GetDimensionSize)
def _(asked: Asked, op: Op) -> Answer:
    first = 1 if isinstance(op, GetDimensionSize) else 0
    return [NEVER] * first + asked.all_of(first)


@RULES.add(ELEMENTWISE["chlo.constant_like"])
def _(asked: Asked, op: Op) -> Answer:
    return [NEVER] * len(asked.operands)


@RULES.add(Transpose)
def _(asked: Asked, op: Transpose) -> Answer:
    index = [Dim(op.permutation.index(k)) for k in range(len(asked.result))]
    return [exact(asked.builder().map(index))]


@RULES.add(Reverse)
def _(asked: Asked, op: Reverse) -> Answer:
    index = _dims(asked.result)
    for k in op.dimensions:
        index[k] = asked.result[k] - 1 - index[k]
    return [exact(asked.builder().map(index))]


@RULES.add(Slice)
def _(asked: Asked, op: Slice) -> Answer:
    rows = zip(op.start_indices, op.strides, strict=True)
    return [exact(asked.builder().map([Dim(k) * s + lo for k, (lo, s) in enumerate(rows)]))]


@RULES.add(RealDynamicSlice)
def _(asked: Asked, op: RealDynamicSlice) -> Answer:
    index = []
    for k in range(len(asked.result)):
        start, step = (_known(asked.operands[o], k) for o in (1, 3))
        index.append(Dim(k) * step + start)
    return [exact(asked.builder().map(index)), *asked.all_of(1)]


def _known(leaf: Leaf, k: int) -> Expr:
    """An element of an operand that holds integers."""
    found = leaf.contents[k] if leaf.contents is not None else None
    if found is None:
        raise UnsupportedError("where it begins is not known in terms of sizes")
    return found


@RULES.add(DynamicSlice)
def _(asked: Asked, op: DynamicSlice) -> Answer:
    """The start is moved so that the slice is inside."""
    at, index = asked.builder(), []
    for k, (size, length) in enumerate(zip(asked.shape(0), op.slice_sizes, strict=True)):
        start = asked.operands[1 + k].contents
        begin = None if start is None else start[0]
        room = asked.frame.symbols.settled(size - length)
        if begin is None and room != Const(0):
            raise UnsupportedError("where it begins is not known in terms of sizes")
        index.append(Dim(k) if room == Const(0) else Dim(k) + _moved_inside(asked, begin, room))
    return [exact(at.map(index)), *asked.all_of(1)]


def _moved_inside(asked: Asked, begin: Expr | None, room: Expr) -> Expr:
    """The start of a slice that is known to be inside."""
    symbols = asked.frame.symbols
    if begin is None or symbols.bounds(begin).lo < 0 or symbols.bounds(room - begin).lo < 0:
        raise UnsupportedError("whether the slice is moved to be inside is not known")
    return begin


@RULES.add(BroadcastInDim)
def _(asked: Asked, op: BroadcastInDim) -> Answer:
    return [_broadcast(asked, op.broadcast_dimensions, (), ())]


@RULES.add(DynamicBroadcastInDim)
def _(asked: Asked, op: DynamicBroadcastInDim) -> Answer:
    stretched = op.known_expanding_dimensions or ()
    kept = op.known_nonexpanding_dimensions or ()
    return [_broadcast(asked, op.broadcast_dimensions, stretched, kept), *asked.all_of(1)]


def _broadcast(
    asked: Asked, places: Sequence[int], stretched: Sequence[int], kept: Sequence[int]
) -> Accesses:
    """A dimension of size 1 is read at 0, any other at the index of the result.

    Where it is not known whether the size is 1, both are told, each for the sizes it is true for.
    """
    symbols, source = asked.frame.symbols, asked.shape(0)
    choices: list[tuple[int, ...]] = []
    for k, place in enumerate(places):
        size = symbols.settled(source[k])
        if size == Const(1) or k in stretched:
            choices.append((1,))
        elif k in kept or symbols.equal(size, asked.result[place]) or symbols.bounds(size).lo > 1:
            choices.append((0,))
        else:
            choices.append((0, 1))
    if sum(len(choice) > 1 for choice in choices) > _MOST_CASES // 2:
        raise UnsupportedError("which dimensions expand depends on the sizes")
    found = []
    for chosen in product(*choices):
        at = asked.builder()
        index: list[Expr] = []
        for k, (expands, place) in enumerate(zip(chosen, places, strict=True)):
            if len(choices[k]) > 1:
                at.require(source[k], *((1, 1) if expands else (2, POS_INF)))
            index.append(Const(0) if expands else Dim(place))
        found.append(at.map(index))
    return exact(*found)


@RULES.add(Reshape, DynamicReshape)
def _(asked: Asked, op: Op) -> Answer:
    at = asked.builder()
    index = regrouped(asked.frame.symbols, asked.result, asked.shape(0), _dims(asked.result))
    return [exact(at.map(index).simplify()), *asked.all_of(1)]


@RULES.add(Concatenate)
def _(asked: Asked, op: Concatenate) -> Answer:
    found, start, k = [], Const(0), op.dimension
    for number in range(len(asked.operands)):
        size = asked.shape(number)[k]
        at, index = asked.builder(), _dims(asked.result)
        at.below(Dim(k) - start, size)
        index[k] = Dim(k) - start
        found.append(exact(at.map(index)))
        start = start + size  # type: ignore[assignment]
    return found


@RULES.add(Pad)
def _(asked: Asked, op: Pad) -> Answer:
    low, gaps = [Const(n) for n in op.edge_padding_low], op.interior_padding
    return _padded(asked, low, [gap + 1 for gap in gaps])


@RULES.add(DynamicPad)
def _(asked: Asked, op: DynamicPad) -> Answer:
    low = [_known(asked.operands[2], k) for k in range(len(asked.result))]
    steps = [_known(asked.operands[4], k) + 1 for k in range(len(asked.result))]
    if not all(isinstance(step, Const) and step.value > 0 for step in steps):
        raise UnsupportedError("which elements are padding is not known in terms of sizes")
    numbers = [step.value for step in steps if isinstance(step, Const)]
    return [*_padded(asked, low, numbers), *asked.all_of(2)]


def _padded(asked: Asked, low: Sequence[Expr], steps: Sequence[int]) -> list[Accesses]:
    """The array at every `steps`-th index from `low`; the padding value from everywhere else."""
    at, source = asked.builder(), asked.shape(0)
    index = [_element(at, Dim(k) - low[k], steps[k], source[k]) for k in range(len(source))]
    value = []
    for k, size in enumerate(source):
        for missed in _misses(Dim(k) - low[k], steps[k], size):
            piece = asked.builder()
            for j in range(k):
                _element(piece, Dim(j) - low[j], steps[j], source[j])
            missed(piece)
            value.append(piece.map(()))
    return [exact(at.map(index)), exact(*value)]


def _element(at: SizedBuilder, place: Expr, step: int, size: Expr) -> Expr:
    """The index of an element at a place counted from the first one, required to be there."""
    at.require(place, 0, POS_INF)
    at.require(place - (size - 1) * step, NEG_INF, 0)
    if step == 1:
        return place
    at.require(place % step, 0, 0)
    return place // step


def _misses(place: Expr, step: int, size: Expr) -> Iterator[Callable[[SizedBuilder], None]]:
    """The conditions of which one holds where there is no element, each at most with itself."""
    yield lambda at: at.require(place, NEG_INF, -1)

    def behind(at: SizedBuilder) -> None:
        at.require(place, 0, POS_INF)
        at.require(place - (size - 1) * step, 1, POS_INF)

    yield behind
    if step > 1:

        def between(at: SizedBuilder) -> None:
            at.require(place, 0, POS_INF)
            at.require(place - (size - 1) * step, NEG_INF, 0)
            at.require(place % step, 1, step - 1)

        yield between


@RULES.add(Reduce)
def _(asked: Asked, op: Reduce) -> Answer:
    count = len(asked.operands) // 2
    at, kept = asked.builder(), iter(_dims(asked.result))
    index: list[Expr] = [
        at.range(size) if k in op.dimensions else next(kept)
        for k, size in enumerate(asked.shape(0))
    ]
    return [*_folded(asked, at.map(index), count), *_begun(asked, count)]


def _uses_everything(asked: Asked) -> bool:
    """Does every result of the body depend on all that it is given, whatever the values are?"""
    return bool(asked.bodies) and all(
        len(sure) == 2 * len(body.reads) for body in asked.bodies for sure in body.sure
    )


def _folded(asked: Asked, m: IndexingMap, count: int) -> list[Accesses]:
    found = exact(m) if _uses_everything(asked) else over(_SOME, m)
    return [found] * count


def _begun(asked: Asked, count: int) -> list[Accesses]:
    """The initial values: read of everything, also where there is nothing else to read."""
    initial = asked.everything(count)
    if not _uses_everything(asked):
        initial = over(_SOME, *[a.map for a in initial if a.map is not None])
    return [initial] * count


@RULES.add(ReduceWindow)
def _(asked: Asked, op: ReduceWindow) -> Answer:
    count, window = len(asked.operands) // 2, op.window
    at, index = asked.builder(), []
    if any(n != 1 for n in window.base_dilations):
        raise UnsupportedError(NO_RULE)
    for k, size in enumerate(asked.shape(0)):
        tap: Expr = at.range(Const(window.sizes[k])) if window.sizes[k] != 1 else Const(0)
        place = Dim(k) * window.strides[k] + tap * window.window_dilations[k]
        place = place - window.padding[k][0]
        at.below(place, size)
        index.append(place)
    return [*_folded(asked, at.map(index), count), *_begun(asked, count)]


@RULES.add(DotGeneral)
def _(asked: Asked, op: DotGeneral) -> Answer:
    lhs, rhs = asked.shape(0), asked.shape(1)
    left, right, result = dot_labels(op.dimensions, len(lhs), len(rhs))
    return [_by_labels(asked, result, left, lhs), _by_labels(asked, result, right, rhs)]


def _by_labels(asked: Asked, here: list[int], there: list[int], shape: Shape) -> Accesses:
    at = asked.builder()
    where: dict[int, Expr] = {label: Dim(k) for k, label in enumerate(here)}
    index = [
        where[label] if label in where else at.range(shape[k]) for k, label in enumerate(there)
    ]
    return exact(at.map(index))


@RULES.add(Sort)
def _(asked: Asked, op: Sort) -> Answer:
    """The whole line of every operand that the comparator looks at, and of its own."""
    at, index = asked.builder(), _dims(asked.result)
    index[op.dimension] = at.range(asked.result[op.dimension])
    line = at.map(index)
    if _looks_at_all(asked):
        return [exact(line)] * len(asked.operands)
    return [over(_SOME, line)] * len(asked.operands)


def _looks_at_all(asked: Asked) -> bool:
    """Of one operand, both elements are compared, whatever they are."""
    body = asked.bodies[0] if asked.bodies else None
    return len(asked.operands) == 1 and body is not None and body.sure[0] == frozenset((0, 1))


@RULES.add(control.OptimizationBarrier, BitcastConvert)
def _(asked: Asked, op: Op) -> Answer:
    if len(asked.operands) != 1 or len(asked.shape(0)) != len(asked.result):
        raise UnsupportedError(NO_RULE)
    return [exact(asked.builder().map(_dims(asked.result)))]


def symbolic_reads(asked: Asked) -> tuple[Accesses, ...]:
    """What an element of the output reads of each operand."""
    op = asked.ins.op
    rule = RULES.find(op)
    try:
        if rule is None:
            raise UnsupportedError(NO_RULE)
        found = tuple(rule(asked, op))
    except UnsupportedError as error:
        return (unknown(error.message),) * len(asked.operands)
    except (LookupError, ValueError, TypeError, ZeroDivisionError):
        return (unknown("operands and result do not fit together"),) * len(asked.operands)
    return found
