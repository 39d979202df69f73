"""Texts of the shared data are read; broken ones are answered with an error of ours."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from hloscope.errors import Diagnostic, HloscopeError
from hloscope.mlir.dialects.registry import DIALECTS
from hloscope.mlir.ir import Operation
from hloscope.mlir.locations import resolve_location
from hloscope.mlir.text.lexer import split_input
from hloscope.mlir.text.parser import parse_mlir
from hloscope.mlir.types import type_text
from tests.mutations import KINDS

_OWN = """
module @m attributes {mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x?xf32> {jax.a = "b"}, %arg1: !stablehlo.token) -> i32 {
    %0:2 = "stablehlo.foo"(%arg0) <{p = dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      "stablehlo.return"(%a) : (tensor<f32>) -> ()
    }) {x = array<i64: 1, 2>} : (tensor<2x?xf32>) -> (tensor<2xf32>, i32) loc(#loc1)
    %1 = stablehlo.add %0#0, %0#0 : tensor<2xf32>
    %2 = stablehlo.add %1, %0#0 : tensor<2xf32>
    %3 = "a.b"() : () -> !quant.uniform<i8:f32:1, {1.0:3, 2.0}>
    return %0#1 : i32
  }
}
#loc1 = loc("a"("x.py":1:2))
"""


def _chunks(shared: Path) -> Iterator[tuple[str, str, str]]:
    folder = shared / "conformance" / "stablehlo"
    for name in ("verify/chunks", "verify/extra_chunks", "transforms/chunks"):
        with (folder / f"{name}.jsonl").open() as lines:
            for line in lines:
                chunk = json.loads(line)
                yield chunk["id"], chunk["polarity"], chunk["text"]


def _files(shared: Path, full: bool) -> Iterator[tuple[str, str]]:
    folder = shared / "conformance" / "stablehlo"
    found = [p for d in ("interpret", "math", "jax_samples") for p in folder.glob(f"{d}/**/*.mlir")]
    testdata = sorted(folder.glob("testdata/**/*.mlir"))
    found += testdata if full else testdata[::20]
    found += (shared / "real").glob("**/*.mlir")
    for path in sorted(found):
        for number, (_, text) in enumerate(split_input(path.read_text())):
            yield f"{path}#{number}", text


def _walk(operation: Operation) -> Iterator[Operation]:
    waiting = [operation]
    while waiting:
        op = waiting.pop()
        yield op
        waiting += [inner for region in op.regions for block in region.blocks for inner in block]


@pytest.mark.slow
def test_right_chunks_are_read(shared: Path) -> None:
    refused = []
    for name, polarity, text in _chunks(shared):
        if polarity == "negative":
            continue
        try:
            parse_mlir(text, dialects=DIALECTS)
        except HloscopeError as error:
            refused.append(f"{name}: {error}")
    assert refused == []


@pytest.mark.slow
def test_files_are_read(shared: Path, full: bool) -> None:
    for name, text in _files(shared, full):
        parse_mlir(text, name, dialects=DIALECTS)


def test_trees_hang_together(shared: Path) -> None:
    """Parents, owners, positions and locations of real programs with debug locations."""
    paths = sorted((shared / "real" / "models").glob("*.mlir"))
    for path in paths[::4]:
        text = path.read_text()
        module = parse_mlir(text, dialects=DIALECTS)
        for op in _walk(module):
            if op is module:
                continue
            assert op.name.rpartition(".")[2] in text[op.start : op.end] or op.regions == ()
            assert op.parent is not None
            assert op in op.parent.operations
            for number, value in enumerate(op.results):
                assert value.owner is op
                assert value.index == number
                assert type_text(value.type)
            resolve_location(op.location)
            for region in op.regions:
                assert region.parent is op
                for block in region.blocks:
                    assert block.parent is region
                    assert all(value.owner is block for value in block.arguments)


def _broken(texts: list[str], count: int) -> Iterator[str]:
    rng = random.Random(20261121)
    for _ in range(count):
        text = rng.choice(texts)
        for _ in range(rng.choice([1, 1, 2])):
            text = rng.choice(list(KINDS.values()))(text, rng) if text else text
        yield text


def _answered(text: str) -> None:
    errors: list[Diagnostic] = []
    message = ""
    try:
        parse_mlir(text, dialects=DIALECTS)
    except HloscopeError as error:
        message = str(error)
    parse_mlir(text, dialects=DIALECTS, errors=errors)
    assert bool(message) == bool(errors), text


@pytest.mark.slow
def test_broken_texts_of_our_own_are_answered() -> None:
    for text in _broken([_OWN], 400):
        _answered(text)


@pytest.mark.slow
def test_broken_texts_of_the_corpus_are_answered(shared: Path, full: bool) -> None:
    texts = [text for _, _, text in _chunks(shared) if text.strip()]
    for text in _broken(texts, 5000 if full else 300):
        _answered(text)
