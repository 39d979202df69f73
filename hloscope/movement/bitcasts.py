"""Decomposition of bitcasts into reshapes and transposes of logical arrays.

The layouts decide: a bitcast leaves the bytes in place and reads them as another array.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from hloscope.indexing import IndexingMap, bitcast_map, major_to_minor, prove_equal
from hloscope.ir import Dims, TensorType
from hloscope.layouts import form_of
from hloscope.movement.rearranging import (
    Rearrangement,
    combined,
    flat,
    reshape_to,
    split_transposed,
    transpose_by,
)


class BitcastParts(Struct, frozen=True):
    """A decomposed bitcast.

    Attributes:
        kind: `reshape`, `transpose` or `transpose-reshape-transpose`; for tiled layouts also
            `reshape-transpose-reshape`, or `through memory`, which is two of these; else empty.
        steps: Reshapes and transposes, in order, that together equal the bitcast.  Steps that
            change nothing are left out.
        reason: Why there is no decomposition.
    """

    kind: str
    steps: tuple[Rearrangement, ...] = ()
    reason: str = ""


def decompose_bitcast(source: TensorType, target: TensorType) -> BitcastParts:
    """Decompose a bitcast into reshapes and transposes of logical arrays.

    Candidates are tried in this order: a reshape; a transpose; a transpose to the source's order in
    memory, a reshape, and a transpose from the target's order.  Dimensions that tiles cut are
    split, transposed and joined.  The steps are proved to keep every element at its address.

    Args:
        source: Type of the operand with its layout; row-major without one.
        target: Type of the result.

    Source: XLA `ShapeUtil::DecomposeBitcast`.

    >>> from hloscope.hlo_parser import parse_type
    >>> found = decompose_bitcast(parse_type("f32[6,8]{0,1}"), parse_type("f32[4,2,6]{2,1,0}"))
    >>> print(found.kind, *found.steps, sep="; ")
    transpose-reshape-transpose; transpose by [1, 0] to [8, 6]; reshape to [4, 2, 6]
    """
    if not (source.is_static and target.is_static):
        return BitcastParts("", reason="sizes that are known at run time only")
    if source.num_elements != target.num_elements:
        counts = f"{source.num_elements} elements as {target.num_elements}"
        return BitcastParts("", reason=f"{counts}: no rearrangement")
    if source.num_elements == 0:
        return BitcastParts("reshape", tuple(reshape_to(target.shape, source.shape)))
    same = bitcast_map(target, source)
    if isinstance(same, str):
        return BitcastParts("", reason=same)
    # The map between arrays at equal addresses is partial exactly if padding is read.
    if same.ranges or same.constraints or same.runtime:
        return BitcastParts("", reason="elements of the one stand in the padding of the other")
    for kind, steps in _candidates(source, target, same):
        sizes = steps[-1].sizes if steps else source.shape
        # Candidates are guesses from the layouts; only a proved one is returned.
        if sizes == target.shape and prove_equal([combined(steps, source.shape)], [same]).is_proved:
            return BitcastParts(kind, tuple(steps))
    return BitcastParts("", reason="no transpose of split dimensions")


def _candidates(
    source: TensorType, target: TensorType, same: IndexingMap
) -> Iterator[tuple[str, list[Rearrangement]]]:
    """Yield possible decompositions with their kinds, the simplest first."""
    shape, goal = source.shape, target.shape
    yield "reshape", reshape_to(goal, shape)
    here, there = major_to_minor(source), major_to_minor(target)
    if source.rank == target.rank:
        yield (
            "transpose",
            transpose_by(tuple(here[there.index(k)] for k in range(len(goal))), shape),
        )
    yield "transpose-reshape-transpose", _through_memory(shape, goal, here, there)
    moved = _digits_moved(same, shape, goal)
    if moved is not None:
        yield "reshape-transpose-reshape", moved
    # Two tiled layouts may need two permutations: to the linear order in memory and from it.
    line = TensorType(source.element, (source.num_elements,))
    out, back = bitcast_map(line, source), bitcast_map(target, line)
    if isinstance(out, IndexingMap) and isinstance(back, IndexingMap):
        first = _digits_moved(out, shape, line.shape)
        second = _digits_moved(back, line.shape, goal)
        if first is not None and second is not None:
            yield "through memory", [*first, *second]


def _digits_moved(m: IndexingMap, source: Dims, target: Dims) -> list[Rearrangement] | None:
    """Return a reshape, transpose and reshape that equal a map from target to source.

    `None` if the map does not permute digits of the row-major position.
    """
    form = form_of(flat(m, target, source), target)
    if form is None or not form.is_permutation:
        return None
    return split_transposed(form, source, target)


def _through_memory(shape: Dims, goal: Dims, here: Dims, there: Dims) -> list[Rearrangement]:
    """Return a transpose to the source's memory order, a reshape, and a transpose to the target."""
    before = tuple(shape[k] for k in here)
    after = tuple(goal[k] for k in there)
    return [
        *transpose_by(here, shape),
        *reshape_to(after, before),
        *transpose_by(tuple(there.index(k) for k in range(len(goal))), after),
    ]
