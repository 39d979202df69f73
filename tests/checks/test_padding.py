"""The rule about memory that tiles leave empty."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from hloscope.checks import Finding, check_program, setting_of
from hloscope.checks.memory import cheapest_order
from hloscope.hlo_parser import parse_hlo
from hloscope.ir import ELEMENT_TYPES, Layout, TensorType, array_bytes

TILES: list[tuple[tuple[int, ...], ...]] = [
    ((8, 128),),
    ((4, 128), (2, 1)),
    ((128,),),
    ((2, 3, 5),),
]


def found(body: str, before: str = "", **given: object) -> tuple[Finding, ...]:
    module = parse_hlo(f"HloModule m, is_scheduled=true\n{before}ENTRY e {{\n{body}\n}}")
    return check_program(module, "a.hlo", [setting_of("padding", given)]).findings


@pytest.mark.parametrize(
    ("type", "says", "order"),
    [
        ("s32[8388608,8,4]{2,1,0:T(8,128)}", "takes 32 GiB for 1 GiB (32x)", "takes 1 GiB, 31 GiB"),
        (
            "s32[2048,1,128,128,4]{4,3,2,0,1:T(8,128)}",
            "takes 16 GiB for 512 MiB (32x)",
            "takes 512 MiB, 15.5 GiB less",
        ),
        (
            "bf16[2048,1,2048,128]{0,1,3,2:T(4,128)(2,1)}",
            "takes 4 GiB for 1 GiB (4x)",
            "takes 1 GiB, 3 GiB less",
        ),
    ],
)
def test_a_padded_type_is_one_finding_with_its_cheapest_order(
    type: str, says: str, order: str
) -> None:
    (one,) = found(f"p = {type} parameter(0)\nROOT n = {type} copy(p)")
    assert one.severity == "error"
    assert one.instruction == "p"
    assert says in one.message
    assert order in one.message
    assert "2 such arrays" in one.message


def test_arrays_that_fill_their_tiles_or_have_none_are_not_found() -> None:
    full = "f32[1024,1024]{1,0:T(8,128)}"
    assert not found(f"p = {full} parameter(0)\nROOT n = {full} copy(p)", min_wasted=0)
    assert not found("p = f32[1000003,3]{1,0} parameter(0)\nROOT n = f32[1000003,3] copy(p)")


def test_wide_elements_count_as_padding() -> None:
    (one,) = found("ROOT p = pred[64,512,2048]{2,1,0:T(8,128)E(32)} parameter(0)")
    assert one.value == 192 << 20
    assert "elements of 32 bits" in one.message


def test_types_that_waste_fewer_bytes_than_the_parameter_may_stay() -> None:
    body = "ROOT p = f32[128,3]{1,0:T(8,128)} parameter(0)"
    assert not found(body)
    (one,) = found(body, min_wasted="62 KiB")
    assert one.value == 65536 - 1536
    assert not found(body, min_wasted="63 KiB")


@pytest.mark.parametrize(("rows", "severity"), [(3, "error"), (32, "warning"), (1024, "note")])
def test_the_severity_is_that_of_the_share_of_all_array_bytes(rows: int, severity: str) -> None:
    body = (
        f"p = f32[{1024 * rows},128]{{1,0:T(8,128)}} parameter(0)\n"
        "q = f32[1024,64]{1,0:T(8,128)} parameter(1)\n"
        "ROOT t = (f32[1024,64]{1,0:T(8,128)}) tuple(q)"
    )
    (one,) = found(body, min_wasted=0)
    expected = 1024 * 64 * 4 / (1024 * (rows + 1) * 512)
    assert (expected >= 0.1, expected >= 0.01) == (severity == "error", severity != "note")
    assert one.severity == severity


def test_a_setting_makes_findings_milder_but_not_worse() -> None:
    module = parse_hlo("ENTRY e { ROOT p = f32[65536,3]{1,0:T(8,128)} parameter(0) }")
    for wanted in ("error", "warning", "note"):
        setting = setting_of("padding", {"severity": wanted})
        assert [f.severity for f in check_program(module, "a", [setting]).findings] == [wanted]


def test_the_carry_of_a_loop_is_counted_once() -> None:
    type = "f32[65536,3]{1,0:T(8,128)}"
    body = f"b {{ x = {type} parameter(0) ROOT y = {type} negate(x) }}\n"
    condition = f"c {{ x = {type} parameter(0) ROOT y = pred[] constant(true) }}\n"
    (one,) = found(
        f"p = {type} parameter(0)\nROOT w = {type} while(p), condition=c, body=b",
        before=body + condition,
    )
    assert "2 such arrays" in one.message  # the parameter, and what the body writes


@pytest.mark.parametrize(
    "body",
    [
        "s = (TYPE, TYPE) all-gather-start(p), dimensions={0}, replica_groups={{0}}\n"
        "ROOT d = TYPE all-gather-done(s)",
        "s = (TYPE, TYPE, u32[]) copy-start(p)\nROOT d = TYPE copy-done(s)",
        "s = ((TYPE), TYPE, u32[]) async-start(p), calls=w\nROOT d = TYPE async-done(s)",
        "t = (TYPE, TYPE) tuple(p, p)\ng = TYPE get-tuple-element(t), index=0\n"
        "ROOT n = TYPE negate(g)",
    ],
)
def test_an_array_is_counted_once_however_many_ops_show_it(body: str) -> None:
    type = "f32[65536,3]{1,0:T(8,128)}"
    wrapped = f"w {{ x = {type} parameter(0) ROOT y = {type} negate(x) }}\n"
    (one,) = found(
        f"p = {type} parameter(0)\n{body.replace('TYPE', type)}",
        before=wrapped if "calls=w" in body else "",
    )
    assert "2 such arrays" in one.message


def test_more_types_than_top_are_not_found_and_the_worst_are() -> None:
    lines = [f"p{k} = f32[{8192 * k},3]{{1,0:T(8,128)}} parameter({k - 1})" for k in range(1, 5)]
    lines.append("ROOT t = () tuple()")
    assert [f.instruction for f in found("\n".join(lines), top=2)] == ["p3", "p4"]


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=4),
    st.sampled_from(TILES),
    st.data(),
)
def test_no_order_is_cheaper_than_the_cheapest(
    sizes: list[int], tiles: tuple[tuple[int, ...], ...], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(sizes))))
    type = TensorType(ELEMENT_TYPES["f32"], tuple(sizes), Layout(tuple(order), tiles))

    def padded(order: tuple[int, ...]) -> int:
        size = array_bytes(replace(type, layout=Layout(order, tiles)))
        assert size is not None
        return size.padded

    least = min(map(padded, permutations(range(len(sizes)))))
    best = cheapest_order(type)
    size = array_bytes(best or type)
    assert size is not None
    assert size.padded == least
    assert (best is None) == (padded(tuple(order)) == least)
