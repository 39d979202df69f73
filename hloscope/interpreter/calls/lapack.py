"""Custom calls of matrix factorizations, such as `lapack_spotrf_ffi`, by `numpy.linalg`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from hloscope.interpreter.calls.custom_call import implements
from hloscope.interpreter.registry import Kernel, Site
from hloscope.interpreter.values import Array, Value
from hloscope.ops import CustomCall

# --------------------------------------------------------------------------------------------------
# Custom calls of matrix factorizations, such as `lapack_spotrf_ffi`, by `numpy.linalg`.
#
# The results are those of jaxlib's calls: LAPACK's outputs in order, then `info`, which is nonzero
# if the factorization fails.  All dimensions but the last two are batch dimensions. Source:
# jaxlib's `lapack` kernels and the LAPACK documentation.


_KINDS: Final = "sdcz"
_INT: Final = np.int32

Factors: TypeAlias = tuple[Array, ...]


def _names(routine: str, complex_routine: str = "") -> list[str]:
    """Return the call targets of a routine for all element types.

    `complex_routine` is the name for complex types, if it differs.
    """
    other = complex_routine or routine
    return [f"lapack_{k}{other if k in 'cz' else routine}_ffi" for k in _KINDS]


def _option(at: Site, name: str, default: str = "") -> str:
    """Return the option `name` of the call's configuration, a letter; `default` if it is missing.

    The configuration may have the letter's character code.
    """
    value = at.config.get(name, default)
    return chr(value) if isinstance(value, int) else str(value)


def _one_by_one(function: Callable[[Array], Factors], a: Array) -> Factors:
    """Return the results of `function` for each matrix of a batch, each result stacked."""
    batch = a.shape[:-2]
    found = [function(m) for m in a.reshape(-1, *a.shape[-2:])]
    return tuple(np.stack(part).reshape(batch + part[0].shape) for part in zip(*found, strict=True))


def check_finite(a: Array) -> None:
    """Raise an error for matrices on which iterative factorizations may not converge.

    Raises:
        LinAlgError: A number is infinite or NaN.
    """
    if not np.isfinite(a).all():
        raise np.linalg.LinAlgError


def each_matrix(function: Callable[[Array], Factors], failed: Callable[[Array], Factors]) -> Kernel:
    """Return a kernel that returns the factors of each matrix of a batch, and `info`.

    The whole batch is tried first; if it fails, each matrix is factored by itself.

    Args:
        function: Returns the factors of a matrix or batch; it raises a `LinAlgError` if there are
            none.
        failed: Returns the factors and `info` for a matrix that has none.
    """

    def one(a: Array) -> Factors:
        try:
            return (*function(a), np.array(0, _INT))
        except np.linalg.LinAlgError:
            return failed(a)

    def kernel(a: Any) -> Value:
        try:
            return (*function(a), np.zeros(a.shape[:-2], _INT))
        except np.linalg.LinAlgError:
            return _one_by_one(one, a)

    return kernel


@implements(*_names("potrf"))
def _potrf(op: CustomCall, at: Site) -> Kernel:
    return cholesky(_option(at, "uplo", "L") == "L")


def cholesky(is_lower: bool) -> Kernel:
    """Return the kernel of the Cholesky factor, lower triangular if `is_lower`.

    The other triangle keeps the operand's elements.
    """
    kept = np.triu if is_lower else np.tril

    def factor(a: Array) -> Factors:
        if is_lower:
            return (np.linalg.cholesky(a) + kept(a, 1),)
        return (_adjoint(np.linalg.cholesky(_adjoint(a))) + kept(a, -1),)

    def failed(a: Array) -> Factors:
        return a, np.array(_first_indefinite(a if is_lower else _adjoint(a)), _INT)

    return each_matrix(factor, failed)


def _first_indefinite(a: Array) -> int:
    """Return LAPACK's `info` for a matrix that is not positive definite.

    It is the size of the smallest leading block that is not positive definite, at least 1.
    """
    for size in range(1, len(a)):
        try:
            np.linalg.cholesky(a[:size, :size])
        except np.linalg.LinAlgError:
            return size
    return len(a)


@implements(*_names("getrf"), "cusolver_getrf_ffi", "cublas_getrf_batched_ffi")
def _getrf(op: CustomCall, at: Site) -> Kernel:
    return lu


@implements(*_names("geqrf"), "cusolver_geqrf_ffi", "cublas_geqrf_batched_ffi")
def _geqrf(op: CustomCall, at: Site) -> Kernel:
    """Return the kernel of a QR factorization: Householder reflectors and their scales.

    `info`, which is 0, is a third result if the call has three.
    """
    count = len(at.results)

    def kernel(a: Any) -> Value:
        reflectors, scales = np.linalg.qr(a, mode="raw")
        parts = np.swapaxes(reflectors, -1, -2), scales, np.zeros(a.shape[:-2], _INT)
        return parts[:count]

    return kernel


@implements(*_names("orgqr", "ungqr"), "cusolver_orgqr_ffi")
def _orgqr(op: CustomCall, at: Site) -> Kernel:
    """Return a kernel for the matrix Q, from Householder reflectors and their scales.

    `info`, which is 0, is a second result if the call has two.
    """
    count = len(at.results)

    def kernel(a: Any, scales: Any) -> Value:
        q = _product_of_reflectors(a, scales)
        return q if count == 1 else (q, np.zeros(a.shape[:-2], _INT))

    return kernel


def _product_of_reflectors(a: Array, scales: Array) -> Array:
    """Return the product of Householder reflectors `1 - s v v*`.

    The vectors v are stored below the diagonal of `a`, the factors s are `scales`.
    """
    rows, columns = a.shape[-2:]
    q = np.broadcast_to(np.eye(rows, columns, dtype=a.dtype), a.shape).copy()
    # Applied from the last to the first, reflector i changes only rows from i on: the rows above
    # are still those of the identity.
    for i in reversed(range(scales.shape[-1])):
        # LAPACK does not store the first element of a reflector's vector, which is 1.
        v = np.concatenate([np.ones_like(a[..., :1, i]), a[..., i + 1 :, i]], -1)[..., None]
        tail = q[..., i:, :]
        q[..., i:, :] = tail - scales[..., i, None, None] * (v @ (_adjoint(v) @ tail))
    return q


@implements(*_names("syevd", "heevd"))
def _syevd(op: CustomCall, at: Site) -> Kernel:
    return eigenvectors(_option(at, "uplo", "L") == "L")


def eigenvectors(is_lower: bool) -> Kernel:
    """Return the kernel of eigenvectors and eigenvalues of a Hermitian matrix.

    It reads the lower triangle if `is_lower` is true, else the upper one.
    """

    def factor(a: Array) -> Factors:
        check_finite(np.tril(a) if is_lower else np.triu(a))
        values, vectors = np.linalg.eigh(a, "L" if is_lower else "U")
        return vectors, values

    def failed(a: Array) -> Factors:
        values = np.full(a.shape[:-1], np.nan, a.real.dtype)
        return np.full_like(a, np.nan), values, np.array(1, _INT)

    return each_matrix(factor, failed)


@implements(*_names("gesdd"), *_names("gesvd"))
def _gesdd(op: CustomCall, at: Site) -> Kernel:
    """Return the kernel of a singular value decomposition; in mode `N`, zeros for the vectors."""
    mode = _option(at, "mode", "S")
    _, _, u_type, v_type, *_ = at.results
    u_shape, v_shape = u_type.sizes[-2:], v_type.sizes[-2:]  # type: ignore[union-attr]

    def factor(a: Array) -> Factors:
        check_finite(a)
        if mode == "N":
            values = np.linalg.svd(a, compute_uv=False)
            return a, values, _zeros(a, u_shape), _zeros(a, v_shape)
        u, values, v = np.linalg.svd(a, full_matrices=mode == "A")
        return a, values, u, v

    def failed(a: Array) -> Factors:
        values = np.full((*a.shape[:-2], min(a.shape[-2:])), np.nan, a.real.dtype)
        u, v = _zeros(a, u_shape), _zeros(a, v_shape)
        return a, values, u + np.nan, v + np.nan, np.array(1, _INT)

    return each_matrix(factor, failed)


def _zeros(a: Array, shape: tuple[int | None, ...]) -> Array:
    """Return zeros with the batch dimensions of `a`, then `shape`; an unknown size becomes 0."""
    return np.zeros(a.shape[:-2] + tuple(s or 0 for s in shape), a.dtype)


@implements(*_names("geev"))
def _geev(op: CustomCall, at: Site) -> Kernel:
    """Return the kernel of eigenvalues, left and right eigenvectors of a general matrix.

    The left vectors are the rows of the inverse of the right ones, scaled to length 1.
    """
    is_real = len(at.results) == 5

    def factor(a: Array) -> Factors:
        check_finite(a)
        values, right = np.linalg.eig(a)
        kind = np.result_type(a.dtype, np.complex64)
        values, right = values.astype(kind), right.astype(kind)
        left = _adjoint(np.linalg.inv(right))
        left = left / np.linalg.norm(left, axis=-2, keepdims=True)
        parts = (values.real, values.imag) if is_real else (values,)
        return (*parts, left.astype(kind), right)

    def failed(a: Array) -> Factors:
        kind = np.result_type(a.dtype, np.complex64)
        values, vectors = np.full(a.shape[:-1], np.nan, kind), np.full(a.shape, np.nan, kind)
        parts = (values.real, values.imag) if is_real else (values,)
        return (*parts, vectors, vectors, np.array(1, _INT))

    return each_matrix(factor, failed)


@implements(*_names("trsm"))
def _trsm(op: CustomCall, at: Site) -> Kernel:
    side, uplo, diagonal = (
        _option(at, "side", "L"),
        _option(at, "uplo", "L"),
        _option(at, "diag", "N"),
    )
    return solver(side == "L", uplo == "L", diagonal == "U", _option(at, "trans_x", "N"))


def solver(is_left: bool, is_lower: bool, is_unit: bool, transposed: str) -> Kernel:
    """Return a kernel that solves `op(a) x = b`, or `x op(a) = b`, for triangular a.

    Args:
        is_left: Is a on the left of x?
        is_lower: Is a lower triangular?
        is_unit: Are the diagonal elements taken as 1?
        transposed: `N` for a itself, `T` for its transpose, `C` for its adjoint.
    """

    def kernel(a: Any, b: Any) -> Value:
        lower = is_lower
        if transposed != "N":
            a, lower = np.swapaxes(a, -1, -2), not lower
            a = a.conj() if transposed == "C" else a
        if is_left:
            return substitute(a, b, lower=lower, unit=is_unit)
        # `x a = b` is `a^T x^T = b^T`, and the transpose of a lower triangular matrix is upper.
        flipped = np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)
        return np.swapaxes(substitute(*flipped, lower=not lower, unit=is_unit), -1, -2)

    return kernel


@implements(*_names("gtsv"))
def _gtsv(op: CustomCall, at: Site) -> Kernel:
    """Return the kernel of a tridiagonal system; the three diagonals are returned unchanged.

    The first element below the diagonal and the last one above it are not used, if they are
    present. A singular system has NaN for its solution, and `info` is the first column without a
    nonzero pivot, counted from 1.
    """

    def factor(joined: Array) -> Factors:
        size = joined.shape[-2]
        return (np.linalg.solve(joined[..., :size], joined[..., size:]),)

    def failed(joined: Array) -> Factors:
        size = joined.shape[-2]
        # Numpy may round differently and find a pivot of zero where `lu` finds none.
        info = int(lu(joined[..., :size])[-1]) or size
        return np.full_like(joined[..., size:], np.nan), np.array(info, _INT)

    solved = each_matrix(factor, failed)

    def kernel(below: Any, diagonal: Any, above: Any, b: Any) -> Value:
        size = diagonal.shape[-1]
        a = np.zeros((*diagonal.shape, size), diagonal.dtype)
        index = np.arange(size)
        a[..., index, index] = diagonal
        a[..., index[1:], index[:-1]] = below[..., below.shape[-1] - size + 1 :]
        a[..., index[:-1], index[1:]] = above[..., : size - 1]
        solution: Any = solved(np.concatenate([a, b], -1))  # with `info`
        return below, diagonal, above, *solution

    return kernel


@implements(*_names("gehrd"))
def _gehrd(op: CustomCall, at: Site) -> Kernel:
    """Return the kernel of a Hessenberg form, with the reflectors below the first subdiagonal."""
    config = at.config

    def factor(a: Array) -> Factors:
        low, high = int(config.get("low", 1)), int(config.get("high", len(a)))
        x, scales = a.copy(), np.zeros(max(len(a) - 1, 0), a.dtype)
        for k in range(low - 1, high - 1):
            # The reflector H clears column k below the subdiagonal.  `H* x H` keeps the
            # eigenvalues.
            v, scales[k], x[k + 1, k] = _reflector(x[k + 1 : high, k])
            kept = x[k + 1, k]
            right = x[:high, k + 1 : high]
            right -= scales[k] * np.outer(right @ v, v.conj())
            left = x[k + 1 : high, k + 1 :]
            left -= scales[k].conj() * np.outer(v, v.conj() @ left)
            # The cleared elements store the vector, whose first element is 1.
            x[k + 1, k], x[k + 2 : high, k] = kept, v[1:]
        return x, scales

    return lambda a: (*_one_by_one(factor, a), np.zeros(a.shape[:-2], _INT))


@implements(*_names("sytrd", "hetrd"))
def _sytrd(op: CustomCall, at: Site) -> Kernel:
    """Return the kernel of a tridiagonal form of a Hermitian matrix.

    The reflectors are stored in the triangle that is read.
    """
    is_lower = _option(at, "uplo", "L") == "L"
    count = len(at.results)

    def lower(a: Array) -> Factors:
        x, scales = a.copy(), np.zeros(max(len(a) - 1, 0), a.dtype)
        x = np.tril(x) + _adjoint(np.tril(x, -1))
        for k in range(len(a) - 1):
            v, scale, beta = _reflector(x[k + 1 :, k])
            scales[k] = scale
            rest = x[k + 1 :, k + 1 :]
            # The two-sided update `H* rest H` as a symmetric rank-2 update, with `w = s A v - s (w*
            # v) / 2 v`: one product with the matrix instead of two.
            w = scale * (rest @ v)
            w -= scale * (w.conj() @ v) / 2 * v
            rest -= np.outer(v, w.conj()) + np.outer(w, v.conj())
            x[k + 1, k], x[k + 2 :, k] = beta, v[1:]
        return x, np.diagonal(x).real.copy(), np.diagonal(x, -1).real.copy(), scales

    def factor(a: Array) -> Factors:
        if is_lower:
            x, diagonal, beside, scales = lower(a)
            return np.tril(x) + np.triu(a, 1), diagonal, beside, scales
        # Reversing rows and columns turns the upper triangle into a lower one.
        x, diagonal, beside, scales = lower(a[::-1, ::-1])
        flipped = np.triu(x[::-1, ::-1]) + np.tril(a, -1)
        return flipped, diagonal[::-1], beside[::-1], scales[::-1]

    def kernel(a: Any) -> Value:
        found = *_one_by_one(factor, a), np.zeros(a.shape[:-2], _INT)
        return found[:count]

    return kernel


def _reflector(x: Array) -> tuple[Array, Any, Any]:
    """Return v, s and b of the Householder reflector that clears all but the first element of x.

    They satisfy `(1 - conj(s) v v*) x = (b, 0, …)`, with a real `b` and `v[0] = 1`.
    """
    first, rest = x[0], np.linalg.norm(x[1:])
    if rest == 0 and not np.imag(first):
        v = np.zeros_like(x)
        v[0] = 1
        return v, x.dtype.type(0), first
    # The sign opposite to that of `first` avoids cancellation in `first - beta`.
    beta = -np.copysign(np.hypot(np.abs(first), rest), first.real).astype(x.real.dtype)
    v = x / (first - beta)
    v[0] = 1
    return v, x.dtype.type((beta - first) / beta), x.dtype.type(beta)


def _adjoint(a: Any) -> Any:
    """Return the conjugate transpose of the last two dimensions."""
    return np.conj(np.swapaxes(a, -1, -2))


# --------------------------------------------------------------------------------------------------
# Triangular systems and LU factors, for all matrices of a batch at once.


def substitute(a: Array, b: Array, *, lower: bool, unit: bool) -> Array:
    """Return the `x` of `a @ x = b` for a triangular matrix `a`; its other triangle is not read.

    With `lower`, `a` is lower triangular. With `unit`, its diagonal is taken as 1.

    >>> a = np.array([[2.0, 9.0], [1.0, 4.0]])
    >>> substitute(a, np.array([[2.0], [9.0]]), lower=True, unit=False).ravel().tolist()
    [1.0, 2.0]
    """
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])
    x = np.broadcast_to(b, shape).copy()
    size = a.shape[-1]
    for i in range(size) if lower else reversed(range(size)):
        if not unit:
            x[..., i, :] /= a[..., i, i, None]
        rest = slice(i + 1, None) if lower else slice(0, i)
        x[..., rest, :] -= a[..., rest, i, None] * x[..., i, None, :]
    return x


def lu(a: Array) -> tuple[Array, Array, Array]:
    """Return L and U in one matrix, the pivots and `info`.

    Pivot k, counted from 1, is the row that row k was exchanged with.  `info` is the first column
    without a nonzero pivot, counted from 1, or 0.
    Source: LAPACK `getrf`.

    >>> factors, rows, info = lu(np.array([[1.0, 2.0], [4.0, 2.0]]))
    >>> factors.tolist(), rows.tolist(), int(info)
    ([[4.0, 2.0], [0.25, 1.5]], [2, 2], 0)
    """
    rows, columns = a.shape[-2:]
    x = a.reshape(-1, rows, columns).copy()
    each = np.arange(len(x))
    pivots = np.zeros((len(x), min(rows, columns)), np.int32)
    info = np.zeros(len(x), np.int32)
    for k in range(pivots.shape[1]):
        column = x[:, k:, k]
        size = np.abs(column.real) + np.abs(column.imag)
        # LAPACK compares magnitudes of complex numbers by the sum of their parts.
        row = k + np.argmax(size, axis=1)
        pivots[:, k] = row + 1
        x[each, k], x[each, row] = x[each, row], x[each, k]
        pivot = x[:, k, k]
        info = np.where((info == 0) & (pivot == 0), k + 1, info).astype(np.int32)
        x[:, k + 1 :, k] /= np.where(pivot == 0, pivot.dtype.type(1), pivot)[:, None]
        x[:, k + 1 :, k + 1 :] -= x[:, k + 1 :, k, None] * x[:, k, None, k + 1 :]
    batch = a.shape[:-2]
    return x.reshape(a.shape), pivots.reshape(*batch, pivots.shape[1]), info.reshape(batch)
