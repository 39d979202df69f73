"""What a dynamic slice reads is told of others, where all that decides it is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from hloscope.fusion import Analysis, Flow, flows
from hloscope.hlo_parser import parse_hlo
from hloscope.ir import Computation, Instruction

PARAMETERS = """p = f32[8,6] parameter(0) u = f32[2,6] parameter(1)
i = s32[] parameter(2) j = s32[] parameter(3)"""


def computations(*slices: str) -> list[Computation]:
    """One computation for each line, which ends in a slice, and the module's entry after them."""
    bodies = [f"f{k} {{ {PARAMETERS}\n{line} }}\n" for k, line in enumerate(slices)]
    text = f"HloModule m\n{''.join(bodies)}ENTRY e {{ ROOT r = f32[] constant(0) }}"
    module = parse_hlo(text)
    return [module.computations[f"f{k}"] for k in range(len(slices))]


def said(flows: Iterable[Flow]) -> list[object]:
    """What is read, and where each runtime variable is read from."""
    return [
        (flow.operand, str(access.map), [v.origin and v.origin.name for v in access.map.runtime])
        for flow in flows
        for access in flow.accesses or ()
        if access.map is not None
    ]


def taken(start: str, other: str, before: str = "") -> str:
    """A slice of two rows from a place on."""
    sizes = "dynamic_slice_sizes={2,6}"
    return f"{before} ROOT s = f32[2,6] dynamic-slice(p, {start}, {other}), {sizes}"


def put(start: str, other: str, before: str = "") -> str:
    """An update of two rows from a place on."""
    return f"{before} ROOT s = f32[8,6] dynamic-update-slice(p, u, {start}, {other})"


ZERO, THREE = "z = s32[] constant(0)", "t = s32[] constant(3)"
SLICES = [
    ("i", "z", ZERO),
    ("j", "z", ZERO),
    ("i", "j", ""),
    ("j", "i", ""),
    ("i", "i", ""),
    ("t", "i", THREE),
    ("z", "i", ZERO),
    ("k", "z", f"{ZERO} {THREE} k = s32[] add(t, t)"),
    ("k", "z", f"{ZERO} {THREE} k = s32[] subtract(t, t)"),
    ("k", "z", f"{ZERO} k = s32[] add(i, j)"),
]


@pytest.mark.parametrize("made", [taken, put])
def test_told_and_found_are_the_same(made: Callable[..., str]) -> None:
    lines = [made(*slice) for slice in SLICES]
    shared = Analysis()
    for callee in computations(*lines, *lines):
        found = said(Analysis().summary(callee, 0))
        assert found
        assert said(shared.reads(callee.root, 0)) == said(Analysis().reads(callee.root, 0))
        assert said(shared.summary(callee, 0)) == found


@pytest.mark.parametrize("made", [taken, put])
def test_the_rule_is_asked_once_for_each_kind(
    made: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Instruction] = []
    ask = flows.output_to_input
    monkeypatch.setattr(
        flows, "output_to_input", lambda ins, *a, **k: asked.append(ins) or ask(ins, *a, **k)
    )
    analysis = Analysis()
    for callee in computations(*[made(*SLICES[k]) for k in (0, 1, 0, 2, 3, 4, 0)]):
        assert [*analysis.reads(callee.root, 0)]
    assert [ins.op.name.startswith("dynamic") for ins in asked].count(True) == 3
