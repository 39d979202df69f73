"""Bitcasts taken apart do what the bytes do."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from hloscope.hlo_parser import parse_type
from hloscope.ir import ELEMENT_TYPES, Layout, TensorType
from hloscope.movement import Rearrangement, decompose_bitcast

TRT, RTR = "transpose-reshape-transpose", "reshape-transpose-reshape"
CASES = [
    ("f32[4,8]{1,0}", "f32[4,8]{1,0}", "reshape", 0),
    ("f32[4,8]{1,0}", "f32[2,2,8]{2,1,0}", "reshape", 1),
    ("f32[4,8]{1,0}", "f32[8,4]{0,1}", "transpose", 1),
    ("f32[4,1,8]{2,1,0}", "f32[8,1,4]{0,1,2}", "transpose", 1),
    ("f32[8,6]{0,1}", "f32[6,2,4]{2,1,0}", TRT, 2),
    ("f32[8,6]{0,1}", "f32[2,4,6]{1,0,2}", "reshape", 1),
    ("f32[8,6]{0,1}", "f32[2,6,4]{2,0,1}", TRT, 3),
    ("f32[]", "f32[1,1]{1,0}", "reshape", 1),
    ("f32[0,4]{1,0}", "f32[4,0]{0,1}", "reshape", 1),
    ("f32[4,4]{1,0:T(2,2)}", "f32[2,2,2,2]{3,2,1,0}", RTR, 2),
    ("f32[16,256]{1,0:T(8,128)}", "f32[16,256]{1,0:T(8,128)}", "reshape", 0),
    ("f32[16,256]{1,0:T(8,128)}", "f32[256,16]{0,1:T(8,128)}", "transpose", 1),
    ("f32[16,256]{1,0:T(8,128)}", "f32[2,8,256]{2,1,0:T(8,128)}", "reshape", 1),
    ("f32[20,100]{1,0:T(8,128)}", "f32[20,100]{1,0:T(8,128)}", "reshape", 0),
    ("f32[20,100]{1,0:T(8,128)}", "f32[100,20]{0,1:T(8,128)}", "transpose", 1),
    ("f32[3,5]{1,0:T(2,4)}", "f32[5,3]{1,0:T(4,2)}", "", 0),
    ("f32[3,2,2]{0,1,2}", "f32[1,3,2,2]{0,1,2,3:T(2,2,1,1)}", "through memory", 5),
    ("f32[8]{0}", "bf16[16]{0}", "", 0),
    ("f32[8]{0}", "f32[9]{0}", "", 0),
    ("f32[<=8]{0}", "f32[8]{0}", "", 0),
]
"""Source, target, kind, number of steps."""


@pytest.mark.parametrize(("source", "target", "kind", "steps"), CASES)
def test_kinds(source: str, target: str, kind: str, steps: int) -> None:
    found = decompose_bitcast(_type(source), _type(target))
    assert (found.kind, len(found.steps)) == (kind, steps), found
    assert bool(found.kind) != bool(found.reason)


def _type(text: str) -> TensorType:
    found = parse_type(text)
    assert isinstance(found, TensorType)
    return found


def in_memory(array: NDArray[np.int64], layout: Layout) -> NDArray[np.int64]:
    """The elements of an array as they stand in memory; tiles divide the sizes."""
    placed = array.transpose(layout.major_to_minor)
    for tile in layout.tiles:
        cut = placed.ndim - len(tile)
        sizes = [*placed.shape[:cut]]
        for size, t in zip(placed.shape[cut:], tile, strict=True):
            sizes += [size // t, t]
        inner = [*range(cut + 1, cut + 2 * len(tile), 2)]
        outer = [*range(cut, cut + 2 * len(tile), 2)]
        placed = placed.reshape(sizes).transpose([*range(cut), *outer, *inner])
    return placed.ravel()


def rearranged(array: NDArray[np.int64], steps: tuple[Rearrangement, ...]) -> NDArray[np.int64]:
    for step in steps:
        array = (
            array.reshape(step.sizes)
            if step.permutation is None
            else array.transpose(step.permutation)
        )
    return array


@st.composite
def arrays(draw: st.DrawFn) -> tuple[TensorType, TensorType]:
    """Two types of as many elements, with layouts, sometimes with tiles that divide them."""
    factors = draw(st.lists(st.sampled_from([1, 2, 2, 3]), max_size=6))

    def one() -> TensorType:
        sizes = [1]
        for factor in draw(st.permutations(factors)):
            if draw(st.booleans()):
                sizes.append(factor)
            else:
                sizes[-1] *= factor
        order = draw(st.permutations(range(len(sizes))))
        placed = [sizes[k] for k in order[::-1]]
        tiles: tuple[tuple[int, ...], ...] = ()
        if draw(st.booleans()):
            count = draw(st.integers(1, len(sizes)))
            tiles = (tuple(2 if size % 2 == 0 else 1 for size in placed[-count:]),)
        return TensorType(ELEMENT_TYPES["f32"], tuple(sizes), Layout(tuple(order), tiles))

    return one(), one()


@settings(deadline=None, max_examples=50)
@given(arrays())
def test_the_steps_leave_the_bytes_where_they_are(types: tuple[TensorType, TensorType]) -> None:
    source, target = types
    found = decompose_bitcast(source, target)
    assert found.kind, found.reason
    numbered = np.arange(prod(source.shape)).reshape(source.shape)
    result = rearranged(numbered, found.steps)
    assert result.shape == target.shape
    assert source.layout is not None
    assert target.layout is not None
    before, after = in_memory(numbered, source.layout), in_memory(result, target.layout)
    assert (before == after).all()
