"""Linear algebra and Fourier transforms, on all matrices of a batch at once."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from hloscope.interpreter.ops.reduction import computing
from hloscope.interpreter.registry import Kernel, Site, evaluates
from hloscope.interpreter.values import Array, dtype_of
from hloscope.ops import Cholesky, Fft, TriangularSolve

_BLOCK: Final = 32
"""Number of rows of a triangular system that are solved one by one between two matrix products."""


@evaluates(Cholesky, on_reals=True)
def _cholesky(op: Cholesky, at: Site) -> Kernel:
    """Return the kernel of `cholesky`, which reads one triangle; the other one is zero.

    A matrix without a factor gives NaNs.

    Source: StableHLO spec `cholesky`; XLA gives NaNs.
    """

    def kernel(a: Array) -> Array:
        x = a.astype(computing(a.dtype), copy=False)
        if not op.lower:
            x = x.swapaxes(-1, -2).conj()
        try:
            factor = np.linalg.cholesky(x)  # of the lower triangle
        except np.linalg.LinAlgError:
            factor = _one_by_one(x)
        if not op.lower:
            factor = factor.swapaxes(-1, -2).conj()
        return factor.astype(a.dtype, copy=False)

    return kernel


def _one_by_one(x: Array) -> Array:
    """Return the Cholesky factor of each matrix of a batch; NaNs for a matrix without a factor."""
    matrices = x.reshape(-1, *x.shape[-2:])
    result = np.full_like(matrices, np.nan)
    for k, matrix in enumerate(matrices):
        try:
            result[k] = np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            continue
    return result.reshape(x.shape)


@evaluates(TriangularSolve, on_reals=True)
def _triangular_solve(op: TriangularSolve, at: Site) -> Kernel:
    """Return the kernel of `triangular_solve`, which reads one triangle of `a`.

    A zero on the diagonal is divided by, which gives infinities or NaNs.
    """
    transposed = op.transpose_a.upper()

    def kernel(a: Array, b: Array) -> Array:
        wide = computing(b.dtype)
        matrix, right = a.astype(wide, copy=False), b.astype(wide, copy=False)
        lower = op.lower
        if transposed in ("TRANSPOSE", "ADJOINT"):
            matrix, lower = matrix.swapaxes(-1, -2), not lower
        if transposed == "ADJOINT":
            matrix = matrix.conj()
        if not op.left_side:  # x a = b  is  aᵀ xᵀ = bᵀ
            matrix, right, lower = matrix.swapaxes(-1, -2), right.swapaxes(-1, -2), not lower
        if not lower:  # backwards, an upper triangle is a lower one
            matrix, right = matrix[..., ::-1, ::-1], right[..., ::-1, :]
        result = _solve_lower(matrix, right, unit=op.unit_diagonal)
        if not lower:
            result = result[..., ::-1, :]
        if not op.left_side:
            result = result.swapaxes(-1, -2)
        return result.astype(b.dtype, copy=False)

    return kernel


def _solve_lower(a: Array, b: Array, *, unit: bool) -> Array:
    """Return the `x` of `a x = b`, where only the lower triangle of `a` is read.

    With `unit`, the diagonal of `a` is taken as 1.
    """
    x = np.array(b)
    size = a.shape[-1]
    # Blocks make most of the work one matrix product each.  When a block begins, the contributions
    # of all rows above it have been subtracted.
    for start in range(0, size, _BLOCK):
        end = min(start + _BLOCK, size)
        for i in range(start, end):
            if i > start:
                x[..., i, :] -= (a[..., i, None, start:i] @ x[..., start:i, :])[..., 0, :]
            if not unit:
                x[..., i, :] /= a[..., i, i, None]
        if end < size:
            x[..., end:, :] -= a[..., end:, start:end] @ x[..., start:end, :]
    return x


@evaluates(Fft)
def _fft(op: Fft, at: Site) -> Kernel:
    """Return the kernel of `fft`, computed in doubles and rounded once.

    Source: StableHLO spec `fft`.
    """
    transforms: dict[str, Any] = {
        "FFT": np.fft.fftn,
        "IFFT": np.fft.ifftn,
        "RFFT": np.fft.rfftn,
        "IRFFT": np.fft.irfftn,
    }
    kind = op.fft_type.upper()
    transform, lengths = transforms[kind], op.fft_length
    axes = tuple(range(-len(lengths), 0))
    dtype = dtype_of(at.result.element)

    def kernel(x: Array) -> Array:
        shape = list(x.shape)
        if kind == "RFFT":
            shape[-1] = lengths[-1] // 2 + 1 if lengths[-1] else 0
        elif kind == "IRFFT":
            shape[-1] = lengths[-1]
        if 0 in shape or 0 in x.shape:
            return np.zeros(shape, dtype)
        wide = x.astype(np.float64 if kind == "RFFT" else np.complex128, copy=False)
        # The real transforms need the lengths: a half spectrum of n / 2 + 1 numbers does not show
        # whether n is even or odd.
        sizes = lengths if "RFFT" in kind else [x.shape[a] for a in axes]
        return np.asarray(transform(wide, sizes, axes)).astype(dtype, copy=False)

    return kernel
