"""Bytes of arrays: data, and with the padding of tiles."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, strategies as st

from hloscope.fusion import size_in_bytes
from hloscope.hlo_parser import parse_type
from hloscope.indexing import address_map, padded_physical_sizes
from hloscope.ir import (
    ELEMENT_TYPES,
    Bytes,
    Layout,
    TensorType,
    TokenType,
    TupleType,
    array_bytes,
    padded_elements,
    tiled_sizes,
)
from hloscope.memory import data_bytes

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

PUBLIC = [
    # Sizes that TPU compilers report: flowpm#27, pytorch/xla#1965, jax#7502, pytorch/xla#6674,
    # tpu-inference#1882, pytorch/xla#3041 (2), ColabFold#62, trax#525, XLA's oom_debugging page.
    ("s32[8388608,8,4]{2,1,0:T(8,128)}", 32 * GIB, GIB),
    ("u32[12582912,1]{1,0:T(8,128)}", 6 * GIB, 48 * MIB),
    ("s32[2048,1,128,128,4]{4,3,2,0,1:T(8,128)}", 16 * GIB, 512 * MIB),
    ("bf16[2048,1,2048,128]{0,1,3,2:T(4,128)(2,1)}", 4 * GIB, GIB),
    ("bf16[128,4096,352]{2,1,0:T(16,128)(2,1)}", 384 * MIB, 352 * MIB),
    ("f32[29184,1,2560]{2,1,0:T(2,128)}", 570 * MIB, 285 * MIB),
    ("f32[29184,2,2560]{2,1,0:T(2,128)}", 570 * MIB, 570 * MIB),
    ("f32[1024,245,64]{1,2,0:T(8,128)}", 64 * MIB, 61 * MIB + 256 * KIB),
    ("pred[64,512,2048]{2,1,0:T(8,128)E(32)}", 256 * MIB, 64 * MIB),
    ("u8[327680,327680]{1,0:T(8,128)(4,1)}", 107374182400, 107374182400),
    ("bf16[512,16,3072]{2,1,0:T(8,128)(2,1)}", 48 * MIB, 48 * MIB),
    # Reports that print no tile; the sizes are those of T(8,128): tensorflow#30803 (2),
    # pytorch/xla#7942, pytorch/xla#9524, tensor2tensor#1382.
    ("f32[256,512,128,2]{3,2,1,0:T(8,128)}", 8 * GIB, 128 * MIB),
    ("f32[32,128,32,64]{3,0,2,1:T(8,128)}", 64 * MIB, 32 * MIB),
    ("f32[128,3]{1,0:T(8,128)}", 64 * KIB, 1536),
    ("f32[128,6]{1,0:T(8,128)}", 64 * KIB, 3 * KIB),
    ("bf16[256,2048,4096]{2,1,0:T(8,128)(2,1)}", 4 * GIB, 4 * GIB),
    # A report without a tile; arrays of rank 1 have tiles of one dimension.
    ("u8[4096]{0:T(1024)}", 4 * KIB, 4 * KIB),
]


@pytest.mark.parametrize(("text", "padded", "unpadded"), PUBLIC, ids=[p[0] for p in PUBLIC])
def test_padded_and_unpadded_sizes_are_those_that_compilers_reported(
    text: str, padded: int, unpadded: int
) -> None:
    found = array_bytes(parse_type(text))
    assert found is not None
    assert (found.padded, found.unpadded) == (padded, unpadded)


@pytest.mark.parametrize(
    ("text", "data", "padded"),
    [
        ("s4[7,5]{1,0}", 35, 35),
        ("s4[7,5]{1,0:E(4)}", 18, 18),
        ("u2[7]{0:E(2)}", 2, 2),
        ("pred[8]", 8, 8),
        ("pred[8]{0:E(32)}", 32, 32),
        ("c128[3]", 48, 48),
        ("f32[]", 4, 4),
        ("f32[]{:T(128)}", 4, 512),
        ("f32[5]{0:T(1024)}", 20, 4096),
        ("f32[5]{0:T(8,128)}", 20, 4096),
        ("s32[1024,8,4]{0,2,1:T(4,128)}", 128 * KIB, 128 * KIB),
        ("f32[0,128]{1,0:T(8,128)}", 0, 0),
        ("f32[0]{0:T(8,128)}", 0, 0),
        ("bf16[1,5]{1,0:T(1,128)(2,1)}", 10, 512),
        ("f32[5]{0:L(8)}", 20, 32),
        ("f32[3,5]{1,0:T(*,8)}", 60, 64),
        ("f32[<=10,5]{1,0}", 200, 200),
        ("f32[<=10,5]{1,0:T(8,128)}", 200, 8 * KIB),
        ("(f32[2,3], (s4[3], token[]), ())", 27, 27),
        ("(f32[5]{0:T(1024)}, pred[3])", 23, 4099),
        ("token[]", 0, 0),
        ("b(f32[4])", 16, 16),
    ],
)
def test_data_and_padded_bytes_follow_from_element_bits_and_tiles(
    text: str, data: int, padded: int
) -> None:
    found = array_bytes(parse_type(text))
    assert found is not None
    assert (found.data, found.padded) == (data, padded)


def test_the_sizes_of_an_array_of_bounded_sizes_take_four_bytes_for_each_dimension() -> None:
    assert array_bytes(parse_type("f32[<=10,5]{1,0}")) == Bytes(200, 200, 200, 8)


def test_a_size_without_a_bound_has_no_bytes_and_makes_those_of_a_tuple_unknown() -> None:
    unknown = TensorType(ELEMENT_TYPES["f32"], (2, None), bounds=(None, None))
    assert array_bytes(unknown) is None
    assert array_bytes(TupleType((parse_type("f32[2]"), unknown))) is None
    assert size_in_bytes(TupleType((TokenType(), unknown))) == 0


def test_sizes_beyond_64_bits_are_exact() -> None:
    many = (1 << 40, 1 << 40, 3)
    layout = Layout((2, 1, 0), tiles=((8, 128),))
    found = array_bytes(TensorType(ELEMENT_TYPES["f32"], many, layout))
    assert found is not None
    assert (found.data, found.padded) == (12 << 80, 512 << 80)


@st.composite
def tiled(draw: st.DrawFn) -> TensorType:
    rank = draw(st.integers(1, 3))
    sizes = tuple(draw(st.lists(st.integers(1, 5), min_size=rank, max_size=rank)))
    order = tuple(draw(st.permutations(range(rank))))
    inner = draw(st.lists(st.integers(1, 2), min_size=1, max_size=2))
    tile = tuple([t * draw(st.integers(1, 3)) for t in inner])
    tiles = (tile, tuple(inner)) if draw(st.booleans()) else (tile,)
    return TensorType(ELEMENT_TYPES["f32"], sizes, Layout(order, tiles))


def addresses(type: TensorType) -> list[int]:
    found = address_map(type)
    return [found.evaluate(at)[0] for at in product(*map(range, type.shape))]


@given(tiled())
def test_padded_elements_are_the_addresses_of_the_array_with_its_padding_filled(
    type: TensorType,
) -> None:
    layout = type.layout
    assert layout is not None
    tile = layout.tiles[0]
    sizes = [type.shape[k] for k in layout.major_to_minor]
    sizes = [1] * (len(tile) - len(sizes)) + sizes
    for back, t in enumerate(reversed(tile), 1):
        while sizes[-back] % t:
            sizes[-back] += 1
    row_major = Layout(tuple(range(len(sizes)))[::-1], layout.tiles)
    filled = addresses(TensorType(type.element, tuple(sizes), row_major))
    count = padded_elements(type)
    assert sorted(filled) == list(range(count))
    own = addresses(type)
    assert len({*own}) == len(own)
    assert {*own} <= {*filled}
    found = array_bytes(type)
    assert found is not None
    assert (found.data, found.padded) == (4 * len(own), 4 * count)


@given(tiled())
def test_placed_sizes_are_the_tiled_sizes_of_the_physical_order(type: TensorType) -> None:
    assert type.layout is not None
    physical = [type.shape[k] for k in type.layout.major_to_minor]
    assert padded_physical_sizes(type) == tuple(tiled_sizes(physical, type.layout.tiles))


def test_an_array_whose_size_has_no_bound_counts_0_bytes() -> None:
    for text in ("f32[?]", "f32[2,?]"):
        type_ = parse_type(text)
        assert isinstance(type_, TensorType)
        assert data_bytes(type_) == 0
