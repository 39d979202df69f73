"""Indexed reads and writes."""

from __future__ import annotations

from dataclasses import dataclass

from hloscope.ops.base import Dims, Op, op


@op("gather")
@dataclass(frozen=True, slots=True)
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


@op("dynamic_gather")
@dataclass(frozen=True, slots=True)
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
@dataclass(frozen=True, slots=True)
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


@op("torch_index_select")
@dataclass(frozen=True, slots=True)
class TorchIndexSelect(Op):
    """StableHLO's old `torch_index_select`."""

    dim: int
    batch_dims: int
