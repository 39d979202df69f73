"""Rules for linear algebra and transforms; a triangle that an op does not read is excluded."""

from __future__ import annotations

from hloscope.affine import Dim, Expr, Range
from hloscope.indexing.access import Accesses
from hloscope.indexing.map import IndexingMap
from hloscope.indexing.rules.registry import (
    MapBuilder,
    dims,
    exact,
    input_to_output,
    output_to_input,
    over,
    sizes,
)
from hloscope.ir import Dims, Instruction
from hloscope.ops import Cholesky, Fft, TriangularSolve


@output_to_input(Fft)
def _(ins: Instruction, op: Fft, output: int) -> tuple[Accesses, ...]:
    return (_transformed(sizes(ins.type), sizes(ins.operands[0].type), len(op.fft_length)),)


@input_to_output(Fft)
def _(ins: Instruction, op: Fft, operand: int) -> tuple[Accesses, ...]:
    return (_transformed(sizes(ins.operands[0].type), sizes(ins.type), len(op.fft_length)),)


def _transformed(here: Dims, there: Dims, count: int) -> Accesses:
    """Return the access to all elements along the last `count` dimensions.

    The other coordinates are those of the index that the access starts from. `here` has the sizes
    of the array that the access starts from, `there` those of the accessed one.
    """
    at = MapBuilder(here)
    batch = len(here) - count
    return exact(at.map([*dims(batch), *[at.range(size) for size in there[batch:]]]))


def _at_most(at: MapBuilder, low: Expr, high: Expr, size: int) -> None:
    """Add the constraint `low <= high` of two indices to the builder.

    `size` is the number of values of each index.
    """
    at.require(high - low, 0, size - 1)


# Cholesky: a matrix that is not positive definite gives a matrix of NaNs, the triangle that is not
# the factor's included.  So each element of the result reads the whole triangle that is read.


def _triangle(op: Cholesky, row: Expr, column: Expr) -> tuple[Expr, Expr]:
    """Return the coordinates `(larger, smaller)` of elements in the triangle that is read.

    They are row and column if the lower triangle is read, else column and row.
    """
    return (row, column) if op.lower else (column, row)


@output_to_input(Cholesky)
def _(ins: Instruction, op: Cholesky, output: int) -> tuple[Accesses, ...]:
    shape = sizes(ins.type)
    at, batch, n = MapBuilder(shape), len(shape) - 2, shape[-1]
    row, column = at.range(n), at.range(n)
    greater, smaller = _triangle(op, row, column)
    _at_most(at, smaller, greater, n)
    return (exact(at.map([*dims(batch), row, column])),)


@input_to_output(Cholesky)
def _(ins: Instruction, op: Cholesky, operand: int) -> tuple[Accesses, ...]:
    shape = sizes(ins.type)
    at, batch, n = MapBuilder(shape), len(shape) - 2, shape[-1]
    greater, smaller = _triangle(op, Dim(batch), Dim(batch + 1))
    _at_most(at, smaller, greater, n)
    return (exact(at.map([*dims(batch), at.range(n), at.range(n)])),)


_NO_FACTOR = "what is left of a triangle that has no factor is not said"


def in_place(shape: Dims, op: Cholesky) -> Accesses:
    """Return the access of a Cholesky that leaves the other triangle unchanged.

    It is the same in both directions. `shape` has the sizes of the array.
    """
    batch, n = len(shape) - 2, shape[-1]
    here = _triangle(op, Dim(batch), Dim(batch + 1))
    at = MapBuilder(shape)
    row, column = at.range(n), at.range(n)
    there = _triangle(op, row, column)
    for greater, smaller in (here, there):
        _at_most(at, smaller, greater, n)
    factor = at.map([*dims(batch), row, column])
    at = MapBuilder(shape)
    at.require(here[1] - here[0], 1, n - 1)
    return over(_NO_FACTOR, factor, at.map(dims(batch + 2)))


# Triangular solve.  In terms of the lower triangular matrix T of T y = b, y[i] reads b[k] for
# k <= i and T[r, c] for c <= r <= i.  An upper triangle turns the order around; a transposition,
# or solving from the right, exchanges the rows and columns of `a`.


class _Solve:
    """Positions of the coordinates of `T y = b` in the operands of a triangular solve.

    `T` is the lower triangular matrix after transpositions, `b` the right side.
    """

    def __init__(self, ins: Instruction, op: TriangularSolve) -> None:
        self.a, self.b = (sizes(operand.type) for operand in ins.operands)
        self.rank, self.n = len(self.b), self.a[-1]
        # Solving from the right solves the transposed system, so a second transposition cancels it.
        transposed = op.transpose_a.upper() in ("TRANSPOSE", "ADJOINT")
        self.swapped = transposed == op.left_side
        self.forward = op.lower != self.swapped
        self.unit_diagonal = op.unit_diagonal
        self.solved = self.rank - 2 if op.left_side else self.rank - 1
        self.free = self.rank - 1 if op.left_side else self.rank - 2

    def before(self, at: MapBuilder, first: Expr, second: Expr, gap: int = 0) -> None:
        """Require that element `first` of `y` is solved at least `gap` steps before `second`."""
        difference = second - first if self.forward else first - second
        at.require(difference, gap, self.n - 1)

    def matrix(self, row: Expr, column: Expr) -> list[Expr]:
        """Return the index into operand `a` of the element of T at a row and column."""
        place = (column, row) if self.swapped else (row, column)
        return [*dims(self.rank - 2), *place]

    def vectors(self, at: MapBuilder, solved: Expr, free: Expr) -> list[Expr]:
        """Return the index into `b` or the result from its coordinates.

        `solved` is the coordinate along which the system is solved, `free` the number of the right
        side.
        """
        index = dims(self.rank)
        index[self.solved], index[self.free] = solved, free
        return index

    def through_b(self, *, from_output: bool) -> IndexingMap:
        """Return the map between operand `b` and the result, from the result if `from_output`."""
        at = MapBuilder(self.b)
        here, there = Dim(self.solved), at.range(self.n)
        self.before(at, *((there, here) if from_output else (here, there)))
        return at.map(self.vectors(at, there, Dim(self.free)))

    def read_of_a(self) -> IndexingMap:
        """Return the map from an element of the result to the elements of `a` that it reads."""
        at = MapBuilder(self.b)
        row, column = at.range(self.n), at.range(self.n)
        self.before(at, row, Dim(self.solved))
        self.before(at, column, row, int(self.unit_diagonal))
        return at.map(self.matrix(row, column))

    def reach_of_a(self) -> IndexingMap:
        """Return the map from an element of `a` to the elements of the result that read it."""
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
