"""Slices with static and with run-time starts."""

from __future__ import annotations

from typing import ClassVar

from hloscope.errors import Name, message_of
from hloscope.ir import Callees, Dims, Op, TensorType, Type, Types
from hloscope.ops.inference import (
    array,
    common_element,
    count,
    extents,
    op,
    require,
    same_elements,
    size_text,
    static,
    tensor,
    tensors,
    without_layouts,
)


def _starts(op: str, starts: Types) -> tuple[list[TensorType], int | None]:
    """Return the types of the start operands, and the number of starts.

    Starts are scalars, or in old HLO the elements of one vector. The number is `None` if the
    vector's size is unknown.
    """
    types = tensors(op, starts)
    if len(types) == 1 and types[0].rank == 1:
        return types, types[0].sizes[0]
    return types, len(types)


def _check_scalars(op: str, starts: list[TensorType], number: str, same: str) -> None:
    """Check that the starts are scalars, or one vector, and have one element type.

    Args:
        op: Name of the op, for the message.
        starts: Types of the start operands.
        number: Label of the constraint that they are scalars or one vector.
        same: Label of the constraint that they have one element type.
    """
    for d, t in enumerate(starts):
        scalar = t.rank == 0 or (t.rank == 1 and len(starts) == 1)
        require(
            scalar,
            number,
            message_of(f"start of dimension {d} of `{{}}` has rank {t.rank}, needs 0", Name(op)),
        )
    require(
        same_elements(starts, any_float=False), same, "start indices must have same element type"
    )


@op("slice")
class Slice(Op):
    """`result[i] = operand[start_indices + i * strides]`.  All sizes are in elements.

    Source: StableHLO spec `slice`.
    """

    start_indices: Dims
    limit_indices: Dims
    strides: Dims
    result_rule: ClassVar[str] = "slice_c5"

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1)
        t = tensor(self.name, operands[0], "the operand")
        given = (self.start_indices, self.limit_indices, self.strides)
        names = ("start_indices", "limit_indices", "strides")
        for name, numbers in zip(names, given, strict=True):
            require(
                len(numbers) == t.rank,
                "slice_c2",
                f"the number of elements in {name} ({len(numbers)}) does not match the rank of the"
                f" operand ({t.rank})",
            )
        sizes = []
        for d, (extent, start, limit, stride) in enumerate(zip(extents(t), *given, strict=True)):
            require(start >= 0, "slice_c3", f"negative start index {start} in dimension {d}")
            what, most = ("bound", extent[1]) if extent[0] is None else ("size", extent[0])
            require(
                most is None or limit <= most,
                "slice_c3",
                f"limit index {limit} is larger than dimension {what} {most} in dimension {d}",
            )
            require(
                start <= limit,
                "slice_c3",
                f"start index {start} is larger than limit index {limit} in dimension {d}",
            )
            require(
                stride > 0,
                "slice_c4",
                f"stride must be positive but got {stride} in dimension {d}",
            )
            sizes.append(-((start - limit) // stride))
        return array(t.element, static(sizes))


@op("dynamic_slice")
class DynamicSlice(Op):
    """`result[i] = operand[clamp(0, start, shape(operand) - slice_sizes) + i]`.

    Operands: the array, then one scalar start per dimension (or, in old HLO, one vector).
    """

    slice_sizes: Dims
    result_rule: ClassVar[str] = "dynamic_slice_c5"

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1, at_least=True)
        t = tensor(self.name, operands[0], "the operand")
        starts, found = _starts(self.name, operands[1:])
        needed = len(self.slice_sizes)
        require(
            found in (needed, None),
            "dynamic_slice_c2",
            f"has mismatched number of slice sizes ({needed}) and number of start indices"
            f" ({found})",
        )
        require(
            t.rank == needed,
            "dynamic_slice_c2",
            f"has mismatched number of start indices ({needed}) and the rank of operand ({t.rank})",
        )
        _check_scalars(self.name, starts, "dynamic_slice_i2", "dynamic_slice_c3")
        for d, (whole, size) in enumerate(zip(t.sizes, self.slice_sizes, strict=True)):
            message = f"has negative size index to dynamic slice: {size}"
            require(size >= 0, "dynamic_slice_c4", message)
            require(
                whole is None or size <= whole,
                "dynamic_slice_c4",
                f"has slice size {size} greater than dimension size {whole} in dimension {d} of"
                " operand",
            )
        return array(t.element, static(self.slice_sizes))


@op("dynamic_update_slice")
class DynamicUpdateSlice(Op):
    """The operand with `update` written at the clamped start.

    Operands: the array, the update, then one scalar start per dimension (or one vector).
    """

    result_rule: ClassVar[str] = "dynamic_update_slice_c1"

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 2, at_least=True)
        t, update = tensors(self.name, operands[:2])
        require(
            update.rank == t.rank,
            "dynamic_update_slice_c3",
            f"update rank does not match operand rank: {update.rank} vs {t.rank}.",
        )
        starts, found = _starts(self.name, operands[2:])
        require(
            found in (t.rank, None),
            "dynamic_update_slice_c4",
            f"expects number of start_indices to match operand rank: {found} vs {t.rank}.",
        )
        _check_scalars(self.name, starts, "dynamic_update_slice_i3", "dynamic_update_slice_c5")
        common_element(self.name, (t, update), "dynamic_update_slice_c2")
        for d, (whole, part) in enumerate(zip(t.sizes, update.sizes, strict=True)):
            require(
                whole is None or part is None or part <= whole,
                "dynamic_update_slice_c6",
                f"expects size at dimension {d} of update to be in range [0, {size_text(whole)}]."
                f" Got: {size_text(part)}.",
            )
        return without_layouts(t)


@op("real_dynamic_slice")
class RealDynamicSlice(Op):
    """`slice` with the vectors of starts, limits and strides in operands 1, 2 and 3."""

    def verify(self, operands: Types, results: Types, calls: Callees = ()) -> None:
        t, *given = tensors(self.name, operands, 4)
        for result in tensors(self.name, results):
            message = f"has mismatched ranks of operand ({t.rank}) and result ({result.rank})"
            require(result.rank == t.rank, "", message)
        names = ("start_indices", "limit_indices", "strides")
        for name, numbers in zip(names, given, strict=True):
            require(
                numbers.rank == 1 and numbers.sizes[0] in (t.rank, None),
                "",
                f"has mismatched number of operand rank ({t.rank}) and {name} size"
                f" ({_length(numbers)})",
            )


def _length(t: TensorType) -> str:
    """Return the number of elements of a vector, as text for messages."""
    return size_text(t.sizes[0]) if t.rank == 1 else f"of rank {t.rank}"
