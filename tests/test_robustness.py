"""Broken programs get an answer or one of our own errors, never anything else."""

from __future__ import annotations

from pathlib import Path

from benchmarks.robustness import answer
from tests.mutations import mutations, originals

OWN = [
    "HloModule m\n\nENTRY e {\n  a = f32[2,3]{1,0} parameter(0)\n"
    "  b = f32[3,2]{0,1} transpose(a), dimensions={1,0}\n"
    '  ROOT c = f32[3,2]{1,0} add(b, b), metadata={op_name="add"}\n}\n',
    "func.func @main(%a: tensor<2x3xf32>) -> tensor<3xf32> {\n"
    "  %c = stablehlo.constant dense<0.0> : tensor<f32>\n"
    "  %0 = stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [0]"
    " : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>\n"
    "  return %0 : tensor<3xf32>\n}\n",
]


def wrong(texts: list[str], count: int) -> dict[str, str]:
    found = ((answer(text), text) for _, text in mutations(texts, count))
    return {verdict: text for verdict, text in found if verdict not in ("fine", "refused")}


def test_broken_texts_of_our_own_are_answered() -> None:
    assert wrong(OWN, 400) == {}


def test_broken_texts_of_the_corpus_are_answered(shared: Path, full: bool) -> None:
    assert wrong(originals(shared), 5000 if full else 250) == {}
