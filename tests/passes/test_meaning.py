"""General passes and conversions keep what programs mean; broken and deep programs end well."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from hloscope.errors import HloscopeError
from hloscope.mlir import Operation, parse_mlir, print_mlir
from hloscope.mlir.dialects import DIALECTS
from hloscope.passes.pipeline import PASSES, find_pass
from hloscope.verifier import verify_mlir
from tests.conftest import needs_shared
from tests.interpreter import chunks
from tests.passes.chunks import FILE
from tests.passes.semantics import check_generated

BIT_FOR_BIT = ("cse", "canonicalize", "inline", "stablehlo-legalize-composite-to-call")
OURS = sorted(
    name
    for name, (module, _) in PASSES.items()
    if ".legalizing" in module or ".general" in module or ".canonicalize" in module
)


def tree_of(text: str) -> Operation:
    return parse_mlir(text, dialects=DIALECTS)


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("name", BIT_FOR_BIT)
def test_random_programs_mean_the_same(name: str, full: bool) -> None:
    fired: Counter[str] = Counter()
    for seed in range(1000) if full else range(1, 400, 17):
        fired += check_generated(name, seed, always=name == "canonicalize")
    assert fired or name == "canonicalize"


@pytest.mark.parametrize("name", ["cse", "canonicalize"])
def test_upstream_s_programs_keep_their_assertions(name: str, shared: Path, full: bool) -> None:
    for chunk in [*chunks.chunks("interpret")][:: 1 if full else 15]:
        empty = "func.func" not in chunk.text
        if empty or chunk.is_disabled or chunks.run(chunk).status != chunks.PASS:
            continue
        after, _ = find_pass(name).apply(tree_of(chunk.text))
        text = print_mlir(after, dialects=DIALECTS)
        again = chunks.Chunk(chunk.file, chunk.number, chunk.line, text, chunk.record)
        outcome = chunks.run(again)
        assert outcome.status == chunks.PASS, f"{chunk.id}: {outcome.detail}\n{text}"


def test_an_operation_does_not_take_what_comes_after_it() -> None:
    text = """func.func @main(%a: tensor<2xf32>, %p: tensor<i1>) -> tensor<2xf32> {
      %0 = "stablehlo.if"(%p) ({
        %1 = stablehlo.abs %a : tensor<2xf32>
        stablehlo.return %1 : tensor<2xf32>
      }, {
        %2 = stablehlo.abs %a : tensor<2xf32>
        stablehlo.return %2 : tensor<2xf32>
      }) : (tensor<i1>) -> tensor<2xf32>
      %3 = stablehlo.abs %a : tensor<2xf32>
      %4 = stablehlo.add %0, %3 : tensor<2xf32>
      return %4 : tensor<2xf32>
    }"""
    after, run = find_pass("cse").apply(tree_of(text))
    assert not run.fired
    assert not verify_mlir(after)


def test_a_tree_of_calls_is_inlined_within_a_budget() -> None:
    functions = [
        f"""func.func private @f{k}(%a: tensor<f32>) -> tensor<f32> {{
          %0 = call @f{k + 1}(%a) : (tensor<f32>) -> tensor<f32>
          %1 = call @f{k + 1}(%0) : (tensor<f32>) -> tensor<f32>
          return %1 : tensor<f32>
        }}"""
        for k in range(64)
    ]
    text = "\n".join(functions).replace("func.func private @f0", "func.func @main")
    last = "func.func private @f64(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }"
    after, _ = find_pass("inline").apply(tree_of(f"{text}\n{last}"))
    assert not verify_mlir(after)


def test_calls_in_circles_stay() -> None:
    text = """func.func @main(%a: tensor<f32>) -> tensor<f32> {
      %0 = call @f(%a) : (tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    func.func private @f(%a: tensor<f32>) -> tensor<f32> {
      %0 = call @main(%a) : (tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }"""
    after, _ = find_pass("inline").apply(tree_of(text))
    assert not verify_mlir(after)
    assert print_mlir(after, dialects=DIALECTS).count("call") == 1


DEEP = 400


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("name", OURS)
def test_deep_programs_take_no_recursion(name: str) -> None:
    opened = '%r = "stablehlo.case"(%i) ({\n' * DEEP
    closed = "stablehlo.return %r : tensor<f32>\n}) : (tensor<i32>) -> tensor<f32>\n" * DEEP
    text = f"""func.func @main(%i: tensor<i32>, %a: tensor<f32>) -> tensor<f32> {{
      {opened} %r = chlo.square %a : tensor<f32> -> tensor<f32>
      {closed} return %r : tensor<f32>
    }}"""
    options = {"op-names": ("stablehlo.case",)} if "wrap" in name else {}
    try:
        after, _ = find_pass(name).apply(tree_of(text), **options)
    except HloscopeError:
        return
    assert print_mlir(after, dialects=DIALECTS)


WORDS = re.compile(r"\d+|\?|[a-z]+\d+|%\w+|[\w.]+")
ODD = ("0", "1", "?", "-1", "99999999999", "f8E4M3FN", "i1", "index", "complex<f32>", "*x")


def broken(random: Random, text: str) -> str:
    """The text with a line left out or doubled, or a word in another one's place."""
    lines = [line for line in text.split("\n") if line.strip() and line.strip()[:2] != "//"]
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(lines))
        kind = random.randrange(7)
        words = WORDS.findall(lines[at])
        if kind == 0 and len(lines) > 1:
            del lines[at]
        elif kind == 1:
            lines.insert(at, random.choice(lines))
        elif words:
            other = random.choice([*WORDS.findall(random.choice(lines)), *ODD])
            lines[at] = lines[at].replace(random.choice(words), other, 1)
    return "\n".join(lines)


@needs_shared
def test_broken_programs_end_in_errors(full: bool) -> None:
    """Unverified, too: nothing but errors of ours, and the program that was given stays."""
    random = Random(0)
    programs = [json.loads(line)["text"] for line in FILE.read_text().splitlines()]
    programs = [text for text in programs if text.strip() and "func" in text]
    tried = 0
    for _ in range(20_000 if full else 300):
        text = broken(random, random.choice(programs))
        try:
            tree = tree_of(text)
        except HloscopeError:
            continue
        before = print_mlir(tree, dialects=DIALECTS)
        for name in random.sample(OURS, 4):
            tried += 1
            try:
                after, _ = find_pass(name).apply(tree)
            except HloscopeError:
                continue
            assert print_mlir(after, dialects=DIALECTS)
        assert print_mlir(tree, dialects=DIALECTS) == before
    assert tried
