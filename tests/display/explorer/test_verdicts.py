"""What the page says of kernels is what the commands say of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

import hloscope
from hloscope.cli.app import app
from tests.browser import Browser
from tests.cli.conftest import ROOT
from tests.display.explorer.pages import browser, chunk, names_of, page_of
from tests.display.explorer.test_browser import shown

EXAMPLES = ["softmax.hlo", "training_step.hlo", "kv_cache.hlo", "split_heads.hlo", "softmax.mlir"]


def ask(*arguments: str) -> Any:
    """What a command prints as JSON."""
    return json.loads(CliRunner().invoke(app, [*arguments]).stdout)


def facts_of(page: str, subject: str) -> dict[str, Any]:
    """What is said about a subject, by the names of instructions."""
    told, names = chunk(page, "kernels"), names_of(page)
    of = told["of"].get(subject, [])
    return {names[k]: told["facts"][number] for k, number in enumerate(of) if number >= 0}


@pytest.mark.parametrize("name", EXAMPLES)
def test_coalescing_and_footprints_are_those_of_the_commands(name: str) -> None:
    page = page_of(ROOT / "examples" / name, parts=["coalesce", "footprint"])
    for command, keys in {
        "coalesce": ("wasted_bytes", "utilisation", "efficiency", "model"),
        "footprint": ("read_bytes", "written_bytes", "flops", "exact"),
    }.items():
        as_if = ["--as-if", "h100"] if command == "coalesce" else []  # as the page takes kernels
        told = ask(command, str(ROOT / "examples" / name), *as_if, "--json")
        kernels = told.get("kernels", [told])
        mine = facts_of(page, command)
        compared = 0
        for kernel in kernels:
            found = mine[kernel["name"]]
            if "refused" in found:
                continue
            compared += 1
            assert {k: found[k] for k in keys if k in kernel} == {
                k: kernel[k] for k in keys if k in kernel
            }
        assert compared or not kernels, kernels


@pytest.mark.parametrize("name", EXAMPLES)
def test_chains_are_those_of_the_command(name: str) -> None:
    page = page_of(ROOT / "examples" / name, parts=["cancel"])
    kernels, names = chunk(page, "kernels"), names_of(page)
    mine = {
        (
            names[k + kernels["from"][k]],
            kernels["facts"][number]["verdict"],
            kernels["facts"][number]["bytes_moved"],
        )
        for k, number in enumerate(kernels["of"].get("cancel", []))
        if number >= 0
    }
    told = ask("cancel", str(ROOT / "examples" / name), "--json")
    assert mine == {(c["name"], c["verdict"], c["bytes_moved"]) for c in told["chains"]}


def test_steps_of_chains_on_the_page_are_those_of_the_program(shared: Path) -> None:
    program = hloscope.read(shared / "real" / "models" / "mamba_assoc_scan_fwd.hlo.txt")
    page = program.explore(parts=["cancel"]).to_html()
    kernels, names = chunk(page, "kernels"), names_of(page)
    found = {c.chain.sink.name: c for c in program.cancellations()}
    chains = 0
    for k, number in enumerate(kernels["of"]["cancel"]):
        if number < 0:
            continue
        facts, sink = kernels["facts"][number], k + kernels["from"][k]
        told = found[names[sink]]
        at = facts["moves_at"]
        assert (None if at is None else names[sink - at]) == told.blocking
        steps = [names[sink - step] for step in facts["steps"]]
        assert steps == [step.name for step in told.chain.steps]
        chains += 1
    assert chains


@pytest.mark.parametrize("name", EXAMPLES)
def test_tiles_are_those_of_the_analysis(name: str) -> None:
    program = hloscope.read(ROOT / "examples" / name)
    page = page_of(ROOT / "examples" / name, parts=["tiles"])
    kernels = facts_of(page, "tiles")
    assert kernels
    for kernel, found in kernels.items():
        views = [view for view in program if view.name == kernel]
        assert len(views) == 1
        symbolic = views[0].tiles().report.symbolic
        if "refused" in found:
            assert found["refused"] == f"{symbolic.code}: {symbolic.reason}"
        else:
            assert found["sizes"] == [p.size for p in symbolic.parameters]
            assert found["must"] == [str(c) for c in symbolic.constraints.clauses]


TRITON: Final = """
fused { p = bf16[128,1600] parameter(0) ROOT n = bf16[128,1600] negate(p) }
ENTRY e { p = bf16[128,1600] parameter(0) ROOT f = bf16[128,1600] fusion(p), kind=kCustom,
  calls=fused, backend_config={"fusion_backend_config":{"kind":"__triton",
  "block_level_fusion_config":{"num_warps":"4","output_tiles":[{"sizes":["2","SIZE"]}]}}} }"""
TOLD: Final = {
    "no unused sectors": (
        "ENTRY e { p = f32[64,32] parameter(0) ROOT n = f32[64,32] negate(p) }",
        "no unused transfers", "no unused sectors",
    ),
    "unused sectors": (
        "ENTRY e { p = f32[8,1025] parameter(0) ROOT s = f32[8,1024] slice(p), "
        "slice={[0:8],[1:1025]} }",
        "transferred and unused", "sectors for each request",
    ),
    "values of run time": (
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
        "ENTRY e { p = f32[90,64] parameter(0) i = s32[32,1] parameter(1) u = f32[32,1,1] "
        "parameter(2) ROOT s = f32[90,64] scatter(p, i, u), update_window_dims={1,2}, "
        "inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
        "to_apply=add }",
        "at most", "at best: it depends on values read at run time",
    ),
    "tiles that use a part": (
        TRITON.replace("SIZE", "8"), "transferred and unused", "25 %1.563 MiBtiles of 2 × 8",
    ),
    "tiles that use all": (
        TRITON.replace("SIZE", "64"), "tiles use all bytes they transfer",
        "100 %400 KiBtiles of 2 × 64",
    ),
    "tiles that are not known": (
        TRITON.replace('"output_tiles":[{"sizes":["2","SIZE"]}]', ""),
        "unknown: no sectors are counted", "not counted",
    ),
}  # fmt: skip


@pytest.mark.slow(keep=1)
@browser
@pytest.mark.timeout(240)
@pytest.mark.parametrize("text", TOLD)
def test_the_verdict_says_what_is_known_and_no_more(
    page: Browser, tmp_path: Path, text: str
) -> None:
    program, verdict, why = TOLD[text]
    shown(page, tmp_path, program, parts=["coalesce"])
    told = page.value("document.querySelector('.verdicts').textContent")
    assert verdict in told
    assert why in told
    assert ("no unused transfers" in told) == (text == "no unused sectors")
