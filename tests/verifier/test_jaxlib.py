"""jaxlib's verifier as an independent opinion on programs with one fault."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import hloscope
from hloscope.verifier.text import first_errors
from tests.oracle import answers_of_child, needs_jaxlib
from tests.verifier.chunks import FOLDER
from tests.verifier.mutants import mutants

CHILD = Path(__file__).with_name("mlir_child.py")


def opinions(texts: list[str]) -> Iterator[list[tuple[int, str]] | None]:
    """jaxlib's errors of each text; `None` where it dies of one."""
    return answers_of_child([str(CHILD), str(FOLDER.parents[1] / "oracle")], texts)


@needs_jaxlib
@pytest.mark.parametrize("seed", range(2))
def test_jaxlib_refuses_the_same_programs_for_the_same_reasons(
    shared: Path, full: bool, seed: int
) -> None:
    programs = list(mutants(FOLDER, seed, 4000 if full else 400))
    other, words = [], []
    for (name, text), theirs in zip(programs, opinions([t for _, t in programs]), strict=True):
        if theirs is None:
            continue
        ours = [
            (d.span.line_col[0] if d.span else 0, d.message)
            for d in first_errors(text, name, allow_unregistered=True)
        ]
        if bool(ours) != bool(theirs):
            other.append((name, text, ours, theirs))
        elif ours and ours[0] != tuple(theirs[0]):
            words.append((name, ours[0], theirs[0]))
    assert len(other) <= len(programs) * 0.005, other[:5]
    assert len(words) <= len(programs) * 0.02, words[:5]


LOOP = """
func.func @main(%a: tensor<4xf32>) -> RESULT {
  %r = "stablehlo.while"(%a) ({
  ^bb0(%x: BODY):
    %c = stablehlo.constant dense<false> : tensor<i1>
    "stablehlo.return"(%c) : (tensor<i1>) -> ()
  }, {
  ^bb0(%x: BODY):
    %n = stablehlo.negate %x : BODY
    "stablehlo.return"(%n) : (BODY) -> ()
  }) : (tensor<4xf32>) -> RESULT
  return %r : RESULT
}
"""


@needs_jaxlib
@pytest.mark.parametrize(
    ("body", "result"), [("tensor<?xf32>", "tensor<4xf32>"), ("tensor<4xf32>", "tensor<?xf32>")]
)
def test_mlir_does_not_read_the_form_of_a_loop_that_has_several_types(
    body: str, result: str
) -> None:
    text = LOOP.replace("BODY", body).replace("RESULT", result)
    printed = hloscope.read(text).text()
    fine, faults = opinions([text, printed])
    assert fine == []
    assert faults
    assert [message for _, message in faults] == [d.message for d in hloscope.verify(printed)]
