"""Linear algebra and transforms."""

from __future__ import annotations

from dataclasses import dataclass

from hloscope.ops.base import Dims, Op, op


@op("cholesky")
@dataclass(frozen=True, slots=True)
class Cholesky(Op):
    """Cholesky factor of each matrix of a batch; reads the lower or the upper triangle."""

    lower: bool = False


@op("triangular_solve")
@dataclass(frozen=True, slots=True)
class TriangularSolve(Op):
    """Solves `op(a) x = b` (left side) or `x op(a) = b` for triangular `a`."""

    left_side: bool
    lower: bool
    unit_diagonal: bool
    transpose_a: str


@op("fft")
@dataclass(frozen=True, slots=True)
class Fft(Op):
    """Fourier transform of the last `len(fft_length)` dimensions."""

    fft_type: str
    fft_length: Dims
