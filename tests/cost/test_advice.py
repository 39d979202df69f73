"""Advice: what it saves is real, and there is none where nothing can be saved."""

from __future__ import annotations

import hloscope
from hloscope.cost import AdviceKind
from hloscope.ir import size_text
from hloscope.support.devices import device_of
from hloscope.tiling import Fused, SymbolicTiles, symbolic_tiles, tile_traffics
from tests.cost.test_triton import NAMED

TRANSPOSES = """
t1 { p = f32[8,256,256] parameter(0)
  ROOT t = f32[8,256,256] transpose(p), dimensions={0,2,1} }
t2 { p = f32[8,256,256] parameter(0) t = f32[8,256,256] transpose(p), dimensions={0,2,1}
  ROOT n = f32[8,256,256] negate(t) }
ENTRY e { p = f32[8,256,256] parameter(0)
  a = f32[8,256,256] fusion(p), kind=kInput, calls=t1
  b = f32[8,256,256] fusion(p), kind=kInput, calls=t2
  ROOT t = (f32[8,256,256], f32[8,256,256]) tuple(a, b) }
"""
BACK = """ENTRY e { p = f32[64,96] parameter(0)
  q = f32[64,96] negate(p)
  t = f32[96,64] transpose(q), dimensions={1,0}
  u = f32[64,96] transpose(t), dimensions={1,0}
  ROOT n = f32[64,96] abs(u) }"""
LOOP = """HloModule m, is_scheduled=true ALIAS
f {{ a = f32[64,64] parameter(0) ROOT b = f32[64,64] BODY }}
ENTRY e {{ p = f32[64,64] parameter(0)
  ROOT y = f32[64,64] fusion(p), kind=kLoop, calls=f }}""".replace("{{", "{").replace("}}", "}")


def test_movement_that_cancels_saves_the_bytes_of_its_kernels() -> None:
    program = hloscope.read(BACK)
    (advice,) = program.cost().advice()
    shorter = hloscope.read(
        "ENTRY e { p = f32[64,96] parameter(0) q = f32[64,96] negate(p) "
        "ROOT n = f32[64,96] abs(q) }"
    )
    before, after = (sum(k.bytes for k in one.cost().kernels) for one in (program, shorter))
    assert advice.kind is AdviceKind.CANCELS
    assert advice.bytes_saved == before - after
    assert advice.whole == before
    assert advice.command.startswith("hloscope cancel ")


def test_kernels_that_move_the_same_array_read_it_once() -> None:
    (advice,) = hloscope.read(TRANSPOSES).cost().advice()
    assert advice.kind is AdviceKind.DUPLICATE
    assert advice.bytes_saved == 8 * 256 * 256 * 4
    assert advice.instruction.name == "b"


def test_a_better_tile_transfers_as_much_less_as_the_advice_says() -> None:
    program = hloscope.read(NAMED)
    cost = program.cost()
    (advice,) = cost.advice()
    (use,) = cost.ratings.values()
    assert use.best is not None
    kind = "__triton_nested_gemm_fusion"
    symbolic = symbolic_tiles(Fused.of(program.root.ir), kind=kind)
    assert isinstance(symbolic, SymbolicTiles)
    moved = [
        sum([a.moved for a in tile_traffics(symbolic, sizes, device_of("h100").transaction)])
        for sizes in (use.sizes, use.best.sizes)
    ]
    assert advice.kind is AdviceKind.TILE
    assert 0 < advice.bytes_saved == use.saved <= moved[0] - moved[1]
    assert cost.to_json()["kernels"][0]["triton"]["compiled_bytes"] == moved[0]


def test_a_cheaper_order_of_padded_dimensions_is_advised_on() -> None:
    text = """ENTRY e { p = s32[1024,8,4]{2,1,0:T(8,128)} parameter(0)
      ROOT n = s32[1024,8,4]{2,1,0:T(8,128)} negate(p) }"""
    found = [a for a in hloscope.read(text).cost().advice() if a.kind is AdviceKind.PADDING]
    assert [(a.bytes_saved, a.whole) for a in found] == [
        (2 * (1024 * 8 * 128 - 1024 * 8 * 4) * 4, 2 * 1024 * 8 * 128 * 4)
    ]


def donations(text: str) -> list[int]:
    found = hloscope.read(text).cost().advice()
    return [a.bytes_saved for a in found if a.kind is AdviceKind.DONATION]


def test_an_argument_is_donated_to_a_result_that_is_made_in_place() -> None:
    text = LOOP.replace("BODY", "negate(a)")
    assert donations(text.replace(" ALIAS", "")) == [64 * 64 * 4]
    taken = ", input_output_alias={ {}: (0, {}, may-alias) }"
    assert donations(text.replace(" ALIAS", taken)) == []
    assert donations(text.replace(", is_scheduled=true ALIAS", "")) == []


def test_an_argument_that_is_read_at_other_indices_is_not_donated() -> None:
    text = LOOP.replace(" ALIAS", "").replace("BODY", "transpose(a), dimensions={1,0}")
    assert donations(text) == []


def test_nothing_is_advised_where_nothing_can_be_saved() -> None:
    text = "ENTRY e { p = f32[64,96] parameter(0) ROOT t = f32[64,96] negate(p) }"
    assert hloscope.read(text).cost().advice() == []


def test_sizes_have_no_exponent() -> None:
    assert size_text(3923 << 30) == "3.831 TiB"
    assert "e" not in size_text(1 << 90)
