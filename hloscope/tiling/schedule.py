"""Schedules: maps from the number of a program to the tile that it computes.

>>> from hloscope.indexing import IndexingMap
>>> tiles = IndexingMap.parse("(d0, d1) -> (d0 * 16, d1 * 8), domain: d0 in [0, 3], d1 in [0, 5]")
>>> print(major_to_minor(tiles, [(0, 4), (1, 6)]))
(pid_0) -> ((pid_0 / 6) * 16, (pid_0 mod 6) * 8), domain: pid_0 in [0, 23]

Source: XLA `TiledHloSchedule`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final, Literal, TypeAlias, get_args

from hloscope.affine import ZERO, Dim, Expr, Interval
from hloscope.indexing import IndexingMap, Variable
from hloscope.ir import Instruction
from hloscope.ops import DotGeneral
from hloscope.tiling.refusal import Refusal, RefusalCode

Space: TypeAlias = Sequence[tuple[int, int]]
"""The iterated dimensions, major to minor: dimension number and number of tiles."""
ScheduleName: TypeAlias = Literal["major_to_minor", "transposed_dot"]
SCHEDULES: Final[tuple[str, ...]] = get_args(ScheduleName)


def _wrong(reason: str, instruction: Instruction | None = None) -> Refusal:
    return Refusal(RefusalCode.INVALID_ARGUMENT, reason, instruction)


def _check(space: Space, tiles: IndexingMap) -> Refusal | None:
    count = len(tiles.dims)
    if len(space) > count:
        return _wrong(
            "Expected iteration space to have at most as many dimensions as the tile offsets have, "
            f"but there are {len(space)} and {count}"
        )
    for k, (dim, _) in enumerate(space):
        if not 0 <= dim < count:
            return _wrong(f"Dimension id {dim} is out of bounds: there are {count}")
        if dim in [other for other, _ in space[:k]]:
            return _wrong(f"Iteration space contains multiple dimensions with id {dim}")
    return None


def major_to_minor(tiles: IndexingMap, space: Space) -> IndexingMap | Refusal:
    """Return the map from a program's number to the results of `tiles`, last dimension fastest.

    Args:
        tiles: Map from the position of a tile along each dimension, for example to its offsets.
        space: The iterated dimensions.  All others are at position 0.
    """
    wrong = _check(space, tiles)
    if wrong is not None:
        return wrong
    position: list[Expr] = [ZERO] * len(tiles.dims)
    below = 1
    for k, (dim, size) in reversed([*enumerate(space)]):
        position[dim] = Dim(0) // below % size if k and size else Dim(0) // max(below, 1)
        below *= size
    programs = Variable(Interval(0, prod([size for _, size in space]) - 1), "pid_0")
    of_program = IndexingMap((programs,), (), (), position)
    return of_program.compose(tiles).simplify().rescale_symbols().remove_unused_symbols()


def transposed(
    tiles: IndexingMap, space: Space, exchanged: tuple[int, int]
) -> IndexingMap | Refusal:
    """Return `major_to_minor` with two dimensions exchanged, if both are iterated over."""
    wrong = _check(space, tiles)
    if wrong is not None:
        return wrong
    at = {dim: k for k, (dim, _) in enumerate(space)}
    order = [*space]
    if all(dim in at for dim in exchanged):
        i, j = (at[dim] for dim in exchanged)
        order[i], order[j] = order[j], order[i]
    return major_to_minor(tiles, order)


def exchanged_by_transposed_dot(
    introduced: Sequence[tuple[Instruction, int]],
) -> tuple[int, int] | Refusal:
    """Return the parameters `m` and `n` of the root dot, which the schedule exchanges.

    Args:
        introduced: Instructions with the number of parameters that each introduces, the root first.
    """
    root, count = introduced[0]
    if not isinstance(root.op, DotGeneral):
        return _wrong("the schedule expects its root to be a dot", root)
    if any([isinstance(ins.op, DotGeneral) for ins, _ in introduced[1:]]):
        reason = "the schedule is only supported for TilingSpecifications specifying tiling for a "
        return _wrong(reason + "single dot", root)
    dims = root.op.dimensions
    sides = (
        ("lhs", root.operands[0], dims.lhs_batch, dims.lhs_contracting),
        ("rhs", root.operands[1], dims.rhs_batch, dims.rhs_contracting),
    )
    for side, operand, batch, contracting in sides:
        rank = len(getattr(operand.type, "sizes", ()))
        free = rank - len(batch) - len(contracting)
        if free != 1:
            reason = "the schedule is only supported for dot instructions with a single "
            return _wrong(f"{reason}non-contracting dimension, but got {free} of the {side}", root)
    return count - 2, count - 1
