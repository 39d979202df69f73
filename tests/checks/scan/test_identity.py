"""Kernels of one digest have the same facts, each looked at on its own."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import hloscope
from hloscope.api.scanning import Facts
from hloscope.checks.scan import Digests, Store
from hloscope.cost import is_judged_by_threads, running, target_of
from hloscope.ir import Instruction
from hloscope.support.devices import gpu_of
from tests.conftest import SHARED
from tests.generator import generate, hlo_text, options_of, stablehlo_text

EXAMPLES = Path(__file__).parents[3] / "examples"
STARTS = """ENTRY e {{ p = f32[100] parameter(0)
 i = s32[] parameter(1)
 a = s32[] constant({first})
 b = s32[] constant(2)
 x = s32[] add(a, b)
 k = s32[] copy(a)
 s = f32[4] dynamic-slice(p, x), dynamic_slice_sizes={{4}}
 u = f32[4] dynamic-slice(p, k), dynamic_slice_sizes={{4}}
 v = f32[4] dynamic-slice(p, i), dynamic_slice_sizes={{4}}
 n = f32[100] negate(p)
 ROOT r = (f32[4], f32[4]) tuple(s, u) }}"""


def told(program: hloscope.Program, ins: Instruction) -> dict[str, Any]:
    """The facts of an instruction of which nothing else was asked."""
    return Facts(program, "h100", Store(None))._structural(ins)


def digests(text: str) -> dict[str, str]:
    program = hloscope.read(text)
    entry = program.module.entry
    return {ins.name: Digests().of_kernel(ins, entry) for ins in entry if ins.operands}


def test_what_a_slice_reads_is_told_apart_by_where_it_starts() -> None:
    one, other = digests(STARTS.format(first=1)), digests(STARTS.format(first=50))
    assert {name for name in one if one[name] == other[name]} == {"v", "n", "r"}
    assert len(set(one.values())) == len(one)
    maps = [told(p, p["u"].ir)["indexing"] for p in map(hloscope.read, map(_starting, (1, 50)))]
    assert maps[0] != maps[1]


def _starting(first: int) -> str:
    return STARTS.format(first=first)


def assert_members_alike(programs: list[hloscope.Program], most: int, seed: int = 5) -> int:
    """Of each digest the first kernel and some others: their facts are equal."""
    groups: dict[str, list[tuple[hloscope.Program, Instruction]]] = {}
    for program in programs:
        known = Digests()
        target = target_of(program.module)
        judged = str(is_judged_by_threads(program.module, target, gpu_of("h100")))
        for place in running(program.module):
            for ins in place.kernels:
                try:
                    digest = judged + known.of_kernel(ins, place.computation)
                except TypeError:
                    continue  # it is shared with none
                groups.setdefault(digest, []).append((program, ins))
    draw = random.Random(seed)
    several = [members for members in groups.values() if len(members) > 1]
    for first, *others in draw.sample(several, min(most, len(several))):
        facts = told(*first)
        for program, ins in draw.sample(others, min(2, len(others))):
            assert told(program, ins) == facts, (first[1].name, ins.name)
    return len(several)


@pytest.mark.slow
def test_members_have_the_facts_of_the_one_looked_at_in_generated_programs(full: bool) -> None:
    texts = [
        write(generate(seed, options_of(seed, language)))
        for seed in range(400 if full else 60)
        for write, language in ((hlo_text, "hlo"), (stablehlo_text, "mlir"))
    ]
    assert assert_members_alike(list(map(hloscope.read, texts)), 2000 if full else 150) > 40


@pytest.mark.skipif(not (SHARED / "real").is_dir(), reason="no real programs here")
def test_members_have_the_facts_of_the_one_looked_at_in_real_programs(full: bool) -> None:
    files = sorted((SHARED / "real" / "models").glob("*.hlo.txt"))
    files += sorted((SHARED / "real" / "modules").rglob("*.hlo"))
    some = random.Random(3).sample(files, 400 if full else 30)
    programs = []
    for path in some:
        try:
            program = hloscope.read(path)
            assert program.module.entry
        except hloscope.HloscopeError:
            continue  # some of XLA's tests are wrong on purpose
        programs.append(program)
    assert assert_members_alike(programs, 400 if full else 25)
