"""Physical order: addresses, bitcasts through layouts, reshapes."""

from __future__ import annotations

from itertools import permutations
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hloscope.affine import Dim, evaluate_array, parse_expr
from hloscope.hlo_parser.types import parse_type
from hloscope.indexing import Access, IndexingMap
from hloscope.indexing.physical import (
    address_map,
    bitcast_map,
    major_to_minor,
    minimal_groups,
    padded_physical_sizes,
    physical_access,
    physical_map,
    reshape_map,
)
from hloscope.indexing.rules.registry import MapBuilder
from hloscope.ir.types import ELEMENT_TYPES, Layout, TensorType
from tests.indexing.relations import Values, instruction, pairs, without_domain


def array(text: str) -> TensorType:
    type = parse_type(text)
    assert isinstance(type, TensorType)
    return type


ADDRESSES = """
f32[2,3]                          d0 * 3 + d1
f32[2,3]{1,0}                     d0 * 3 + d1
f32[2,3]{0,1}                     d1 * 2 + d0
f32[2,1,3]{1,0,2}                 d2 * 2 + d0
f32[]                             0
f32[16,256]{1,0:T(8,128)}         d0 / 8 * 2048 + d1 / 128 * 1024 + d0 mod 8 * 128 + d1 mod 128
f32[300]{0:T(256)}                d0
f32[10,5]{1,0:T(4,4)}             d0 / 4 * 32 + d1 / 4 * 16 + d0 mod 4 * 4 + d1 mod 4
bf16[8,128]{1,0:T(8,128)(2,1)}    d0 / 2 * 256 + d1 * 2 + d0 mod 2
"""


@pytest.mark.parametrize("line", ADDRESSES.strip().splitlines())
def test_addresses_follow_the_layout(line: str) -> None:
    text, expected = line.split(maxsplit=1)
    found = address_map(array(text))
    at = {Dim(k): axis for k, axis in enumerate(np.indices(array(text).shape))}
    assert np.array_equal(
        evaluate_array(found.results[0], at), evaluate_array(parse_expr(expected), at)
    )
    if "T(" not in text:
        assert str(found.results[0]) == expected


def test_a_tiled_layout_is_padded_to_whole_tiles() -> None:
    assert padded_physical_sizes(array("f32[20,100]{1,0:T(8,128)}")) == (3, 1, 8, 128)
    assert padded_physical_sizes(array("bf16[8,128]{1,0:T(8,128)(2,1)}")) == (1, 1, 4, 128, 2, 1)
    assert padded_physical_sizes(array("f32[100]{0:T(2,128)}")) == (1, 1, 2, 128)


def addresses(type: TensorType) -> dict[tuple[int, ...], int]:
    return {here: there[0] for here, there, _ in pairs(Access(address_map(type)), Values(1))}


BITCASTS = """
f32[2,3]{1,0}                f32[3,2]{0,1}
f32[2,3,4]{0,2,1}            f32[12,2]{1,0}
f32[4,6]{1,0}                f32[3,8]{0,1}
f32[6]{0}                    f32[1,2,1,3]{1,3,0,2}
f32[8,8]{1,0:T(4,4)}         f32[16,4]{1,0:T(4,4)}
f32[8,8]{1,0:T(4,4)}         f32[64]{0}
f32[10,5]{1,0:T(4,4)}        f32[96]{0}
bf16[4,4]{1,0:T(4,4)(2,1)}   bf16[2,4,2]{2,1,0}
f32[]                        f32[1,1]{0,1}
"""


@pytest.mark.slow(keep=5)
@pytest.mark.parametrize("line", BITCASTS.strip().splitlines())
def test_a_bitcast_relates_the_elements_at_one_address(line: str) -> None:
    here, there = map(array, line.split())
    for one, other in ((here, there), (there, here)):
        found = bitcast_map(one, other)
        assert isinstance(found, IndexingMap)
        relation = {(i, j) for i, j, _ in pairs(Access(found), Values(1))}
        known = {
            (i, j) for i, a in addresses(one).items() for j, b in addresses(other).items() if a == b
        }
        assert relation == known


def test_a_bitcast_to_narrower_elements_covers_the_parts_of_each() -> None:
    wide, narrow = array("f32[2,3]{0,1}"), array("u8[3,8]{1,0}")
    down, up = bitcast_map(narrow, wide), bitcast_map(wide, narrow)
    assert isinstance(down, IndexingMap)
    assert isinstance(up, IndexingMap)
    data = np.arange(6, dtype=np.int32).reshape(2, 3)
    bytes_of = np.asfortranarray(data).ravel(order="F").view(np.uint8).reshape(3, 8)
    for index in np.ndindex(3, 8):
        ((i, j),) = down.points(index)
        assert index in up.points((i, j))
        part = (index[0] * 8 + index[1]) % 4
        assert bytes_of[index] == data[i, j].tobytes()[part]
    assert sum(len(up.points(index)) for index in np.ndindex(2, 3)) == data.nbytes


def test_packed_small_integers_share_bytes() -> None:
    found = bitcast_map(array("u8[3]{0}"), array("s4[6]{0:E(4)}"))
    assert str(found).startswith("(d0)[s0] -> (d0 * 2 + s0)")


def test_arrays_of_different_size_in_memory_are_refused() -> None:
    for here, there in (("f32[4]", "f32[5]"), ("f32[4]", "f32[0]"), ("f32[0]", "f32[4]")):
        assert "different size" in str(bitcast_map(array(here), array(there)))


shapes = st.lists(st.integers(1, 4), max_size=4).map(tuple)


@st.composite
def reshapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes with equally many elements: factors in one order, joined in two ways."""
    factors = draw(st.lists(st.sampled_from([1, 1, 2, 2, 3, 4]), max_size=5))

    def joined() -> tuple[int, ...]:
        sizes = [1]
        for factor in factors:
            if draw(st.booleans()):
                sizes.append(factor)
            else:
                sizes[-1] *= factor
        return tuple(sizes)

    return joined(), joined()


@given(reshapes())
def test_a_reshape_keeps_the_row_major_order(case: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    here, there = case
    found = reshape_map(here, there)
    for k, index in enumerate(np.ndindex(*here)):
        assert found.evaluate(index) == tuple(map(int, np.unravel_index(k, there)))


@given(reshapes())
def test_minimal_groups_cover_both_shapes_and_cannot_be_split(
    case: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    here, there = case
    groups = minimal_groups(here, there)
    assert [k for g, _ in groups for k in range(g.start, g.stop)] == list(range(len(here)))
    assert [k for _, g in groups for k in range(g.start, g.stop)] == list(range(len(there)))
    for left, right in groups:
        assert prod(here[left]) == prod(there[right])
        inner = {prod(here[left.start : k]) for k in range(left.start + 1, left.stop)}
        other = {prod(there[right.start : k]) for k in range(right.start + 1, right.stop)}
        assert inner & other <= {1, prod(here[left])}


@settings(max_examples=50)
@given(shapes, st.data())
def test_physical_maps_relate_the_same_elements(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    orders = st.sampled_from(list(permutations(range(len(shape)))))
    one, other = (
        TensorType(ELEMENT_TYPES["f32"], shape, Layout(data.draw(orders))) for _ in range(2)
    )
    found = physical_map(IndexingMap.identity(shape), one, other)
    for index in np.ndindex(*shape):
        here, there = (tuple(index[k] for k in major_to_minor(type)) for type in (one, other))
        assert found.evaluate(here) == there


def test_replica_maps_and_runtime_indices_follow_the_physical_order() -> None:
    origin = instruction("s32[2,3] add(s32[2,3], s32[2,3])")
    at = MapBuilder((2, 3))
    start = at.read(0, 4, origin, (Dim(0), Dim(1)))
    access = Access(at.map((Dim(0) + start, Dim(1), at.range(4))), replica=at.map((Dim(0),)))
    found = physical_access(access, array("f32[2,3]{0,1}"), array("f32[6,3,4]{0,1,2}"))
    assert found.map is not None
    assert without_domain(found.map) == "(d0, d1)[s0]{rt0} -> (s0, d0, d1 + rt0)"
    assert [v.interval.hi for v in found.map.dims] == [2, 1]
    assert found.map.runtime[0].index == (Dim(1), Dim(0))
    assert without_domain(found.replica) == "(d0, d1)[s0]{rt0} -> (d1)"


@pytest.mark.parametrize(
    "text",
    [
        "f32[6,10]{1,0:T(2,4)}",
        "f32[5,7]{0,1:T(8)}",
        "f32[6,10]{0,1}",
        "f32[3]",
        "bf16[9,8]{1,0:T(4,8)(2,1)}",
    ],
)
def test_addresses_are_simple(text: str) -> None:
    found = address_map(parse_type(text))
    assert str(found) == str(found.simplify())
