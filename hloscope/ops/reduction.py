"""Reductions, scans, sorts, and ops that decompose into them."""

from __future__ import annotations

from dataclasses import dataclass

from hloscope.ops.base import Dims, Op, op


@op("reduce")
@dataclass(frozen=True, slots=True)
class Reduce(Op):
    """Reduction over `dimensions`.  Operands: N inputs, N initial values.  Calls: the body."""

    dimensions: Dims


@op("scan")
@dataclass(frozen=True, slots=True)
class Scan(Op):
    """HLO `scan` along one dimension.  Operands: inputs, initial carries.  Calls: the body."""

    scan_dimension: int
    num_carries: int
    is_reverse: bool = False
    is_associative: str = ""


@op("sort")
@dataclass(frozen=True, slots=True)
class Sort(Op):
    """Sorts all operands together along `dimension` by the called comparator."""

    dimension: int
    is_stable: bool = False


@op("top_k")
@dataclass(frozen=True, slots=True)
class TopK(Op):
    """The `k` largest (or smallest) elements of each last-dimension line, and their indices."""

    k: int
    largest: bool = True


@op("map")
@dataclass(frozen=True, slots=True)
class Map(Op):
    """Applies the called computation to the elements at each index."""

    dimensions: Dims


@op("batch_norm_training")
@dataclass(frozen=True, slots=True)
class BatchNormTraining(Op):
    """Normalises over all dimensions but `feature_index`; returns output, mean, variance."""

    epsilon: float
    feature_index: int


@op("batch_norm_inference")
@dataclass(frozen=True, slots=True)
class BatchNormInference(Op):
    """Normalises with given mean and variance."""

    epsilon: float
    feature_index: int


@op("batch_norm_grad")
@dataclass(frozen=True, slots=True)
class BatchNormGrad(Op):
    """Gradient of `batch_norm_training`; returns the gradients of operand, scale and offset."""

    epsilon: float
    feature_index: int
