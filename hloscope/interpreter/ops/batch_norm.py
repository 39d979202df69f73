"""Batch normalisation.  Floats narrower than 32 bits are computed in 32 bits and rounded once.

Source: StableHLO spec `batch_norm_training`, `batch_norm_inference`, `batch_norm_grad`.
"""

from __future__ import annotations

import numpy as np

from hloscope.interpreter.ops.reduction import computing
from hloscope.interpreter.registry import Kernel, Site, evaluates
from hloscope.interpreter.values import Array, Value
from hloscope.ops import BatchNormGrad, BatchNormInference, BatchNormTraining


class _Layout:
    """The feature dimension of a batch normalisation, and sums over all other dimensions.

    Attributes:
        axes: All dimensions but the feature dimension.
        shape: Shape that broadcasts a vector, one entry per feature, along the feature dimension.
        count: Number of elements of each feature.
        dtype: Type of the operand.
        wide: Type in which it is computed.
    """

    def __init__(self, x: Array, feature: int) -> None:
        self.axes = tuple(d for d in range(x.ndim) if d != feature)
        self.shape = [x.shape[feature] if d == feature else 1 for d in range(x.ndim)]
        self.count = x.size // x.shape[feature] if x.shape[feature] else 0
        self.dtype = x.dtype
        self.wide = computing(x.dtype)

    def whole(self, x: Array) -> Array:
        """Return an array converted to `wide`, the type in which it is computed."""
        return x.astype(self.wide, copy=False)

    def spread(self, x: Array) -> Array:
        """Return a vector of one entry per feature, reshaped to broadcast along that dimension."""
        return x.astype(self.wide, copy=False).reshape(self.shape)

    def sums(self, x: Array) -> Array:
        """Return the sum of the elements of each feature, a vector."""
        return np.asarray(x.sum(self.axes, dtype=self.wide))

    def means(self, x: Array) -> Array:
        """Return the mean of the elements of each feature, a vector."""
        return np.asarray(self.sums(x) / self.wide.type(self.count))

    def rounded(self, *values: Array) -> tuple[Array, ...]:
        """Return arrays rounded to the operand's element type."""
        return tuple(v.astype(self.dtype, copy=False) for v in values)


@evaluates(BatchNormTraining, on_reals=True)
def _training(op: BatchNormTraining, at: Site) -> Kernel:
    """Return the kernel of `batch_norm_training`: normalised operand, mean, variance."""

    def kernel(operand: Array, scale: Array, offset: Array) -> Value:
        layout = _Layout(operand, op.feature_index)
        x = layout.whole(operand)
        mean = layout.means(x)
        centred = x - layout.spread(mean)
        variance = layout.means(centred * centred)
        result = _normalised(layout, centred, variance, op.epsilon)
        result = result * layout.spread(scale) + layout.spread(offset)
        return layout.rounded(result, mean, variance)

    return kernel


@evaluates(BatchNormInference, on_reals=True)
def _inference(op: BatchNormInference, at: Site) -> Kernel:
    """Return the kernel of `batch_norm_inference`.

    It normalises the operand with the operands mean and variance.
    """

    def kernel(operand: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> Value:
        layout = _Layout(operand, op.feature_index)
        centred = layout.whole(operand) - layout.spread(mean)
        result = _normalised(layout, centred, variance, op.epsilon)
        result = result * layout.spread(scale) + layout.spread(offset)
        return layout.rounded(result)[0]

    return kernel


@evaluates(BatchNormGrad, on_reals=True)
def _grad(op: BatchNormGrad, at: Site) -> Kernel:
    """Return the kernel of `batch_norm_grad`: gradients of operand, scale and offset."""

    def kernel(operand: Array, scale: Array, mean: Array, variance: Array, grad: Array) -> Value:
        layout = _Layout(operand, op.feature_index)
        centred = layout.whole(operand) - layout.spread(mean)
        given = layout.whole(grad)
        spread = layout.spread(variance) + layout.wide.type(op.epsilon)
        deviation = np.sqrt(spread)
        number = layout.wide.type(layout.count)
        total = layout.sums(given)
        # The variance depends on every element too: this is the gradient that flows through it.
        along = layout.spread(layout.sums(given * centred)) * centred / spread
        inner = given * number - layout.spread(total) - along
        result = layout.spread(scale) / deviation / number * inner
        return layout.rounded(result, layout.sums(given * (centred / deviation)), total)

    return kernel


def _normalised(layout: _Layout, centred: Array, variance: Array, epsilon: float) -> Array:
    deviation = np.sqrt(layout.spread(variance) + layout.wide.type(epsilon))
    return np.asarray(centred / deviation)
