"""Checks of Shardy's collectives and manual computations: shardings and local types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from hloscope.errors import VerifyError
from hloscope.ir import TensorType, Type
from hloscope.mlir import Operation, StringAttr, StructAttr, type_text
from hloscope.mlir.dialects import axes_of
from hloscope.ops import AxisRef
from hloscope.verifier.shardy.shardings import (
    Axes,
    Axis,
    AxisCollector,
    Grid,
    Sharding,
    dividing_axes,
    part_count,
    struct_of,
)
from hloscope.verifier.stablehlo.traits import refuse

# --------------------------------------------------------------------------------------------------
# Collectives of Shardy: the sharding of the result against operand and axes.
#
# Source: Shardy `verifiers.cc` (`verifyCollectiveOp`, `verifyCollectiveWithAxesPerDim` and the
# `verify` of each op).


WITHOUT_SHARDING: Final = frozenset({"sdy.all_slice", "sdy.all_reduce", "sdy.reduce_scatter"})
"""Collectives whose operand may have no sharding, which means that it is replicated."""

AXES: Final = {
    "sdy.all_gather": "gathering_axes",
    "sdy.all_slice": "slicing_axes",
    "sdy.all_to_all": "params",
    "sdy.all_reduce": "reduction_axes",
    "sdy.reduce_scatter": "reduce_scatter_axes",
    "sdy.collective_permute": "",
    "sdy.sharded_to_unreduced": "axes",
    "sdy.replicated_to_unreduced": "axes",
}
"""Name of the attribute that lists the axes of a collective, by op name; empty if it has none."""


def check_collective(
    name: str,
    axes: StructAttr | None,
    operand: Sharding,
    result: Sharding,
    grids: tuple[Grid, Grid],
) -> None:
    """Check a collective, given valid shardings of its operand and result.

    Args:
        name: Name of the op.
        axes: The value of the attribute that `AXES` names; `None` if the op lacks it.
        operand: Sharding of the op's operand.
        result: Sharding of the result.
        grids: Meshes of operand and result.

    Raises:
        VerifyError: The collective is invalid; the message is Shardy's.
    """
    before, after = grids
    # The only collective between meshes: device order may change.
    if name == "sdy.collective_permute":
        _check_permute(operand, result, before, after)
        return
    if before.mesh != after.mesh:
        raise VerifyError("result mesh does not match operand mesh")
    if len(result.dimensions) != len(operand.dimensions):
        raise VerifyError(
            f"result sharding has rank {len(result.dimensions)} but operand sharding has rank"
            f" {len(operand.dimensions)}"
        )
    if axes is not None:
        _CHECKS[name](axes, operand, result, after)


def _gather(grid: Grid, have: Axes, axes: Axes, dimension: int, word: str) -> Axes:
    """Return the axes `have` of a dimension without the last ones, which must be `axes`.

    Args:
        grid: The mesh.
        have: Axes that divide the dimension.
        axes: Axes to remove.
        dimension: Index of the dimension, for errors.
        word: Text that names the operation in errors.

    Raises:
        VerifyError: The axes `axes` are not the last ones.
    """
    found = list(have)
    for axis in reversed(axes):
        last = found[-1] if found else None
        # The removed axis must be a suffix of the last one: same end, and not longer.
        is_end = last is not None and (last.name, last.after) == (axis.name, axis.after)
        if not is_end or last is None or last.before > axis.before:
            raise VerifyError(
                f"can't apply {word} axis {axis} to operand sharding on dimension {dimension}"
            )
        found.pop()
        # If only the end of a sub-axis is removed, its beginning stays as a shorter sub-axis.
        if last.before < axis.before:
            found.append(Axis(axis.name, last.before, axis.before, whole=False))
    return tuple(found)


def _expect(expected: Axes, found: Axes, dimension: int) -> None:
    """Check that the axes `found`, of a dimension of the result, are the expected ones."""
    if expected != found:
        shown = ", ".join(map(str, expected))
        raise VerifyError(
            f"result sharding doesn't match expected sharding [{shown}] on dimension {dimension}"
        )


def _per_dimension(axes: StructAttr, result: Sharding, grid: Grid) -> list[Axes]:
    """Return the axes that a collective has for each dimension, and check them for duplicates.

    `result` is the sharding of the result.
    """
    lists = _parts(axes, "lists")
    seen = AxisCollector(grid)
    found = [seen.add(axes_of(part)) for part in lists]
    if len(result.dimensions) != len(found):
        raise VerifyError(
            f"result sharding has rank {len(result.dimensions)} but collective axes has rank"
            f" {len(found)}"
        )
    return found


def _check_gather(word: str) -> Callable[[StructAttr, Sharding, Sharding, Grid], None]:
    """Return the check of a collective that gathers along dimensions; `word` names it in errors."""

    def check(axes: StructAttr, operand: Sharding, result: Sharding, grid: Grid) -> None:
        each = _per_dimension(axes, result, grid)
        parts = zip(dividing_axes(operand, grid), each, dividing_axes(result, grid), strict=True)
        for d, (have, gathered, out) in enumerate(parts):
            _expect(_gather(grid, have, gathered, d, word), out, d)

    return check


def _check_slice(axes: StructAttr, operand: Sharding, result: Sharding, grid: Grid) -> None:
    each = _per_dimension(axes, result, grid)
    parts = zip(dividing_axes(operand, grid), each, dividing_axes(result, grid), strict=True)
    for d, (have, sliced, out) in enumerate(parts):
        _expect(grid.merged(have, sliced), out, d)


def _check_to_unreduced(axes: StructAttr, operand: Sharding, result: Sharding, grid: Grid) -> None:
    _check_gather("shard-to-unreduce")(axes, operand, result, grid)
    given = [ref for part in _parts(axes, "lists") for ref in axes_of(part)]
    _check_unreduced(given, operand, result, grid, "sharded_to_unreduced_axes")


def _check_unreduced(
    given: Sequence[AxisRef], operand: Sharding, result: Sharding, grid: Grid, word: str
) -> None:
    """Check that the unreduced axes of the result are those of the operand and `given`.

    `word` is the text that names the operation in errors.
    """
    # Sets are compared in mesh order, since the order of unreduced axes has no meaning.
    expected = grid.set_of(map(grid.axis, (*operand.unreduced, *given)))
    if expected != grid.set_of(map(grid.axis, result.unreduced)):
        raise VerifyError(f"out_unreduced_axes should be in_unreduced_axes + {word}")


def _check_replicated(axes: StructAttr, operand: Sharding, result: Sharding, grid: Grid) -> None:
    given = axes_of(axes)
    if not given:
        raise VerifyError("r2u axes must not be empty")
    if not grid.is_sorted(given):
        raise VerifyError("r2u axes are not ordered w.r.t. mesh")
    AxisCollector(grid).add(given)
    if dividing_axes(operand, grid) != dividing_axes(result, grid):
        raise VerifyError("input and output must share the same dimension shardings")
    _check_unreduced(given, operand, result, grid, "r2u_axes")


def _check_reduce(axes: StructAttr, operand: Sharding, result: Sharding, grid: Grid) -> None:
    """Check an all-reduce: operand and result are divided by the same axes.

    The reduced axes must not overlap with those axes, replicated axes, or unreduced axes of the
    result.
    """
    if dividing_axes(operand, grid) != dividing_axes(result, grid):
        raise VerifyError("operand and result shardings are not equivalent")
    given = axes_of(axes)
    if not grid.is_sorted(given):
        raise VerifyError("reduction axes are not ordered w.r.t. mesh")
    reduced = AxisCollector(grid).add(given)
    held = [*[axis for axes in dividing_axes(operand, grid) for axis in axes]]
    held += map(grid.axis, operand.replicated)
    open_ = [*map(grid.axis, result.unreduced)]
    for axis in reduced:
        if any(map(axis.overlaps, held)):
            raise VerifyError(
                f"reduction axis {axis} overlaps with operand dimension sharding or replicated axes"
            )
        if any(map(axis.overlaps, open_)):
            raise VerifyError(f"reduction axis {axis} overlaps with result unreduced axes")


def _check_all_to_all(axes: StructAttr, operand: Sharding, result: Sharding, grid: Grid) -> None:
    """Check an all-to-all: each of its parameters moves axes from one dimension to another."""
    params = _parts(axes, "params")
    if not params:
        raise VerifyError("parameter list is empty")
    rank, seen, last = len(result.dimensions), AxisCollector(grid), -1
    touched: set[int] = set()
    moves: list[tuple[Axes, int, int]] = []
    for param in params:
        moved = seen.add(axes_of(param))
        if not moved:
            raise VerifyError("an all-to-all parameter needs an axis")
        source, target = _number(param, "source"), _number(param, "target")
        for what, d in (("source", source), ("target", target)):
            if not 0 <= d < rank:
                raise VerifyError(f"{what} dimension {d} is out of range [0, {rank})")
        for d in (source, target):
            if d in touched:
                raise VerifyError(f"overlapping source/target dimensions in all-to-all params: {d}")
            touched.add(d)
        if last >= source:
            raise VerifyError(
                f"source dimensions are not sorted in ascending order: {source} appears after"
                f" {last}"
            )
        last = source
        moves.append((moved, source, target))
    # Source and target dimensions are distinct over all parameters, so that the order in which the
    # parameters apply does not matter.
    before, after = dividing_axes(operand, grid), dividing_axes(result, grid)
    for moved, source, target in moves:
        _expect(_gather(grid, before[source], moved, source, "all-to-all"), after[source], source)
        _expect(grid.merged(before[target], moved), after[target], target)
    for d, (have, out) in enumerate(zip(before, after, strict=True)):
        if d not in touched:
            _expect(have, out, d)


def _check_permute(operand: Sharding, result: Sharding, before: Grid, after: Grid) -> None:
    """Check a permute: both shardings have axes of equal sizes.

    The meshes `before` and `after`, of operand and result, may have different names only with
    device ids.
    """
    if before.mesh.axes != after.mesh.axes:
        raise VerifyError("result mesh has different axes than operand mesh")
    if operand.mesh != result.mesh and before.devices == after.devices:
        raise VerifyError("result mesh name is different but same device ids as operand")
    if len(result.dimensions) != len(operand.dimensions):
        raise VerifyError(
            f"result sharding has rank {len(result.dimensions)} but operand sharding has rank"
            f" {len(operand.dimensions)}"
        )
    for d, (have, out) in enumerate(
        zip(dividing_axes(operand, before), dividing_axes(result, after), strict=True)
    ):
        if part_count(have) != part_count(out):
            raise VerifyError(
                f"sharded size of result doesn't match operand on dimension {d}:"
                f" {part_count(out)} != {part_count(have)}"
            )


def _parts(attribute: StructAttr, name: str) -> tuple[StructAttr, ...]:
    found: Any = attribute.get(name)
    return found if isinstance(found, tuple) else ()


def _number(attribute: StructAttr, name: str) -> int:
    found = attribute.get(name)
    return found if isinstance(found, int) else -1


_CHECKS: Final[dict[str, Callable[[StructAttr, Sharding, Sharding, Grid], None]]] = {
    "sdy.all_gather": _check_gather("gathering"),
    "sdy.all_slice": _check_slice,
    "sdy.all_to_all": _check_all_to_all,
    "sdy.all_reduce": _check_reduce,
    "sdy.reduce_scatter": _check_slice,
    "sdy.sharded_to_unreduced": _check_to_unreduced,
    "sdy.replicated_to_unreduced": _check_replicated,
}


# --------------------------------------------------------------------------------------------------
# Manual computations of Shardy: local types, and axes bound by the ops around.


MANUAL: Final = "sdy.manual_computation"


def check_local(
    operation: Operation,
    what: str,
    index: int,
    sharding: Sharding,
    grid: Grid,
    whole: Type,
    local: Type,
    names: Sequence[str],
) -> None:
    """Check the type that a value has inside a manual computation, its local type.

    Args:
        operation: The manual computation.
        what: Text that names the operand or result in errors.
        index: Number of the operand or result, for errors.
        sharding: The value's sharding.
        grid: Its mesh.
        whole: Type of the value outside.
        local: Type of the value inside.
        names: The manual axes.

    Source: `verifyManualComputationValue`.
    """
    dimensions = dividing_axes(sharding, grid)
    for d, axes in enumerate(dimensions):
        free: Axis | None = None
        # Manual axes are the outer ones: the free axes divide the local tensor.
        for axis in axes:
            if axis.name not in names:
                free = axis
            elif free is not None:
                raise refuse(
                    operation,
                    f"{what} sharding at index {index} must have all manual axes come before free"
                    f" axes in its dimension sharding at index {d}. Saw manual axis {axis} after"
                    f" free axis {free}",
                )
    if not isinstance(whole, TensorType) or len(dimensions) != whole.rank:
        return
    sizes: list[int | None] = []
    for size, axes in zip(whole.sizes, dimensions, strict=True):
        pieces = part_count(axis for axis in axes if axis.name in names)
        if size is not None and size % pieces:
            raise refuse(
                operation,
                f"{what} dimension size {size} is not divisible by the manual axes size {pieces}",
            )
        sizes.append(None if size is None else size // pieces)
    # The local size is the global one over the number of pieces along manual axes.
    expected = TensorType(whole.element, tuple(sizes))
    is_same = (
        isinstance(local, TensorType)
        and local.sizes == expected.sizes
        and local.element == expected.element
    )
    if not is_same:
        raise refuse(
            operation,
            f"{what} shape, corresponding sharding, and region {what} shape at index {index} must"
            f" match. Expected local shape '{type_text(expected)}', actual local shape"
            f" '{type_text(local)}'",
        )


def bound_axis(name: str) -> VerifyError:
    """Return the error for an axis that is manual in a manual computation around the op."""
    return VerifyError(
        f'operates on axis "{name}" which is already bound by a parent sdy.manual_computation op'
    )


def manual_axes(operation: Operation) -> set[str]:
    """Return the names of the manual axes of all manual computations around an op."""
    found: set[str] = set()
    around = operation.parent_op
    while around is not None:
        if around.name == MANUAL:
            found.update(own_axes(around))
        around = around.parent_op
    return found


def own_axes(operation: Operation) -> tuple[str, ...]:
    """Return the names of the manual axes of this manual computation, without those around it."""
    try:
        axes = struct_of(operation.get("manual_axes"), "manual_axes")
    except VerifyError:
        return ()
    listed: Any = None if axes is None else axes.get("axes")
    if not isinstance(listed, tuple):
        return ()
    return tuple([name.text for name in listed if isinstance(name, StringAttr)])
