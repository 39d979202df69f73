"""Custom calls of programs compiled for GPUs: products, convolutions, factorizations.

A call may return a workspace after its results, which is filled with zeros.
Source: XLA's `GemmConfig` and `CudnnConvBackendConfig`; jaxlib's `cusolver` kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from hloscope.errors import UnsupportedError
from hloscope.interpreter.calls.custom_call import implements
from hloscope.interpreter.calls.lapack import (
    check_finite,
    cholesky,
    each_matrix,
    eigenvectors,
    solver,
)
from hloscope.interpreter.ops.contraction import product
from hloscope.interpreter.ops.reduction import computing
from hloscope.interpreter.ops.windows import unpadded
from hloscope.interpreter.registry import Kernel, Site, kernel
from hloscope.interpreter.values import Array, EvaluationError, Value, dtype_of
from hloscope.ir import Dims, Instruction, Op, TensorType
from hloscope.ops import (
    NO_WINDOW,
    ConvDimensions,
    Convolution,
    CustomCall,
    DotDimensions,
    DotGeneral,
    Parameter,
    Window,
)

_INT: Final = np.int32


def _array(type_: object) -> TensorType:
    assert isinstance(type_, TensorType)
    return type_


def _with_workspace(at: Site, compute: Callable[..., Any]) -> Kernel:
    """Return a kernel that returns the results of `compute`, then zeros for the workspace.

    The workspace is all further results of the call.
    """
    first, *rest = map(_array, at.results)
    dtype, alone = dtype_of(first.element), isinstance(at.ins.type, TensorType)
    others = [(t.shape, dtype_of(t.element)) for t in rest]

    def through(*values: Any) -> Value:
        found: Array = np.asarray(compute(*values)).astype(dtype, copy=False)
        return found if alone else (found, *[np.zeros(shape, d) for shape, d in others])

    return through


def _kernel_of(at: Site, op: Op, result: TensorType, operands: tuple[TensorType, ...]) -> Kernel:
    """Return the kernel of `op`, which is evaluated in place of the custom call at `at`.

    `result` and `operands` are the types of the value and the operands of `op`.
    """
    stand_ins = tuple(Instruction(f"p{i}", t, Parameter(i)) for i, t in enumerate(operands))
    return kernel(Instruction(at.ins.name, result, op, stand_ins, span=at.ins.span), at.world)


# ----------------------------------------------------------------------------------- products


def _gelu(x: Any) -> Any:
    inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    return x * (0.5 * (1 + np.tanh(inner)))


_EPILOGUES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "DEFAULT": lambda x: x,
    "RELU": lambda x: np.maximum(x, 0),
    "GELU": _gelu,
    "SILU": lambda x: x / (1 + np.exp(-x)),
}


@implements("__cublas$gemm", "__cublas$lt$matmul")
def _matmul(op: CustomCall, at: Site) -> Kernel:
    """Return the kernel of `f(alpha * a b + beta * c + bias)`.

    Operands: a, b, then c and the bias if they are used.
    """
    config = at.config
    config = config.get("gemm_backend_config", config)
    dims = config.get("dot_dimension_numbers")
    epilogue = str(config.get("epilogue", "DEFAULT"))
    has_bias = epilogue.startswith("BIAS")
    name = epilogue.removeprefix("BIAS").removeprefix("_") or "DEFAULT"
    if not isinstance(dims, dict) or name not in _EPILOGUES or config.get("alpha_imag"):
        raise UnsupportedError(f"custom call `{op.call_target_name}` is set up in an unknown way")
    finish = _EPILOGUES[name]
    alpha, beta = float(config.get("alpha_real", 1)), float(config.get("beta", 0))
    # In the order of `DotDimensions`: batch of both sides, then contracting dimensions of both
    # sides.
    numbers = [
        tuple(int(n) for n in dims.get(f"{side}_{what}_dimensions", ()))
        for what in ("batch", "contracting")
        for side in ("lhs", "rhs")
    ]
    lhs, rhs, *_ = map(_array, at.operands)
    result = _array(at.results[0])
    dot = _kernel_of(at, DotGeneral(DotDimensions(*numbers)), result, (lhs, rhs))
    needed = 2 + (beta != 0) + has_bias
    if len(at.operands) < needed:
        raise EvaluationError(f"{len(at.operands)} operands, the configuration needs {needed}")

    def compute(a: Any, b: Any, *more: Any) -> Any:
        # The operand c is present only if beta is not 0, and the bias only if the epilogue has one.
        given = iter(more)
        total: Any = dot(a, b)
        total = total * total.dtype.type(alpha) if alpha != 1 else total
        if beta:
            total = total + total.dtype.type(beta) * next(given).astype(total.dtype)
        if has_bias:
            total = total + next(given).astype(total.dtype)
        return finish(total)

    return _with_workspace(at, compute)


# ------------------------------------------------------------------------------- convolutions


def _activation(config: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Return the function of the activation mode in a convolution's configuration `config`.

    Raises:
        UnsupportedError: The mode is not known.
    """
    alpha = float(config.get("leakyrelu_alpha", 0))
    known: Mapping[str, Callable[[Any], Any]] = {
        "kNone": lambda x: x,
        "kRelu": lambda x: np.maximum(x, 0),
        "kRelu6": lambda x: np.clip(x, 0, 6),
        "kElu": lambda x: np.where(x > 0, x, np.expm1(x)),
        "kLeakyRelu": lambda x: np.where(x > 0, x, alpha * x),
    }
    name = str(config.get("activation_mode", "kNone"))
    if name not in known:
        raise UnsupportedError(f"convolutions with activation {name} are not known")
    return known[name]


def _setup(at: Site) -> tuple[Window, ConvDimensions, int, Mapping[str, Any]]:
    """Return window, dimension numbers, group count and configuration of a convolution call.

    They are those of the forward convolution, also for a gradient.
    """
    config = at.config
    config = config.get("cudnn_conv_backend_config", config)
    op = at.ins.op
    assert isinstance(op, CustomCall)
    if op.dimensions is None:
        raise UnsupportedError("a convolution has no dim_labels")
    return op.window or NO_WINDOW, op.dimensions, op.feature_group_count, config


@implements("__cudnn$convForward", "__cudnn$convBiasActivationForward")
def _forward(op: CustomCall, at: Site) -> Kernel:
    """Return the kernel of `f(scale * (x * w) + side_scale * side + bias)`.

    Operands: x, w, then bias and side if they are used.
    """
    window, dims, groups, config = _setup(at)
    finish, result = _activation(config), _array(at.results[0])
    scale = float(config.get("conv_result_scale", 1))
    side_scale = float(config.get("side_input_scale", 0))
    shape = [-1 if d == dims.output_feature else 1 for d in range(result.rank)]
    x, w, *_ = map(_array, at.operands)
    convolve = _kernel_of(at, Convolution(window, dims, groups), result, (x, w))

    def compute(a: Any, b: Any, bias: Any = None, side: Any = None) -> Any:
        total: Any = convolve(a, b)
        kind = total.dtype.type
        total = total * kind(scale) if scale != 1 else total
        if side is not None:
            total = total + kind(side_scale) * side.astype(kind)
        return finish(total if bias is None else total + bias.astype(kind).reshape(shape))

    return _with_workspace(at, compute)


@implements("__cudnn$convBackwardFilter")
def _backward_filter(op: CustomCall, at: Site) -> Kernel:
    """Return the kernel of the filter's gradient: input convolved with the output's gradient."""
    window, dims, groups, config = _setup(at)
    x, dy = map(_array, at.operands)
    result, scale = _array(at.results[0]), float(config.get("conv_result_scale", 1))
    # The gradient of a filter element sums `x * dy` over batch and output positions.  So it is a
    # convolution in which batch and feature of the input change roles, and `dy` is the filter.
    own = ConvDimensions(
        dims.input_feature,
        dims.input_batch,
        dims.input_spatial,
        dims.output_batch,
        dims.output_feature,
        dims.output_spatial,
        dims.kernel_input_feature,
        dims.kernel_output_feature,
        dims.kernel_spatial,
    )
    # Positions of `dy` step through `x` by the forward stride, so strides become the dilation of
    # the inner window.  Taps step by the forward dilation, which becomes the inner stride.
    sizes = tuple(dy.shape[d] for d in dims.output_spatial)
    padding = []
    for d, (size, taps) in enumerate(zip(sizes, window.sizes, strict=True)):
        low = window.padding[d][0]
        # The high padding makes the inner convolution return exactly `taps` positions.
        extent = (taps - 1) * window.window_dilations[d] + (size - 1) * window.strides[d] + 1
        padding.append((low, extent - x.shape[dims.input_spatial[d]] - low))
    not_reversed = (False,) * len(sizes)
    inner = Window(
        sizes,
        window.window_dilations,
        tuple(padding),
        window.base_dilations,
        window.strides,
        not_reversed,
    )
    convolve = _kernel_of(at, Convolution(inner, own, 1, groups), result, (x, dy))
    reversed_axes = tuple(
        d for d, back in zip(dims.kernel_spatial, window.reversal, strict=True) if back
    )

    def compute(a: Any, b: Any) -> Any:
        found: Any = convolve(a, b)
        total = np.flip(found, reversed_axes)
        return total * total.dtype.type(scale) if scale != 1 else total

    return _with_workspace(at, compute)


@implements("__cudnn$convBackwardInput")
def _backward_input(op: CustomCall, at: Site) -> Kernel:
    """Return the kernel of the gradient of a convolution's input.

    Each filter tap adds its product with the output's gradient to the input element that it read. A
    tap that read padding, or a hole of a dilated input, contributes nothing, not even `0 * NaN`.
    """
    window, dims, groups, config = _setup(at)
    result, scale = _array(at.results[0]), float(config.get("conv_result_scale", 1))
    wide = computing(dtype_of(result.element))
    order = dims.input_batch, *dims.input_spatial, dims.input_feature
    shape = tuple(result.shape[d] for d in order)
    backwards = tuple(slice(None, None, -1 if back else 1) for back in window.reversal)

    def compute(dy: Array, w: Array) -> Any:
        gradient = dy.transpose(dims.output_batch, *dims.output_spatial, dims.output_feature)
        weights = w.transpose(
            *dims.kernel_spatial, dims.kernel_input_feature, dims.kernel_output_feature
        )
        total = _scatter_taps(gradient, weights[backwards], window, groups, shape, wide)
        found = total.transpose(np.argsort(order))
        return found * found.dtype.type(scale) if scale != 1 else found

    return _with_workspace(at, compute)


def _scatter_taps(
    dy: Array, w: Array, window: Window, groups: int, shape: Dims, dtype: np.dtype[Any]
) -> Array:
    """Return the gradient of a convolution's input: batch, positions, feature.

    Each filter tap adds its product with the output's gradient to the input elements that it reads.

    Args:
        dy: Gradient of the output: batch, positions, feature.
        w: The filter: taps, input feature in its group, output feature.
        window: Window of the forward convolution.
        groups: Number of feature groups.
        shape: Shape of the input: batch, positions, feature.
        dtype: Type of the sums.
    """
    batch, *positions, features = dy.shape
    *taps, ins, _ = w.shape
    rows = dy.reshape(-1, groups, features // groups).swapaxes(0, 1)
    # Sums have the size of the padded, dilated input, or of what the taps read if that is more.
    # Then every tap writes inside, and padding is cut off at the end.
    lengths = [
        max(low + (size - 1) * base + 1 + high, (count - 1) * stride + (n - 1) * dilation + 1)
        for size, (low, high), base, count, stride, n, dilation in zip(
            shape[1:-1], window.padding, window.base_dilations, positions, window.strides,
            taps, window.window_dilations, strict=True,
        )
    ]  # fmt: skip
    sums = np.zeros((batch, *lengths, groups * ins), dtype)
    # For one tap, all positions read different input elements, so the slices do not overlap and
    # `+=` adds each product once.
    for tap in np.ndindex(*taps) if dy.size else ():
        weights = w[tap].reshape(ins, groups, -1).transpose(1, 2, 0)
        part = product(rows, weights, dtype).swapaxes(0, 1).reshape(batch, *positions, -1)
        place = [
            slice(k * dilation, k * dilation + (count - 1) * stride + 1, stride)
            for k, dilation, count, stride in zip(
                tap, window.window_dilations, positions, window.strides, strict=True
            )
        ]
        sums[(slice(None), *place)] += part
    nothing = [(0, 0)]
    padding = [*nothing, *window.padding, *nothing]
    return unpadded(sums, np.zeros(shape, dtype), padding, [1, *window.base_dilations, 1])


# ----------------------------------------------------------------------------- factorizations


@implements("cusolver_potrf_ffi")
def _potrf(op: CustomCall, at: Site) -> Kernel:
    return cholesky(bool(at.config.get("lower", True)))


@implements("cusolver_syevd_ffi")
def _syevd(op: CustomCall, at: Site) -> Kernel:
    return eigenvectors(bool(at.config.get("lower", True)))


@implements("cusolver_gesvdj_ffi")
def _gesvdj(op: CustomCall, at: Site) -> Kernel:
    """Return the kernel of a singular value decomposition, with the right vectors as columns."""
    is_full = bool(at.config.get("full_matrices", True))

    def factor(a: Array) -> tuple[Array, ...]:
        check_finite(a)
        u, values, v = np.linalg.svd(a, full_matrices=is_full)
        return a, values, u, np.conj(np.swapaxes(v, -1, -2))

    def failed(a: Array) -> tuple[Array, ...]:
        found = factor(np.zeros_like(a))[1:]
        return a, *[np.full_like(part, np.nan) for part in found], np.array(1, _INT)

    return each_matrix(factor, failed)


@implements("cu_lu_pivots_to_permutation")
def _permutation(op: CustomCall, at: Site) -> Kernel:
    """Return a kernel for the permutation that a sequence of row exchanges makes.

    Exchange i swaps row i with row `pivots[i]`, counted from 0.
    """
    size = _array(at.results[0]).shape[-1]

    def kernel(pivots: Any) -> Value:
        rows = pivots.reshape(-1, pivots.shape[-1])
        found = np.tile(np.arange(size, dtype=pivots.dtype), (len(rows), 1))
        each = np.arange(len(rows))
        # The exchanges depend on each other, so they run in order; batches run together.
        for i in range(rows.shape[1]):
            found[each, i], found[each, rows[:, i]] = found[each, rows[:, i]], found[each, i]
        return found.reshape(*pivots.shape[:-1], size)

    return kernel


_TRANSPOSES: Final = {"NO_TRANSPOSE": "N", "TRANSPOSE": "T", "ADJOINT": "C"}


@implements("__cublas$triangularSolve")
def _triangular_solve(op: CustomCall, at: Site) -> Kernel:
    config = at.config
    transposed = _TRANSPOSES.get(config.get("transpose_a", "NO_TRANSPOSE"), "N")
    left, lower, unit = (bool(config.get(name)) for name in ("left_side", "lower", "unit_diagonal"))
    return _with_workspace(at, solver(left, lower, unit, transposed))
