"""Regions of several blocks after the greedy driver: what is left means what it meant."""

from __future__ import annotations

import random
from typing import Final

import pytest

from hloscope.mlir import Block, Operation, Value, parse_mlir, print_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.passes import find_pass
from hloscope.verifier import verify_mlir

T: Final = "tensor<4xf32>"
DYNAMISM, CANONICALIZE = "canonicalize-dynamism", "canonicalize"


def function(body: str) -> str:
    return f"func.func @main(%a: {T}, %p: i1) -> {T} {{\n{body}\n}}"


def body_after(name: str, body: str) -> list[str]:
    after, _ = find_pass(name).apply(parse_mlir(function(body), dialects=DIALECTS))
    assert not verify_mlir(after)
    return [line.strip() for line in print_mlir(after, dialects=DIALECTS).splitlines()[2:-2]]


CIRCLE = f"""  return %a : {T}
^bb1(%x: {T}):
  %0 = stablehlo.negate %x : {T}
  cf.br ^bb1(%0 : {T})"""
ONLY_ROUND = f"""  %0 = stablehlo.negate %a : {T}
  cf.br ^bb1(%a, %0 : {T}, {T})
^bb1(%x: {T}, %u: {T}):
  %1 = stablehlo.abs %x : {T}
  %2 = stablehlo.negate %u : {T}
  cf.cond_br %p, ^bb1(%1, %2 : {T}, {T}), ^bb2
^bb2:
  return %x : {T}"""
TWICE = f"""  cf.cond_br %p, ^bb1(%a : {T}), ^bb2(%a : {T})
^bb1(%x: {T}):
  %1 = stablehlo.abs %x : {T}
  return %1 : {T}
^bb2(%y: {T}):
  %2 = stablehlo.abs %y : {T}
  return %2 : {T}"""


@pytest.mark.parametrize("name", [DYNAMISM, CANONICALIZE])
def test_blocks_that_are_never_reached_go(name: str) -> None:
    assert body_after(name, CIRCLE) == [f"return %arg0 : {T}"]


@pytest.mark.parametrize("name", [DYNAMISM, CANONICALIZE])
def test_arguments_that_only_go_round_are_left_out(name: str) -> None:
    """As MLIR has it, with all that they are computed from."""
    assert body_after(name, ONLY_ROUND) == [
        f"cf.br ^bb1(%arg0 : {T})",
        f"^bb1(%0: {T}):  // 2 preds: ^bb0, ^bb1",
        f"%1 = stablehlo.abs %0 : {T}",
        f"cf.cond_br %arg1, ^bb1(%1 : {T}), ^bb2",
        "^bb2:  // pred: ^bb1",
        f"return %0 : {T}",
    ]


def test_blocks_that_are_the_same_become_one_unless_the_pass_leaves_them() -> None:
    assert body_after(DYNAMISM, TWICE) == [
        "cf.cond_br %arg1, ^bb1, ^bb1",
        "^bb1:  // 2 preds: ^bb0, ^bb0",
        f"%0 = stablehlo.abs %arg0 : {T}",
        f"return %0 : {T}",
    ]
    assert len(body_after(CANONICALIZE, TWICE)) == 7


def random_body(rng: random.Random) -> str:
    """Some blocks, each with arguments, ops of one operand, and branches to any but the first."""
    counts = [0] + [rng.randint(0, 3) for _ in range(rng.randint(1, 5))]
    lines = []
    for k, count in enumerate(counts):
        seen = ["%a"] + [f"%x{k}_{i}" for i in range(count)]
        if k:
            given = ", ".join(f"{name}: {T}" for name in seen[1:])
            lines.append(f"^bb{k}({given}):" if given else f"^bb{k}:")
        for i in range(rng.randint(0, 3)):
            lines.append(f"%v{k}_{i} = stablehlo.{rng.choice(['abs', 'sine'])} {seen[-1]} : {T}")
            seen.append(f"%v{k}_{i}")
            rng.shuffle(seen)

        def target(seen: list[str] = seen) -> str:
            to = rng.randrange(1, len(counts))
            handed = [rng.choice(seen) for _ in range(counts[to])]
            types = f"({', '.join(handed)} : {', '.join([T] * len(handed))})"
            return f"^bb{to}{types if handed else ''}"

        match rng.randrange(3):
            case 0:
                lines.append(f"return {rng.choice(seen)} : {T}")
            case 1:
                lines.append(f"cf.br {target()}")
            case _:
                lines.append(f"cf.cond_br %p, {target()}, {target()}")
    return "\n".join(lines)


def run(tree: Operation, choices: random.Random) -> str:
    """The term that is returned if branches are taken at random, or that none is."""
    block: Block = tree.regions[0].block.operations[0].regions[0].blocks[0]
    terms: dict[Value, str] = {value: f"arg{k}" for k, value in enumerate(block.arguments)}
    for _ in range(30):
        for op in block.operations:
            given = [terms[value] for value in op.operands]
            if op.name == "func.return":
                return given[0]
            if not op.successors:
                terms[op.result] = f"{op.name}({given[0]})"
                continue
            second = op.name == "cf.cond_br" and choices.random() < 0.5
            block = op.successors[second]
            count = len(block.arguments)
            handed = given[len(given) - count :] if second or op.name == "cf.br" else given[1:]
            terms |= dict(zip(block.arguments, handed[:count], strict=True))
            break
    return "goes on"


@pytest.mark.parametrize("name", [DYNAMISM, CANONICALIZE, "aggressive-simplification"])
def test_random_blocks_mean_the_same(name: str, full: bool) -> None:
    changed = 0
    for seed in range(1500 if full else 60):
        before = parse_mlir(function(random_body(random.Random(seed))), dialects=DIALECTS)
        after, _ = find_pass(name).apply(before)
        assert not verify_mlir(after), seed
        for way in range(5):
            assert run(before, random.Random(way)) == run(after, random.Random(way)), seed
        text = print_mlir(after, dialects=DIALECTS)
        changed += text != print_mlir(before, dialects=DIALECTS)
        again, _ = find_pass(name).apply(after)
        assert print_mlir(again, dialects=DIALECTS) == text, seed
    assert changed > 15
