"""Verdicts and figures of kernels: XLA's own data, and cases written for this room."""

from __future__ import annotations

import json
import re
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest

import hloscope
from hloscope.api import Coalescing, Model, coalescing_of_all, kernels_of
from hloscope.errors import HloscopeError, TooLargeError, UnknownNameError, UnsupportedError
from hloscope.fusion import Analysis
from hloscope.hlo_parser import parse_hlo
from hloscope.indexing import Access, IndexingMap
from hloscope.ir import TensorType
from hloscope.memory import ArrayUse, Memory, by_heuristic
from hloscope.memory.answers import operand_tile
from hloscope.support.devices import device_of
from tests.conftest import SHARED, needs_shared


def cases(kind: str) -> list[Any]:
    path = SHARED / "conformance/xla/coalescing_analysis_test.json"
    if not path.exists():
        return []
    found = json.loads(path.read_text())["cases"]
    return [
        pytest.param(c, id=f"{c['test']}-{k}") for k, c in enumerate(found) if c["kind"] == kind
    ]


@needs_shared
@pytest.mark.parametrize("case", cases("coalescing_per_operand"))
def test_the_map_verdict_is_that_of_xla(case: dict[str, Any]) -> None:
    module = parse_hlo(case["hlo"])
    memory = Memory(Analysis(), device_of(case["device"]), verdicts_only=True)
    answer = memory.of_instruction(module.entry.root)
    told = {array.number: array.by_map for array in answer.operands}
    expected = case["expected"]["coalesced"]
    assert [told[k] for k in range(len(expected))] == expected


@needs_shared
@pytest.mark.parametrize("case", cases("coalescing_heuristic"))
def test_the_heuristic_is_that_of_xla(case: dict[str, Any]) -> None:
    root = parse_hlo(case["hlo"]).entry.root
    told = by_heuristic("loop", root.operands[0], root, device_of(case["device"]))
    assert told == case["expected"]["coalesced"]


@needs_shared
@pytest.mark.parametrize("case", cases("bandwidth_utilization"))
def test_the_use_of_tiles_is_that_of_xla(case: dict[str, Any]) -> None:
    type = parse_hlo(case["hlo"]).entry.parameters[0].type
    assert isinstance(type, TensorType)
    access = Access(IndexingMap.identity(type.shape))
    found = operand_tile(access, case["tile_sizes"], type, device_of(case["device"]))
    assert found is not None
    assert [found.utilisation] == case["expected"]["utilization_per_operand"]


# --------------------------------------------------------------------------- our own cases


def asked(text: str, device: str = "h100", **model: Any) -> Coalescing:
    return hloscope.read(text).root.coalescing(device, **model)


def traffic(array: ArrayUse) -> tuple[str, float, int]:
    assert array.traffic is not None
    return array.precision, round(array.traffic.efficiency, 3), array.traffic.most


def test_a_transposed_operand_moves_eight_times_what_it_needs() -> None:
    answer = asked(
        "ENTRY e { p = f32[100,200]{1,0} parameter(0) q = f32[100,200]{0,1} parameter(1) "
        "ROOT a = f32[100,200]{1,0} add(p, q) }"
    )
    p, q = answer.operands
    assert traffic(p) == ("exact", 1.0, 4)
    assert traffic(q) == ("exact", 0.125, 32)
    assert (p.by_map, q.by_map) == (True, False)
    assert answer.answer.by_heuristic  # it sees no transpose
    assert str(q.spoiler) == "`th_x * 100`: neighbouring lanes are 400 bytes apart"
    assert q.touched.bytes == 80_000


def test_what_xla_calls_coalesced_because_its_first_warp_reads_nothing_is_counted() -> None:
    answer = asked(
        "ENTRY e { p = f32[997,436] parameter(0) z = f32[] parameter(1) "
        "ROOT a = f32[1024,512] pad(p, z), padding=10_17x24_52 }",
        "a6000",
    )
    operand = answer.operands[0]
    assert operand.by_map
    assert operand.traffic is not None
    assert round(operand.traffic.utilisation, 3) == 0.965
    assert operand.traffic.asked == 997 * 436 * 4


def test_a_transpose_through_shared_memory_is_coalesced_and_without_conflicts() -> None:
    answer = asked(
        "ENTRY e { p = f32[64,96] parameter(0) ROOT t = f32[96,64] transpose(p), dimensions={1,0} }"
    )
    assert answer.kernel.emitter == "transpose"
    assert [traffic(a)[1] for a in answer.arrays] == [1.0, 1.0]
    assert [bank.most for bank in answer.answer.banks] == [1, 1]
    assert [bank.shape for bank in answer.answer.banks] == [(32, 33), (32, 33)]


def test_a_small_column_reduction_pads_the_rows_of_its_shared_memory() -> None:
    answer = asked(
        "add { a = f64[] parameter(0) b = f64[] parameter(1) ROOT c = f64[] add(a, b) } "
        "ENTRY e { p = f64[512,8] parameter(0) z = f64[] constant(0) "
        "ROOT r = f64[8] reduce(p, z), dimensions={0}, to_apply=add }"
    )
    assert answer.kernel.emitter == "small column reduction"
    # 128 threads hold 16 rows of 8 partial results.
    assert [bank.shape for bank in answer.answer.banks] == [(16, 8 + 1), (16, 8 + 1)]


@pytest.mark.parametrize("type", ["bf16", "s8"])
def test_packed_transposes_have_no_conflicts(type: str) -> None:
    answer = asked(
        f"ENTRY e {{ p = {type}[256,512] parameter(0) "
        f"ROOT t = {type}[512,256] transpose(p), dimensions={{1,0}} }}"
    )
    assert answer.kernel.emitter == "packed transpose"
    assert all(bank.most <= 2 for bank in answer.answer.banks)
    assert all(traffic(a)[1] == 1.0 for a in answer.operands)


def test_a_column_reduction_writes_one_element_for_each_warp() -> None:
    answer = asked(
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) } "
        "ENTRY e { p = f32[512,300] parameter(0) z = f32[] constant(0) "
        "ROOT r = f32[300] reduce(p, z), dimensions={0}, to_apply=add }"
    )
    assert answer.kernel.emitter == "column reduction"
    written = answer.outputs[0].traffic
    assert written is not None
    assert written.most == 1
    assert written.lanes == 300  # each element is stored on a condition of its own


def test_values_read_at_run_time_give_bounds() -> None:
    answer = asked(
        "ENTRY e { p = f32[4,1000] parameter(0) i = s32[] parameter(1) z = s32[] constant(0) "
        "ROOT d = f32[4,64] dynamic-slice(p, z, i), dynamic_slice_sizes={4,64} }"
    )
    operand = answer.operands[0].traffic
    assert operand is not None
    assert operand.best is not None
    assert operand.precision == "bounds"
    assert (operand.best.fewest, operand.most) == (4, 5)  # a row that begins in a sector


def test_a_gather_is_between_one_row_and_as_many_as_lanes() -> None:
    answer = asked(
        "ENTRY e { p = f32[1000,8] parameter(0) i = s32[512,1] parameter(1) "
        "ROOT g = f32[512,8] gather(p, i), offset_dims={1}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,8} }"
    )
    operand = answer.operands[0].traffic
    assert operand is not None
    assert operand.best is not None
    assert (operand.best.fewest, operand.most) == (1, 4)  # a warp reads 4 rows of a sector each


def test_an_update_in_place_reads_and_writes_the_update_only() -> None:
    answer = asked(
        "ENTRY e { p = f32[64,1000] parameter(0) u = f32[1,1000] parameter(1) "
        "i = s32[] parameter(2) z = s32[] constant(0) "
        "ROOT d = f32[64,1000] dynamic-update-slice(p, u, i, z) }"
    )
    assert answer.kernel.emitter == "in-place update"
    assert answer.operands[0].touches == ()
    assert answer.outputs[0].touched.bytes == 4000
    written = answer.outputs[0].traffic
    assert written is not None
    assert written.best is not None
    assert written.sectors == written.best.sectors  # rows of 4,000 bytes begin with a sector …
    assert written.lines > written.best.lines  # … but not with a line


TRITON = """
fused { p = bf16[128,1600] parameter(0) ROOT n = bf16[128,1600] negate(p) }
ENTRY e { p = bf16[128,1600] parameter(0) ROOT f = bf16[128,1600] fusion(p), kind=kCustom,
  calls=fused, backend_config={"fusion_backend_config":{"kind":"__triton",
  "block_level_fusion_config":{"num_warps":"4","output_tiles":[{"sizes":["2","SIZE"]}]}}} }
"""


def test_block_level_fusions_are_told_by_tiles_and_claim_nothing_of_lanes() -> None:
    answer = asked(TRITON.replace("SIZE", "64"))
    assert answer.kernel.launch is None
    operand = answer.operands[0]
    assert operand.traffic is None
    assert operand.tile is not None
    assert (operand.tile.run, operand.tile.utilisation) == (128, 1.0)
    narrow = asked(TRITON.replace("SIZE", "8")).operands[0].tile
    given = asked(TRITON, tile=(1, 16)).operands[0].tile
    assert narrow is not None
    assert given is not None
    assert (narrow.utilisation, given.utilisation) == (0.25, 0.5)


@pytest.mark.parametrize("tile", [None, (1, 16)])
def test_tiles_are_left_out_if_only_verdicts_are_asked_for(tile: tuple[int, ...] | None) -> None:
    root = hloscope.read(TRITON.replace("SIZE", "64")).root.ir
    for verdicts_only in (False, True):
        memory = Memory(Analysis(), device_of("h100"), tile=tile, verdicts_only=verdicts_only)
        arrays = memory.of_instruction(root).arrays
        assert len(arrays) == 2
        assert [array.tile is None for array in arrays] == [verdicts_only] * 2


def test_kernels_of_threads_have_no_tiles() -> None:
    text = "ENTRY e { p = f32[64,512] parameter(0) ROOT n = f32[64,512] negate(p) }"
    answer = asked(text, tile=(2, 8))
    assert answer.kernel.launch is not None
    assert [array.tile for array in answer.arrays] == [None, None]


def test_a_tile_that_the_program_states_holds_for_outputs_whose_inputs_have_no_tiles() -> None:
    """No tile of the operand leads through both reshapes."""
    twice = "q = bf16[1600,128] reshape(p) ROOT n = bf16[128,1600] reshape(q)"
    text = TRITON.replace("SIZE", "64").replace("ROOT n = bf16[128,1600] negate(p)", twice)
    tile = asked(text).outputs[0].tile
    assert tile is not None
    assert (tile.sizes, tile.run) == ((2, 64), 128)


def test_the_model_can_be_given() -> None:
    text = "ENTRY e { p = f32[64,512] parameter(0) ROOT n = f32[64,512] negate(p) }"
    assert "256 threads" in asked(text, threads=256).model
    assert "64 threads × 8 blocks" in asked(text, launch=(8, 64)).model
    strided = asked(text, thread_map="(th_x, bl_x) -> (th_x, bl_x), domain: "
                                     "th_x in [0, 63], bl_x in [0, 511]")  # fmt: skip
    assert traffic(strided.operands[0]) == ("exact", 0.125, 32)
    vectors = asked(text, vector=4).operands[0].traffic
    assert vectors is not None
    assert (vectors.vector, vectors.most) == (4, 16)
    lanes = "(lane, warp, register, block) -> (block, warp * 128 + lane * 4 + register), domain: "
    lanes += "lane in [0, 31], warp in [0, 3], register in [0, 3], block in [0, 63]"
    blocked = asked(text, thread_map=lanes).operands[0].traffic
    assert blocked is not None
    assert (blocked.vector, blocked.efficiency) == (4, 1.0)


@pytest.mark.parametrize(
    ("model", "error"),
    [
        ({"device": "h1000"}, UnknownNameError),
        ({"thread_map": "(th_x) -> (th_x), domain: th_x in [0, 31]"}, UnsupportedError),
        ({"thread_map": "(who) -> (who, 0), domain: who in [0, 31]"}, UnsupportedError),
        ({"thread_map": "(th_x, lane) -> (th_x, lane), domain: th_x in [0, 3], lane in [0, 3]"},
         UnsupportedError),
        ({"threads": 0}, ValueError),
        ({"vector": -1}, ValueError),
    ],
)  # fmt: skip
def test_wrong_models_are_refused(model: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        asked("ENTRY e { p = f32[64,512] parameter(0) ROOT n = f32[64,512] negate(p) }", **model)


HOSTILE = {
    "tuple root": "ENTRY e { p = f32[64] parameter(0) n = f32[64] negate(p) "
                  "ROOT t = (f32[64], (f32[64])) tuple(n, n) }",
    "zero-sized": "ENTRY e { p = f32[0,4] parameter(0) ROOT n = f32[0,4] negate(p) }",
    "dynamic": "ENTRY e { p = f32[<=64] parameter(0) ROOT n = f32[<=64] negate(p) }",
    "unbounded": "ENTRY e { p = f32[?] parameter(0) ROOT n = f32[?] negate(p) }",
    "s4 packed": "ENTRY e { p = s4[64]{0:E(4)} parameter(0) ROOT n = s4[64]{0:E(4)} negate(p) }",
    "huge": "ENTRY e { p = f32[1099511627776,1024] parameter(0) "
            "ROOT n = f32[1099511627776,1024] negate(p) }",
    "huge transposed": "ENTRY e { p = f32[1048573,1048571]{0,1} parameter(0) "
                       "ROOT n = f32[1048573,1048571]{1,0} negate(p) }",
    "rank 0": "ENTRY e { p = f32[] parameter(0) ROOT n = f32[] negate(p) }",
    "custom call": "ENTRY e { p = f32[4] parameter(0) ROOT c = f32[4] custom-call(p), "
                   'custom_call_target="f" }',
    "nested call": "g { q = f32[64] parameter(0) ROOT m = f32[64] negate(q) } "
                   "f { p = f32[64] parameter(0) ROOT c = f32[64] call(p), to_apply=g } "
                   "ENTRY e { p = f32[64] parameter(0) "
                   "ROOT c = f32[64] fusion(p), kind=kLoop, calls=f }",
    "tiled layout": "ENTRY e { p = f32[20,100]{1,0:T(8,128)} parameter(0) "
                    "ROOT n = f32[20,100]{1,0:T(8,128)} negate(p) }",
    "tuple operand": "ENTRY e { p = (f32[8], s32[4]) parameter(0) "
                     "ROOT g = s32[4] get-tuple-element(p), index=1 }",
    "no array": "ENTRY e { ROOT t = () tuple() }",
    "complex": "ENTRY e { p = c128[64,64] parameter(0) "
               "ROOT t = c128[64,64] transpose(p), dimensions={1,0} }",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_odd_programs_are_answered_or_refused(name: str) -> None:
    program = hloscope.read(HOSTILE[name])
    memory = Model().memory(program.analysis)
    places = [(program.module.entry, i) for i in program.module.entry]
    found = coalescing_of_all(program, memory, places)
    assert len(found.kernels) + len(found.refused) == len(places)
    json.dumps(found.to_json())
    assert isinstance(found.to_text(), str)
    for view in program:
        with suppress(HloscopeError):
            json.dumps(view.footprint().to_json())


def test_stablehlo_modules_have_no_layouts_and_are_taken_as_row_major() -> None:
    program = hloscope.read(
        "func.func @main(%x: tensor<64x4096xf32>) -> tensor<64x4096xf32> { "
        "%0 = stablehlo.negate %x : tensor<64x4096xf32> return %0 : tensor<64x4096xf32> }"
    )
    memory = Model().memory(program.analysis)
    found = coalescing_of_all(program, memory, kernels_of(program.module))
    assert [traffic(a) for a in found.kernels[0].arrays] == [("exact", 1.0, 4)] * 2


def test_equal_fusions_are_computed_once() -> None:
    body = "{ p = f32[64,512] parameter(0) ROOT n = f32[64,512] negate(p) } "
    text = "".join(f"f{k} {body}" for k in range(20)) + "ENTRY e { p = f32[64,512] parameter(0) "
    text += "".join(f"a{k} = f32[64,512] fusion(p), kind=kLoop, calls=f{k} " for k in range(20))
    program = hloscope.read(text + "ROOT t = (f32[64,512]) tuple(a0) }")
    memory = Model().memory(program.analysis)
    found = coalescing_of_all(program, memory, kernels_of(program.module))
    assert [answer.name for answer in found.kernels] == [f"a{k}" for k in range(20)]
    assert len({id(answer.kernel) for answer in found.kernels}) == 1


@pytest.mark.parametrize(
    ("text", "name", "requests", "sectors"),
    [
        ("ENTRY e { p = f32[40,9] parameter(0) z = f32[] parameter(1) "
         "ROOT q = f32[48,16] pad(p, z), padding=5_3x3_4 }", "z", 24, 24),
        ("ENTRY e { p = f32[300] parameter(0) u = f32[40] parameter(1) i = s32[] constant(50) "
         "d = f32[300] dynamic-update-slice(p, u, i) ROOT n = f32[300] negate(d) }",
         "p", 10, 34),
    ],
    ids=["outside of what is padded", "outside of what is replaced"],
)  # fmt: skip
def test_a_warp_asks_once_for_what_lies_on_several_sides(
    text: str, name: str, requests: int, sectors: int
) -> None:
    use = of_fused(text, name)
    assert use.traffic is not None
    assert (use.precision, use.traffic.requests, use.traffic.sectors) == (
        "exact", requests, sectors
    )  # fmt: skip


def of_fused(text: str, name: str) -> ArrayUse:
    """How an operand is read where the program is a fusion."""
    body = text.removeprefix("ENTRY e")
    lines = re.findall(r"(\w+) = (\S+) parameter\((\d)\)", body)
    outer = " ".join(f"{n} = {type} parameter({k})" for n, type, k in lines)
    names = ", ".join(n for n, _, _ in lines)
    type = re.search(r"ROOT \w+ = (\S+)", body).group(1)  # type: ignore[union-attr]
    whole = f"f {body}\nENTRY e {{ {outer} ROOT r = {type} fusion({names}), kind=kLoop, calls=f }}"
    answer = hloscope.read(whole).root.coalescing()
    [use] = [use for use in answer.operands if use.name == name]
    return use


@pytest.mark.parametrize(
    ("body", "requests"),
    [
        ("r = f32[32] reverse(c), dimensions={0} ROOT a = f32[32] add(c, r)", 2),
        ("n = f32[32] negate(c) ROOT a = f32[32] add(c, n)", 1),
    ],
    ids=["read by two instructions", "one read and used twice"],
)
def test_each_instruction_that_reads_makes_requests_of_its_own(body: str, requests: int) -> None:
    head = "p = f32[1] parameter(0) q = f32[31] parameter(1)"
    joined = "c = f32[32] concatenate(p, q), dimensions={0}"
    use = of_fused(f"ENTRY e {{ {head} {joined} {body} }}", "p")
    assert use.traffic is not None
    assert (use.precision, use.traffic.requests) == ("exact", requests)


def test_what_a_called_computation_loads_on_several_conditions_has_bounds() -> None:
    given = "p = f32[1] parameter(0) q = f32[31] parameter(1)"
    body = "c = f32[32] concatenate(p, q), dimensions={0} r = f32[32] reverse(c), dimensions={0}"
    answer = hloscope.read(
        f"g {{ {given} {body} ROOT s = f32[32] add(c, r) }}\n"
        f"f {{ {given} ROOT x = f32[32] call(p, q), to_apply=g }}\n"
        f"ENTRY e {{ {given} ROOT r = f32[32] fusion(p, q), kind=kLoop, calls=f }}"
    ).root.coalescing()
    traffic = answer.operands[0].traffic
    assert traffic is not None
    assert traffic.best is not None
    assert (traffic.best.requests, traffic.requests) == (1, 2)


@pytest.mark.parametrize("start", [0, 50, 299])
def test_where_values_read_at_run_time_say_who_takes_part_there_are_bounds(start: int) -> None:
    text = "ENTRY e {{ p = f32[600] parameter(0) u = f32[300] parameter(1) i = s32[] {} "
    text += "d = f32[600] dynamic-update-slice(p, u, i) ROOT n = f32[600] negate(d) }}"
    told = of_fused(text.format("parameter(2)"), "p").traffic
    true = of_fused(text.format(f"constant({start})"), "p").traffic
    assert told is not None
    assert told.best is not None
    assert true is not None
    assert told.best.requests <= true.requests <= told.requests
    assert told.best.sectors <= true.sectors <= told.sectors


def test_loads_that_are_not_told_apart_have_bounds() -> None:
    steps = "v0 = f32[64] negate(p)"
    for k in range(6):
        cut, v = 1 << k, f"v{k}"
        steps += (
            f" x{k} = f32[{64 - cut}] slice({v}), slice={{[{cut}:64]}}"
            f" y{k} = f32[{cut}] slice({v}), slice={{[0:{cut}]}}"
            f" c{k} = f32[64] concatenate(x{k}, y{k}), dimensions={{0}}"
            f" {'ROOT ' if k == 5 else ''}v{k + 1} = f32[64] add({v}, c{k})"
        )
    use = of_fused(f"ENTRY e {{ p = f32[64] parameter(0) {steps} }}", "p")
    assert use.traffic is not None
    assert use.traffic.best is not None
    assert use.precision == "bounds"
    assert use.traffic.best.requests < use.traffic.requests
    assert "which loads" in use.reason


@pytest.mark.timeout(30)
def test_blocks_without_number_are_never_written_out() -> None:
    text = """f { p = f32[7] parameter(0)
      ROOT b = f32[7,1000000007] broadcast(p), dimensions={0} }
    ENTRY e { p = f32[7] parameter(0)
      ROOT r = f32[7,1000000007] fusion(p), kind=kLoop, calls=f }"""
    tracemalloc.start()
    answer = hloscope.read(text).root.coalescing()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 100 << 20
    assert [use.precision for use in answer.arrays] == ["sampled", "exact"]
    assert answer.outputs[0].traffic is not None
    assert answer.outputs[0].traffic.sectors == 875_000_007  # 7 * 1000000007 * 4 / 32, rounded up


def test_reductions_of_what_tiles_pad_are_told() -> None:
    text = """add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
    f { p = f32[64,32,5]{2,0,1:T(8,128)} parameter(0) z = f32[] constant(0)
      ROOT r = f32[64,32]{0,1:T(8,128)} reduce(p, z), dimensions={2}, to_apply=add }
    ENTRY e { p = f32[64,32,5]{2,0,1:T(8,128)} parameter(0)
      ROOT r = f32[64,32]{0,1:T(8,128)} fusion(p), kind=kInput, calls=f }"""
    use, *_ = hloscope.read(text).root.coalescing().operands
    assert (use.precision, use.touched.elements) == ("exact", 64 * 32 * 5)
    assert use.traffic is not None
    assert use.traffic.asked == 64 * 32 * 5 * 4


@pytest.mark.parametrize("size", [1 << 63, 1 << 64])
def test_arrays_that_no_address_space_holds_are_not_known_and_hide_nothing(size: int) -> None:
    text = f"""HloModule m
ENTRY e {{
  p = f32[{size},{size}] parameter(0)
  t = f32[{size},{size}] transpose(p), dimensions={{1,0}}
  q = f32[64,64] parameter(1)
  u = f32[64,64] negate(q)
  ROOT r = (f32[{size},{size}], f32[64,64]) tuple(t, u)
}}
"""
    program = hloscope.read(text)
    with suppress(TooLargeError):
        found = program["t"].coalescing()
        assert all(array.is_unknown and array.reason for array in found.arrays)
    assert not any(array.is_unknown for array in program["u"].coalescing().arrays)
    assert program.explore().to_html()
