"""The executable programs of the conformance data: every assertion in them holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hloscope.interpreter.shown import value_text
from hloscope.ir.graph import Computation
from hloscope.mlir.types import spell
from hloscope.stablehlo import parse_stablehlo
from tests.filecheck import check, directives
from tests.interpreter.chunks import MANIFESTS, PASS, Chunk, chunks, entry, run, run_all

SAMPLE = {"interpret": 5, "chlo": 1, "math": 3, "testdata": 40, "quantized": 8}
"""Every how many-th chunk is run unless all are."""


@pytest.mark.slow(keep=3)
@pytest.mark.parametrize("name", MANIFESTS)
def test_chunks(name: str, shared: Path, full: bool) -> None:
    outcomes = run_all(name, sample=1 if full else SAMPLE[name])
    failed = [o for o in outcomes if o.status != PASS and not o.chunk.is_disabled]
    assert not failed, "\n\n".join(f"{o.chunk.id}: {o.status}\n{o.detail}" for o in failed[:20])


def test_printed_values(shared: Path) -> None:
    """What the reference prints, checked by the comments of its own test."""
    for chunk in chunks("interpret"):
        if chunk.file.endswith("/printing.mlir"):
            outcome = run(chunk)
            assert outcome.status == PASS, outcome.detail
            types = function(chunk.text).results
            shown = [
                value_text(v, t, spell=spell) for v, t in zip(outcome.results, types, strict=True)
            ]
            check("\n".join([outcome.printed, *shown]), directives(chunk.text))


def function(text: str) -> Computation:
    return entry(parse_stablehlo(text).computations)


def test_programs_that_must_fail(shared: Path) -> None:
    """An assertion that is made false is seen: expectations are not passed by."""
    expectation = r"(check\.expect_\w+_const %\w+, dense<)[^>]*(> : tensor<[\dx]*[if](?:32|64)>)"
    changed = 0
    for chunk in list(chunks("interpret"))[::3]:
        text = re.sub(expectation, r"\g<1>77\g<2>", chunk.text)
        text = re.sub(r"(dense<77)(> : tensor<[\dx]*f)", r"\1.0\2", text)
        if text != chunk.text:
            changed += 1
            wrong = Chunk(chunk.file, chunk.number, chunk.line, text, chunk.record)
            assert run(wrong).status == "wrong", chunk.id
    assert changed > 50
