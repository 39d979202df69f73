"""Linear algebra and Fourier transforms."""

from __future__ import annotations

from typing import ClassVar

from hloscope.errors import message_of
from hloscope.ir import Callees, Dims, Op, Type, Types
from hloscope.ops.inference import (
    array,
    common_element,
    complex_of,
    count,
    extents,
    may_be_one_size,
    op,
    raw_sizes,
    real_part,
    require,
    tensor,
    tensors,
    with_element,
    without_layouts,
)
from hloscope.ops.result_types import mismatch


@op("cholesky")
class Cholesky(Op):
    """Cholesky factor of each matrix of a batch; reads the lower or the upper triangle.

    Source: StableHLO spec `cholesky` (C1)-(C3).
    """

    result_rule: ClassVar[str] = "cholesky_c1"
    lower: bool = False

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1)
        t = tensor(self.name, operands[0], "the operand")
        require(
            t.rank >= 2,
            "cholesky_c2",
            f"argument 'a' must have rank >= 2, got shape {raw_sizes(t)}.",
        )
        require(
            may_be_one_size(*t.sizes[-2:]),
            "cholesky_c3",
            f"minor dimensions of 'a' must have equal size, got shape {raw_sizes(t)}.",
        )
        return without_layouts(t)


@op("triangular_solve")
class TriangularSolve(Op):
    """Solves `op(a) x = b` (left side) or `x op(a) = b` for triangular `a`.

    Source: StableHLO spec `triangular_solve` (C1)-(C4).
    """

    result_rule: ClassVar[str] = "triangular_solve_c4"
    left_side: bool
    lower: bool
    unit_diagonal: bool
    transpose_a: str

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        a, b = tensors(self.name, operands, 2)
        element = common_element(self.name, (a, b), "triangular_solve_c1")
        alone, both = a, message_of("{} and {}", a, b)
        require(
            a.rank >= 2,
            "triangular_solve_c2",
            message_of("operand 'a' must have rank >= 2, but got {}", alone),
        )
        require(
            may_be_one_size(*a.sizes[-2:]),
            "triangular_solve_c3",
            message_of("two minor dimensions of operand 'a' must be compatible, but got {}", alone),
        )
        require(
            a.rank == b.rank,
            "triangular_solve_c2",
            message_of("operands must have equal rank, but got {}", both),
        )
        require(
            may_be_one_size(a.sizes[-1], b.sizes[-2 if self.left_side else -1]),
            "triangular_solve_c3",
            message_of(
                "shared dimension of operands 'a' and 'b' must be compatible, but got {}", both
            ),
        )
        require(
            all(map(may_be_one_size, a.sizes[:-2], b.sizes[:-2])),
            "triangular_solve_c3",
            message_of("batch dimensions of the operands must be compatible, but got {}", both),
        )
        require(
            self.transpose_a.upper() != "TRANSPOSE_INVALID",
            "triangular_solve_i6",
            "Invalid transpose option value for triangular solve",
        )
        return with_element(b, element)


@op("fft")
class Fft(Op):
    """Fourier transform of the last `len(fft_length)` dimensions.

    Source: StableHLO spec `fft` (C1)-(C5).
    """

    fft_type: str
    fft_length: Dims

    def infer(self, operands: Types, calls: Callees = ()) -> Type:
        count(self.name, operands, 1)
        t = tensor(self.name, operands[0], "the operand")
        lengths, kind = self.fft_length, self.fft_type.upper()
        wanted = ", ".join(map(str, lengths))
        require(
            1 <= len(lengths) <= 3,
            "fft_c3",
            f"rank must be between 1 and 3, but got {len(lengths)}.",
        )
        if kind == "RFFT":
            require(
                t.element.name in ("f32", "f64"),
                "fft_c2",
                message_of("RFFT requires f32 or f64 input type, but is given {}.", t.element),
            )
        else:
            require(
                t.element.kind == "complex",
                "fft_c2",
                message_of("FFT/IFFT/IRFFT take a complex tensor as input, but is given {}.", t),
            )
        require(
            len(lengths) <= t.rank,
            "fft_c1",
            message_of(
                f"operand rank must not be less than fft rank of {len(lengths)} for operand of type"
                " {}.",
                t,
            ),
        )
        dims, found = extents(t), t.sizes[-len(lengths) :]
        # A real input has a symmetric spectrum, of which only this half is returned.
        half = lengths[-1] // 2 + 1 if lengths[-1] else 0
        if kind == "RFFT":
            require(
                all(map(may_be_one_size, found, lengths)),
                "fft_c4",
                "RFFT requires innermost dimensions to be compatible with fft_length."
                f" Got: {raw_sizes(t)} but wanted {wanted}.",
            )
            last = (half, None) if half else dims[-1]
            return array(complex_of(t.element), [*dims[:-1], last])
        if kind == "IRFFT":
            for size, length in zip(found[:-1], lengths, strict=False):
                require(
                    may_be_one_size(size, length),
                    "fft_c4",
                    "IRFFT requires non-final dimensions to be compatible with fft_length."
                    f" Got: {raw_sizes(t)} but wanted {wanted}, and {size} != {length}.",
                )
            require(
                may_be_one_size(found[-1], lengths[-1] // 2 + 1)
                or (not lengths[-1] and may_be_one_size(found[-1], 0)),
                "fft_c5",
                "IRFFT requires innermost dimension to be compatible with fft_length[-1]/2+1."
                f" Got: {found[-1]} but fft_length is {wanted}.",
            )
            return array(real_part(t.element), [*dims[:-1], (lengths[-1], None)])
        return without_layouts(t)

    def broken_rule(self, inferred: Types, declared: Types) -> str:
        return mismatch(inferred, declared, number="", sizes="fft_c5", element="fft_c2")
