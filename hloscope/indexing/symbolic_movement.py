"""Accesses, for unknown sizes, of ops that rearrange or select elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, Final, NamedTuple, TypeAlias

from hloscope.affine import NEG_INF, POS_INF, Const, Dim, Expr, linear
from hloscope.errors import UnsupportedError
from hloscope.indexing.access import Accesses
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.rules.dependence import Bodies
from hloscope.indexing.rules.registry import NEVER, exact, over
from hloscope.indexing.symbolic_values import (
    Frame,
    Leaf,
    Shape,
    SizedBuilder,
    Symbols,
    constants,
    product_of,
)
from hloscope.ir import ByOp, Instruction, Op
from hloscope.ops import (
    BitcastConvert,
    BroadcastInDim,
    Concatenate,
    Constant,
    DynamicBroadcastInDim,
    DynamicGather,
    DynamicIota,
    DynamicPad,
    DynamicReshape,
    DynamicSlice,
    DynamicUpdateSlice,
    Gather,
    GetDimensionSize,
    Iota,
    Pad,
    RealDynamicSlice,
    Reshape,
    Reverse,
    Scatter,
    Slice,
    Transpose,
)

# --------------------------------------------------------------------------------------------------
# Arguments of the rules for unknown sizes, and the table of the rules.


NO_RULE: Final = "no rule tells it for sizes that are not known; refine the program first"


class SizedInstruction(NamedTuple):
    """An instruction whose sizes may be symbols: the argument of the rules for such instructions.

    Attributes:
        frame: The symbolic values of its computation.
        ins: The instruction.
        result: The sizes of the output, one expression per dimension.
        operands: The first array of each operand.
        bodies: Dependences of the called computations.
    """

    frame: Frame
    ins: Instruction
    result: Shape
    operands: list[Leaf]
    bodies: Bodies

    def builder(self) -> SizedBuilder:
        """Return a builder of a map that starts from an index of the output."""
        return SizedBuilder(self.frame.symbols, self.result)

    def shape(self, operand: int) -> Shape:
        """Return the sizes of operand number `operand`, one expression per dimension.

        Raises:
            UnsupportedError: The operand is not an array.
        """
        found = self.operands[operand].shape
        if found is None:
            raise UnsupportedError("an operand that is not an array")
        return found

    def everything(self, operand: int) -> Accesses:
        """Return the access by which every output element reads all elements of an operand."""
        at = self.builder()
        return exact(at.map([at.range(size) for size in self.shape(operand)]))

    def all_of(self, first: int) -> list[Accesses]:
        """Return the accesses to all elements of each operand from number `first` on."""
        return [self.everything(k) for k in range(first, len(self.operands))]


Answer: TypeAlias = Sequence[Accesses]
Rule: TypeAlias = Callable[[SizedInstruction, Any], Answer]
RULES: Final = ByOp[Rule]()


def dims(shape: Sequence[Expr]) -> list[Expr]:
    """Return the dimension variables of an array of this shape."""
    return [Dim(k) for k in range(len(shape))]


def known_element(leaf: Leaf, k: int) -> Expr:
    """Return element `k` of an integer operand, as an expression in the symbols for sizes.

    Raises:
        UnsupportedError: The element is not known.
    """
    found = leaf.contents[k] if leaf.contents is not None else None
    if found is None:
        raise UnsupportedError("where it begins is not known in terms of sizes")
    return found


def identity_of_operand(sized: SizedInstruction) -> Answer:
    """Return the identity access of operand 0, for an op with one operand of the result's rank.

    Raises:
        UnsupportedError: The op has several operands, or the operand has another rank.
    """
    if len(sized.operands) != 1 or len(sized.shape(0)) != len(sized.result):
        raise UnsupportedError(NO_RULE)
    return [exact(sized.builder().map(dims(sized.result)))]


# --------------------------------------------------------------------------------------------------
# Ops that rearrange elements or create tensors.


_MOST_CASES: Final = 4


@RULES.add(Constant, Iota)
def _(sized: SizedInstruction, op: Op) -> Answer:
    return ()


@RULES.add(Transpose)
def _(sized: SizedInstruction, op: Transpose) -> Answer:
    index = [Dim(op.permutation.index(k)) for k in range(len(sized.result))]
    return [exact(sized.builder().map(index))]


@RULES.add(Reverse)
def _(sized: SizedInstruction, op: Reverse) -> Answer:
    index = dims(sized.result)
    for k in op.dimensions:
        index[k] = sized.result[k] - 1 - index[k]
    return [exact(sized.builder().map(index))]


@RULES.add(BroadcastInDim)
def _(sized: SizedInstruction, op: BroadcastInDim) -> Answer:
    return [broadcast(sized, op.broadcast_dimensions, (), ())]


def broadcast(
    sized: SizedInstruction,
    result_dims: Sequence[int],
    expanding: Sequence[int],
    nonexpanding: Sequence[int],
) -> Accesses:
    """Return the access from the result of a broadcast to its operand.

    A dimension that expands, of size 1, is read at 0; others are read at the result's index. If it
    is unknown whether a size is 1, each case has its own map, with a condition on the size.

    Args:
        sized: The instruction.
        result_dims: For each dimension of the operand, the dimension of the result.
        expanding: Dimensions of the operand that are known to expand.
        nonexpanding: Dimensions of the operand that are known not to expand.

    Raises:
        UnsupportedError: Too many dimensions are undecided.
    """
    symbols, source = sized.frame.symbols, sized.shape(0)
    choices: list[tuple[int, ...]] = []
    for k, place in enumerate(result_dims):
        size = symbols.simplified(source[k])
        if size == Const(1) or k in expanding:
            choices.append((1,))
        elif (
            k in nonexpanding
            or symbols.equal(size, sized.result[place])
            or symbols.bounds(size).lo > 1
        ):
            choices.append((0,))
        else:
            choices.append((0, 1))
    # Each undecided dimension doubles the number of maps.
    if sum(len(choice) > 1 for choice in choices) > _MOST_CASES // 2:
        raise UnsupportedError("which dimensions expand depends on the sizes")
    found = []
    for chosen in product(*choices):
        at = sized.builder()
        index: list[Expr] = []
        for k, (expands, place) in enumerate(zip(chosen, result_dims, strict=True)):
            if len(choices[k]) > 1:
                at.require(source[k], *((1, 1) if expands else (2, POS_INF)))
            index.append(Const(0) if expands else Dim(place))
        found.append(at.map(index))
    return exact(*found)


@RULES.add(Reshape)
def _(sized: SizedInstruction, op: Reshape) -> Answer:
    return [reshaped(sized)]


def reshaped(sized: SizedInstruction) -> Accesses:
    """Return the access to the element of operand 0 at the same row-major position."""
    at = sized.builder()
    index = regrouped(sized.frame.symbols, sized.result, sized.shape(0), dims(sized.result))
    return exact(at.map(index))


@RULES.add(Concatenate)
def _(sized: SizedInstruction, op: Concatenate) -> Answer:
    found, start, k = [], Const(0), op.dimension
    for number in range(len(sized.operands)):
        size = sized.shape(number)[k]
        at, index = sized.builder(), dims(sized.result)
        at.below(Dim(k) - start, size)
        index[k] = Dim(k) - start
        found.append(exact(at.map(index)))
        start = start + size  # type: ignore[assignment]
    return found


@RULES.add(Pad)
def _(sized: SizedInstruction, op: Pad) -> Answer:
    low, gaps = [Const(n) for n in op.edge_padding_low], op.interior_padding
    return padded(sized, low, [gap + 1 for gap in gaps])


def padded(sized: SizedInstruction, low: Sequence[Expr], steps: Sequence[int]) -> list[Accesses]:
    """Return the accesses of a pad: of the array, and of the padding value.

    In dimension `k`, array elements are at every `steps[k]`-th index from `low[k]` on; all other
    indices read the padding value.
    """
    at, source = sized.builder(), sized.shape(0)
    index = [element(at, Dim(k) - low[k], steps[k], source[k]) for k in range(len(source))]
    value = []
    for k, size in enumerate(source):
        for missed in misses(Dim(k) - low[k], steps[k], size):
            piece = sized.builder()
            for j in range(k):
                element(piece, Dim(j) - low[j], steps[j], source[j])
            missed(piece)
            value.append(piece.map(()))
    return [exact(at.map(index)), exact(*value)]


def element(at: SizedBuilder, distance: Expr, step: int, size: Expr) -> Expr:
    """Return the coordinate `distance / step` of the array element at a distance from element 0.

    The builder gets the constraint that this element exists.

    Args:
        at: Builder of the map.
        distance: Distance of an index from the index of element 0.
        step: Distance between the indices of consecutive elements.
        size: Number of elements.
    """
    at.require(distance, 0, POS_INF)
    at.require(distance - (size - 1) * step, NEG_INF, 0)
    if step == 1:
        return distance
    at.require(distance % step, 0, 0)
    return distance // step


def misses(distance: Expr, step: int, size: Expr) -> Iterator[Callable[[SizedBuilder], None]]:
    """Yield disjoint conditions under which no array element is at `distance` from element 0.

    Each condition is a function that adds constraints to a builder. `step` is the distance between
    consecutive elements, and `size` is their number.
    """
    yield lambda at: at.require(distance, NEG_INF, -1)

    def behind(at: SizedBuilder) -> None:
        at.require(distance, 0, POS_INF)
        at.require(distance - (size - 1) * step, 1, POS_INF)

    yield behind
    if step > 1:

        def between(at: SizedBuilder) -> None:
            at.require(distance, 0, POS_INF)
            at.require(distance - (size - 1) * step, NEG_INF, 0)
            at.require(distance % step, 1, step - 1)

        yield between


@RULES.add(BitcastConvert)
def _(sized: SizedInstruction, op: BitcastConvert) -> Answer:
    return identity_of_operand(sized)


# --------------------------------------------------------------------------------------------------
# Row-major reshapes between shapes with symbolic sizes.


Places: TypeAlias = Sequence[Expr]
_APART = "the sizes of the reshape are not known to fall into groups"


def regrouped(symbols: Symbols, here: Shape, there: Shape, index: Places) -> list[Expr]:
    """Return the index, in an array of shape `there`, of the element at `index` in shape `here`.

    Both arrays are row-major and have the same elements. Dimensions are grouped so that both sides
    of a group have the same number of elements. Inside a group, all strides are products of sizes;
    the size of the slowest dimension does not matter.

    Raises:
        UnsupportedError: The groups cannot be determined.
    """
    here = tuple([symbols.simplified(size) for size in here])
    there = tuple([symbols.simplified(size) for size in there])
    # Dimensions of size 1 always have the index 0, so they belong to no group.
    left = [k for k, size in enumerate(here) if size != Const(1)]
    right = [k for k, size in enumerate(there) if size != Const(1)]
    found: list[Expr] = [Const(0)] * len(there)
    while left and right:
        take = _group(symbols, [here[k] for k in left], [there[k] for k in right])
        if take is None:
            raise UnsupportedError(_APART)
        mine, theirs = left[: take[0]], right[: take[1]]
        part = _within(
            [here[k] for k in mine], [there[k] for k in theirs], [index[k] for k in mine]
        )
        for k, e in zip(theirs, part, strict=True):
            found[k] = e
        left, right = left[take[0] :], right[take[1] :]
    if left or right:
        raise UnsupportedError(_APART)
    return found


def _group(symbols: Symbols, here: list[Expr], there: list[Expr]) -> tuple[int, int] | None:
    """Return how many leading dimensions of `here` and of `there` form the first group.

    The sizes of a group have the same product on both sides. The result is `None` if no group is
    determined.
    """
    for total in range(2, len(here) + len(there) + 1):
        for i in range(1, total):
            j = total - i
            if i > len(here) or j > len(there):
                continue
            a, b = product_of(tuple(here[:i])), product_of(tuple(there[:j]))
            if symbols.equal(a, b):
                return i, j
    return None


def _within(here: list[Expr], there: list[Expr], index: list[Expr]) -> list[Expr]:
    """Return the index, in shape `there`, of the element that has `index` in shape `here`.

    Both shapes are row-major and have the same number of elements.
    """
    if len(here) == len(there) == 1:
        return index
    position = _linear_position(here, index)
    found: list[Expr] = []
    for k in range(len(there)):
        stride = product_of(tuple(there[k + 1 :]))
        part = position if stride == Const(1) else position // stride
        found.append(part if k == 0 else part % there[k])
    return found


def _linear_position(shape: list[Expr], index: list[Expr]) -> Expr:
    """Return the row-major linear position of an index in an array of sizes `shape`."""
    if constants(tuple(shape[1:])) is None:
        total: Expr = Const(0)
        for k, e in enumerate(index):
            total = total + e * product_of(tuple(shape[k + 1 :]))
        return total
    strides = [product_of(tuple(shape[k + 1 :])) for k in range(len(shape))]
    return linear(
        *[(e, s.value) for e, s in zip(index, strides, strict=True) if isinstance(s, Const)]
    )


# --------------------------------------------------------------------------------------------------
# Ops that select a part of an array.


@RULES.add(Slice)
def _(sized: SizedInstruction, op: Slice) -> Answer:
    rows = zip(op.start_indices, op.strides, strict=True)
    return [exact(sized.builder().map([Dim(k) * s + lo for k, (lo, s) in enumerate(rows)]))]


@RULES.add(RealDynamicSlice)
def _(sized: SizedInstruction, op: RealDynamicSlice) -> Answer:
    index = []
    for k in range(len(sized.result)):
        start, step = (known_element(sized.operands[o], k) for o in (1, 3))
        index.append(Dim(k) * step + start)
    return [exact(sized.builder().map(index)), *sized.all_of(1)]


@RULES.add(DynamicSlice)
def _(sized: SizedInstruction, op: DynamicSlice) -> Answer:
    """Return accesses of a slice whose start is clamped so that the slice fits."""
    at, index = sized.builder(), []
    for k, (size, length) in enumerate(zip(sized.shape(0), op.slice_sizes, strict=True)):
        start = sized.operands[1 + k].contents
        begin = None if start is None else start[0]
        room = sized.frame.symbols.simplified(size - length)
        if begin is None and room != Const(0):
            raise UnsupportedError("where it begins is not known in terms of sizes")
        index.append(Dim(k) if room == Const(0) else Dim(k) + _start_in_bounds(sized, begin, room))
    rooms = zip(sized.shape(0), op.slice_sizes, strict=True)
    return [exact(at.map(index)), *_starts(sized, 1, [size - length for size, length in rooms])]


def _starts(sized: SizedInstruction, first: int, largest: Sequence[Expr]) -> list[Accesses]:
    """Return the accesses of the start operands; a start that is always 0 is not read.

    Args:
        sized: The instruction.
        first: Number of the first start operand.
        largest: For each dimension, the largest start for which the slice fits.
    """
    found: list[Accesses] = []
    for k, room in enumerate(largest):
        at = sized.builder()
        at.require(room, 1, POS_INF)
        index = [at.range(size) for size in sized.shape(first + k)]
        is_still = sized.frame.symbols.simplified(room) == Const(0)
        found.append(NEVER if is_still else exact(at.map(index)))
    return found


@RULES.add(DynamicUpdateSlice)
def _(sized: SizedInstruction, op: DynamicUpdateSlice) -> Answer:
    """Return accesses: the update inside the clamped window, the operand everywhere else."""
    whole, part = sized.shape(0), sized.shape(1)
    places: list[Expr] = []
    for k, (size, length) in enumerate(zip(whole, part, strict=True)):
        room = sized.frame.symbols.simplified(size - length)
        begin = Const(0) if room == Const(0) else known_element(sized.operands[2 + k], 0)
        places.append(Dim(k) - _start_in_bounds(sized, begin, room))
    at, outside = sized.builder(), []
    for place, length in zip(places, part, strict=True):
        at.below(place, length)
    # Each piece is the set of elements that are outside of the window in dimension `k` and inside
    # in all dimensions before it, so the pieces are disjoint.
    for k, length in enumerate(part):
        for missed in misses(places[k], 1, length):
            piece = sized.builder()
            for j in range(k):
                piece.below(places[j], part[j])
            missed(piece)
            outside.append(piece.map(dims(whole)))
    rooms = [size - length for size, length in zip(whole, part, strict=True)]
    return [exact(*outside), exact(at.map(places)), *_starts(sized, 2, rooms)]


def _start_in_bounds(sized: SizedInstruction, begin: Expr | None, largest: Expr) -> Expr:
    """Return `begin`, the start of a slice in one dimension; it must be known to be in bounds.

    The bounds are 0 and `largest`.

    Raises:
        UnsupportedError: The start may be out of bounds, so that the op may clamp it.
    """
    symbols = sized.frame.symbols
    if begin is None or symbols.bounds(begin).lo < 0 or symbols.bounds(largest - begin).lo < 0:
        raise UnsupportedError("whether the slice is moved to be inside is not known")
    return begin


# --------------------------------------------------------------------------------------------------
# Ops whose sizes are operands.


@RULES.add(DynamicIota)
def _(sized: SizedInstruction, op: DynamicIota) -> Answer:
    return sized.all_of(0)


@RULES.add(GetDimensionSize)
def _(sized: SizedInstruction, op: GetDimensionSize) -> Answer:
    return [NEVER]


@RULES.add(DynamicBroadcastInDim)
def _(sized: SizedInstruction, op: DynamicBroadcastInDim) -> Answer:
    stretched = op.known_expanding_dimensions or ()
    kept = op.known_nonexpanding_dimensions or ()
    return [broadcast(sized, op.broadcast_dimensions, stretched, kept), *sized.all_of(1)]


@RULES.add(DynamicReshape)
def _(sized: SizedInstruction, op: DynamicReshape) -> Answer:
    return [reshaped(sized), *sized.all_of(1)]


@RULES.add(DynamicPad)
def _(sized: SizedInstruction, op: DynamicPad) -> Answer:
    low = [known_element(sized.operands[2], k) for k in range(len(sized.result))]
    steps = [known_element(sized.operands[4], k) + 1 for k in range(len(sized.result))]
    if not all(isinstance(step, Const) and step.value > 0 for step in steps):
        raise UnsupportedError("which elements are padding is not known in terms of sizes")
    numbers = [step.value for step in steps if isinstance(step, Const)]
    return [*padded(sized, low, numbers), *sized.all_of(2)]


# --------------------------------------------------------------------------------------------------
# Indexed reads and writes. Their positions depend on values, but the ranges of the positions do
# not.


_CHOSEN: Final = "where a slice begins is read at run time"
_UPDATED: Final = "which elements are updated is read at run time"
_OVERWRITTEN: Final = "an element that an update overwrites is not read"


def _position(at: SizedBuilder, indices: Shape, vector_dim: int, row: Sequence[Expr]) -> list[Expr]:
    """Return the index, in the array of indices, of all coordinates of one index vector.

    Dimension `vector_dim`, if it exists, gets a range variable of the builder: the number of the
    coordinate. `row` has the coordinates in the other dimensions, and `indices` the sizes of the
    array.
    """
    if vector_dim == len(indices):
        return [*row]
    return [*row[:vector_dim], at.range(indices[vector_dim]), *row[vector_dim:]]


def _without_vector_dim(dimension: int, vector_dim: int) -> int:
    """Return the position, in an index without dimension `vector_dim`, of dimension `dimension`."""
    return dimension - (dimension > vector_dim)


@RULES.add(Gather, DynamicGather)
def _(sized: SizedInstruction, op: Gather | DynamicGather) -> Answer:
    """Return accesses of a gather: a clamped slice begins at any position where it fits."""
    sliced, vector_dim = sized.result, op.index_vector_dim
    row = [Dim(k) for k in range(len(sliced)) if k not in op.offset_dims]
    gone, kept = {*op.collapsed_slice_dims, *op.operand_batching_dims}, iter(op.offset_dims)
    at, index, rooms = sized.builder(), list[Expr](), dict[int, Expr]()
    for k, size in enumerate(sized.shape(0)):
        if k in op.operand_batching_dims:
            place = op.start_indices_batching_dims[op.operand_batching_dims.index(k)]
            index.append(row[_without_vector_dim(place, vector_dim)])
            continue
        offset: Expr = Const(0)
        extent: Expr = Const(1)
        if k not in gone:
            window = next(kept)
            offset, extent = Dim(window), sliced[window]
        room = sized.frame.symbols.simplified(size - extent)
        if k in op.start_index_map and room != Const(0):
            rooms[op.start_index_map.index(k)] = room
            offset += at.range(room + 1)
        index.append(offset)
    found = at.map(index)
    operand = over(_CHOSEN, found) if rooms else exact(found)
    reads = []
    for number, room in sorted(rooms.items()):
        vectors, position = sized.builder(), list[Expr](row)
        vectors.require(room, 1, POS_INF)  # a coordinate that is clamped to [0, 0] is not read
        if vector_dim < len(sized.shape(1)):
            position.insert(vector_dim, Const(number))
        reads.append(vectors.map(position))
    return [operand, exact(*reads), *sized.all_of(2)]


@RULES.add(Scatter)
def _(sized: SizedInstruction, op: Scatter) -> Answer:
    """Return the accesses from the result of a scatter to its operands.

    The indices are known only at run time, so an element may read the update of any row of the
    indices in its batch.
    """
    count = len(sized.operands) // 2
    body = sized.bodies[0] if sized.bodies else None
    same = sized.builder().map(dims(sized.result))
    if body is not None and count == 1 and body.unchanged[0] == 0:
        return [exact(same), NEVER, NEVER]
    is_read = body is not None and count == 1 and 0 in body.sure[0]
    old = exact(same) if is_read else over(_OVERWRITTEN, same)
    updates = over(_UPDATED, _updates(sized, op))
    return [*[old] * count, _vectors(sized, op), *[updates] * count]


def _rows(
    sized: SizedInstruction, op: Scatter, at: SizedBuilder, shape: Sequence[Expr]
) -> list[Expr]:
    """Return the coordinates of the index vectors that may update an element.

    A vector is given by its coordinates in the array of indices, without `index_vector_dim`.
    Batching dimensions have the element's index. Every other coordinate is a range variable of the
    builder. `shape` has the number of values of each coordinate.
    """
    fixed = {
        _without_vector_dim(place, op.index_vector_dim): Dim(k)
        for k, place in zip(op.input_batching_dims, op.scatter_indices_batching_dims, strict=True)
    }
    return [fixed[j] if j in fixed else at.range(size) for j, size in enumerate(shape)]


def _vectors(sized: SizedInstruction, op: Scatter) -> Accesses:
    """Return the access from an element of a scatter's result to the indices of its updates."""
    indices, at = sized.shape(len(sized.operands) // 2), sized.builder()
    vector_dim = op.index_vector_dim
    row = _rows(sized, op, at, [size for k, size in enumerate(indices) if k != vector_dim])
    return over(_UPDATED, at.map(_position(at, indices, vector_dim, row)))


def _updates(sized: SizedInstruction, op: Scatter) -> IndexingMap:
    """Return the map from an element of a scatter's result to the updates it may get."""
    sliced, at = sized.shape(len(sized.operands) - 1), sized.builder()
    outside = [k for k in range(len(sliced)) if k not in op.update_window_dims]
    index: list[Expr] = [Const(0)] * len(sliced)
    for k, e in zip(outside, _rows(sized, op, at, [sliced[k] for k in outside]), strict=True):
        index[k] = e
    gone = {*op.inserted_window_dims, *op.input_batching_dims}
    kept = [k for k in range(len(sized.result)) if k not in gone]
    for k, window in zip(kept, op.update_window_dims, strict=True):
        if k in op.scatter_dims_to_operand_dims:
            index[window] = at.range(sliced[window])
        else:
            at.below(Dim(k), sliced[window])
            index[window] = Dim(k)
    return at.map(index)
