"""Bytes that are transferred and not used have one name in texts: unused, never wasted."""

from __future__ import annotations

import re
from typing import Any

import pytest

from hloscope.checks import RULES
from hloscope.checks.scan import QUESTIONS

STEP = "examples/training_step.hlo"
WASTE = re.compile(r"\bwast\w*", re.IGNORECASE)


@pytest.mark.parametrize(
    "words",
    [
        ("coalesce", STEP),
        ("coalesce", STEP, "residual_fusion"),
        ("coalesce", STEP, "residual_fusion", "--format", "svg"),
        ("cost", STEP, "--sort", "waste"),
        ("check", STEP, "--rule", "utilisation"),
        ("coalesce", "--help"),
    ],
)
def test_texts_say_unused(run: Any, words: tuple[str, ...]) -> None:
    result = run(*words)
    assert result.stdout
    assert WASTE.findall(result.stdout) == []


def test_the_table_of_accesses_has_a_column_of_unused_bytes(run: Any) -> None:
    assert "unused" in run("coalesce", STEP).stdout.splitlines()[0]


def test_helps_of_rules_and_questions_say_unused() -> None:
    texts = [parameter.help for rule in RULES.values() for parameter in rule.parameters.values()]
    texts += [question.about for question in QUESTIONS.values()]
    assert any("unused" in text for text in texts)
    assert [text for text in texts if WASTE.search(text)] == []
