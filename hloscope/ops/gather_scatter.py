"""Indexed reads and writes."""

from __future__ import annotations

from hloscope.ir.types import TensorType
from hloscope.ops.base import Callee, Dims, Op, Type, op
from hloscope.ops.infer_util import (
    Extent,
    array,
    check_dims,
    count,
    extents,
    leaves,
    packed,
    require,
    returned,
    same_sizes,
    static,
    tensors,
    without,
)


def _batch_sizes(op: str, indices: TensorType, vector: int, rule: str) -> list[Extent]:
    """Sizes of the index array without the dimension that holds the index vectors."""
    require(
        0 <= vector <= indices.rank,
        f"{op}_{rule}",
        f"index_vector_dim {vector} is not in [0, {indices.rank}]",
    )
    return without(extents(indices), (vector,))


def _window_dims(rank: int, dropped: Dims, op: str, rule: str) -> list[int]:
    """The dimensions of the operand that appear in the windows."""
    label = f"{op}_{rule}"
    check_dims(dropped, rank, f"dropped dimensions of `{op}`", unique=label, inside=label)
    return [d for d in range(rank) if d not in dropped]


@op("gather")
class Gather(Op):
    """Slices of `operand` at the rows of `start_indices`.  Source: StableHLO spec `gather`."""

    offset_dims: Dims
    collapsed_slice_dims: Dims
    operand_batching_dims: Dims
    start_indices_batching_dims: Dims
    start_index_map: Dims
    index_vector_dim: int
    slice_sizes: Dims
    indices_are_sorted: bool = False

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 2)
        operand, indices = tensors(self.name, operands)
        batch = _batch_sizes("gather", indices, self.index_vector_dim, "c2")
        window = _window_dims(
            operand.rank, self.collapsed_slice_dims + self.operand_batching_dims, "gather", "c8"
        )
        check_dims(
            self.start_index_map,
            operand.rank,
            "start_index_map",
            unique="gather_c18",
            inside="gather_c19",
        )
        require(
            len(self.slice_sizes) == operand.rank,
            "gather_c20",
            f"{len(self.slice_sizes)} slice sizes for {operand.rank} dimensions",
        )
        for d, (extent, size) in enumerate(zip(extents(operand), self.slice_sizes, strict=True)):
            whole = extent[1] if extent[0] is None else extent[0]
            require(
                size >= 0 and (whole is None or size <= whole),
                "gather_c21",
                f"dimension {d}: slice size {size} is not in [0, {whole}]",
            )
        rank = len(batch) + len(window)
        check_dims(self.offset_dims, rank, "offset_dims", unique="gather_c4", inside="gather_c5")
        require(
            len(self.offset_dims) == len(window),
            "gather_c1",
            f"{len(self.offset_dims)} offset_dims, needs {len(window)}",
        )
        sizes = dict(
            zip(self.offset_dims, static(self.slice_sizes[d] for d in window), strict=True)
        )
        rest = iter(batch)
        return array(operand.element, [sizes[d] if d in sizes else next(rest) for d in range(rank)])


@op("dynamic_gather")
class DynamicGather(Op):
    """`gather` whose slice sizes are operand 2."""

    offset_dims: Dims
    collapsed_slice_dims: Dims
    operand_batching_dims: Dims
    start_indices_batching_dims: Dims
    start_index_map: Dims
    index_vector_dim: int
    indices_are_sorted: bool = False


@op("scatter")
class Scatter(Op):
    """Combines updates into the inputs.  Operands: N inputs, indices, N updates.  Calls: body.

    Source: StableHLO spec `scatter`.
    """

    update_window_dims: Dims
    inserted_window_dims: Dims
    input_batching_dims: Dims
    scatter_indices_batching_dims: Dims
    scatter_dims_to_operand_dims: Dims
    index_vector_dim: int
    indices_are_sorted: bool = False
    unique_indices: bool = False

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        number = len(operands) // 2
        count(self.name, operands, 2 * max(number, 1) + 1)
        inputs, indices, updates = (
            tensors(self.name, part)
            for part in (operands[:number], operands[number : number + 1], operands[number + 1 :])
        )
        dims = same_sizes(self.name, inputs, "scatter_c1")
        same_sizes(self.name, updates, "scatter_c3")
        batch = _batch_sizes("scatter", indices[0], self.index_vector_dim, "c22")
        window = _window_dims(
            len(dims), self.inserted_window_dims + self.input_batching_dims, "scatter", "c11"
        )
        require(
            len(window) == len(self.update_window_dims),
            "scatter_c2",
            f"{len(self.update_window_dims)} update_window_dims, needs {len(window)}",
        )
        rank = len(batch) + len(window)
        require(
            updates[0].rank == rank,
            "scatter_c4",
            f"updates have rank {updates[0].rank}, need {rank}",
        )
        if not calls:
            return packed(inputs)
        elements = tensors(self.name, leaves(returned(self.name, calls)))
        return packed(array(t.element, extents(i)) for t, i in zip(elements, inputs, strict=True))


@op("torch_index_select")
class TorchIndexSelect(Op):
    """StableHLO's old `torch_index_select`."""

    dim: int
    batch_dims: int
