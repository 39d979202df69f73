"""Custom calls of factorizations, checked by what they are factors of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hloscope.hlo_parser import parse_hlo
from hloscope.interpreter.calls.lapack import lu, substitute
from hloscope.interpreter.evaluation import evaluate
from tests.interpreter.helpers import values

TYPES = {"s": "f32", "d": "f64", "c": "c64", "z": "c128"}
DTYPES = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}


def call(target: str, result: str, *arguments: Any, config: str = "{}") -> Any:
    """What a custom call gives."""
    names = {v: k for k, v in ((TYPES[k], np.dtype(DTYPES[k])) for k in TYPES)}
    types = [f"{names[a.dtype]}[{','.join(map(str, a.shape))}]" for a in arguments]
    lines = [f"p{i} = {t} parameter({i})" for i, t in enumerate(types)]
    operands = ", ".join(f"p{i}" for i in range(len(types)))
    text = "\n".join(lines) + (
        f'\nROOT r = {result} custom-call({operands}), custom_call_target="{target}", '
        f"api_version=API_VERSION_TYPED_FFI, backend_config={config}"
    )
    found = evaluate(parse_hlo(f"ENTRY e {{ {text} }}"), arguments)
    return found[0]


def some(kind: str, *shape: int) -> Any:
    """Numbers that look random."""
    generator = np.random.default_rng(len(shape) * 7 + sum(shape))
    numbers: Any = generator.normal(size=shape)
    if kind in "cz":
        numbers = numbers + 1j * generator.normal(size=shape)
    return numbers.astype(DTYPES[kind])


def adjoint(a: Any) -> Any:
    return np.conj(np.swapaxes(a, -1, -2))


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)


def test_config_is_read_in_stablehlo_too() -> None:
    text = """func.func @main(%a: tensor<2x2xf32>, %b: tensor<2x1xf32>) -> tensor<2x1xf32> {
      %r = stablehlo.custom_call @lapack_strsm_ffi(%a, %b) {mhlo.backend_config =
          {diag = 78 : ui8, side = 76 : ui8, trans_x = 78 : ui8, uplo = 85 : ui8}}
        : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
      return %r : tensor<2x1xf32>
    }"""
    assert values(text, [[2.0, 1.0], [9.0, 4.0]], [[4.0], [8.0]]) == [[1.0], [2.0]]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_cholesky(kind: str, uplo: str) -> None:
    a = some(kind, 3, 4, 4)
    a = (a @ adjoint(a)) + 4 * np.eye(4, dtype=a.dtype)
    type_ = f"({TYPES[kind]}[3,4,4], s32[3])"
    factor, info = call(f"lapack_{kind}potrf_ffi", type_, a, config=f"{{uplo = {ord(uplo)} : ui8}}")
    assert info.tolist() == [0, 0, 0]
    if uplo == "L":
        close(np.tril(factor) @ adjoint(np.tril(factor)), a)
        assert (np.triu(factor, 1) == np.triu(a, 1)).all()
    else:
        close(adjoint(np.triu(factor)) @ np.triu(factor), a)
        assert (np.tril(factor, -1) == np.tril(a, -1)).all()


def test_cholesky_says_which_block_is_not_positive_definite() -> None:
    a = np.stack([np.eye(3), np.diag([1.0, -1, 1]), np.diag([1.0, 1, -1])])
    _, info = call("lapack_dpotrf_ffi", "(f64[3,3,3], s32[3])", a, config="{uplo = 76 : ui8}")
    assert info.tolist() == [0, 2, 3]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("shape", [(2, 4, 4), (5, 3), (3, 5)])
def test_lu(kind: str, shape: tuple[int, ...]) -> None:
    a, least = some(kind, *shape), min(shape[-2:])
    batch = list(shape[:-2])
    sizes = [",".join(map(str, s)) for s in (shape, [*batch, least], batch)]
    type_ = f"({TYPES[kind]}[{sizes[0]}], s32[{sizes[1]}], s32[{sizes[2]}])"
    factors, pivots, info = call(f"lapack_{kind}getrf_ffi", type_, a)
    assert not info.any()
    lower = np.tril(factors, -1)[..., :least] + np.eye(shape[-2], least, dtype=a.dtype)
    upper = np.triu(factors)[..., :least, :]
    for own, rows, product in zip(
        a.reshape(-1, *shape[-2:]),
        pivots.reshape(-1, least),
        (lower @ upper).reshape(-1, *shape[-2:]),
        strict=True,
    ):
        moved = own.copy()
        for i, row in enumerate(rows):
            moved[[i, row - 1]] = moved[[row - 1, i]]
        close(product, moved)
    assert (np.abs(lower.real) <= 2).all()


def test_lu_of_a_singular_matrix() -> None:
    _, _, info = lu(np.array([[1.0, 2.0], [2.0, 4.0]]))
    assert info == 2


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("shape", [(2, 4, 4), (5, 3), (3, 5)])
def test_qr(kind: str, shape: tuple[int, ...]) -> None:
    a, least = some(kind, *shape), min(shape[-2:])
    whole = ",".join(map(str, shape))
    scales_type = f"{TYPES[kind]}[{','.join(map(str, [*shape[:-2], least]))}]"
    reflectors, scales = call(
        f"lapack_{kind}geqrf_ffi", f"({TYPES[kind]}[{whole}], {scales_type})", a
    )
    routine = "ungqr" if kind in "cz" else "orgqr"
    given = np.ascontiguousarray(reflectors[..., :least])
    result = f"{TYPES[kind]}[{','.join(map(str, given.shape))}]"
    q = call(f"lapack_{kind}{routine}_ffi", result, given, scales)
    close(adjoint(q) @ q, np.broadcast_to(np.eye(least), (*shape[:-2], least, least)))
    close(q @ np.triu(reflectors)[..., :least, :], a)


@pytest.mark.parametrize("kind", TYPES)
def test_eigenvectors_of_symmetric_matrices(kind: str) -> None:
    a = some(kind, 2, 4, 4)
    a = a + adjoint(a)
    routine, real = ("heevd" if kind in "cz" else "syevd"), TYPES["s" if kind in "sc" else "d"]
    vectors, numbers, info = call(
        f"lapack_{kind}{routine}_ffi",
        f"({TYPES[kind]}[2,4,4], {real}[2,4], s32[2])",
        np.tril(a),
        config="{mode = 86 : ui8, uplo = 76 : ui8}",
    )
    assert not info.any()
    close(a @ vectors, vectors * numbers[:, None, :])
    assert (np.diff(numbers) >= 0).all()


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("mode", ["S", "A", "N"])
def test_singular_values(kind: str, mode: str) -> None:
    a, real = some(kind, 2, 5, 3), TYPES["s" if kind in "sc" else "d"]
    wide = 5 if mode == "A" else 3
    t = TYPES[kind]
    _, numbers, u, v, info = call(
        f"lapack_{kind}gesdd_ffi",
        f"({t}[2,5,3], {real}[2,3], {t}[2,5,{wide}], {t}[2,3,3], s32[2])",
        a,
        config=f"{{mode = {ord(mode)} : ui8}}",
    )
    assert not info.any()
    assert u.shape == (2, 5, wide)
    if mode == "N":
        close(numbers, np.linalg.svd(a, compute_uv=False))
    else:
        close((u[..., :3] * numbers[:, None, :]) @ v, a)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("target", "types", "parts"),
    [
        ("lapack_dgesdd_ffi", "f64[2,3,3], f64[2,3], f64[2,3,3], f64[2,3,3]", (1, 2, 3)),
        ("cusolver_gesvdj_ffi", "f64[2,3,3], f64[2,3], f64[2,3,3], f64[2,3,3]", (1, 2, 3)),
        ("lapack_dsyevd_ffi", "f64[2,3,3], f64[2,3]", (0, 1)),
        ("lapack_dgeev_ffi", "f64[2,3], f64[2,3], c128[2,3,3], c128[2,3,3]", (0, 2, 3)),
    ],
)
def test_what_is_not_finite_has_no_values(
    target: str, types: str, parts: tuple[int, ...], wrong: float
) -> None:
    a = some("d", 2, 3, 3) if "geev" not in target else np.stack([np.eye(3)] * 2)
    a[1, 2, 1] = wrong
    *found, info = call(target, f"({types}, s32[2])", a)
    assert info.tolist() == [0, 1]
    for part in parts:
        assert np.isfinite(found[part][0]).all()
        assert np.isnan(found[part][1]).all()


@pytest.mark.parametrize("kind", TYPES)
def test_eigenvectors(kind: str) -> None:
    a, t = some(kind, 4, 4), TYPES["c" if kind in "sc" else "z"]
    real = TYPES["s" if kind in "sc" else "d"]
    parts = f"{t}[4]" if kind in "cz" else f"{real}[4], {real}[4]"
    found = call(f"lapack_{kind}geev_ffi", f"({parts}, {t}[4,4], {t}[4,4], s32[])", a)
    *numbers, left, right, info = found
    numbers = numbers[0] if kind in "cz" else numbers[0] + 1j * numbers[1]
    assert info == 0
    close(a @ right, right * numbers)
    close(adjoint(left) @ a, numbers[:, None] * adjoint(left))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("side", "LR")
@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("transposed", "NTC")
@pytest.mark.parametrize("diagonal", "NU")
def test_triangular_systems(
    kind: str, side: str, uplo: str, transposed: str, diagonal: str
) -> None:
    a = some(kind, 2, 3, 3) + 3 * np.eye(3, dtype=DTYPES[kind])
    b = some(kind, 2, 3, 4) if side == "L" else some(kind, 2, 4, 3)
    config = {"side": side, "uplo": uplo, "trans_x": transposed, "diag": diagonal}
    x = call(
        f"lapack_{kind}trsm_ffi",
        f"{TYPES[kind]}[{','.join(map(str, b.shape))}]",
        a,
        b,
        config="{" + ", ".join(f"{k} = {ord(v)} : ui8" for k, v in config.items()) + "}",
    )
    t = np.tril(a) if uplo == "L" else np.triu(a)
    if diagonal == "U":
        index = np.arange(3)
        t[:, index, index] = 1
    t = {"N": t, "T": np.swapaxes(t, -1, -2), "C": adjoint(t)}[transposed]
    close(t @ x if side == "L" else x @ t, b)


def test_a_triangular_system_does_not_read_the_other_triangle() -> None:
    a = np.array([[1.0, np.nan], [2.0, 1.0]])
    assert substitute(a, np.eye(2), lower=True, unit=False).tolist() == [[1, 0], [-2, 1]]


@pytest.mark.parametrize("size", [4, 5])
def test_tridiagonal_systems(size: int) -> None:
    below, diagonal, above = some("d", 3, size), some("d", 3, 5) + 4, some("d", 3, size)
    b = some("d", 3, 5, 2)
    *_, x, info = call(
        "lapack_dgtsv_ffi",
        f"(f64[3,{size}], f64[3,5], f64[3,{size}], f64[3,5,2], s32[3])",
        below,
        diagonal,
        above,
        b,
    )
    rows = diagonal[..., None] * x
    rows[:, 1:] += below[:, -4:, None] * x[:, :-1]
    rows[:, :-1] += above[:, :4, None] * x[:, 1:]
    close(rows, b)
    assert not info.any()


def test_a_singular_tridiagonal_system_has_no_solution_and_the_others_of_its_batch_have() -> None:
    """`info` is LAPACK's number of the first pivot that is 0, counted from 1."""
    diagonal = np.array([[2.0, 4, 8], [0, 0, 1], [2, 0, 1], [1, 1, 0], [1, 1, 1]])
    zeros, b = np.zeros((5, 3)), np.ones((5, 3, 1))
    below = zeros.copy()
    below[4, 2] = 1  # the last two rows of the last matrix are equal
    above = zeros.copy()
    above[4, 1] = 1
    type_ = "f64[5,3]"
    *same, x, info = call(
        "lapack_dgtsv_ffi",
        f"({type_}, {type_}, {type_}, f64[5,3,1], s32[5])",
        *[below, diagonal, above, b],
    )
    assert [part.tolist() for part in same] == [p.tolist() for p in (below, diagonal, above)]
    assert x[0, :, 0].tolist() == [0.5, 0.25, 0.125]
    assert np.isnan(x[1:]).all()
    assert info.tolist() == [0, 1, 2, 3, 3]


def reflected(x: Any, scales: Any, first: int = 1) -> Any:
    """The product of the reflectors below the diagonal."""
    size = len(x)
    q = np.eye(size, dtype=x.dtype)
    for k, scale in enumerate(scales):
        v = np.zeros(size, x.dtype)
        v[k + first] = 1
        v[k + first + 1 :] = x[k + first + 1 :, k]
        q = q - scale * np.outer(q @ v, v.conj())
    return q


@pytest.mark.parametrize("kind", TYPES)
def test_hessenberg(kind: str) -> None:
    a, t = some(kind, 5, 5), TYPES[kind]
    x, scales, info = call(
        f"lapack_{kind}gehrd_ffi",
        f"({t}[5,5], {t}[4], s32[])",
        a,
        config="{low = 1 : i32, high = 5 : i32}",
    )
    q, form = reflected(x, scales), np.triu(x, -1)
    assert info == 0
    close(adjoint(q) @ q, np.eye(5))
    close(q @ form @ adjoint(q), a)


def test_a_batch_of_hessenberg_forms_has_one_info_for_each_matrix() -> None:
    a = some("d", 2, 3, 3)
    x, scales, info = call("lapack_dgehrd_ffi", "(f64[2,3,3], f64[2,2], s32[2])", a)
    assert info.tolist() == [0, 0]
    for k in range(2):
        q = reflected(x[k], scales[k])
        close(q @ np.triu(x[k], -1) @ adjoint(q), a[k])


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("uplo", "LU")
def test_tridiagonal_form(kind: str, uplo: str) -> None:
    a, t = some(kind, 5, 5), TYPES[kind]
    a = a + adjoint(a)
    routine, real = ("hetrd" if kind in "cz" else "sytrd"), TYPES["s" if kind in "sc" else "d"]
    given = np.tril(a) if uplo == "L" else np.triu(a)
    x, diagonal, beside, scales, info = call(
        f"lapack_{kind}{routine}_ffi",
        f"({t}[5,5], {real}[5], {real}[4], {t}[4], s32[])",
        given,
        config=f"{{uplo = {ord(uplo)} : ui8}}",
    )
    assert info == 0
    form = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    if uplo == "U":
        x, scales, form, a = x[::-1, ::-1], scales[::-1], form[::-1, ::-1], a[::-1, ::-1]
    q = reflected(x, scales)
    close(q @ form @ adjoint(q), a)
