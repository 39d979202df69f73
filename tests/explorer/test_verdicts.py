"""What the page says of kernels is what the commands say of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

import hloscope
from hloscope.cli.app import app
from tests.cli.conftest import ROOT
from tests.explorer.pages import chunk, names_of, page_of

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
        told = ask(command, str(ROOT / "examples" / name), "--json")
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
            kernels["facts"][number]["bytes_written"],
        )
        for k, number in enumerate(kernels["of"].get("cancel", []))
        if number >= 0
    }
    told = ask("cancel", str(ROOT / "examples" / name), "--json")
    assert mine == {(c["name"], c["verdict"], c["bytes_written"]) for c in told["chains"]}


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
