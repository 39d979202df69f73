"""Addresses that are sums of indices times strides: read off, so that nothing has to be proved.

Most movement is of this kind: transposes, broadcasts, slices, reverses of whole arrays.
"""

from __future__ import annotations

from typing import NamedTuple

from hloscope.affine import POS_INF, Const, Dim, Expr, Sum
from hloscope.indexing import IndexingMap, major_to_minor
from hloscope.ir import Dims, TensorType
from hloscope.layouts import Mode, Strided


class Strides(NamedTuple):
    """An address: an offset, and for each index of the output how far one step of it leads."""

    steps: tuple[int, ...]
    offset: int = 0

    def is_same(self, other: Strides, sizes: Dims) -> bool:
        """Are the addresses equal at every index of an array of these sizes, none of them 0?"""
        steps = zip(self.steps, other.steps, sizes, strict=True)
        return self.offset == other.offset and all([a == b or n == 1 for a, b, n in steps])

    def form(self, output: TensorType) -> Strided:
        """From addresses in the output to these ones."""
        order = major_to_minor(output)[::-1]
        digits = [Mode(output.shape[d], self.steps[d]) for d in order]
        return Strided(tuple(digits), self.offset).merged()


def own_strides(type_: TensorType) -> Strides:
    """The addresses of an array's own elements; it is not tiled."""
    steps, below = [0] * type_.rank, 1
    for d in reversed(major_to_minor(type_)):
        steps[d] = below
        below *= type_.shape[d]
    return Strides(tuple(steps))


def strides_of(m: IndexingMap, source: TensorType, output: TensorType) -> Strides | None:
    """The address in the source of what stands at an index of the output, if it is such a sum.

    Args:
        m: From an index of the output to that of its element in the source.
        source: Type of the source.
        output: Type of the output; if the map leaves out some index of it, there is no such sum.

    >>> from hloscope.hlo_parser import parse_type
    >>> turn = IndexingMap.parse("(d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, 3]")
    >>> strides_of(turn, parse_type("f32[4,8]"), parse_type("f32[8,4]"))
    Strides(steps=(1, 8), offset=0)
    """
    if m.is_undefined or m.ranges or m.runtime or m.constraints:
        return None
    if source.is_tiled or output.is_tiled or source.num_elements > POS_INF:
        return None
    if m.dims != IndexingMap.identity(output.shape).dims:
        return None
    steps, offset = [0] * output.rank, 0
    for result, stride in zip(m.results, own_strides(source).steps, strict=True):
        parts = _linear(result)
        if parts is None:
            return None
        terms, const = parts
        for d, by in terms:
            steps[d] += by * stride
        offset += const * stride
    return Strides(tuple(steps), offset)


def _linear(e: Expr) -> tuple[list[tuple[int, int]], int] | None:
    """Dimensions with their factors, and a constant, if the expression is a sum of these."""
    match e:
        case Const(value):
            return [], value
        case Dim(index):
            return [(index, 1)], 0
        case Sum(terms, const):
            found = [(term.index, by) for term, by in terms if isinstance(term, Dim)]
            return (found, const) if len(found) == len(terms) else None
    return None
