"""Typing of linear algebra, transforms and random numbers, constraint by constraint."""

from __future__ import annotations

import pytest

from hloscope.ir import Op
from hloscope.mlir.types import type_text
from hloscope.ops.linalg import Cholesky, Fft, TriangularSolve
from hloscope.ops.random import Rng, RngBitGenerator
from tests.ops.typings import Case, check_refused, read_types, refused

LEFT = TriangularSolve(True, True, False, "NO_TRANSPOSE")
RIGHT = TriangularSolve(False, True, False, "NO_TRANSPOSE")
INVALID = TriangularSolve(True, True, False, "TRANSPOSE_INVALID")

REFUSED = [
    refused(Cholesky(), "cholesky_c1", "", "f32[3,3]", "f32[3,4]"),
    refused(Cholesky(), "cholesky_c2", "argument 'a' must have rank >= 2, got shape 1.", "f32[1]",
            "f32[1]"),
    refused(Cholesky(), "cholesky_c3", "minor dimensions of 'a' must have equal size, got shape"
            " 1, 2, 1.", "f32[1,2,1]", "f32[1,2,1]"),
    refused(LEFT, "triangular_solve_c1", "operand 1", "f32[4,4]; c64[4,3]", "f32[4,3]"),
    refused(LEFT, "triangular_solve_c2", "operand 'a' must have rank >= 2, but got 'tensor<4xf32>'",
            "f32[4]; f32[4,3]", "f32[4,3]"),
    refused(LEFT, "triangular_solve_c2", "operands must have equal rank, but got"
            " 'tensor<10x4x4xf32>' and 'tensor<4x3xf32>'", "f32[10,4,4]; f32[4,3]", "f32[4,3]"),
    refused(LEFT, "triangular_solve_c3", "two minor dimensions of operand 'a' must be compatible,"
            " but got 'tensor<4x5xf32>'", "f32[4,5]; f32[4,3]", "f32[4,3]"),
    refused(LEFT, "triangular_solve_c3", "shared dimension of operands 'a' and 'b' must be",
            "f32[4,4]; f32[3,4]", "f32[3,4]"),
    refused(RIGHT, "triangular_solve_c3", "shared dimension", "f32[4,4]; f32[4,3]", "f32[4,3]"),
    refused(LEFT, "triangular_solve_c3", "batch dimensions of the operands must be compatible, but"
            " got 'tensor<10x5x4x4xf32>' and 'tensor<10x6x4x3xf32>'",
            "f32[10,5,4,4]; f32[10,6,4,3]", "f32[10,6,4,3]"),
    refused(LEFT, "triangular_solve_c4", "", "f32[4,4]; f32[4,3]", "f32[4,4]"),
    refused(INVALID, "triangular_solve_i6", "Invalid transpose option value for triangular solve",
            "f32[4,4]; f32[4,3]", "f32[4,3]"),
    refused(Fft("FFT", (9, 9, 9)), "fft_c1", "operand rank must not be less than fft rank of 3 for"
            " operand of type 'tensor<3x9xcomplex<f32>>'", "c64[3,9]", "c64[3,9]"),
    refused(Fft("RFFT", (9,)), "fft_c2", "RFFT requires f32 or f64 input type, but is given"
            " 'f16'.", "f16[3,9]", "c64[3,5]"),
    refused(Fft("IFFT", (9,)), "fft_c2", "FFT/IFFT/IRFFT take a complex tensor as input, but is"
            " given 'tensor<3x9xf32>'.", "f32[3,9]", "c64[3,9]"),
    refused(Fft("IRFFT", (16,)), "fft_c2", "", "c64[3,9]", "c64[3,16]"),
    refused(Fft("FFT", ()), "fft_c3", "rank must be between 1 and 3, but got 0.", "c64[3]",
            "c64[3]"),
    refused(Fft("FFT", (1, 1, 1, 1)), "fft_c3", "but got 4.", "c64[1,1,1,1]", "c64[1,1,1,1]"),
    refused(Fft("RFFT", (9, 9)), "fft_c4", "RFFT requires innermost dimensions to be compatible"
            " with fft_length. Got: 3, 9 but wanted 9, 9.", "f32[3,9]", "c64[3,5]"),
    refused(Fft("IRFFT", (9, 9)), "fft_c4", "IRFFT requires non-final dimensions to be compatible"
            " with fft_length. Got: 3, 9 but wanted 9, 9, and 3 != 9.", "c64[3,9]", "f32[3,9]"),
    refused(Fft("IRFFT", (4, 16)), "fft_c4", "Got: -9223372036854775808, 3, 15 but wanted 4, 16,"
            " and 3 != 4.", "c64[?,3,15]", "f32[?,4,16]"),
    refused(Fft("IRFFT", (16,)), "fft_c5", "compatible with fft_length[-1]/2+1. Got: 10 but"
            " fft_length is 16.", "c64[3,10]", "f32[3,16]"),
    refused(Fft("RFFT", (9,)), "fft_c5", "", "f32[3,9]", "c64[3,9]"),
    refused(Rng("UNIFORM"), "rng_c1", "", "f32[]; f32[]; s64[1]", "s32[?]"),
    refused(Rng("NORMAL"), "rng_c2", "mu and sigma must be floats", "s32[]; s32[]; s64[1]",
            "s32[?]"),
    refused(Rng("UNIFORM"), "rng_c3", "", "f32[]; f32[]; s64[2]=2,3", "f32[2,4]"),
    refused(Rng("UNIFORM"), "rng_c3", "", "f32[]; f32[]; s64[7]", "f32[?]"),
    refused(RngBitGenerator("DEFAULT"), "rng_bit_generator_c1", "output state shape must be"
            " compatible with initial state shape. Got: 'tensor<2xui64>' and 'tensor<3xui64>'",
            "u64[2]", "u64[3]; u32[10]"),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_broken_constraint_is_named(case: Case) -> None:
    check_refused(case)


ACCEPTED = [
    Case(Cholesky(), "f32[2,3,?]", "f32[2,?,3]"),
    Case(LEFT, "f32[10,4,4]; f32[10,4,3]", "f32[10,4,3]"),
    Case(RIGHT, "f32[4,4]; f32[3,4]", "f32[?,4]"),
    Case(Fft("FFT", (9,)), "c64[3,9]", "c64[3,9]"),
    Case(Fft("FFT", (3, 9)), "c64[?,9]", "c64[3,9]"),
    Case(Fft("RFFT", (9,)), "f32[3,9]", "c64[3,5]"),
    Case(Fft("RFFT", (0,)), "f32[3,0]", "c64[3,0]"),
    Case(Fft("IRFFT", (16,)), "c128[3,9]", "f64[3,16]"),
    Case(Fft("IRFFT", (0,)), "c64[3,0]", "f32[3,0]"),
    Case(Fft("IRFFT", (0,)), "c64[3,1]", "f32[3,0]"),
    Case(Rng("UNIFORM"), "s32[]; s32[]; s64[2]=2,3", "s32[2,3]"),
    Case(Rng("NORMAL"), "f32[]; f32[]; s64[2]", "f32[2,3]"),
    Case(Rng("NORMAL"), "f32[]; f32[]; s64[0]", "f32[]"),
    Case(RngBitGenerator("PHILOX"), "u64[4]", "u64[4]; u32[2,2]"),
    Case(RngBitGenerator("THREE_FRY"), "u64[?]", "u64[2]; u32[2,2]"),
]


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.id)
def test_types_fit(case: Case) -> None:
    case.verify()


@pytest.mark.parametrize(
    ("op", "operands", "inferred"),
    [
        (Cholesky(), "f32[2,<=5,?]", "tensor<2x?x?xf32, #stablehlo.bounds<?, 5, ?>>"),
        (RIGHT, "f32[<=5,4]; f32[?,<=7]", "tensor<?x?xf32, #stablehlo.bounds<?, 7>>"),
        (
            Fft("RFFT", (9,)),
            "f32[3,<=3,<=10]",
            "tensor<3x?x5xcomplex<f32>, #stablehlo.bounds<?, 3, ?>>",
        ),
        (Fft("IRFFT", (9,)), "c64[3,<=3,<=17]", "tensor<3x?x9xf32, #stablehlo.bounds<?, 3, ?>>"),
        (Rng("UNIFORM"), "f32[]; f32[]; s64[3]", "tensor<?x?x?xf32>"),
    ],
)
def test_bounds_and_unknown_sizes_are_carried_through(op: Op, operands: str, inferred: str) -> None:
    assert type_text(op.infer(read_types(operands))) == inferred
