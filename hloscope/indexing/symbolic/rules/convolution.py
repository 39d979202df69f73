"""Convolutions."""

from __future__ import annotations

from hloscope.affine import Const, Dim, Expr
from hloscope.errors import UnsupportedError
from hloscope.indexing.rules.build import exact
from hloscope.indexing.symbolic.rules.asking import RULES, Answer, Asked, dims
from hloscope.indexing.symbolic.rules.windows import base_index, taps
from hloscope.ir import TensorType
from hloscope.ops import Constant, Convolution, DynamicConv


@RULES.add(Convolution, DynamicConv)
def _(asked: Asked, op: Convolution | DynamicConv) -> Answer:
    names, window = op.dimensions, op.window
    lhs, rhs = asked.shape(0), asked.shape(1)
    into, over = asked.builder(), asked.builder()
    index, kernel = dims(lhs), dims(rhs)
    index[names.input_batch] = Dim(names.output_batch)
    mine, theirs = taps(into, window), taps(over, window)
    pairs = zip(names.input_spatial, names.output_spatial, strict=True)
    for k, (i, o) in enumerate(pairs):
        before = _before(asked, op, k)
        index[i] = base_index(into, window, k, Dim(o), mine[k], lhs[i], before)
        base_index(over, window, k, Dim(o), theirs[k], lhs[i], before)  # not padding, not a hole
        last = window.sizes[k] - 1
        kernel[names.kernel_spatial[k]] = last - theirs[k] if window.reversal[k] else theirs[k]
    features = rhs[names.kernel_input_feature]
    index[names.input_feature] = into.range(features)
    kernel[names.kernel_input_feature] = over.range(features)
    kernel[names.kernel_output_feature] = Dim(names.output_feature)
    for name, groups in (
        (names.input_batch, op.batch_group_count),
        (names.input_feature, op.feature_group_count),
    ):
        if groups > 1:
            index[name] = _group(asked, op) * (_number(asked, lhs[name]) // groups) + index[name]
    return [exact(into.map(index)), exact(over.map(kernel)), *asked.all_of(2)]


def _before(asked: Asked, op: Convolution | DynamicConv, k: int) -> Expr:
    """Return the padding before the input."""
    if len(asked.operands) < 3:
        return Const(op.window.padding[k][0])
    origin = asked.ins.operands[2]
    numbers = None
    if isinstance(origin.op, Constant) and isinstance(origin.type, TensorType):
        numbers = origin.op.literal.integers(origin.type)
    if numbers is None:
        raise UnsupportedError("the padding is not known in terms of sizes")
    return Const(numbers[2 * k] if len(numbers) > 1 else numbers[0])


def _group(asked: Asked, op: Convolution | DynamicConv) -> Expr:
    """Return the group of the output feature."""
    feature = op.dimensions.output_feature
    count = max(op.batch_group_count, op.feature_group_count)
    return Dim(feature) // (_number(asked, asked.result[feature]) // count)


def _number(asked: Asked, size: Expr) -> int:
    settled = asked.frame.symbols.settled(size)
    if not isinstance(settled, Const):
        raise UnsupportedError("how large a group is depends on the sizes")
    return settled.value
