"""Kernels that are asked about once are equal, and those of other sizes are not taken for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import hloscope
from hloscope.cost import Footprints
from hloscope.display import coalescing_json, footprint_json
from hloscope.errors import HloscopeError
from hloscope.ir import Instruction, Module
from hloscope.memory import Memory
from hloscope.support.devices import device_of
from tests.conftest import SHARED
from tests.generator import generate, hlo_text, options_of, stablehlo_text

EXAMPLES = Path(__file__).parents[2] / "examples"
H100 = device_of("h100")
REDUCES = """add {{ a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT s = f32[] {body}(a, b) }}
ENTRY e {{ p = f32[1024,512] parameter(0)
 q = f32[33,7] parameter(1)
 z = f32[] constant(0)
 r = f32[1024] reduce(p, z), dimensions={{1}}, to_apply=add
 u = f32[33] reduce(q, z), dimensions={{1}}, to_apply=add
 v = f32[33] reduce(q, z), dimensions={{1}}, to_apply=add
 ROOT t = (f32[1024], f32[33], f32[33]) tuple(r, u, v) }}
"""
ALIKE = """f {{ a = f32[64,32] parameter(0)
 ROOT one = f32[32,64] transpose(a), dimensions={{1,0}} }}
g {{ b = f32[64,32] parameter(0)
 ROOT other = f32[32,64] transpose(b), dimensions={{1,0}} }}
ENTRY e {{ p = f32[64,32] parameter(0)
 w = f32[32] parameter(1)
 s = f32[64,32] broadcast(w), dimensions={{1}}
 x = f32[32,64] fusion(p), kind=kInput, calls=f
 y = f32[32,64] fusion(s), kind=kInput, calls=g
 k = f32[32,64] transpose(p), dimensions={{1,0}}
 l = f32[32,64] transpose(s), dimensions={{1,0}}
 m = f32[64,32] add(p, p)
 n = f32[64,32] add(p, s)
 ROOT t = (f32[32,64]) tuple(x) }}
"""


def instructions(module: Module) -> Iterator[Instruction]:
    return (ins for computation in module for ins in computation)


def told(memory: Memory, footprints: Footprints, ins: Instruction) -> object:
    """All that is said of an instruction."""
    try:
        coalescing: object = coalescing_json(memory.of_instruction(ins))
    except HloscopeError as error:
        coalescing = error.message
    return coalescing, footprint_json(footprints.of_instruction(ins))


def assert_same_alone(program: hloscope.Program, most: int = 1 << 20) -> int:
    """Each answer is the one of who was asked nothing else before; how many were compared."""
    analysis = program.analysis
    memory, footprints = Memory(analysis, H100), Footprints(analysis, H100)
    some = list(instructions(program.module))
    for ins in some[:: max(len(some) // most, 1)]:
        together = told(memory, footprints, ins)
        alone = told(Memory(analysis, H100), Footprints(analysis, H100), ins)
        assert together == alone, ins.name
    return len(some)


@pytest.mark.parametrize("text", [REDUCES.format(body="add"), ALIKE.format()])
def test_answers_do_not_depend_on_what_was_asked_before(text: str) -> None:
    assert assert_same_alone(hloscope.read(text))


def test_reduces_of_one_body_and_other_sizes_have_answers_of_their_own() -> None:
    program = hloscope.read(REDUCES.format(body="maximum"))
    memory = Memory(program.analysis, H100)
    large, small, again = (memory.of_equal(program[name].ir) for name in "ruv")
    assert [a.type.sizes for a in small.operands] == [(33, 7), ()]
    assert large.outputs[0].type.sizes == (1024,)
    assert again is small


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.hlo")) + sorted(EXAMPLES.glob("*.mlir")),
                         ids=lambda path: path.name)  # fmt: skip
def test_examples_have_the_same_answers_alone(path: Path) -> None:
    try:
        program = hloscope.read(path)
    except HloscopeError as error:
        pytest.skip(f"it is no program to look at: {error.message}")
    assert_same_alone(program, 60)


@pytest.mark.parametrize("seed", range(12))
def test_generated_programs_have_the_same_answers_alone(seed: int) -> None:
    for write, language in ((hlo_text, "hlo"), (stablehlo_text, "mlir")):
        assert_same_alone(hloscope.read(write(generate(seed, options_of(seed, language)))))


@pytest.mark.slow
@pytest.mark.skipif(not (SHARED / "real").is_dir(), reason="no real programs here")
def test_real_programs_have_the_same_answers_alone(full: bool) -> None:
    files = sorted((SHARED / "real" / "models").glob("*.hlo.txt"))
    step = 1 if full else 24
    for path in files[::step]:
        assert_same_alone(hloscope.read(path), 40)
