"""XLA's condition that each tile of a concatenation lies within one operand."""

from __future__ import annotations

from collections.abc import Sequence

from hloscope.affine import Const, Dim, is_multiple_of, substitute
from hloscope.tiling.space import TilingSpace
from hloscope.tiling.tile import DimTile, spelled

_WHERE = "Tiling propagation rejected for Concatenate"


def misfit(space: TilingSpace, tile: DimTile, extents: Sequence[int]) -> str:
    """Return why a tile may cover parts of several operands; empty if it does not.

    The size of the tile must be a number; otherwise the result is empty. From the first tile on,
    which may begin within an operand, tiles must end where operands do. The last operand may end
    within a tile.

    Args:
        space: The tiling space.
        tile: The tile along the concatenated dimension.
        extents: Sizes of the operands along it.
    """
    if not isinstance(tile.size, Const):
        return ""
    size = tile.size.value
    base = substitute(tile.offset, {Dim(i): 0 for i in range(len(space.dimensions))})
    if not isinstance(base, Const):
        return f"{_WHERE}: The base offset {spelled(base)} is not a constant"
    if not 0 <= base.value < max(sum(extents), 1):
        return f"{_WHERE}: The base offset {base} is outside of the output"
    if size == 0 or not is_multiple_of(tile.offset - base, size):
        moved = spelled(tile.offset - base)
        return f"{_WHERE}: The tile offset {moved} must be a clean multiple of its tile size {size}"
    start = 0
    for k, n in enumerate(extents[:-1]):
        end = start + n
        left = min(n, end - base.value)
        if left > 0 and left % size:
            what = "The remaining dimension size" if left < n else "The dimension size"
            return (
                f"{_WHERE}: {what} {left} in the concatenate operand {k} must be a clean multiple"
                f" of its tile size {size}"
            )
        start = end
    return ""
