"""Slices with fixed and with run-time starts."""

from __future__ import annotations

from hloscope.ops.base import Callee, Dims, Op, Type, op
from hloscope.ops.infer_util import (
    array,
    bare,
    common_element,
    count,
    extents,
    require,
    static,
    tensor,
    tensors,
)


def _check_starts(op: str, starts: tuple[Type, ...], rank: int, number: str, same: str) -> None:
    """Starts are one scalar per dimension, or (old HLO) one vector of them."""
    types = tensors(op, starts)
    if len(types) == 1 and types[0].rank == 1:
        found = types[0].sizes[0]
        require(found in (rank, None), number, f"{found} starts for {rank} dimensions")
        return
    require(len(types) == rank, number, f"{len(types)} starts for {rank} dimensions")
    for d, t in enumerate(types):
        require(t.rank == 0, number, f"start of dimension {d} has rank {t.rank}, needs 0")
        require(
            t.element == types[0].element,
            same,
            f"start of dimension {d} has element type {t.element}, needs {types[0].element}",
        )


@op("slice")
class Slice(Op):
    """`result[i] = operand[start_indices + i * strides]`.  All sizes are in elements.

    Source: StableHLO spec `slice`.
    """

    start_indices: Dims
    limit_indices: Dims
    strides: Dims

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1)
        t = tensor(self.name, operands[0], "the operand")
        given = (self.start_indices, self.limit_indices, self.strides)
        for what, numbers in zip(("starts", "limits", "strides"), given, strict=True):
            require(
                len(numbers) == t.rank, "slice_c2", f"{len(numbers)} {what} for {t.rank} dimensions"
            )
        sizes = []
        for d, (extent, start, limit, stride) in enumerate(zip(extents(t), *given, strict=True)):
            require(start >= 0, "slice_c3", f"dimension {d}: start {start} < 0")
            require(start <= limit, "slice_c3", f"dimension {d}: start {start} > limit {limit}")
            size = extent[1] if extent[0] is None else extent[0]
            require(
                size is None or limit <= size,
                "slice_c3",
                f"dimension {d}: limit {limit} > size {size}",
            )
            require(stride > 0, "slice_c4", f"dimension {d}: stride {stride}, needs at least 1")
            sizes.append(-((start - limit) // stride))
        return array(t.element, static(sizes))


@op("dynamic_slice")
class DynamicSlice(Op):
    """`result[i] = operand[clamp(0, start, shape(operand) - slice_sizes) + i]`.

    Operands: the array, then one scalar start per dimension (or, in old HLO, one vector).
    """

    slice_sizes: Dims

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1, at_least=True)
        t = tensor(self.name, operands[0], "the operand")
        _check_starts(self.name, operands[1:], t.rank, "dynamic_slice_c2", "dynamic_slice_c3")
        require(
            len(self.slice_sizes) == t.rank,
            "dynamic_slice_c2",
            f"{len(self.slice_sizes)} slice sizes for {t.rank} dimensions",
        )
        for d, (extent, size) in enumerate(zip(extents(t), self.slice_sizes, strict=True)):
            whole = extent[1] if extent[0] is None else extent[0]
            require(
                size >= 0 and (whole is None or size <= whole),
                "dynamic_slice_c4",
                f"dimension {d}: slice size {size} is not in [0, {whole}]",
            )
        return array(t.element, static(self.slice_sizes))


@op("dynamic_update_slice")
class DynamicUpdateSlice(Op):
    """The operand with `update` written at the clamped start.

    Operands: the array, the update, then one scalar start per dimension (or one vector).
    """

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 2, at_least=True)
        t, update = tensors(self.name, operands[:2])
        rules = ("dynamic_update_slice_c4", "dynamic_update_slice_c5")
        _check_starts(self.name, operands[2:], t.rank, *rules)
        common_element(self.name, (t, update), "dynamic_update_slice_c2")
        require(
            update.rank == t.rank,
            "dynamic_update_slice_c3",
            f"the update has rank {update.rank}, needs {t.rank}",
        )
        for d, ((whole, _), (part, _)) in enumerate(zip(extents(t), extents(update), strict=True)):
            require(
                whole is None or part is None or part <= whole,
                "dynamic_update_slice_c6",
                f"dimension {d}: size {part} of the update > size {whole} of the operand",
            )
        return bare(t)


@op("real_dynamic_slice")
class RealDynamicSlice(Op):
    """`slice` whose starts, limits and strides are operands 1, 2 and 3 (vectors)."""
