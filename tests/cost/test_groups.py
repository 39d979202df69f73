"""Groups of rows add up, the largest first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st

import hloscope as hs
from hloscope.cli.app import app
from hloscope.cost import Footprints, grouped, kernels_and_runs, running, shares
from hloscope.support.devices import device_of
from tests.conftest import SHARED

BIG: Final = [*SHARED.glob("real/big/*.gpu.opt.hlo.txt"), *SHARED.glob("real/corpus/*/*.hlo.txt")]
BY: Final = ("group", "kernel", "source", "scope", "scope:2", "opcode", "computation")
LAYERS: Final = """HloModule m
f0 { x = f32[64,512] parameter(0) ROOT n = f32[64,512] negate(x) }
f1 { x = f32[64,512] parameter(0) ROOT n = f32[64,512] negate(x) }
ENTRY e {
  p = f32[64,512] parameter(0)
  y0 = f32[64,512] fusion(p), kind=kLoop, calls=f0, metadata={op_name="jit(f)/a/neg" source_file="m.py" source_line=7}
  y1 = f32[64,512] fusion(y0), kind=kLoop, calls=f1, metadata={op_name="jit(f)/b/neg" source_file="m.py" source_line=7}
  ROOT t = f32[512,64] transpose(y1), dimensions={1,0}, metadata={op_name="jit(f)/b/t" source_file="m.py" source_line=8}
}
"""  # noqa: E501 - one instruction a line, as XLA prints it


@given(st.lists(st.integers(0, 10**20), max_size=30))
def test_shares_of_totals_add_up_to_one(totals: list[int]) -> None:
    found = [*shares(totals)]
    assert sum(share for share, _ in found) == pytest.approx(1.0 if any(totals) else 0.0)
    assert not found or found[-1][1] == (1.0 if any(totals) else 0.0)


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("sort", ["bound", "bytes", "flops", "waste"])
def test_each_kernel_is_in_one_group_and_groups_are_sorted(by: str, sort: str) -> None:
    cost = hs.read(LAYERS).cost()
    groups = cost.groups(by, sort=sort)
    members = [kernel for group in groups for kernel in group.members]
    assert sorted(map(id, members)) == sorted(map(id, cost.kernels))
    totals = [group.total for group in groups]
    assert totals == sorted(totals, reverse=True)


def test_equal_kernels_of_one_line_share_a_row_with_the_sum_of_both() -> None:
    groups = hs.read(LAYERS).cost().groups(sort="bytes")
    assert [(group.total, len(group.members)) for group in groups] == [(4 * 131072, 2), (262144, 1)]


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("source", ["m.py:7", "m.py:8"]),
        ("scope", ["jit(f)/b", "jit(f)/a"]),
        ("scope:1", ["jit(f)"]),
        ("opcode", ["fusion kLoop", "transpose"]),
        ("computation", ["e"]),
        ("kernel", ["y0", "y1", "t"]),
    ],
)
def test_groups_are_named_by_what_they_share(by: str, names: list[str]) -> None:
    found = hs.read(LAYERS).cost().to_json(by, sort="bytes")
    assert [group["what"] for group in found["groups"]] == names


def test_rows_that_are_not_printed_are_one_row_and_the_last_row_is_the_sum() -> None:
    table = hs.read(LAYERS).cost().table("kernel", sort="bytes", top=1)
    assert [row[0] for row in table.rows] == ["256 KiB", "512 KiB", "768 KiB"]
    assert [row[1] for row in table.rows] == ["33.3 %", "66.7 %", "100.0 %"]
    assert "2 more rows" in table.rows[1]


@pytest.mark.parametrize("by", ["sauce", "scope:0", "scope:x", "kernel:2", ""])
def test_an_unknown_grouping_is_a_usage_error(by: str, tmp_path: Path) -> None:
    file = tmp_path / "m.hlo"
    file.write_text(LAYERS)
    result = CliRunner().invoke(app, ["cost", str(file), "--by", by])
    assert result.exit_code == 2
    assert "no grouping" in result.output


@pytest.mark.slow(keep=3)
@pytest.mark.skipif(not BIG, reason="the shared programs are not here")
@pytest.mark.parametrize("path", BIG, ids=lambda path: path.name)
def test_totals_of_real_programs_are_the_sums_of_an_own_walk(path: Path) -> None:
    program = hs.read(path)
    cost = program.cost()
    footprints = Footprints(program.analysis, device_of("h100"))
    walked = [
        (ins.name, footprints.of_instruction(ins).bytes * place.times)
        for place in running(program.module)
        for ins in place.kernels
    ]
    assert walked == [(kernel.instruction.name, kernel.bytes) for kernel in cost.kernels]
    total = sum(amount for _, amount in walked)
    for by in BY:
        found: dict[str, Any] = cost.to_json(by, sort="bytes")
        assert found["total"] == found["totals"]["bytes"] == total
        assert sum(group["total"] for group in found["groups"]) == total
        assert sum(group["kernels"] for group in found["groups"]) == len(cost.kernels)
        assert sum(group["share"] for group in found["groups"]) == pytest.approx(
            1.0 if total else 0.0
        )
    json.dumps(found)


def test_a_kernel_with_several_rows_is_counted_once() -> None:
    cost = hs.read(LAYERS).cost()
    accesses = grouped(cost.model.accesses, lambda row: row.array.is_output, lambda row: row.moved)
    assert len(cost.model.accesses) == 6
    assert kernels_and_runs(accesses) == (3, 3)
