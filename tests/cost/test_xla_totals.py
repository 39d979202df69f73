"""Our work against XLA's totals: equal once the named differences are restated as XLA counts."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import pytest

import hloscope as hs
from hloscope.cost import NOTHING, Flops, LoopRuns, Work, broadcast_back, rule_of
from hloscope.fusion import elements_of
from hloscope.ir import Instruction, Module
from hloscope.ops import (
    AsyncStart,
    Call,
    CustomCall,
    ReduceScatter,
    ReduceWindow,
    SelectAndScatter,
    TopK,
    While,
)
from tests.conftest import SHARED

DIFFERENCES = {
    "loops once": "XLA counts body and condition of a loop once",
    "converts apart": "XLA counts converted elements as flops",
    "complex": "XLA counts a complex operation as one, a complex product as two",
    "padding": "XLA counts taps on padding in reduce-window and select-and-scatter",
    "broadcast back": "XLA counts n(o) / L + L - 1 for a window over all of a dimension",
    "custom call": "XLA counts -1",
    "top-k": "XLA counts 0",
    "reduce-scatter": "XLA counts 0",
}
"""Every difference by name."""


class AsXla(Flops):
    """XLA's count of flops and transcendentals: our rules but for the named differences.

    Flops are vector work, converts among them.  `used` has the differences that were met.
    """

    def __init__(self) -> None:
        super().__init__(runs=lambda _: LoopRuns(1, 1, is_known=True))
        self.used: set[str] = set()

    def count(self, ins: Instruction, called: tuple[Work, ...]) -> Work:
        ours = super().count(ins, called)
        flops = ours.flops + ours.convert_count
        if ours.convert_count:
            self.used.add("converts apart")
        name, theirs = _theirs(ins, called, ours, flops)
        if theirs != flops:
            self.used.add(name)
        if isinstance(ins.op, While):
            self.used.add("loops once")
        is_call = isinstance(ins.op, CustomCall)
        return _as_work(theirs, 0 if is_call else ours.transcendental_count)


def _theirs(ins: Instruction, called: tuple[Work, ...], ours: Work, flops: int) -> tuple[str, int]:
    """Flops as XLA counts them, and the name of the difference if there is one."""
    op = ins.op.wrapped if isinstance(ins.op, AsyncStart) and ins.op.wrapped else ins.op
    match op:
        case CustomCall():
            return "custom call", -1
        case TopK():
            return "top-k", 0
        case ReduceScatter():
            return "reduce-scatter", 0
        case ReduceWindow(window=window):
            length, n = broadcast_back(ins, op), elements_of([ins])
            if length is not None:
                return "broadcast back", n // length + length - 1
            return "padding", called[0].flops * (prod(window.sizes) - 1) * n
        case SelectAndScatter(window=window):
            select, scatter = called
            n = elements_of(ins.operands[1:2])
            return "padding", (select.flops * (prod(window.sizes) - 1) + scatter.flops) * n
        case _ if rule_of(op).name == "element-wise":
            return "complex", elements_of([ins])
        case _ if ours.matrix and ours.matrix[0][0].lhs.startswith("c"):
            return "complex", flops // 4
        case _:
            return "", flops


def _as_work(flops: int, transcendentals: int) -> Work:
    if not flops and not transcendentals:
        return NOTHING
    return Work(vector=(("", flops),), transcendentals=(("", transcendentals),))


def xla_totals(module: Module) -> tuple[int, int, set[str]]:
    """Flops and transcendentals as XLA counts them, and the differences that were met."""
    entry = Instruction("entry", module.entry.root.type, Call(), (), (module.entry,))
    counts = AsXla()
    work = counts.of(entry)
    return work.flops, work.transcendental_count, counts.used


def _totals() -> dict[str, dict[str, float]]:
    path = SHARED / "conformance/cost/xla_totals.json"
    if not path.exists():
        return {}
    found: dict[str, dict[str, float]] = json.loads(path.read_text())["files"]
    return found


def _cases() -> list[dict[str, Any]]:
    path = SHARED / "conformance/cost/cost_cases.json"
    found: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return found


TOTALS = _totals()
MODELS = [name for name in TOTALS if "/big/" not in name]
BIG = [name for name in TOTALS if "/big/" in name]
needs_totals = pytest.mark.skipif(
    not TOTALS, reason="needs the conformance data beside the checkout (../shared)"
)


def check_totals(path: Path, flops: float, transcendentals: float) -> set[str]:
    found, functions, used = xla_totals(hs.read(path).module)
    assert found == pytest.approx(flops, rel=1e-4)  # XLA's sums are float32
    assert functions == pytest.approx(transcendentals, rel=1e-4)
    return used


@pytest.mark.slow(keep=6)
@needs_totals
@pytest.mark.parametrize("name", MODELS)
def test_work_is_that_of_xla_but_for_named_differences(name: str) -> None:
    total = TOTALS[name]
    used = check_totals(SHARED / name, total.get("flops", 0), total.get("transcendentals", 0))
    assert used <= {*DIFFERENCES}


@needs_totals
@pytest.mark.parametrize("name", BIG)
def test_work_of_a_large_program_is_that_of_xla_but_for_named_differences(
    name: str, full: bool
) -> None:
    if not full:
        pytest.skip("takes long; --full runs it")
    total = TOTALS[name]
    check_totals(SHARED / name, total.get("flops", 0), total.get("transcendentals", 0))


@needs_totals
@pytest.mark.parametrize("case", _cases(), ids=lambda case: case["name"])
def test_work_of_one_op_is_that_of_xla_but_for_named_differences(case: dict[str, Any]) -> None:
    flops, transcendentals, _ = xla_totals(hs.read(case["text"]).module)
    theirs = case["xla"]
    assert (flops, transcendentals) == (theirs["flops"], theirs["transcendentals"])
