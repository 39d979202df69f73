"""Batch normalisation: training, inference, gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from hloscope.ir import Callees, Op, TensorType, TupleType, Type, Types, compatible
from hloscope.ops.inference import (
    array,
    compatible_shapes,
    extents,
    may_be_one_size,
    op,
    require,
    same_elements,
    size_text,
    tensors,
)


def _feature(
    name: str, whole: Sequence[TensorType], single: Sequence[TensorType], index: int
) -> TensorType:
    """Check the operands; return the type of a vector with one value per feature.

    Args:
        name: Name of the op.
        whole: Types of the operands with all dimensions.
        single: Types of the operands with one value per feature.
        index: The feature dimension.
    """
    index_rule, shape_rule, *size_rules = _RULES[name]
    message = "expects multi-dimensional operands to have compatible shapes."
    require(all(compatible_shapes(whole[0], t) for t in whole), shape_rule, message)
    for t, rule in zip(single, size_rules, strict=True):
        message = "expects single-dimensional operands to have compatible shapes."
        require(t.rank == 1 and compatible_shapes(single[0], t), rule, message)
    rank = whole[0].rank
    require(
        index < rank,
        index_rule,
        "expects featureIndex to be smaller than the rank of multi-dimensional operands; got"
        f" featureIndex {index}, and rank {rank}.",
    )
    message = f"expects featureIndex to be a non-negative number, got {index}."
    require(index >= 0, index_rule, message)
    feature, found = extents(whole[0])[index], single[0].sizes[0]
    require(
        may_be_one_size(found, feature[0]),
        "batch_norm_grad_c5" if name == "batch_norm_grad" else size_rules[0],
        "expects the size of single-dimensional operands to be compatible with feature count, but"
        f" the size of single-dimensional operands is {size_text(found)} and the feature count is"
        f" {size_text(feature[0])}.",
    )
    return array(whole[0].element, [feature])


# labels of three constraints: on the index, on the sizes of `whole`, on each of `single`
_RULES = {
    "batch_norm_grad": (
        "batch_norm_grad_c1",
        "batch_norm_grad_c3",
        "batch_norm_grad_c4",
        "batch_norm_grad_c4",
        "batch_norm_grad_c4",
    ),
    "batch_norm_inference": (
        "batch_norm_inference_c1",
        "",
        "batch_norm_inference_c3",
        "batch_norm_inference_c4",
        "batch_norm_inference_c5",
        "batch_norm_inference_c6",
    ),
    "batch_norm_training": (
        "batch_norm_training_c1",
        "",
        "batch_norm_training_c3",
        "batch_norm_training_c4",
    ),
}


def _check_elements(operands: Types, names: str, rule: str) -> None:
    """Check that all operands have one element type; HLO also allows several float types.

    Args:
        operands: Types of the operands.
        names: Names of the operands, for the message.
        rule: Label of the constraint.
    """
    message = f"failed to verify that all of {{{names}}} have same element type"
    require(same_elements(tensors(names, operands)), rule, message)


@op("batch_norm_training")
class BatchNormTraining(Op):
    """Normalises over all dimensions but `feature_index`; returns output, mean, variance."""

    epsilon: float
    feature_index: int

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        t, *single = tensors(self.name, operands, 3)
        _check_elements(operands, "operand, scale, offset", "batch_norm_training_c2")
        feature = _feature(self.name, [t], single, self.feature_index)
        return TupleType((array(t.element, extents(t)), feature, feature))

    def broken_rule(self, inferred: Types, declared: Types) -> str:
        rules = ("batch_norm_training_c7", "batch_norm_training_c5", "batch_norm_training_c6")
        return _broken(inferred, declared, rules)


@op("batch_norm_inference")
class BatchNormInference(Op):
    """Normalises with given mean and variance."""

    result_rule: ClassVar[str] = "batch_norm_inference_c7"
    epsilon: float
    feature_index: int

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        t, *single = tensors(self.name, operands, 5)
        names = "operand, scale, offset, mean, variance"
        _check_elements(operands, names, "batch_norm_inference_c2")
        _feature(self.name, [t], single, self.feature_index)
        return array(t.element, extents(t))


@op("batch_norm_grad")
class BatchNormGrad(Op):
    """Gradient of `batch_norm_training`; returns the gradients of operand, scale and offset."""

    epsilon: float
    feature_index: int

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        t, *single, grad = tensors(self.name, operands, 5)
        names = "operand, scale, mean, variance, grad_output"
        _check_elements(operands, names, "batch_norm_grad_c2")
        feature = _feature(self.name, [t, grad], single, self.feature_index)
        return TupleType((array(t.element, extents(t)), feature, feature))

    def broken_rule(self, inferred: Types, declared: Types) -> str:
        rules = ("batch_norm_grad_c3", "batch_norm_grad_c4", "batch_norm_grad_c4")
        return _broken(inferred, declared, rules)


def _broken(inferred: Types, declared: Types, rules: tuple[str, ...]) -> str:
    """Return the label of the constraint that the first incompatible result breaks.

    It is the first label if all results are compatible.

    Args:
        inferred: Inferred types of the results.
        declared: Declared types of the results.
        rules: Label of the constraint on each result.
    """
    for a, b, rule in zip(inferred, declared, rules, strict=False):
        if not compatible(a, b):
            return rule
    return rules[0]
