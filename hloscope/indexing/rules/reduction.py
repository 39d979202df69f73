"""Reductions, scans, sorts, and batch normalisation by what it reduces."""

from __future__ import annotations

from hloscope.affine import Dim, Expr
from hloscope.indexing.access import Accesses, Precision
from hloscope.indexing.rules.build import (
    NEVER,
    MapBuilder,
    all_output_sizes,
    dims,
    everything,
    everywhere,
    exact,
    identity,
    leaves,
    output_sizes,
    over,
    parameters_used,
    sizes,
)
from hloscope.indexing.rules.registry import input_to_output, output_to_input
from hloscope.ir.graph import Instruction
from hloscope.ir.types import Dims
from hloscope.ops.batch_norm import BatchNormGrad, BatchNormInference, BatchNormTraining
from hloscope.ops.control import GetTupleElement, Parameter, Tuple
from hloscope.ops.elementwise import Elementwise
from hloscope.ops.reduction import Reduce, Scan, Sort, TopK
from hloscope.ops.shape import Constant


@output_to_input(Reduce)
def _(ins: Instruction, op: Reduce, output: int) -> tuple[Accesses, ...]:
    """Every output of a variadic reduce depends on all inputs, through the shared body."""
    target, count = output_sizes(ins, output), len(ins.operands) // 2
    at = MapBuilder(target)
    kept = iter(dims(len(target)))
    source = sizes(ins.operands[0].type)
    index = [at.range(size) if k in op.dimensions else next(kept) for k, size in enumerate(source)]
    return (exact(at.map(index)),) * count + (everything(target, ()),) * count


@input_to_output(Reduce)
def _(ins: Instruction, op: Reduce, operand: int) -> tuple[Accesses, ...]:
    if operand >= len(ins.operands) // 2:
        return everywhere(ins, operand)
    source = sizes(ins.operands[operand].type)
    kept = [Dim(k) for k in range(len(source)) if k not in op.dimensions]
    return (exact(MapBuilder(source).map(kept)),) * len(leaves(ins.type))


def _line(shape: Dims, target: Dims, dimension: int) -> Accesses:
    """The whole line of `target` along a dimension; the other coordinates are equal."""
    at = MapBuilder(shape)
    index = dims(len(shape))
    index[dimension] = at.range(target[dimension])
    return exact(at.map(index))


@output_to_input(TopK)
def _(ins: Instruction, op: TopK, output: int) -> tuple[Accesses, ...]:
    target, source = output_sizes(ins, output), sizes(ins.operands[0].type)
    return (_line(target, source, len(source) - 1),)


@input_to_output(TopK)
def _(ins: Instruction, op: TopK, operand: int) -> tuple[Accesses, ...]:
    source = sizes(ins.operands[0].type)
    return tuple(_line(source, target, len(source) - 1) for target in all_output_sizes(ins))


# Sort: an output reads the whole line of its own operand and of every operand that the comparator
# looks at.


def _compared(ins: Instruction) -> frozenset[int]:
    if not ins.calls:
        return frozenset(range(len(ins.operands)))
    return frozenset(number // 2 for number in parameters_used(ins.calls[0]))


@output_to_input(Sort, memo=False)
def _(ins: Instruction, op: Sort, output: int) -> tuple[Accesses, ...]:
    shape, compared = output_sizes(ins, output), _compared(ins)
    line = _line(shape, shape, op.dimension)
    count = len(ins.operands)
    return tuple(line if k == output or k in compared else NEVER for k in range(count))


@input_to_output(Sort, memo=False)
def _(ins: Instruction, op: Sort, operand: int) -> tuple[Accesses, ...]:
    shape, compared = sizes(ins.operands[operand].type), _compared(ins)
    line = _line(shape, shape, op.dimension)
    count = len(ins.operands)
    return tuple(line if k == operand or operand in compared else NEVER for k in range(count))


# Scan: an output reads the inputs up to its own place along the scanned dimension and the initial
# carries; a final carry reads everything along it.  The body sees whole slices: where it is not
# element-wise, any element of the earlier slices may matter.

_SLICES = "the body may combine any elements of the slices"


def _is_elementwise(ins: Instruction) -> bool:
    return bool(ins.calls) and all(
        isinstance(i.op, Elementwise | Parameter | Constant | Tuple | GetTupleElement)
        for i in ins.calls[0]
    )


def _scan(
    ins: Instruction, op: Scan, here: Dims, there: Dims, *, carried: tuple[bool, bool], back: bool
) -> Accesses:
    """Accesses between two values of a scan; a carried value has no scanned dimension."""
    carry_here, carry_there = carried
    at = MapBuilder(here)
    place = op.scan_dimension
    lines = dims(len(here))
    if not carry_here:
        del lines[place]
    same_line = _is_elementwise(ins)
    index: list[Expr] = []
    rest = iter(lines)
    for k, size in enumerate(there):
        if k == place and not carry_there:
            step = at.range(size)
            index.append(step)
            if not carry_here:
                ahead = Dim(place) - step if op.is_reverse == back else step - Dim(place)
                at.require(ahead, 0, size - 1)
        else:
            line = next(rest)
            index.append(line if same_line else at.range(size))
    found = at.map(index)
    simple = same_line or len(lines) == 0
    return exact(found) if simple else over(_SLICES, found)


def _scan_outputs(ins: Instruction, op: Scan) -> list[tuple[Dims, bool]]:
    """Sizes of each output and whether it is a final carry."""
    shapes = all_output_sizes(ins)
    first_carry = len(shapes) - op.num_carries
    return [(shape, k >= first_carry) for k, shape in enumerate(shapes)]


def _scan_operands(ins: Instruction, op: Scan) -> list[tuple[Dims, bool]]:
    shapes = [sizes(operand.type) for operand in ins.operands]
    first_carry = len(shapes) - op.num_carries
    return [(shape, k >= first_carry) for k, shape in enumerate(shapes)]


@output_to_input(Scan, memo=False, precision=Precision.OVER, reason=_SLICES)
def _(ins: Instruction, op: Scan, output: int) -> tuple[Accesses, ...]:
    here, carry = _scan_outputs(ins, op)[output]
    return tuple(
        _scan(ins, op, here, there, carried=(carry, initial), back=False)
        for there, initial in _scan_operands(ins, op)
    )


@input_to_output(Scan, memo=False, precision=Precision.OVER, reason=_SLICES)
def _(ins: Instruction, op: Scan, operand: int) -> tuple[Accesses, ...]:
    here, initial = _scan_operands(ins, op)[operand]
    return tuple(
        _scan(ins, op, here, there, carried=(initial, carry), back=True)
        for there, carry in _scan_outputs(ins, op)
    )


# Batch normalisation: statistics are over all dimensions but the feature.


def _of_feature(shape: Dims, feature: Dim) -> Accesses:
    """From an index whose feature is `feature` to the vector of features."""
    return exact(MapBuilder(shape).map((feature,)))


def _slice_of_feature(here: Dims, feature: Dim, whole: Dims, place: int) -> Accesses:
    """Every element of the array with the same feature."""
    at = MapBuilder(here)
    return exact(
        at.map([feature if k == place else at.range(size) for k, size in enumerate(whole)])
    )


def _is_array(operand: int) -> bool:
    """Has an operand of training or of the gradient the shape of the array, not of a vector?"""
    return operand in (0, 4)


_TRAINING = ({0, 1, 2}, {0}, {0})
"""Operands (array, scale, offset) read by output, mean and variance."""
_GRAD = ({0, 1, 2, 3, 4}, {0, 2, 3, 4}, {4})
"""Operands (array, scale, mean, variance, gradient) read by the gradients of the first three."""


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
