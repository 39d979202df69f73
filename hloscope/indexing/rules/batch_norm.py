"""Batch normalisation: statistics are reduced over all dimensions except the feature."""

from __future__ import annotations

from hloscope.affine import Dim
from hloscope.indexing.access import Accesses
from hloscope.indexing.rules.registry import (
    NEVER,
    MapBuilder,
    exact,
    identity,
    input_to_output,
    output_sizes,
    output_to_input,
    sizes,
)
from hloscope.ir import Dims, Instruction
from hloscope.ops import BatchNormGrad, BatchNormInference, BatchNormTraining


def _of_feature(shape: Dims, feature: Dim) -> Accesses:
    """Return the access from an index to the element `index[feature]` of a vector over features.

    `shape` has the sizes of the array that the access starts from.
    """
    return exact(MapBuilder(shape).map((feature,)))


def _slice_of_feature(here: Dims, feature: Dim, array: Dims, array_feature: int) -> Accesses:
    """Return the access from an index to all elements of an array with the same feature.

    Args:
        here: Sizes of the tensor that the access starts from.
        feature: The dimension of `here` that numbers features.
        array: Sizes of the accessed array.
        array_feature: The dimension of the accessed array that numbers features.
    """
    at = MapBuilder(here)
    return exact(
        at.map([feature if k == array_feature else at.range(size) for k, size in enumerate(array)])
    )


def _is_array(operand: int) -> bool:
    """Return whether operand number `operand` of training or of the gradient has the array's shape.

    The other operands are vectors over features.
    """
    return operand in (0, 4)


_TRAINING = ({0, 1, 2}, {0}, {0})
"""For the outputs (array, mean, variance): the operands (array, scale, offset) that each reads."""
_GRAD = ({0, 1, 2, 3, 4}, {0, 2, 3, 4}, {4})
"""For each of the three gradients, the operands that it reads.

Operands are numbered as (array, scale, mean, variance, gradient).
"""


@output_to_input(BatchNormTraining, BatchNormGrad)
def _(ins: Instruction, op: BatchNormTraining | BatchNormGrad, output: int) -> tuple[Accesses, ...]:
    here = output_sizes(ins, output)
    whole = sizes(ins.operands[0].type)
    feature = Dim(op.feature_index if output == 0 else 0)
    read = (_TRAINING if isinstance(op, BatchNormTraining) else _GRAD)[output]
    answer = []
    for k in range(len(ins.operands)):
        if k not in read:
            answer.append(NEVER)
        elif _is_array(k):
            answer.append(_slice_of_feature(here, feature, whole, op.feature_index))
        else:
            answer.append(_of_feature(here, feature))
    return tuple(answer)


@input_to_output(BatchNormTraining, BatchNormGrad)
def _(
    ins: Instruction, op: BatchNormTraining | BatchNormGrad, operand: int
) -> tuple[Accesses, ...]:
    here, whole = sizes(ins.operands[operand].type), sizes(ins.operands[0].type)
    feature = Dim(op.feature_index) if _is_array(operand) else Dim(0)
    reads = _TRAINING if isinstance(op, BatchNormTraining) else _GRAD
    answer = []
    for output, read in enumerate(reads):
        if operand not in read:
            answer.append(NEVER)
        elif output == 0:
            answer.append(_slice_of_feature(here, feature, whole, op.feature_index))
        else:
            answer.append(_of_feature(here, feature))
    return tuple(answer)


@output_to_input(BatchNormInference)
def _(ins: Instruction, op: BatchNormInference, output: int) -> tuple[Accesses, ...]:
    here = sizes(ins.type)
    return (identity(here), *[_of_feature(here, Dim(op.feature_index))] * 4)


@input_to_output(BatchNormInference)
def _(ins: Instruction, op: BatchNormInference, operand: int) -> tuple[Accesses, ...]:
    here, whole = sizes(ins.operands[operand].type), sizes(ins.type)
    if operand == 0:
        return (identity(here),)
    return (_slice_of_feature(here, Dim(0), whole, op.feature_index),)
