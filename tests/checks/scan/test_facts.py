"""What is said of a kernel follows from its structure, whichever program it is in."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

import hloscope
from hloscope.api.scanning import Facts
from hloscope.checks.scan import Digests, Store, encoded

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted([*(ROOT / "examples").glob("*.hlo"), *(ROOT / "examples").glob("*.mlir")])


def value(random: random.Random, depth: int = 3) -> object:
    """Nested tuples of small things, of which many are nearly equal."""
    if depth and random.random() < 0.6:
        return tuple(value(random, depth - 1) for _ in range(random.randrange(4)))
    return random.choice([None, True, False, 0, 1, 10, "", "a", "1", "a1", b"", b"a", b"1"])


def test_values_are_equal_as_bytes_if_they_are_equal() -> None:
    draw = random.Random(5)
    values = [value(draw) for _ in range(3000)]
    forms = {encoded(one): repr(one) for one in values}
    assert len(forms) == len(set(map(repr, values))) > 500
    assert all(forms[encoded(one)] == repr(one) for one in values)


def test_what_has_no_digest_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(self: Digests, *asked: object) -> str:
        raise TypeError("a value of Something has no digest")

    monkeypatch.setattr(Digests, "of_kernel", unknown)
    text = "ENTRY e { p = f32[4] parameter(0) q = f32[4] negate(p) ROOT n = f32[4] negate(q) }"
    row, kernels = Facts(hloscope.read(text), "h100", Store(None)).rows()
    assert [kernel["structure"] for kernel in kernels] == [None, None]
    assert row["structures"] == 2


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_equal_structure_means_equal_facts_whatever_the_names(path: Path) -> None:
    """As if the facts of a kernel came from a program in which all is called otherwise."""
    text = path.read_text()
    if path.suffix == ".mlir":
        other = re.sub(r"%(\w+)", r"%v\1", text)
    else:
        program = hloscope.read(text)
        names = {ins.name for ins in program} | {c.name for c in program.module}
        pattern = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
        other = re.sub(rf"(?<![\w.\"])({pattern})(?![\w.(\"])(?!=)", r"\1_x", program.text())
    both = [Facts(hloscope.read(t), "h100", Store(None)).rows()[1] for t in (text, other)]
    before, after = ({row["name"] for row in one} for one in both)
    assert before - after, "ops without results keep what they are called"
    known: dict[str, Any] = {}
    own = {"name", "computation", "module", "op_name", "source", "line", "times"}
    for row in [row for one in both for row in one]:
        facts = {key: value for key, value in row.items() if key not in own}
        assert known.setdefault(row["structure"], facts) == facts
    assert [row["structure"] for row in both[0]] == [row["structure"] for row in both[1]]


def test_problems_of_a_kernel_are_told_without_its_name() -> None:
    text = """f { a = f32[4] parameter(0) ROOT b = f32[4] negate(a) }
      ENTRY e { q = f32[4] parameter(0) p = f32[4] fusion(q), kind=kLoop, calls=f
      mine = f32[4] custom-call(p), custom_call_target="theirs"
      ROOT n = f32[4] negate(mine) }"""
    kernels = Facts(hloscope.read(text), "h100", Store(None)).rows()[1]
    problems = {row["name"]: row["problems"] for row in kernels}
    assert "`_` is a custom call" in problems["mine"]
    assert "mine" not in problems["mine"]


LOOP = """f { a = f32[64,64] parameter(0) ROOT b = f32[64,64] negate(a) }
b { s = (f32[64,64], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=1
  x = f32[64,64] get-tuple-element(s), index=0 y = f32[64,64] fusion(x), kind=kLoop, calls=f
  one = s32[] constant(1) j = s32[] add(i, one) ROOT t = (f32[64,64], s32[]) tuple(y, j) }
c { s = (f32[64,64], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=1
  n = s32[] constant(7) ROOT l = pred[] compare(i, n), direction=LT }
ENTRY e { p = f32[64,64] parameter(0) z = s32[] constant(0)
  t = (f32[64,64], s32[]) tuple(p, z)
  ROOT w = (f32[64,64], s32[]) while(t), condition=c, body=b }"""


def test_totals_are_those_of_the_cost_of_the_program() -> None:
    program = hloscope.read(LOOP)
    row, kernels = Facts(program, "h100", Store(None)).rows()
    totals = program.cost(device="h100").to_json()["totals"]
    assert row["moved_bytes"] == totals["bytes"] > 7 * 2 * 64 * 64 * 4
    assert row["bound_ps"] == totals["bound_ps"]
    assert row["wasted_bytes"] == totals["unused_bytes"]
    assert row["compiled_for"] == "uncompiled", "text cut from a dump has no mark"
    (y,) = [kernel for kernel in kernels if kernel["name"] == "y"]
    assert (y["times"], y["maker"], y["emitter"]) == (7, "loop", "loop")
    assert y["padded_bytes"] == 64 * 64 * 4


def test_a_program_that_is_not_compiled_is_not_judged_by_threads() -> None:
    text = "ENTRY e { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }"
    row, (kernel,) = Facts(hloscope.read(text), "h100", Store(None)).rows()
    assert row["compiled_for"] == "uncompiled"
    assert "emitter" not in kernel
    assert "not compiled for a GPU" in kernel["problems"]


def test_bytes_held_are_those_of_the_memory_of_the_program() -> None:
    program = hloscope.read(f"HloModule m, is_scheduled=true\n{LOOP}")
    row, _ = Facts(program, "h100", Store(None)).rows()
    memory = program.memory()
    assert row["least_live_bytes"] == memory.lower > 64 * 64 * 4
    assert row["held_bytes"] == memory.estimate
    assert row["parameter_bytes"] == 64 * 64 * 4
    assert row["temporary_bytes"] == memory.model.device.most_temporary
    assert row["padding_at_peak_bytes"] == 0


def test_a_program_without_a_schedule_has_sums_only() -> None:
    row, _ = Facts(hloscope.read(LOOP), "h100", Store(None)).rows()
    assert row["parameter_bytes"] == 64 * 64 * 4
    assert row["output_bytes"] == 64 * 64 * 4 + 4
    assert "held_bytes" not in row
    assert "memory" not in row["problems"]
