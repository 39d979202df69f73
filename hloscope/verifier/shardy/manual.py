"""Manual computations of Shardy: local types, and axes bound by the ops around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hloscope.errors import VerifyError
from hloscope.ir import TensorType, Type
from hloscope.mlir import (
    Operation,
    StringAttr,
    type_text,
)
from hloscope.verifier.shardy.axes import Axis, Grid, ways
from hloscope.verifier.shardy.shardings import (
    Sharding,
    cut,
    struct_of,
)
from hloscope.verifier.stablehlo.traits import refuse

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
    """Check the type that a value has inside a manual computation.

    Source: `verifyManualComputationValue`.
    """
    dimensions = cut(sharding, grid)
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
        pieces = ways(axis for axis in axes if axis.name in names)
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
    """Return the error for an axis that a manual computation around the op has bound."""
    return VerifyError(
        f'operates on axis "{name}" which is already bound by a parent sdy.manual_computation op'
    )


def manual_axes(operation: Operation) -> set[str]:
    """Return the names of the axes that manual computations around an op bind."""
    found: set[str] = set()
    block = operation.parent
    while block is not None and block.parent is not None and block.parent.parent is not None:
        around = block.parent.parent
        if around.name == MANUAL:
            found.update(own_axes(around))
        block = around.parent
    return found


def own_axes(operation: Operation) -> tuple[str, ...]:
    """Return the names of the axes that a manual computation binds."""
    try:
        axes = struct_of(operation.get("manual_axes"), "manual_axes")
    except VerifyError:
        return ()
    listed: Any = None if axes is None else axes.get("axes")
    if not isinstance(listed, tuple):
        return ()
    return tuple([name.text for name in listed if isinstance(name, StringAttr)])
