"""Linear algebra and transforms.

The triangle that an op does not read, and the one it does not define in its result, are left out.
"""

from __future__ import annotations

from hloscope.affine import Dim, Expr, Range
from hloscope.indexing.access import Accesses
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.rules.build import MapBuilder, dims, exact, sizes
from hloscope.indexing.rules.registry import input_to_output, output_to_input
from hloscope.ir.graph import Instruction
from hloscope.ir.types import Dims
from hloscope.ops.linalg import Cholesky, Fft, TriangularSolve


@output_to_input(Fft)
def _(ins: Instruction, op: Fft, output: int) -> tuple[Accesses, ...]:
    return (_transformed(sizes(ins.type), sizes(ins.operands[0].type), len(op.fft_length)),)


@input_to_output(Fft)
def _(ins: Instruction, op: Fft, operand: int) -> tuple[Accesses, ...]:
    return (_transformed(sizes(ins.operands[0].type), sizes(ins.type), len(op.fft_length)),)


def _transformed(here: Dims, there: Dims, count: int) -> Accesses:
    """All of the transformed dimensions, which are the last ones."""
    at = MapBuilder(here)
    batch = len(here) - count
    return exact(at.map([*dims(batch), *[at.range(size) for size in there[batch:]]]))


def _at_most(at: MapBuilder, low: Expr, high: Expr, size: int) -> None:
    """Require `low <= high` of two indices below `size`."""
    at.require(high - low, 0, size - 1)


# Cholesky, lower: L[i, j] for j <= i reads row i up to column j and the rows above j of the lower
# triangle.  Two disjoint pieces: the row where it is below row j, and the block up to row j.
# Upper is the same with rows and columns exchanged.


def _pair(op: Cholesky, rank: int) -> tuple[Expr, Expr]:
    row, column = Dim(rank - 2), Dim(rank - 1)
    return (row, column) if op.lower else (column, row)


def _matrix(op: Cholesky, rank: int, row: Expr, column: Expr) -> list[Expr]:
    return [*dims(rank - 2), *((row, column) if op.lower else (column, row))]


@output_to_input(Cholesky)
def _(ins: Instruction, op: Cholesky, output: int) -> tuple[Accesses, ...]:
    shape = sizes(ins.type)
    rank, n = len(shape), shape[-1]
    i, j = _pair(op, rank)
    at = MapBuilder(shape)
    column = at.range(n)
    at.require(i - j, 1, n - 1)
    _at_most(at, column, j, n)
    own_row = at.map(_matrix(op, rank, i, column))
    at = MapBuilder(shape)
    r, c = at.range(n), at.range(n)
    _at_most(at, j, i, n)
    _at_most(at, r, j, n)
    _at_most(at, c, r, n)
    return (exact(own_row, at.map(_matrix(op, rank, r, c))),)


@input_to_output(Cholesky)
def _(ins: Instruction, op: Cholesky, operand: int) -> tuple[Accesses, ...]:
    """A[r, c] reaches the rest of its row, and all rows from column r on."""
    shape = sizes(ins.type)
    rank, n = len(shape), shape[-1]
    r, c = _pair(op, rank)
    at = MapBuilder(shape)
    j = at.range(n)
    _at_most(at, c, j, n)
    at.require(r - j, 1, n - 1)
    own_row = at.map(_matrix(op, rank, r, j))
    at = MapBuilder(shape)
    i, j = at.range(n), at.range(n)
    _at_most(at, c, r, n)
    _at_most(at, r, j, n)
    _at_most(at, j, i, n)
    return (exact(own_row, at.map(_matrix(op, rank, i, j))),)


# Triangular solve.  In terms of the lower triangular matrix T of T y = b, y[i] reads b[k] for
# k <= i and T[r, c] for c <= r <= i.  An upper triangle turns the order around; a transposition,
# or solving from the right, exchanges the rows and columns of `a`.


class _Solve:
    """Where the coordinates of `T y = b` are in the operands."""

    def __init__(self, ins: Instruction, op: TriangularSolve) -> None:
        self.a, self.b = (sizes(operand.type) for operand in ins.operands)
        self.rank, self.n = len(self.b), self.a[-1]
        transposed = op.transpose_a.upper() in ("TRANSPOSE", "ADJOINT")
        self.swapped = transposed == op.left_side
        self.forward = op.lower != self.swapped
        self.unit_diagonal = op.unit_diagonal
        self.solved = self.rank - 2 if op.left_side else self.rank - 1
        self.free = self.rank - 1 if op.left_side else self.rank - 2

    def before(self, at: MapBuilder, first: Expr, second: Expr, gap: int = 0) -> None:
        """Require that `first` is solved before `second`, or with it if `gap` is 0."""
        difference = second - first if self.forward else first - second
        at.require(difference, gap, self.n - 1)

    def matrix(self, row: Expr, column: Expr) -> list[Expr]:
        """The index into `a` of an element of T."""
        place = (column, row) if self.swapped else (row, column)
        return [*dims(self.rank - 2), *place]

    def vectors(self, at: MapBuilder, solved: Expr, free: Expr) -> list[Expr]:
        """The index into `b`, or into the result."""
        index = dims(self.rank)
        index[self.solved], index[self.free] = solved, free
        return index

    def through_b(self, *, from_output: bool) -> IndexingMap:
        at = MapBuilder(self.b)
        here, there = Dim(self.solved), at.range(self.n)
        self.before(at, *((there, here) if from_output else (here, there)))
        return at.map(self.vectors(at, there, Dim(self.free)))

    def read_of_a(self) -> IndexingMap:
        at = MapBuilder(self.b)
        row, column = at.range(self.n), at.range(self.n)
        self.before(at, row, Dim(self.solved))
        self.before(at, column, row, int(self.unit_diagonal))
        return at.map(self.matrix(row, column))

    def reach_of_a(self) -> IndexingMap:
        at = MapBuilder(self.a)
        row, column = Dim(self.rank - 2), Dim(self.rank - 1)
        if self.swapped:
            row, column = column, row
        solved: Range = at.range(self.n)
        self.before(at, row, solved)
        self.before(at, column, row, int(self.unit_diagonal))
        return at.map(self.vectors(at, solved, at.range(self.b[self.free])))


@output_to_input(TriangularSolve)
def _(ins: Instruction, op: TriangularSolve, output: int) -> tuple[Accesses, ...]:
    solve = _Solve(ins, op)
    return (exact(solve.read_of_a()), exact(solve.through_b(from_output=True)))


@input_to_output(TriangularSolve)
def _(ins: Instruction, op: TriangularSolve, operand: int) -> tuple[Accesses, ...]:
    solve = _Solve(ins, op)
    return (exact(solve.reach_of_a() if operand == 0 else solve.through_b(from_output=False)),)
