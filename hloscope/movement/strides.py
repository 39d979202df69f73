"""Addresses that are sums of digits of indices times strides: read off, so nothing is to be proved.

Most movement is of this kind: reshapes, transposes, broadcasts, slices, reverses of whole arrays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hloscope.affine import POS_INF, Const, linear
from hloscope.indexing import IndexingMap, major_to_minor
from hloscope.ir import Dims, TensorType
from hloscope.layouts import Mode, Strided, digits_of


class Strides(NamedTuple):
    """An address: an offset, and what each index of an array adds to it."""

    forms: tuple[Strided, ...]
    offset: int = 0

    @property
    def steps(self) -> tuple[int | None, ...]:
        """How far one step of each index leads; `None` where some lead farther than others."""
        return tuple([_step(form) for form in self.forms])

    def is_same(self, own: Dims) -> bool:
        """Are these an array's own addresses, which are such steps apart?"""
        return self.offset == 0 and self._other(own) is None

    def elsewhere(self, own: Dims) -> Dims:
        """An index whose address is not the array's own one, where some are not."""
        index = [0] * len(own)
        other = self._other(own) if self.offset == 0 else None
        if other is not None:
            index[other[0]] = other[1]
        return tuple(index)

    def _other(self, own: Dims) -> tuple[int, int] | None:
        """The first index along the first dimension that is at another place."""
        for d, (form, step) in enumerate(zip(self.forms, own, strict=True)):
            lower = 1
            for size, stride in form.modes:
                if size > 1 and stride != lower * step:
                    return d, lower
                lower *= size
        return None

    def address(self, index: Dims) -> int:
        """The address at an index."""
        return self.offset + sum([form(i) for form, i in zip(self.forms, index, strict=True)])

    def form(self, output: TensorType) -> Strided:
        """From addresses in the output to these ones."""
        order = major_to_minor(output)[::-1]
        modes = [mode for d in order for mode in self.forms[d].modes]
        return Strided(tuple(modes), self.offset).merged()


def _step(form: Strided) -> int | None:
    match form.modes:
        case ():
            return 0
        case (Mode(_, stride),):
            return stride
    return None


def own_strides(type_: TensorType) -> Dims:
    """How far one step of each index leads in an array that is not tiled."""
    steps, below = [0] * type_.rank, 1
    for d in reversed(major_to_minor(type_)):
        steps[d] = below
        below *= type_.shape[d]
    return tuple(steps)


def strides_of(m: IndexingMap, source: TensorType, output: TensorType) -> Strides | None:
    """The address in the source of what stands at an index of the output, if it is such a sum.

    Args:
        m: From an index of the output to that of its element in the source.
        source: Type of the source.
        output: Type of the output; if the map leaves out some index of it, there is no such sum.

    >>> from hloscope.hlo_parser import parse_type
    >>> turn = IndexingMap.parse("(d0, d1) -> (d1, d0), domain: d0 in [0, 7], d1 in [0, 3]")
    >>> strides_of(turn, parse_type("f32[4,8]"), parse_type("f32[8,4]")).steps
    (1, 8)
    """
    if not _is_whole(m, output) or source.is_tiled or source.num_elements > POS_INF:
        return None
    terms = zip(m.results, own_strides(source), strict=True)
    address = linear(*terms) if m.results else Const(0)
    found = digits_of(m.with_(results=[address]))
    return Strides(found[0].forms, found[0].offset) if found else None


def strides_back(m: IndexingMap, source: TensorType, output: TensorType) -> Strides | None:
    """The address in the output of an element of the source, if it is such a sum.

    Args:
        m: From an index of the output to that of its element in the source; every element of the
            source is at one index.
        source: Type of the source.
        output: Type of the output.

    >>> from hloscope.hlo_parser import parse_type
    >>> split = IndexingMap.parse("(d0, d1) -> (d1 * 4 + d0), domain: d0 in [0, 3], d1 in [0, 1]")
    >>> strides_back(split, parse_type("f32[8]"), parse_type("f32[4,2]")).forms
    (Strided(modes=(Mode(size=4, stride=2), Mode(size=2, stride=1)), offset=0),)
    """
    found = digits_of(m) if _is_whole(m, output) else None
    if found is None:
        return None
    own = own_strides(output)
    forms = [_placed(result.forms, own) for result in found]
    return Strides(tuple([Strided(tuple(modes)).merged() for modes in forms]))


def _placed(forms: Iterable[Strided], own: Dims) -> list[Mode]:
    """The digits of an index, the fastest first, each with the address of the index it is from."""
    digits: list[tuple[int, Mode]] = []
    for form, step in zip(forms, own, strict=True):
        for size, stride in form.modes:
            if stride:
                digits.append((stride, Mode(size, step)))
            step *= size
    return [mode for _, mode in sorted(digits)]


def _is_whole(m: IndexingMap, output: TensorType) -> bool:
    """Does every index of the output have one place, which may be at an address?"""
    if m.is_undefined or m.ranges or m.runtime or output.is_tiled:
        return False
    return m.dims == IndexingMap.identity(output.shape).dims
