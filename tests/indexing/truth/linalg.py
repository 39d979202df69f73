"""Cases of products and of linear algebra: the textbook algorithms on marks."""

from __future__ import annotations

from math import prod

import numpy as np

from hloscope.ops.contraction import Dot, DotDimensions, DotGeneral, RaggedDot, ScaledDot
from hloscope.ops.linalg import Cholesky, Fft, TriangularSolve
from tests.indexing.truth.generator import Gen, case
from tests.indexing.truth.marks import Case, Ints, Marks, all_of, as_marks, empty, indices, union


def _sides(g: Gen) -> tuple[DotDimensions, Ints, Ints]:
    """Random dimension numbers and the shapes of both sides."""
    batch, contracting, left, right = (
        tuple(g.number(1, 3) for _ in range(g.number(0, n))) for n in (1, 2, 2, 1)
    )
    shapes, places = [], []
    for free in (left, right):
        sizes = (*batch, *contracting, *free)
        order = g.permutation(len(sizes))
        shapes.append(tuple(sizes[d] for d in order))
        at = [order.index(d) for d in range(len(sizes))]
        places.append((tuple(at[: len(batch)]), tuple(at[len(batch) : len(sizes) - len(free)])))
    (lb, lc), (rb, rc) = places
    return DotDimensions(lb, rb, lc, rc), shapes[0], shapes[1]


def _split(marks: Marks, batch: Ints, contracting: Ints) -> tuple[Marks, Ints, Ints]:
    """`marks` as `[batch, free, contracting]`, and the sizes of batch and free dimensions."""
    free = tuple(d for d in range(marks.ndim) if d not in batch + contracting)
    b, f, c = (tuple(marks.shape[d] for d in part) for part in (batch, free, contracting))
    moved = np.transpose(marks, batch + free + contracting)
    return moved.reshape(prod(b), prod(f), prod(c)), b, f


def product_of(lhs: Marks, rhs: Marks, dims: DotDimensions) -> Marks:
    """The marks of a dot."""
    a, batch, m = _split(lhs, dims.lhs_batch, dims.lhs_contracting)
    b, _, n = _split(rhs, dims.rhs_batch, dims.rhs_contracting)
    result = empty((a.shape[0], a.shape[1], b.shape[1]))
    for i, j, k in indices(result.shape):
        result[i, j, k] = all_of(a[i, j]) | all_of(b[i, k])
    return result.reshape(batch + m + n)


@case("dot_general")
def dot_general(g: Gen) -> Case:
    dims, left, right = _sides(g)
    a, b = g.array(left), g.array(right)
    return g.case(DotGeneral(dims), [a, b], product_of(a.marks, b.marks, dims))


@case("dot")
def dot(g: Gen) -> Case:
    k = g.number(1, 4)
    a, b = g.array((*g.shape(0, 1), k)), g.array((k, *g.shape(0, 1)))
    dims = DotDimensions((), (), (a.marks.ndim - 1,), (0,))
    return g.case(Dot(), [a, b], product_of(a.marks, b.marks, dims))


@case("scaled_dot")
def scaled_dot(g: Gen) -> Case:
    """Each scale belongs to a block of elements along the contracting dimensions."""
    dims, left, right = _sides(g)
    factor = {c: g.number(1, 3) for c in range(len(dims.lhs_contracting))}
    operands, both = [], []
    for shape, contracting in ((left, dims.lhs_contracting), (right, dims.rhs_contracting)):
        wide = list(shape)
        for c, d in enumerate(contracting):
            wide[d] *= factor[c]
        x, scale = g.array(wide), g.array(shape)
        repeated = scale.marks
        for axis, n in enumerate(shape):
            repeated = np.repeat(repeated, wide[axis] // n, axis)
        operands.append((x, scale))
        both.append(as_marks(union(x.marks, repeated)))
    (a, sa), (b, sb) = operands
    return g.case(ScaledDot(dims), [a, b, sa, sb], product_of(both[0], both[1], dims))


@case("ragged_dot")
def ragged_dot(g: Gen) -> Case:
    """One ragged row dimension: each row of `lhs` meets the matrix of its group."""
    m, k, n, groups = g.number(1, 4), g.number(1, 3), g.number(1, 3), g.number(1, 3)
    cuts = sorted(g.number(0, m) for _ in range(groups - 1))
    lengths = np.diff([0, *cuts, m])
    a, b = g.array((m, k)), g.array((groups, k, n))
    sizes = g.array((groups,), element="s32", values=lengths)
    group_of = np.repeat(np.arange(groups), lengths)
    result = empty((m, n))
    for i, j in indices((m, n)):
        meets = b.marks[group_of[i], :, j]
        result[i, j] = all_of(a.marks[i]) | all_of(meets) | all_of(sizes.marks)
    dims = DotDimensions((), (), (1,), (1,))
    note = f"group sizes {lengths.tolist()}"
    return g.case(RaggedDot(dims, (0,), (0,)), [a, b, sizes], result, note=note)


def _batches(g: Gen) -> tuple[Ints, int]:
    return g.shape(0, 1, largest=2, zero=False), g.number(1, 4)


@case("cholesky")
def cholesky(g: Gen) -> Case:
    """A matrix that has no factor gives NaNs: all of its triangle matters everywhere."""
    (batch, n), lower = _batches(g), g.chance(0.5)
    x = g.array((*batch, n, n))
    result = empty(x.marks.shape)
    for b in indices(batch):
        result[b] = all_of((np.tril if lower else np.triu)(x.marks[b]))
    return g.case(Cholesky(lower), [x], result)


@case("triangular_solve")
def triangular_solve(g: Gen) -> Case:
    """Substitution, forwards or backwards."""
    batch, n = _batches(g)
    left, lower, unit = g.chance(0.5), g.chance(0.5), g.chance(0.3)
    transpose = g.pick(["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
    m = g.number(1, 3)
    a, rhs = g.array((*batch, n, n)), g.array((*batch, *((n, m) if left else (m, n))))
    result = empty(rhs.marks.shape)
    for at in indices(batch):
        matrix = a.marks[at] if transpose == "NO_TRANSPOSE" else a.marks[at].T
        is_lower = lower == (transpose == "NO_TRANSPOSE")
        b = rhs.marks[at]
        if not left:  # x op(a) = b is op(a)' x' = b'
            matrix, b, is_lower = matrix.T, b.T, not is_lower
        x = empty((n, m))
        order = range(n) if is_lower else range(n - 1, -1, -1)
        for column in range(m):
            done: list[int] = []
            for i in order:
                mark = b[i, column] | (0 if unit else matrix[i, i])
                for k in done:
                    mark |= matrix[i, k] | x[k, column]
                x[i, column] = mark
                done.append(i)
        result[at] = x if left else x.T
    return g.case(TriangularSolve(left, lower, unit, transpose), [a, rhs], result)


@case("fft")
def fft(g: Gen) -> Case:
    """Each result element sums its whole block; `irfft` reads half of it."""
    kind = g.pick(["FFT", "IFFT", "RFFT", "IRFFT"])
    batch, lengths = g.shape(0, 1, largest=3, zero=False), g.shape(1, 2, largest=4, zero=False)
    half = (*lengths[:-1], lengths[-1] // 2 + 1)
    inner, outer = (half if kind == k else lengths for k in ("IRFFT", "RFFT"))
    x = g.array((*batch, *inner), element="f32" if kind == "RFFT" else "c64")
    axes = tuple(range(-len(lengths), 0))
    total = np.bitwise_or.reduce(x.marks, axis=axes, keepdims=True)
    result = np.broadcast_to(total, (*batch, *outer))
    element = "f32" if kind == "IRFFT" else "c64"
    return g.case(Fft(kind, lengths), [x], result, element=element)
