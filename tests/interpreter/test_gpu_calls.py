"""Custom calls of programs compiled for GPUs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from hloscope.errors import UnsupportedError
from hloscope.hlo_parser import parse_hlo
from hloscope.interpreter.evaluation import evaluate

F32 = np.float32


def some(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(F32)


def shaped(x: Any) -> str:
    names = {"float32": "f32", "int32": "s32"}
    return f"{names[x.dtype.name]}[{','.join(map(str, x.shape))}]"


def call(target: str, result: str, *arguments: Any, more: str = "", config: Any = None) -> Any:
    """What a custom call gives; of several results the first one."""
    lines = [f"p{i} = {shaped(a)} parameter({i})" for i, a in enumerate(arguments)]
    operands = ", ".join(f"p{i}" for i in range(len(arguments)))
    written = f", backend_config={config if isinstance(config, str) else json.dumps(config)}"
    lines.append(
        f'ROOT r = {result} custom-call({operands}), custom_call_target="{target}"{more}'
        + (written if config is not None else "")
    )
    found = evaluate(parse_hlo("ENTRY e {\n" + "\n".join(lines) + "\n}"), arguments)
    return found[0][0] if isinstance(found[0], tuple) else found[0]


def close(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def gemm(**more: Any) -> Any:
    dims = {"lhs_contracting_dimensions": ["1"], "rhs_contracting_dimensions": ["0"]}
    return {"gemm_backend_config": {"dot_dimension_numbers": dims, "alpha_real": 1, **more}}


def test_products() -> None:
    a, b, c, bias = some(2, 3), some(3, 4), some(2, 4), some(4)
    plain = call("__cublas$gemm", "(f32[2,4], s8[16])", a, b, config=gemm(alpha_real=0.5))
    close(plain, a @ b / 2)
    both = gemm(beta=2, epilogue="BIAS")
    found = call("__cublas$lt$matmul", "(f32[2,4], s8[16])", a, b, c, bias, config=both)
    close(found, a @ b + 2 * c + bias)
    relu = call("__cublas$lt$matmul", "f32[2,4]", a, b, bias, config=gemm(epilogue="BIAS_RELU"))
    close(relu, np.maximum(a @ b + bias, 0))


def test_products_of_batches() -> None:
    a, b = some(5, 3, 2), some(5, 3, 4)
    dims = {
        "lhs_contracting_dimensions": ["1"],
        "rhs_contracting_dimensions": ["1"],
        "lhs_batch_dimensions": ["0"],
        "rhs_batch_dimensions": ["0"],
    }
    found = call(
        "__cublas$gemm", "(f32[5,2,4], s8[0])", a, b, config=gemm(dot_dimension_numbers=dims)
    )
    close(found, np.swapaxes(a, 1, 2) @ b)


def test_an_unknown_epilogue_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="set up in an unknown way"):
        call("__cublas$gemm", "f32[2,2]", some(2, 2), some(2, 2), config=gemm(epilogue="GELU_AUX"))


CONVOLUTIONS = [
    ("size=3x3 pad=1_1x1_1", 1, (6, 7)),
    ("size=3x3 stride=2x2 pad=0_1x1_0", 1, (6, 7)),
    ("size=2x3 stride=1x2 pad=0_0x2_1 rhs_dilate=2x1", 1, (6, 7)),
    ("size=3x2 pad=1_1x0_0", 2, (5, 4)),
    ("size=3x3 stride=3x1 pad=2_0x-1_1", 2, (7, 6)),
    ("size=2x2 pad=1_0x0_0 rhs_reversal=1x1", 1, (4, 4)),
]


@pytest.mark.parametrize(("window", "groups", "sizes"), CONVOLUTIONS)
def test_backward_convolutions_are_adjoint_to_the_forward_one(
    window: str, groups: int, sizes: tuple[int, int]
) -> None:
    taps = [int(n) for n in window.partition("size=")[2].split()[0].split("x")]
    x, w = some(2, *sizes, 4), some(6, *taps, 4 // groups)
    more = f", window={{{window}}}, dim_labels=b01f_o01i->b01f, feature_group_count={groups}"
    config = {"cudnn_conv_backend_config": {"conv_result_scale": 1, "activation_mode": "kNone"}}
    text = f"""ENTRY e {{ a = {shaped(x)} parameter(0) b = {shaped(w)} parameter(1)
      ROOT r = convolution(a, b){more} }}"""
    y: Any = evaluate(parse_hlo(text), [x, w])[0]

    def conv(kind: str, result: Any, *operands: Any) -> Any:
        target, type_ = f"__cudnn$conv{kind}", f"({shaped(result)}, u8[0])"
        return call(target, type_, *operands, more=more, config=config)

    close(conv("Forward", y, x, w), y)
    dy = some(*y.shape)
    close((conv("BackwardInput", x, dy, w) * x).sum(), (dy * y).sum())
    close((conv("BackwardFilter", w, x, dy) * w).sum(), (dy * y).sum())


@pytest.mark.parametrize("scale", [0, 0.25, 1, 3])
def test_results_of_convolutions_are_multiplied_by_their_scale(scale: float) -> None:
    """Without bias, side input and activation, in all three directions."""
    x, w = some(1, 4, 2), some(2, 3, 2)
    y = some(1, 2, 2)
    more = ", window={size=3}, dim_labels=b0f_o0i->b0f"
    for kind, operands, result in (
        ("Forward", (x, w), y),
        ("BackwardInput", (y, w), x),
        ("BackwardFilter", (x, y), w),
    ):
        target, type_ = f"__cudnn$conv{kind}", f"({shaped(result)}, u8[0])"
        config = {"cudnn_conv_backend_config": {"conv_result_scale": scale}}
        plain = call(target, type_, *operands, more=more)
        close(call(target, type_, *operands, more=more, config=config), scale * plain)


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize(("window", "groups", "sizes"), CONVOLUTIONS)
def test_a_weight_takes_no_part_where_its_tap_read_padding(
    window: str, groups: int, sizes: tuple[int, int]
) -> None:
    """One weight is NaN: of the input's gradient it reaches what the forward tap read."""
    taps = [int(n) for n in window.partition("size=")[2].split()[0].split("x")]
    x, w = some(2, *sizes, 4), some(6, *taps, 4 // groups)
    more = f", window={{{window}}}, dim_labels=b01f_o01i->b01f, feature_group_count={groups}"
    text = f"""ENTRY e {{ a = {shaped(x)} parameter(0) b = {shaped(w)} parameter(1)
      ROOT r = convolution(a, b){more} }}"""
    ones = np.ones_like(x)
    for tap in np.ndindex(*taps):
        alone = np.zeros_like(w)
        alone[(0, *tap, 0)] = 1
        # What of the input the output's gradient meets by this weight: linear in the input.
        read: Any = np.zeros(x.shape, bool)
        for at in np.ndindex(*sizes):
            one = np.zeros_like(ones)
            one[(0, *at, 0)] = 1
            read[(slice(None), *at, 0)] = np.any(evaluate(parse_hlo(text), [one, alone])[0])
        y: Any = evaluate(parse_hlo(text), [x, w])[0]
        wrong = w.copy()
        wrong[(0, *tap, 0)] = np.nan
        type_ = f"({shaped(x)}, u8[0])"
        found = call("__cudnn$convBackwardInput", type_, some(*y.shape), wrong, more=more)
        assert np.isnan(found).tolist() == read.tolist()


@pytest.mark.parametrize(
    ("mode", "function"),
    [
        ("kNone", lambda x: x),
        ("kRelu", lambda x: np.maximum(x, 0)),
        ("kRelu6", lambda x: np.clip(x, 0, 6)),
        ("kElu", lambda x: np.where(x > 0, x, np.exp(x) - 1)),
        ("kLeakyRelu", lambda x: np.where(x > 0, x, 0.25 * x)),
    ],
)
def test_convolutions_with_bias_and_activation(mode: str, function: Any) -> None:
    x, w, bias, side = some(1, 4, 3), some(2, 1, 3), some(2), some(1, 4, 2)
    config = {
        "conv_result_scale": 0.5,
        "side_input_scale": 2,
        "leakyrelu_alpha": 0.25,
        "activation_mode": mode,
    }
    found = call(
        "__cudnn$convBiasActivationForward",
        "(f32[1,4,2], u8[0])",
        x,
        w,
        bias,
        side,
        more=", window={size=1}, dim_labels=b0f_o0i->b0f",
        config={"cudnn_conv_backend_config": config},
    )
    close(found, function(0.5 * np.einsum("bsf,oxf->bso", x, w) + 2 * side + bias))


def test_an_unknown_activation_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="activation kWave are not known"):
        call(
            "__cudnn$convForward",
            "f32[1,4,2]",
            some(1, 4, 3),
            some(2, 1, 3),
            more=", window={size=1}, dim_labels=b0f_o0i->b0f",
            config={"activation_mode": "kWave"},
        )


@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
def test_triangular_systems(transpose: str) -> None:
    a, b = np.tril(some(3, 3)) + 3 * np.eye(3, dtype=F32), some(3, 2)
    config = {"left_side": True, "lower": True, "unit_diagonal": False, "transpose_a": transpose}
    x = call("__cublas$triangularSolve", "(f32[3,2], s8[8])", a, b, config=config)
    close((a if transpose == "NO_TRANSPOSE" else a.T) @ x, b)


@pytest.mark.parametrize("config", ["{}", "{lower = true}", "{lower = false}"])
def test_factorizations_read_one_triangle(config: str) -> None:
    """It is the lower one by default; the other may have any elements, and keeps them."""
    a = some(4, 4)
    positive = a @ a.T + np.eye(4, dtype=F32)
    read, other = (np.triu, np.tril) if "false" in config else (np.tril, np.triu)
    diagonal = np.diag(np.diag(positive))
    given = read(positive) + 7 * (other(np.ones((4, 4), F32)) - np.eye(4, dtype=F32))
    factor = call("cusolver_potrf_ffi", "(f32[4,4], s32[])", given, config=config)
    half = read(factor)
    close(half.T @ half if "false" in config else half @ half.T, positive)
    close(other(factor) - np.diag(np.diag(factor)), other(given) - diagonal)
    vectors = call("cusolver_syevd_ffi", "(f32[4,4], f32[4], s32[])", given, config=config)
    values = vectors.T @ positive @ vectors
    close(values, np.diag(np.linalg.eigvalsh(positive)))


@pytest.mark.parametrize(
    ("config", "sizes"), [("{}", 5), ("{full_matrices = true}", 5), ("{full_matrices = false}", 3)]
)
def test_singular_vectors_are_a_square_matrix_by_default(config: str, sizes: int) -> None:
    a = some(5, 3)
    text = f"""ENTRY e {{ p = f32[5,3] parameter(0)
      r = (f32[5,3], f32[3], f32[5,{sizes}], f32[3,3], s32[]) custom-call(p),
        custom_call_target="cusolver_gesvdj_ffi", backend_config={config}
      ROOT u = f32[5,{sizes}] get-tuple-element(r), index=2 }}"""
    u: Any = evaluate(parse_hlo(text), [a])[0]
    assert u.shape == (5, sizes)
    close(u.T @ u, np.eye(sizes))


@pytest.mark.parametrize("side", [{"left_side": True}, {}])
@pytest.mark.parametrize("half", [{"lower": True}, {}])
@pytest.mark.parametrize("diagonal", [{"unit_diagonal": True}, {}])
def test_triangular_systems_of_either_side_and_triangle(
    side: dict[str, bool], half: dict[str, bool], diagonal: dict[str, bool]
) -> None:
    """What a config leaves out is false; elements outside of the triangle are not read."""
    given = some(3, 3) + 3 * np.eye(3, dtype=F32)
    a = np.tril(given) if half else np.triu(given)
    if diagonal:
        a = a - np.diag(np.diag(a)) + np.eye(3, dtype=F32)
    b = some(3, 2) if side else some(2, 3)
    config = {**side, **half, **diagonal}
    x = call("__cublas$triangularSolve", f"({shaped(b)}, s8[8])", given, b, config=config)
    close(a @ x if side else x @ a, b)


def test_factorizations() -> None:
    a = some(4, 4)
    positive = a @ a.T + np.eye(4, dtype=F32)
    lower = call("cusolver_potrf_ffi", "(f32[4,4], s32[])", positive, config="{lower = true}")
    close(np.tril(lower) @ np.tril(lower).T, positive)
    vectors = call(
        "cusolver_syevd_ffi", "(f32[4,4], f32[4], s32[])", positive, config="{lower = true}"
    )
    close(vectors @ vectors.T, np.eye(4))
    factors = call("cusolver_getrf_ffi", "(f32[4,4], s32[4], s32[])", a, config="{}")
    assert abs(np.prod(np.diag(factors))) == pytest.approx(abs(np.linalg.det(a)), rel=1e-3)


def test_qr() -> None:
    """The reflectors of `geqrf` make the orthogonal factor by `orgqr`, as LAPACK's do."""
    a = some(2, 5, 3)
    text = """ENTRY e { p = f32[2,5,3] parameter(0)
      h = (f32[2,5,3], f32[2,3]) custom-call(p), custom_call_target="cusolver_geqrf_ffi"
      a = f32[2,5,3] get-tuple-element(h), index=0
      t = f32[2,3] get-tuple-element(h), index=1
      q = f32[2,5,3] custom-call(a, t), custom_call_target="cusolver_orgqr_ffi"
      ROOT r = (f32[2,5,3], f32[2,5,3]) tuple(a, q) }"""
    found: Any = evaluate(parse_hlo(text), [a])[0]
    reflectors, q = found
    close(np.swapaxes(q, 1, 2) @ q, np.broadcast_to(np.eye(3), (2, 3, 3)))
    close(q @ np.triu(reflectors[:, :3]), a)


def test_singular_values_have_right_vectors_in_columns() -> None:
    a = some(5, 3)
    type_ = "(f32[5,3], f32[3], f32[5,5], f32[3,3], s32[])"
    text = f"""ENTRY e {{ p = f32[5,3] parameter(0)
      ROOT r = {type_} custom-call(p), custom_call_target="cusolver_gesvdj_ffi",
        backend_config={{compute_uv = true, full_matrices = true}} }}"""
    found: Any = evaluate(parse_hlo(text), [a])[0]
    _, values, u, v, _ = found
    close(u[:, :3] * values @ v.T, a)


def test_pivots_become_a_permutation() -> None:
    pivots = np.array([[2, 1, 2], [0, 2, 2]], np.int32)
    found = call("cu_lu_pivots_to_permutation", "s32[2,4]", pivots)
    assert found.tolist() == [[2, 1, 0, 3], [0, 2, 1, 3]]
