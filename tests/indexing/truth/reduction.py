"""Cases of reductions, windows, scans and sorts: unions of marks in numpy's own reductions."""

from __future__ import annotations

from itertools import product

import numpy as np

from hloscope.ir.graph import Computation
from hloscope.ir.types import ELEMENT_TYPES, TensorType
from hloscope.ops.batch_norm import BatchNormGrad, BatchNormInference, BatchNormTraining
from hloscope.ops.convolution import ConvDimensions, Convolution
from hloscope.ops.reduction import Reduce, Scan, Sort, TopK
from hloscope.ops.windows import ReduceWindow, SelectAndScatter, Window
from tests.indexing.truth.generator import Gen, body, case
from tests.indexing.truth.marks import Case, Ints, Marks, as_marks, empty, indices, union, union_all
from tests.indexing.truth.shape import padded


def _reducer(g: Gen) -> tuple[list[tuple[int, ...]], tuple[Computation, ...]]:
    """A body that combines values, each on its own or with all others; which are together."""
    n = g.number(1, 2)
    together = [(i,) if g.chance(0.5) else tuple(range(n)) for i in range(n)]
    results = [[*row, *[n + i for i in row]] for row in together]
    return together, (body(2 * n, results),)


def _combined(
    together: list[tuple[int, ...]], parts: list[Marks], applied: bool = True
) -> Marks | tuple[Marks, ...]:
    """The outputs of a reduction of `parts`; all are as they begin if no body is applied."""
    outputs = [union_all(parts[i] for i in row) for row in together] if applied else parts
    return tuple(outputs) if len(parts) > 1 else outputs[0]


@case("reduce")
def reduce(g: Gen) -> Case:
    together, calls = _reducer(g)
    n = len(together)
    shape = g.shape()
    inputs, inits = ([g.array(s) for _ in range(n)] for s in (shape, ()))
    axes = g.some(len(shape))
    reduced = [
        as_marks(np.bitwise_or.reduce(x.marks, axis=axes)) | init.marks
        for x, init in zip(inputs, inits, strict=True)
    ]
    applied = 0 not in [shape[d] for d in axes]
    outputs = _combined(together, reduced, applied)
    return g.case(Reduce(axes), [*inputs, *inits], outputs, calls=calls)


def window_of(g: Gen, rank: int, *, reversal: bool = False) -> Window:
    def some(lo: int, hi: int, usual: int) -> Ints:
        return tuple(g.number(lo, hi) if g.chance(0.5) else usual for _ in range(rank))

    return Window(
        tuple(g.number(1, 3) for _ in range(rank)),
        some(1, 3, 1),
        tuple(zip(some(-1, 2, 0), some(-1, 2, 0), strict=True)),
        some(1, 3, 1),
        some(1, 2, 1),
        tuple(reversal and g.chance(0.3) for _ in range(rank)),
    )


def spread(marks: Marks, window: Window, axes: Ints, fill: int) -> Marks | None:
    """The base area of a window: dilated, then padded or cut, along `axes`."""
    result: Marks | None = marks
    for k, axis in enumerate(axes):
        low, high = window.padding[k]
        if result is not None:
            result = padded(result, axis, low, high, window.base_dilations[k] - 1, fill)
    return result


def taps(base: Marks, window: Window, axes: Ints) -> list[tuple[Ints, Marks]]:
    """For each tap of the window: the base elements under it at every window position."""
    counts = []
    for k, axis in enumerate(axes):
        reach = (window.sizes[k] - 1) * window.window_dilations[k] + 1
        counts.append(len(range(0, base.shape[axis] - reach + 1, window.strides[k])))
    found = []
    for tap in product(*map(range, window.sizes)):
        at: list[slice] = [slice(None)] * base.ndim
        for k, axis in enumerate(axes):
            start = tap[k] * window.window_dilations[k]
            stop = start + (counts[k] - 1) * window.strides[k] + 1
            at[axis] = slice(start, stop, window.strides[k]) if counts[k] else slice(0, 0)
        found.append((tap, as_marks(base[tuple(at)])))
    return found


@case("reduce_window")
def reduce_window(g: Gen) -> Case:
    together, calls = _reducer(g)
    n = len(together)
    while True:
        shape = g.shape(0, 3, largest=6, most=60)
        window, axes = window_of(g, len(shape)), tuple(range(len(shape)))
        inputs, inits = ([g.array(s) for _ in range(n)] for s in (shape, ()))
        bases = [spread(x.marks, window, axes, 0) for x in inputs]
        if None not in [None if b is None else 0 for b in bases]:
            break
    reduced = []
    for base, init in zip(bases, inits, strict=True):
        assert base is not None
        parts = [part for _, part in taps(base, window, axes)]
        reduced.append(as_marks(union_all(parts) | init.marks))
    outputs = _combined(together, reduced)
    return g.case(ReduceWindow(window), [*inputs, *inits], outputs, calls=calls)


def _plain_convolution(lhs: Marks, rhs: Marks, window: Window) -> Marks:
    """`[batch, feature, spatial…]` by `[in, out, spatial…]`, one group."""
    rank = lhs.ndim - 2
    axes = tuple(range(2, 2 + rank))
    base = spread(lhs, window, axes, 0)
    assert base is not None
    kernel = np.flip(rhs, tuple(2 + k for k in range(rank) if window.reversal[k]))
    total: Marks | None = None
    for tap, under in taps(base, window, axes):
        for i in range(lhs.shape[1]):
            at: tuple[int | slice, ...] = (i, slice(None), *tap)
            weights = kernel[at].reshape((1, -1) + (1,) * rank)
            met = under[:, i : i + 1]
            term = as_marks(np.where(met != 0, union(met, weights), 0))
            total = term if total is None else union(total, term)
    if total is None:
        spatial = taps(base, window, axes)[0][1].shape[2:]
        return empty((lhs.shape[0], rhs.shape[1], *spatial))
    return total


@case("convolution")
def convolution(g: Gen) -> Case:
    """Groups as in the specification: split, convolve, concatenate.

    An output element reads a kernel element where it meets the input, not where it meets padding.
    """
    rank = g.number(0, 2)
    kind = g.number(0, 3)
    features, batches = (g.number(2, 3) if kind == k else 1 for k in (1, 2))
    while True:
        window = window_of(g, rank, reversal=True)
        n, i, o = (
            g.number(1, 2) * batches,
            g.number(1, 2) * features,
            g.number(1, 2) * features * batches,
        )
        shape = (n, i, *(g.number(1, 4) for _ in range(rank)))
        if spread(empty(shape), window, tuple(range(2, 2 + rank)), 0) is not None:
            break
    orders = [g.permutation(rank + 2) for _ in range(3)]
    places = [[order.index(d) for d in range(rank + 2)] for order in orders]
    kernel_shape = (i // features, o, *window.sizes)
    lhs = g.array([shape[d] for d in orders[0]])
    rhs = g.array([kernel_shape[d] for d in orders[1]])
    image, kernel = np.transpose(lhs.marks, places[0]), np.transpose(rhs.marks, places[1])
    groups = features * batches
    left = np.split(image, groups, axis=0 if batches > 1 else 1)
    right = np.split(kernel, groups, axis=1)
    parts = [_plain_convolution(a, b, window) for a, b in zip(left, right, strict=True)]
    result = np.concatenate(parts, axis=1)
    (ib, if_, *is_), (ki, ko, *ks), (ob, of, *os) = places
    dims = ConvDimensions(ib, if_, tuple(is_), ki, ko, tuple(ks), ob, of, tuple(os))
    op = Convolution(window, dims, features, batches)
    return g.case(op, [lhs, rhs], np.transpose(result, orders[2]))


@case("select_and_scatter", exact=False)
def select_and_scatter(g: Gen) -> Case:
    """Any window over an element may select it, so its source and all it compares are read."""
    while True:
        shape = g.shape(0, 2, largest=6, zero=False)
        rank = len(shape)
        ones, axes = (1,) * rank, tuple(range(rank))
        plain = window_of(g, rank)
        padding = tuple((max(a, 0), max(b, 0)) for a, b in plain.padding)
        window = Window(plain.sizes, plain.strides, padding, ones, ones, (False,) * rank)
        x, init = g.array(shape), g.array(())
        base = spread(x.marks, window, axes, 0)
        assert base is not None
        under = taps(base, window, axes)
        if under[0][1].size:
            break
    source = g.array(under[0][1].shape)
    result = as_marks(np.full_like(x.marks, init.marks[()]))
    first = x.first[0]
    for at in indices(source.marks.shape):
        compared = 0
        for _, part in under:
            compared |= part[at]
        for flat in range(x.marks.size):
            if compared >> (first + flat) & 1:
                element = np.unravel_index(flat, shape)
                result[element] |= source.marks[at]
                if len(under) > 1:  # else there is nothing to select from
                    result[element] |= compared
    calls = (body(2, [(0, 1)]), body(2, [(0, 1)]))
    return g.case(SelectAndScatter(window), [x, source, init], result, calls=calls)


@case("sort")
def sort(g: Gen) -> Case:
    """An element may come from anywhere in its line; the comparator reads the first operand."""
    shape = g.shape(1, 3)
    operands = [g.array(shape) for _ in range(g.number(1, 3))]
    axis = g.number(0, len(shape) - 1)
    lines = [
        np.broadcast_to(np.bitwise_or.reduce(o.marks, axis=axis, keepdims=True), shape)
        for o in operands
    ]
    compared = lines[0] if shape[axis] > 1 else empty(shape)
    marks = tuple(union(line, compared) for line in lines)
    calls = (body(2 * len(operands), [(0, 1)]),)
    return g.case(Sort(axis), operands, marks if len(marks) > 1 else marks[0], calls=calls)


@case("scan")
def scan(g: Gen) -> Case:
    shape = g.shape(1, 3)
    axis, backwards = g.number(0, len(shape) - 1), g.chance(0.5)
    slice_shape = (*shape[:axis], *shape[axis + 1 :])
    x, init = g.array(shape), g.array(slice_shape)
    steps = list(np.moveaxis(x.marks, axis, 0))
    carry, made = init.marks, []
    for step in steps[::-1] if backwards else steps:
        carry = as_marks(union(carry, step))
        made.append(carry)
    stacked = np.stack(made[::-1] if backwards else made, axis) if made else x.marks
    type_ = TensorType(ELEMENT_TYPES["f32"], slice_shape)
    calls = (body(2, [(0, 1), (0, 1)], type_),)
    return g.case(Scan(axis, 1, backwards), [x, init], (stacked, carry), calls=calls)


@case("top_k")
def top_k(g: Gen) -> Case:
    x = g.array(g.shape(1, 3, zero=False))
    k = g.number(1, x.marks.shape[-1])
    line = np.bitwise_or.reduce(x.marks, axis=-1, keepdims=True)
    marks = np.broadcast_to(line, (*x.marks.shape[:-1], k))
    return g.case(TopK(k), [x], (marks, marks))


def _per_feature(marks: Marks, feature: int) -> Marks:
    """The union of all elements of each feature."""
    axes = tuple(d for d in range(marks.ndim) if d != feature)
    return as_marks(np.bitwise_or.reduce(marks, axis=axes))


def _along(marks: Marks, feature: int, rank: int) -> Marks:
    return marks.reshape([-1 if d == feature else 1 for d in range(rank)])


@case("batch_norm")
def batch_norm(g: Gen) -> Case:
    shape = g.shape(1, 3, zero=False)
    rank, feature, kind = len(shape), g.number(0, len(shape) - 1), g.number(0, 2)
    x = g.array(shape)
    features = [g.array((shape[feature],)) for _ in range((2, 4, 3)[kind])]
    all_x = _per_feature(x.marks, feature)
    if kind == 0:
        scale, offset = (f.marks for f in features)
        marks = union(x.marks, _along(all_x | scale | offset, feature, rank))
        return g.case(BatchNormTraining(0.1, feature), [x, *features], (marks, all_x, all_x))
    if kind == 1:
        total = union_all(f.marks for f in features)
        marks = union(x.marks, _along(total, feature, rank))
        return g.case(BatchNormInference(0.1, feature), [x, *features], marks)
    scale, mean, variance = (f.marks for f in features)
    grad = g.array(shape)
    sums = all_x | mean | _per_feature(grad.marks, feature)
    marks = np.broadcast_to(_along(sums | scale | variance, feature, rank), shape)
    grad_scale = sums | variance
    grad_offset = _per_feature(grad.marks, feature)
    outputs = (marks, grad_scale, grad_offset)
    return g.case(BatchNormGrad(0.1, feature), [x, *features, grad], outputs)
