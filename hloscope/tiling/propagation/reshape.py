"""Propagation rules of reshapes and bitcasts, as sequences of minimal reshapes.

A tile passes a collapse or an expansion if it covers, in row-major order, one run of elements, or
elements at a constant distance. Concrete sizes decide that; with variable sizes it is not checked.

Source: XLA's `PropagateTileToInput` for reshapes, `DecomposeBitcastToTrt`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from msgspec.structs import replace

from hloscope.affine import ONE, Const, Expr, minimum
from hloscope.indexing import delinearize, linearize, major_to_minor, output_sizes, sizes
from hloscope.ir import Dims, Instruction, TensorType
from hloscope.movement import MinimalReshape, ReshapeCategory, minimal_reshapes
from hloscope.ops import Bitcast, Reshape
from hloscope.tiling.propagation.registry import (
    Answer,
    CarriedTile,
    TilePrecision,
    ends_inside,
    joined,
    lost_start,
    maybe_empty,
    parts,
    refused,
    to_operands,
    to_outputs,
)
from hloscope.tiling.space import TilingSpace
from hloscope.tiling.tile import UNIT, DimTile, Refusal, RefusalCode, Tile, whole_dimension

Through = tuple[tuple[DimTile, ...], str]
"""Tiles of the dimensions after a reshape, and why they are not exact; "" if they are."""
_COPIES: Final = (
    ReshapeCategory.IDENTITY,
    ReshapeCategory.INCREASE_RANK,
    ReshapeCategory.DECREASE_RANK,
)
_UNCHECKED: Final = "whether the tile is one run of elements depends on the sizes of tiles"


@to_operands(Reshape)
def _(space: TilingSpace, ins: Instruction, op: Reshape, tile: Tile, output: int) -> Answer:
    return _one(through_reshape(space, tile, output_sizes(ins), sizes(ins.operands[0].type)))


@to_outputs(Reshape)
def _(space: TilingSpace, ins: Instruction, op: Reshape, tile: Tile, operand: int) -> Answer:
    return _one(through_reshape(space, tile, sizes(ins.operands[0].type), output_sizes(ins)))


@to_operands(Bitcast)
def _(space: TilingSpace, ins: Instruction, op: Bitcast, tile: Tile, output: int) -> Answer:
    return _bitcast(space, tile, ins.type, ins.operands[0].type)


@to_outputs(Bitcast)
def _(space: TilingSpace, ins: Instruction, op: Bitcast, tile: Tile, operand: int) -> Answer:
    return _bitcast(space, tile, ins.operands[0].type, ins.type)


def _one(part: CarriedTile | Refusal) -> Answer:
    return part if isinstance(part, Refusal) else parts(part)


def _bitcast(space: TilingSpace, tile: Tile, here: object, there: object) -> Answer:
    """Return the tile of the bytes of `tile`, as a tile of the type `there`.

    `here` is the type of the array of `tile`. The tile is transposed to physical order, reshaped,
    and transposed back.
    """
    if not isinstance(here, TensorType) or not isinstance(there, TensorType):
        return refused("a bitcast of something that is not an array")
    if here.is_tiled or there.is_tiled:
        return refused("a bitcast of arrays in tiled layouts")
    from_sizes, to_sizes = sizes(here), sizes(there)
    if prod(from_sizes) != prod(to_sizes):
        return refused("a bitcast between arrays of different numbers of elements")
    order, target = major_to_minor(here), major_to_minor(there)
    part = through_reshape(
        space,
        tile.permuted(order),
        tuple([from_sizes[d] for d in order]),
        tuple([to_sizes[d] for d in target]),
    )
    if isinstance(part, Refusal):
        return part
    back = [target.index(d) for d in range(len(target))]
    return parts(CarriedTile(part.tile.permuted(back), part.fit, part.reason))


def through_reshape(
    space: TilingSpace, tile: Tile, source: Dims, target: Dims
) -> CarriedTile | Refusal:
    """Return the tile of an array under another shape, or a refusal.

    Args:
        space: The tiling space.
        tile: The tile under the shape `source`.
        source: Sizes before.
        target: Sizes after.
    """
    if 0 in source:  # the array has no elements
        return CarriedTile(tile.with_dims([whole_dimension(n) for n in target]))
    kept = tuple([n for n in target if n != 1])
    out: list[DimTile] = []
    reasons: list[str] = []
    fit = TilePrecision.EXACT
    for group in minimal_reshapes(source, kept):
        found = _through_group(space, tile, source, kept, group)
        if isinstance(found, Refusal):
            return found
        dims, reason = found
        out += dims
        reasons.append(reason)
        if space.is_symbolic and group.category not in _COPIES:
            fit = TilePrecision.UNCHECKED
            reasons.append(_UNCHECKED)
    rest = iter(out)
    reason = joined(*reasons)
    if reason and fit is TilePrecision.EXACT:
        fit = TilePrecision.OVER
    return CarriedTile(
        tile.with_dims([UNIT if n == 1 else next(rest) for n in target]), fit, reason
    )


def _through_group(
    space: TilingSpace, tile: Tile, source: Dims, target: Dims, group: MinimalReshape
) -> Through | Refusal:
    """Return the tiles of the target dimensions of one minimal reshape.

    Target dimensions of size 1 are left out. The second item says why the tiles are not exact, or
    is empty.
    """
    mine = [d for d in group.source if source[d] != 1] or [*group.source][:1]
    dropped = maybe_empty(space, [tile.dims[d] for d in group.source if d not in mine])
    if not group.target:  # only dimensions of size 1
        return (), joined(dropped, maybe_empty(space, [tile.dims[d] for d in mine]))
    dims, from_sizes = [tile.dims[d] for d in mine], tuple([source[d] for d in mine])
    to_sizes = tuple([target[d] for d in group.target])
    if group.category in _COPIES:
        return tuple(dims), dropped
    if group.category is ReshapeCategory.GENERIC:
        sizes_of = f"{list(from_sizes)} -> {list(to_sizes)}"
        reason = f"Reshape {sizes_of} neither collapses dimensions into one nor expands one"
        return refused(reason, RefusalCode.UNIMPLEMENTED)
    collapses = group.category is ReshapeCategory.COLLAPSE
    carry = _collapsed if collapses else _expanded
    found, reason = carry(space, dims, from_sizes, to_sizes)
    wrong = (
        ""
        if space.is_symbolic
        else _not_one_run(dims, found, from_sizes, to_sizes, collapses=collapses)
    )
    if wrong:
        return _non_contiguous(dims, found, from_sizes, to_sizes, wrong)
    if not collapses:
        found = tuple(
            [
                replace(d, upper_bound=space.simplify(minimum(d.upper_bound, n)))
                for d, n in zip(found, to_sizes, strict=True)
            ]
        )
    return found, joined(dropped, reason)


def _collapsed(space: TilingSpace, dims: Sequence[DimTile], source: Dims, target: Dims) -> Through:
    """Return the tile of the dimension to which a reshape collapses several dimensions.

    Its offset and its bound are linearised indices.

    Args:
        space: The tiling space.
        dims: The tiles of the collapsed dimensions.
        source: The sizes of these dimensions.
        target: The size of the new dimension, as the only item.

    Returns:
        The tile as the only item, and why it is not exact, or "".
    """
    last = [minimum(d.last, d.upper_bound - 1) for d in dims]
    size: Expr = ONE
    for d in dims:
        size = size * d.size
    k = next((k for k in range(len(dims) - 1, -1, -1) if dims[k].size != ONE), len(dims) - 1)
    stride = dims[k].stride * prod(source[k + 1 :])
    bound = linearize(last, source) + 1
    tile = DimTile(linearize([d.offset for d in dims], source), size, stride, bound)
    return (_simplified(space, tile),), _gaps(space, dims)


def _gaps(space: TilingSpace, dims: Sequence[DimTile]) -> str:
    """Return why a collapsed tile may have more elements than the tiles in `dims`; else ""."""
    first = next((k for k, d in enumerate(dims) if d.size is not ONE), len(dims))
    inner = [d for d in dims[first + 1 :] if d.size is not ONE]
    moved = any(not _starts_at_0(space, d) or not ends_inside(space, d) for d in inner)
    cut = "a dimension behind the tiled one is cut off" if moved else ""
    is_first = all([_starts_at_0(space, d) for d in dims[:first]])
    start = "" if is_first else lost_start(space, dims[first : first + 1])
    return joined(cut, start, maybe_empty(space, dims))


def _starts_at_0(space: TilingSpace, tile: DimTile) -> bool:
    bounds = space.bounds(tile.offset)
    return bounds.lo == bounds.hi == 0


def _expanded(space: TilingSpace, dims: Sequence[DimTile], source: Dims, target: Dims) -> Through:
    """Return the tiles of the dimensions to which a reshape expands one dimension.

    The first and the last index of the tile are delinearised. The tile of each new dimension goes
    from its coordinate of the first index to its coordinate of the last index.

    Args:
        space: The tiling space.
        dims: The tile of the expanded dimension, as the only item.
        source: The size of that dimension, as the only item.
        target: The sizes of the new dimensions.

    Returns:
        The tile of each new dimension, and why they are not exact, or "".
    """
    (tile,) = dims
    first = [space.simplify(e) for e in delinearize(tile.offset, target)]
    last = [space.simplify(e) for e in delinearize(tile.last, target)]
    found = [
        DimTile(begin, end - begin + 1, ONE, end + 1)
        for begin, end in zip(first, last, strict=True)
    ]
    kept = tile.upper_bound is Const(source[0]) or ends_inside(space, tile)
    reason = "" if kept else "an upper bound within a run of elements is not kept"
    return tuple([_simplified(space, d) for d in found]), reason


def _simplified(space: TilingSpace, tile: DimTile) -> DimTile:
    return tile.mapped(space.simplify)


# ---------------------------------------------------------------- is it one run of elements?


def _number(e: Expr) -> int | None:
    return e.value if isinstance(e, Const) else None


def _not_one_run(
    source: Sequence[DimTile],
    target: Sequence[DimTile],
    from_sizes: Dims,
    to_sizes: Dims,
    *,
    collapses: bool,
) -> str:
    """Return why the tile is not a contiguous or strided run in one dimension; else "".

    Args:
        source: Tiles of the dimensions before the reshape.
        target: Tiles of the dimensions after it.
        from_sizes: Sizes before.
        to_sizes: Sizes after.
        collapses: Whether several dimensions become one; otherwise one becomes several.
    """
    many, shape = (source, from_sizes) if collapses else (target, to_sizes)
    checked = source[:-1] if collapses else source
    for d in checked:
        stride = _number(d.stride)
        if stride is None or stride <= 0:
            return f"Expect constant positive source tile stride. Got: {d.stride}"
    steps = [d.stride for d in checked if d.stride is not ONE]
    if not steps:
        return _not_contiguous(many, shape, collapses=collapses)
    if len(steps) > 1:
        return f"At most one dimension can have stride >1. Got: {len(steps)}"
    if collapses:
        stepped = next(k for k, d in enumerate(checked) if d.stride is not ONE)
    else:
        rows = [prod(shape[k + 1 :]) for k in range(len(shape))]
        step = _number(steps[0])
        if step not in rows:
            return f"The source tile's stride {step} is not one of the target, which has {rows}"
        stepped = rows.index(step)
    if any(k != stepped and d.size is not ONE for k, d in enumerate(many)):
        return f"In a strided tile only the strided dimension {stepped} can have size > 1"
    return ""


def _not_contiguous(many: Sequence[DimTile], shape: Dims, *, collapses: bool) -> str:
    """Return why the tile of several dimensions is not contiguous; else "".

    It is contiguous if at most one dimension is partial: the tile has size 1 in those before it,
    and covers those after it completely.

    Args:
        many: Tiles of the dimensions, major to minor.
        shape: Sizes of the dimensions.
        collapses: Does a reshape collapse the dimensions? Tiles of size 1 at the end are then
            allowed too.
    """
    i = 0
    while i < len(many) and many[i].size is ONE:
        i += 1
    j = len(many) - 1
    while j >= 0 and (
        many[j].size * many[j].stride == Const(shape[j])
        or (collapses and all(d.size is ONE for d in many[j:]))
    ):
        j -= 1
    return "Multiple dimensions are partially tiled" if i < j else ""


def _non_contiguous(
    dims: Sequence[DimTile], found: Sequence[DimTile], source: Dims, target: Dims, why: str
) -> Refusal:
    before = "; ".join(map(str, dims))
    after = "; ".join(map(str, found))
    shapes = f"{list(source)} -> {list(target)}"
    reason = f"Reshape is non-contiguous {shapes}, tiling {before} -> {after}: {why}"
    return refused(reason, RefusalCode.UNIMPLEMENTED)
