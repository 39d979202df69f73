"""What optimising passes leave means what it meant: random programs and upstream's, interpreted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import hloscope as hs
from hloscope.errors import HloscopeError
from hloscope.mlir import Operation, print_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.passes import find_pass
from hloscope.passes.rewriting import Rewriter
from hloscope.stablehlo import parse_stablehlo
from tests.generator import generate, options_of, stablehlo_text
from tests.interpreter import chunks
from tests.passes import random_programs
from tests.passes.semantics import check_generated

PASSES = ("aggressive-folder", "aggressive-simplification", "target-independent-optimization")


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("name", PASSES)
def test_random_programs_mean_the_same(name: str, full: bool) -> None:
    fired: Counter[str] = Counter()
    for seed in range(1000) if full else range(28, 1000, 40):
        fired += check_generated(name, seed)
    assert len(fired) > 8


@pytest.mark.slow
def test_every_pass_keeps_what_random_programs_mean(full: bool) -> None:
    counts, wrong = random_programs.counted(
        range(5, 1000, 7 if full else 120), random_programs.names()
    )
    assert not wrong
    assert sum(row[random_programs.EQUAL] for row in counts.values()) > 40


@pytest.mark.slow
def test_every_pass_keeps_what_nested_programs_mean(full: bool) -> None:
    counts, wrong = random_programs.counted(
        range(3, 1000, 3 if full else 200), random_programs.names(), random_programs.nested
    )
    assert not wrong
    assert sum(row[random_programs.EQUAL] for row in counts.values()) > 20


def test_known_branches_in_known_branches_are_moved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    depth, type = 200, "tensor<2xf32>"
    opened = [
        f'%r{k} = "stablehlo.case"(%p) ({{\n%s{k} = stablehlo.abs %a : {type}' for k in range(depth)
    ]
    closed = [
        f"%q{k} = stablehlo.add %r{k + 1}, %s{k} : {type}\nstablehlo.return %q{k} : {type}\n}},"
        f" {{\nstablehlo.return %a : {type}\n}}) : (tensor<i32>) -> {type}"
        for k in reversed(range(depth))
    ]
    text = "\n".join([
        f"func.func @main(%a: {type}) -> {type} {{",
        "%p = stablehlo.constant dense<0> : tensor<i32>",
        *opened, f"%r{depth} = stablehlo.negate %a : {type}", *closed, f"return %r0 : {type}", "}",
    ])  # fmt: skip
    moved: Counter[str] = Counter()
    move = Rewriter.move

    def counted(self: Rewriter, operation: Operation, *, before: Operation) -> None:
        moved[operation.name] += 1
        move(self, operation, before=before)

    monkeypatch.setattr(Rewriter, "move", counted)
    after, run = find_pass("aggressive-folder").apply(parse_stablehlo(text).tree)
    assert run.fired["inline_known_case"] == depth
    assert moved.total() < 8 * depth
    assert "stablehlo.case" not in print_mlir(after, dialects=DIALECTS)


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("name", PASSES)
def test_upstream_s_programs_mean_the_same(name: str, shared: Path, full: bool) -> None:
    """Their operands are constants, their results are checked in the program."""
    job = find_pass(name)
    every = [c for d in ("interpret", "chlo") for c in chunks.chunks(d) if not c.is_disabled]
    fired = 0
    for chunk in every if full else every[::25]:
        if chunks.run(chunk).status != chunks.PASS:
            continue
        try:
            tree = parse_stablehlo(chunk.text).tree
        except HloscopeError:
            continue
        after, run = job.apply(tree)
        fired += run.fired.total()
        text = print_mlir(after, dialects=DIALECTS)
        again = chunks.Chunk(chunk.file, chunk.number, chunk.line, text, chunk.record)
        outcome = chunks.run(again)
        assert outcome.status == chunks.PASS, f"{chunk.id}: {outcome.detail}\n{text}"
        assert not hs.verify(text), chunk.id
    assert fired


@pytest.mark.parametrize("name", PASSES)
def test_a_second_run_changes_nothing(name: str, full: bool) -> None:

    job = find_pass(name)
    for seed in range(600) if full else range(1, 600, 40):
        program = generate(seed, options_of(seed, "mlir"))
        if "mlir" not in program.languages:
            continue
        once, _ = job.apply(parse_stablehlo(stablehlo_text(program)).tree)
        twice, run = job.apply(once)
        assert not run.fired, f"seed {seed}: {run.fired}"
        again, _ = job.apply(twice)
        assert print_mlir(twice, dialects=DIALECTS) == print_mlir(again, dialects=DIALECTS)
