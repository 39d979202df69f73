"""Broken programs get an answer or one of our own errors, never anything else."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import hloscope
from benchmarks.robustness import Table, answer, command_answer
from hloscope.errors import VerifyError
from tests.extreme import KINDS as EXTREME, chain_map
from tests.mutations import mutations, originals
from tests.requests import Request

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


@pytest.mark.slow
def test_broken_texts_of_our_own_are_answered() -> None:
    assert wrong(OWN, 400) == {}


@pytest.mark.slow
def test_broken_texts_of_the_corpus_are_answered(shared: Path, full: bool) -> None:
    assert wrong(originals(shared), 5000 if full else 250) == {}


EXTREMELY_ASKED = (
    ("verify", "-"), ("print", "-"), ("index", "-", "--all"), ("index", "-", "--verify"),
    ("tile", "-", "--search"), ("ls", "-"),
)  # fmt: skip


@pytest.mark.slow(keep=2)
@pytest.mark.parametrize("kind", EXTREME)
def test_a_few_words_that_mean_very_much_are_right_and_answered(kind: str, tmp_path: Path) -> None:
    found = {}
    for seed in range(12):
        text = EXTREME[kind](Random(seed))
        assert not hloscope.verify(text)
        command = EXTREMELY_ASKED[seed % len(EXTREMELY_ASKED)]
        found[command_answer(Request(kind, command, text, text.encode()), tmp_path)] = text
    assert {verdict.partition(" ")[0] for verdict in found} <= {"fine", "refused"}


def test_maps_of_long_chains_are_answered() -> None:
    for seed in range(12):
        given = hloscope.IndexingMap.parse(chain_map(Random(seed)))
        at = [d.interval.lo for d in given.dims]
        assert given.simplify().evaluate(at, at[:1]) == given.evaluate(at, at[:1])


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (None, "fine"),
        (VerifyError("own"), "refused (3)"),
        (ValueError("planted"), "exit 5"),
        (RecursionError("planted"), "exit 5"),
        (MemoryError("planted"), "exit 5"),
    ],
)
def test_the_table_of_commands_notices_a_fault(
    fault: Exception | None, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Request("as it is", ("index", "-"), OWN[0], OWN[0].encode())

    def planted(*_: object) -> None:
        if fault is not None:
            raise fault

    monkeypatch.setattr("hloscope.cli.index._check_usage", planted)
    assert command_answer(request, tmp_path).startswith(found)
    table = Table(None, 0)
    table.add(1, ("index -", "as it is", "right", lambda: command_answer(request, tmp_path), {}))
    others = [what for what in table.counts if not what.startswith(("fine", "refused"))]
    assert bool(others) == (found == "exit 5")
