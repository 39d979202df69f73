"""Linear algebra and transforms."""

from __future__ import annotations

from hloscope.ir.types import TensorType
from hloscope.ops.base import Callee, Dims, Op, Type, op
from hloscope.ops.infer_util import (
    array,
    bare,
    common_element,
    complex_of,
    count,
    extents,
    may_equal,
    real_part,
    require,
    tensor,
    tensors,
)


def _check_square(op: str, t: TensorType, rank: str, square: str) -> None:
    require(t.rank >= 2, rank, f"operand 0 of `{op}` has rank {t.rank}, needs at least 2")
    rows, columns = extents(t)[-2:]
    require(may_equal(rows, columns), square, f"operand 0 of `{op}` is {rows[0]} by {columns[0]}")


@op("cholesky")
class Cholesky(Op):
    """Cholesky factor of each matrix of a batch; reads the lower or the upper triangle."""

    lower: bool = False

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1)
        t = tensor(self.name, operands[0], "the operand")
        _check_square(self.name, t, "cholesky_c2", "cholesky_c3")
        return bare(t)


@op("triangular_solve")
class TriangularSolve(Op):
    """Solves `op(a) x = b` (left side) or `x op(a) = b` for triangular `a`."""

    left_side: bool
    lower: bool
    unit_diagonal: bool
    transpose_a: str

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 2)
        a, b = tensors(self.name, operands)
        _check_square(self.name, a, "triangular_solve_c2", "triangular_solve_c3")
        require(
            a.rank == b.rank, "triangular_solve_c2", f"b has rank {b.rank}, needs {a.rank} as a has"
        )
        d = a.rank - (2 if self.left_side else 1)
        require(
            may_equal(extents(b)[d], extents(a)[-1]),
            "triangular_solve_c3",
            f"dimension {d} of b has size {b.sizes[d]}, needs {a.sizes[-1]}",
        )
        return array(common_element(self.name, (a, b), "triangular_solve_c1"), extents(b))


@op("fft")
class Fft(Op):
    """Fourier transform of the last `len(fft_length)` dimensions."""

    fft_type: str
    fft_length: Dims

    def infer(self, operands: tuple[Type, ...], calls: tuple[Callee, ...] = ()) -> Type:
        count(self.name, operands, 1)
        t = tensor(self.name, operands[0], "the operand")
        lengths = self.fft_length
        require(len(lengths) <= t.rank, "fft_c1", f"{len(lengths)} lengths for rank {t.rank}")
        require(1 <= len(lengths) <= 3, "fft_c3", f"{len(lengths)} lengths, needs 1 to 3")
        kind, dims = (
            self.fft_type.removeprefix("#stablehlo<fft_type ").upper().rstrip(">"),
            extents(t),
        )
        checked = {"RFFT": lengths, "IRFFT": lengths[:-1]}.get(kind, ())
        first = t.rank - len(lengths)
        for d, needed in enumerate(checked, first):
            found = dims[d][0]
            require(
                found in (None, needed), "fft_c4", f"dimension {d}: size {found}, needs {needed}"
            )
        if kind == "IRFFT":
            needed, found = (lengths[-1] // 2 + 1 if lengths[-1] else 0), dims[-1][0]
            last = t.rank - 1
            require(
                found in (None, needed), "fft_c5", f"dimension {last}: size {found}, needs {needed}"
            )
        if kind == "RFFT":
            half = lengths[-1] // 2 + 1 if lengths[-1] else 0
            return array(complex_of(t.element), [*dims[:-1], (half, None)])
        if kind == "IRFFT":
            return array(real_part(t.element), [*dims[:-1], (lengths[-1], None)])
        return bare(t)
