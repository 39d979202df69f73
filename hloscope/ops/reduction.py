"""Reductions, scans, sorts, and ops that decompose into them."""

from __future__ import annotations

from collections.abc import Sequence

from hloscope.ir.types import TensorType, TupleType
from hloscope.ops.base import Callee, Dims, Op, Type, op
from hloscope.ops.infer_util import (
    S32,
    array,
    bare,
    check_dims,
    count,
    extents,
    halves,
    leaves,
    may_equal,
    packed,
    reduced_result,
    require,
    returned,
    same_sizes,
    scalar,
    tensor,
    tensors,
    without,
)


def _feature(op: str, t: TensorType, index: int, per_feature: Sequence[TensorType]) -> TensorType:
    """Type of one value per feature."""
    require(0 <= index < t.rank, f"{op}_c1", f"feature_index {index} is not in [0, {t.rank})")
    size = extents(t)[index]
    for i, other in enumerate(per_feature, 1):
        require(
            other.rank == 1 and may_equal(extents(other)[0], size),
            f"{op}_c3",
            f"operand {i} has sizes {list(other.sizes)}, needs [{size[0]}]",
        )
    return array(t.element, [size])


@op("reduce")
class Reduce(Op):
    """Reduction over `dimensions`.  Operands: N inputs, N initial values.  Calls: the body."""

    dimensions: Dims

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        inputs, inits = halves(self.name, operands)
        dims = same_sizes(self.name, inputs, "reduce_c1")
        check_dims(self.dimensions, len(dims), "dimensions", unique="reduce_c5", inside="reduce_c4")
        for i, init in enumerate(inits):
            scalar(self.name, init, f"initial value {i}", "reduce_i2")
        kept = without(dims, self.dimensions)
        return packed(array(e, kept) for e in reduced_result(self.name, inputs, inits, calls))


@op("scan")
class Scan(Op):
    """HLO `scan` along one dimension.  Operands: inputs, initial carries.  Calls: the body."""

    scan_dimension: int
    num_carries: int
    is_reverse: bool = False
    is_associative: str = ""

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        inputs = tensors(self.name, operands[: len(operands) - self.num_carries])
        dims = same_sizes(self.name, inputs) if inputs else []
        axis = self.scan_dimension
        require(0 <= axis < len(dims), "", f"scan dimension {axis} is not in [0, {len(dims)})")
        results = tensors(self.name, leaves(returned(self.name, calls)))
        outputs = results[: len(results) - self.num_carries]
        grown = [(t.element, extents(t)) for t in outputs]
        stacked = [array(e, [*x[:axis], dims[axis], *x[axis:]]) for e, x in grown]
        return TupleType((*stacked, *results[len(outputs) :]))


@op("sort")
class Sort(Op):
    """Sorts all operands together along `dimension` by the called comparator."""

    dimension: int
    is_stable: bool = False

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1, at_least=True)
        types = tensors(self.name, operands)
        rank = len(same_sizes(self.name, types, "sort_c2"))
        require(
            -rank <= self.dimension < rank,
            "sort_c4",
            f"dimension {self.dimension} is not in [{-rank}, {rank})",
        )
        return packed(types)


@op("top_k")
class TopK(Op):
    """The `k` largest (or smallest) elements of each last-dimension line, and their indices."""

    k: int
    largest: bool = True

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1)
        t = tensor(self.name, operands[0], "the operand")
        require(t.rank > 0, "", "the operand of `top_k` has rank 0, needs at least 1")
        last = t.sizes[-1]
        require(
            last is None or self.k <= last, "", f"k = {self.k} > size {last} of the last dimension"
        )
        dims = [*extents(t)[:-1], (self.k, None)]
        return TupleType((array(t.element, dims), array(S32, dims)))


@op("map")
class Map(Op):
    """Applies the called computation to the elements at each index."""

    dimensions: Dims

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1, at_least=True)
        dims = same_sizes(self.name, tensors(self.name, operands), "map_c1")
        require(
            self.dimensions in ((), tuple(range(len(dims)))),  # HLO may leave them out
            "map_c3",
            f"dimensions {list(self.dimensions)}, needs all {len(dims)} in order",
        )
        result = scalar(self.name, returned(self.name, calls), "the result of the body", "map_c4")
        return array(result.element, dims)


@op("batch_norm_training")
class BatchNormTraining(Op):
    """Normalises over all dimensions but `feature_index`; returns output, mean, variance."""

    epsilon: float
    feature_index: int

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 3)
        t, scale, offset = tensors(self.name, operands)
        feature = _feature(self.name, t, self.feature_index, (scale, offset))
        return TupleType((bare(t), feature, feature))


@op("batch_norm_inference")
class BatchNormInference(Op):
    """Normalises with given mean and variance."""

    epsilon: float
    feature_index: int

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 5)
        t, *rest = tensors(self.name, operands)
        _feature(self.name, t, self.feature_index, rest)
        return bare(t)


@op("batch_norm_grad")
class BatchNormGrad(Op):
    """Gradient of `batch_norm_training`; returns the gradients of operand, scale and offset."""

    epsilon: float
    feature_index: int

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 5)
        t, scale, mean, variance, grad = tensors(self.name, operands)
        feature = _feature(self.name, t, self.feature_index, (scale, mean, variance))
        same_sizes(self.name, (t, grad), "batch_norm_grad_c3")
        return TupleType((bare(t), feature, feature))
