"""Verdicts on data movement: no-op, bitcast, one transpose, or real movement.

A movement is a map from an index of the output to the index of its element in the source, and the
two types with their layouts. Addresses that are sums of digits times strides are compared directly.
Otherwise maps are composed, simplified and compared by isl. A movement that is not free has an
index at which the addresses differ; isl searches for it on request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import permutations
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from hloscope.affine import POS_INF
from hloscope.errors import UnsupportedError
from hloscope.fusion import linear
from hloscope.indexing import Access, IndexingMap, address_map, prove_equal
from hloscope.indexing.layouts import Strided, form_of
from hloscope.ir import Dims, Layout, TensorType
from hloscope.movement.rearranging import flat
from hloscope.movement.strides import in_memory, inverse_by_digits, own_strides, strides_of
from hloscope.simplifier import PROVED, CounterExample, Proof, Verdict

_MOST_RANKS: Final = 5
"""Maximum rank of a source for which all layouts are tried."""


class Kind(StrEnum):
    """Verdicts on a movement, cheapest first."""

    NO_OP = "no-op"
    """Every element stays at its index, under the same layout."""
    BITCAST = "bitcast"
    """Every element stays at its address: another shape or layout of the same bytes."""
    TRANSPOSE = "one transpose"
    """The elements are those of the source, rearranged by one transpose of merged dimensions."""
    MOVEMENT = "real movement"
    """Elements are left out, repeated, created, or need more than one transpose."""
    UNDECIDED = "undecided"

    @property
    def is_free(self) -> bool:
        """Do the bytes stay in place?"""
        return self in (Kind.NO_OP, Kind.BITCAST)


class Judgement(Struct, frozen=True):
    """The verdict on a movement, with its reasons.

    Attributes:
        kind: The verdict.
        known: The proof; `None` if the property `proof` computes it.
        form: Function from addresses in the output to addresses in the source, if it is digits
            times strides plus an offset; for tiled arrays, between row-major positions.
        output_layout: A layout of the output with which the movement would be a bitcast; `None` if
            unknown.
        source_layout: A layout of the source with which it would be a bitcast; if `output_layout`
            is given too, with both together.
        reason: Further explanation as text.
        movement: Map, source type and output type of a movement that is not free. The property
            `proof` computes the proof from them.
    """

    kind: Kind
    known: Proof | None = None
    form: Strided | None = None
    output_layout: Layout | None = None
    source_layout: Layout | None = None
    reason: str = ""
    movement: tuple[IndexingMap, TensorType, TensorType] | None = None

    @property
    def proof(self) -> Proof:
        """Return the proof that the movement is free, or a counter-example.

        The counter-example is an index of the output and an address: that in the output, or that of
        the element in the source.
        """
        if self.known is None and self.movement is not None:
            return _refuted(*self.movement)
        return self.known or _NOT_FREE


_NOT_FREE: Final = Proof(Verdict.REFUTED, reason="some element is at another address")


def _refuted(m: IndexingMap, source: TensorType, output: TensorType) -> Proof:
    """Return the proof that a movement is not free, with a counter-example if one is found."""
    example = _example(m, source, output)
    if example is not None:
        return Proof(Verdict.REFUTED, example)
    try:
        proof = at_same_address(m, source, output)
    except UnsupportedError:
        return _NOT_FREE
    return proof if proof.is_refuted else _NOT_FREE


def _example(m: IndexingMap, source: TensorType, output: TensorType) -> CounterExample | None:
    """Return an element that has another address in the source, if a few indices show one.

    `None` otherwise.
    """
    strides, own = strides_of(m, source, output), own_strides(output)
    if strides is not None and own is not None:
        index = strides.first_difference(own)
        if index is None:
            return None
        return CounterExample(index, (strides.address(index),), only_in=1)
    return _moved_element(m, source, output)


# Cached, as programs repeat layers: `cancel` of an 11 MB dump takes 1.4 × as long without it.
@lru_cache(maxsize=1 << 13)
def judge(m: IndexingMap, source: TensorType, output: TensorType) -> Judgement:
    """Return the verdict on a movement with these layouts.

    Args:
        m: From an index of the output to that of its element in the source.
        source: Type of the source with its layout; row-major without one.
        output: Type of the output; another element type counts as the same.

    >>> from hloscope.hlo_parser import parse_type
    >>> turn = IndexingMap.parse("(d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, 3]")
    >>> found = judge(turn, parse_type("f32[4,8]"), parse_type("f32[8,4]"))
    >>> found.kind, found.output_layout.minor_to_major
    (<Kind.TRANSPOSE: 'one transpose'>, (0, 1))
    """
    if output.num_elements == 0:
        same = source.shape == output.shape and same_layout(source, output)
        return Judgement(Kind.NO_OP if same else Kind.BITCAST, PROVED, reason="no elements")
    try:
        proof = _is_free(m, source, output)
        if proof is None or proof.is_refuted:
            return _judge_movement(m, source, output)
        if proof.is_proved:
            same = source.shape == output.shape and same_layout(source, output)
            return Judgement(Kind.NO_OP if same else Kind.BITCAST, proof, Strided(()))
        return Judgement(Kind.UNDECIDED, proof, reason=proof.reason)
    except UnsupportedError as error:
        return Judgement(Kind.UNDECIDED, Proof(Verdict.UNDECIDED, reason=error.message))


def _is_free(m: IndexingMap, source: TensorType, output: TensorType) -> Proof | None:
    """Return the proof that every element keeps its address, or the result of the failed attempt.

    `None` if a comparison without isl shows that an element does not keep its address.
    """
    strides, own = strides_of(m, source, output), own_strides(output)
    if strides is not None and own is not None:
        # Equal strides with different padded sizes are not one buffer.
        same = strides == own and in_memory(source) == in_memory(output)
        return PROVED if same else None
    return None if _moved_element(m, source, output) else at_same_address(m, source, output)


def _moved_element(m: IndexingMap, source: TensorType, output: TensorType) -> CounterExample | None:
    """Return one of a few indices whose element has another address; `None` if none does."""
    if m.ranges or m.runtime or m.is_undefined or source.num_elements > POS_INF:
        return None  # addresses would exceed 64 bits
    here, there = address_map(output), address_map(source)
    for index in _tested_indices(output.shape):
        if not m.satisfies(index):
            return CounterExample(index, here.evaluate(index))
        address = there.evaluate(m.evaluate(index))
        if address != here.evaluate(index):
            return CounterExample(index, address, only_in=1)
    return None


def _tested_indices(shape: Dims) -> Iterator[Dims]:
    """Yield the indices that are tested: the first, the last, and the ends of each dimension."""
    first, last = (0,) * len(shape), tuple([n - 1 for n in shape])
    yield from (first, last)
    for d, n in enumerate(shape):
        for k in (1, n - 1):
            if n > 1:
                yield (*first[:d], k, *first[d + 1 :])


def same_layout(a: TensorType, b: TensorType) -> bool:
    """Do two arrays of equal sizes have the same dimension order and tiles in memory?"""
    return _order(a) == _order(b)


def _order(type_: TensorType) -> tuple[Dims, tuple[Dims, ...]]:
    """Return the dimension order and the tiles of an array's layout."""
    layout = type_.layout or row_major(type_.rank)
    return layout.minor_to_major, layout.tiles


def row_major(rank: int) -> Layout:
    """Return the layout in which the last dimension varies fastest."""
    return Layout(tuple(range(rank - 1, -1, -1)))


def at_same_address(m: IndexingMap, source: TensorType, output: TensorType) -> Proof:
    """Prove or refute that every element has the same address in output and source."""
    if m.ranges or m.runtime or m.is_undefined:
        return Proof(Verdict.REFUTED, reason="not every element comes from one place")
    sizes = [in_memory(type_) for type_ in (source, output)]
    read = m.compose(address_map(source)).simplify()
    proof = prove_equal([address_map(output)], [read])
    if proof.is_proved and sizes[0] != sizes[1]:
        reason = f"{sizes[1]} elements of memory, of {sizes[0]} of the source"
        return Proof(Verdict.REFUTED, reason=reason)
    return proof


def _judge_movement(m: IndexingMap, source: TensorType, output: TensorType) -> Judgement:
    """Return the verdict on a movement that is known not to be free with the given layouts."""
    form = _address_form(m, source, output)
    why = _why_not_transpose(m, source, output, form)
    moved = Judgement(Kind.MOVEMENT, form=form, reason=why, movement=(m, source, output))
    if source.num_elements != output.num_elements or (form is not None and not form.is_permutation):
        return moved
    if form is not None:
        moved = replace(moved, kind=Kind.TRANSPOSE)
    found = next(_solutions(m, source, output), None)
    if found is None:
        return moved
    return replace(moved, output_layout=found[1], source_layout=found[0])


def _address_form(m: IndexingMap, source: TensorType, output: TensorType) -> Strided | None:
    """Return the function from output addresses to source addresses, as a sum of digits.

    `None` if it is not recognised as such a sum. For tiled arrays it relates row-major positions.
    """
    is_tiled = output.is_tiled or source.is_tiled
    strides = None if is_tiled else strides_of(m, source, output)
    if strides is not None:
        return strides.form(output)
    if is_tiled:
        placed = flat(m, output.shape, source.shape)
    else:
        read = linear((Access(m),), output, source)
        placed = read[0].map if read and read[0].map else IndexingMap.undefined()
    found = form_of(placed, output.shape)
    whole = found is not None and found.size == output.num_elements
    return found.merged() if found is not None and whole else None


def _why_not_transpose(
    m: IndexingMap, source: TensorType, output: TensorType, form: Strided | None
) -> str:
    """Return why a movement is not one transpose; empty if it is.

    `form` is the result of `_address_form`.
    """
    counts = source.num_elements, output.num_elements
    if form is None and (m.constraints or [v.interval.size for v in m.dims] != [*output.shape]):
        return "not every element comes from the source"
    if form is None:
        return "a rearrangement that is not a transpose of merged dimensions"
    if form.is_permutation:
        return ""
    strides = [mode.stride for mode in form.modes]
    # A stride of 0 repeats an element, a negative one reverses, and a single 1 is a contiguous
    # part.
    if 0 in strides:
        return f"{counts[1]:,} elements out of {counts[0]:,}: some are repeated"
    if strides == [1]:
        return f"a contiguous part of the source: a view from element {form.offset:,} on would do"
    if min(strides, default=1) < 0:
        return "some dimensions are reversed"
    return f"{counts[1]:,} elements of {counts[0]:,}"


def _solutions(
    m: IndexingMap, source: TensorType, output: TensorType
) -> Iterator[tuple[Layout | None, Layout | None]]:
    """Yield layouts of (source, output) that make the movement a bitcast.

    `None` stands for the given layout.
    """
    if (layout := _output_layout(m, source, output)) is not None:
        yield None, layout
    back = inverse_by_digits(m, source, output) or m.inverse()
    is_plain = not back.constraints and not back.ranges
    if is_plain and (layout := _output_layout(back, output, source)) is not None:
        yield layout, None
    if source.rank <= _MOST_RANKS:
        for order in permutations(range(source.rank)):
            other = replace(source, layout=Layout(order))
            if (layout := _output_layout(m, other, output)) is not None:
                yield other.layout, layout


def _output_layout(m: IndexingMap, source: TensorType, output: TensorType) -> Layout | None:
    """Return the output layout with which every element keeps its address; `None` without one.

    An element's address is then a sum of its indices times strides. The strides are taken from the
    map if possible; otherwise they are sampled. Either way the layout is proved.
    """
    strides, rank = strides_of(m, source, output), output.rank
    if strides is None:
        address = m.compose(address_map(source))
        offset = address.evaluate((0,) * rank)[0]
        units = [tuple([int(k == d) for k in range(rank)]) for d in range(rank)]
        # Steps are sampled at unit indices. In a dimension of size 1 such an index is outside the
        # domain, which `evaluate` does not check.
        at_units = [address.evaluate(unit)[0] for unit in units]
        steps: Dims | None = tuple(at_units)
    else:
        offset, steps = strides.offset, strides.steps
    found = None if offset or steps is None else _layout_of_steps(steps, output.shape)
    if found is None:
        return None
    same = _is_free(m, source, replace(output, layout=found))
    return found if same is not None and same.is_proved else None


def _layout_of_steps(steps: Dims, shape: Dims) -> Layout | None:
    """Return the layout in which each dimension has the given stride; `None` if there is none.

    `steps` has the strides in elements, `shape` the sizes.
    """
    real = sorted([d for d, n in enumerate(shape) if n > 1], key=steps.__getitem__)
    below_ = 1
    # Dense layouts only: each stride is the product of the sizes of the faster dimensions.
    for d in real:
        if steps[d] != below_:
            return None
        below_ *= shape[d]
    return Layout(_with_ones(real, shape))


def _with_ones(real: Sequence[int], shape: Dims) -> Dims:
    """Return a minor-to-major order with dimensions of size 1 added.

    `real` are the other dimensions, minor to major. Each added one comes next to the dimension that
    precedes it, if possible.
    """
    order: list[int] = []
    ones = [d for d in range(len(shape)) if shape[d] == 1]
    for d in real:
        order.append(d)
        k = d - 1
        while k in ones:
            ones.remove(k)
            order.append(k)
            k -= 1
    return (*ones[::-1], *order)
