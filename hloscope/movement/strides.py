"""Addresses that are sums of index digits times strides; they need no proof by isl.

Most movement has this form: reshapes, transposes, broadcasts, slices, reverses of whole arrays.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from hloscope.affine import POS_INF, Const, Dim, Expr, linear
from hloscope.indexing import (
    IndexingMap,
    address_map,
    below,
    linearize,
    major_to_minor,
    padded_physical_sizes,
)
from hloscope.indexing.layouts import Strided, digits_of
from hloscope.ir import Dims, TensorType


class Strides(NamedTuple):
    """An address as a function of an index: an offset plus one term for each dimension.

    Attributes:
        forms: For each dimension, its term as a function of the coordinate, the index in that
            dimension.
        offset: Address of index 0.
    """

    forms: tuple[Strided, ...]
    offset: int = 0

    @property
    def steps(self) -> Dims | None:
        """Return the stride of each dimension in addresses.

        `None` if a dimension's coordinate has several digits with separate strides.
        """
        if any(len(form.modes) > 1 for form in self.forms):
            return None
        return tuple([form.modes[0].stride if form.modes else 0 for form in self.forms])

    def first_difference(self, other: Strides) -> Dims | None:
        """Return an index at which the addresses of `self` and `other` differ.

        Only index 0 and indices that differ from it in one dimension are tried. `None` if none of
        them shows a difference.
        """
        nowhere = [0] * len(self.forms)
        if self.offset != other.offset:
            return tuple(nowhere)
        for d, (here, there) in enumerate(zip(self.forms, other.forms, strict=True)):
            for x in sorted({*_ends(here), *_ends(there)}):
                if here(x) != there(x):
                    return tuple([*nowhere[:d], x, *nowhere[d + 1 :]])
        return None

    def address(self, index: Dims) -> int:
        """Return the address at an index."""
        return self.offset + sum([form(i) for form, i in zip(self.forms, index, strict=True)])

    def form(self, output: TensorType) -> Strided:
        """Return the function from addresses in an output to these addresses, at the same index.

        Args:
            output: Type of the output, whose layout has no tiles.
        """
        order = major_to_minor(output)[::-1]
        modes = [mode for d in order for mode in self.forms[d].modes]
        return Strided(tuple(modes), self.offset).merged()


def _ends(form: Strided) -> list[int]:
    """Return the coordinates at which a digit of `form` first becomes 1, and the last one.

    The sum of a function's digits times strides is the address term of one dimension.
    """
    ends, lower = [form.size - 1], 1
    for size, _ in form.modes:
        ends.append(lower)
        lower *= size
    return ends


def in_memory(type_: TensorType) -> int:
    """Return the number of elements of an array in memory, padding included."""
    return prod(padded_physical_sizes(type_))


def own_strides(type_: TensorType) -> Strides | None:
    """Return the address of each element of an array, as a function of its index.

    Addresses count elements. `None` if they are no sum of index digits times strides.
    """
    return strides_of(IndexingMap.identity(type_.shape), type_, type_)


def strides_of(m: IndexingMap, source: TensorType, output: TensorType) -> Strides | None:
    """Return the address in the source of each element of an output.

    Addresses count elements. `None` if they are no sum of index digits times strides, or if the map
    does not cover the whole output.

    Args:
        m: Map from the index of an element in the output to its index in the source.
        source: Type of the source.
        output: Type of the output.

    >>> from hloscope.hlo_parser import parse_type
    >>> turn = IndexingMap.parse("(d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, 3]")
    >>> strides_of(turn, parse_type("f32[4,8]"), parse_type("f32[8,4]")).steps
    (1, 8)
    """
    if not _covers_output(m, output) or in_memory(source) > POS_INF:
        return None
    if source.is_tiled:
        placed = m.compose(address_map(source))
    else:
        order = major_to_minor(source)
        address = linearize([m.results[d] for d in order], tuple([source.shape[d] for d in order]))
        placed = m.with_(results=[address])
    found = digits_of(placed)
    return Strides(found[0].forms, found[0].offset) if found else None


def inverse_by_digits(m: IndexingMap, source: TensorType, output: TensorType) -> IndexingMap | None:
    """Return the inverse of a map that permutes digits of indices; `None` for other maps.

    Args:
        m: From an index of the output to that of its element in the source.
        source: Type of the source.
        output: Type of the output.

    >>> from hloscope.hlo_parser import parse_type
    >>> split = IndexingMap.parse("(d0, d1) -> (d1 * 4 + d0), domain: d0 in [0, 3], d1 in [0, 1]")
    >>> print(inverse_by_digits(split, parse_type("f32[8]"), parse_type("f32[4,2]")))
    (d0) -> (d0 mod 4, d0 / 4), domain: d0 in [0, 7]
    """
    found = digits_of(m) if _covers_output(m, output) else None
    if found is None or any(result.offset for result in found):
        return None
    digits: list[list[tuple[int, int]]] = [[] for _ in output.shape]
    terms: list[list[tuple[Expr, int]]] = [[] for _ in output.shape]
    for k, (result, size) in enumerate(zip(found, source.shape, strict=True)):
        placed = []
        for d, form in enumerate(result.forms):
            lower = 1
            for extent, stride in form.modes:
                if stride:
                    digit = Dim(k) // stride
                    digit = digit if stride * extent == size else digit % extent
                    placed.append((stride, extent))
                    digits[d].append((lower, extent))
                    terms[d].append((digit, lower))
                lower *= extent
        # Each result needs each of its digits exactly once, else the map is not onto.
        if not _enumerate_all(placed, size):
            return None
    # And each index needs each of its digits, else the map is not one-to-one.
    if not all(_enumerate_all(at, n) for at, n in zip(digits, output.shape, strict=True)):
        return None
    results = [linear(*parts) if parts else Const(0) for parts in terms]
    return IndexingMap([below(n) for n in source.shape], results=results)


def _enumerate_all(digits: list[tuple[int, int]], size: int) -> bool:
    """Do the digits (lower bound, number of values) together form every number below `size`?"""
    end = 1
    for lower, extent in sorted(digits):
        if lower != end:
            return False
        end *= extent
    return end == size


def _covers_output(m: IndexingMap, output: TensorType) -> bool:
    """Do the dimensions of `m` cover the whole output, with no range or runtime variables?"""
    if m.is_undefined or m.ranges or m.runtime:
        return False
    return m.dims == IndexingMap.identity(output.shape).dims
