"""Pretty forms and attributes on what MLIR itself printed, and on what it refuses to read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hloscope.errors import ParseError
from hloscope.mlir.dialects.registry import DIALECTS
from hloscope.mlir.text.parser import parse_mlir
from hloscope.mlir.text.printer import print_mlir
from tests.conftest import SHARED, needs_shared

_STABLEHLO = SHARED / "conformance" / "stablehlo"


def _lines(*names: str) -> Iterator[dict[str, Any]]:
    for name in names:
        with (_STABLEHLO / name).open() as file:
            yield from map(json.loads, file)


@cache
def _chunks() -> list[dict[str, Any]]:
    return list(_lines("verify/chunks.jsonl", "verify/extra_chunks.jsonl"))


def _printed() -> list[Path]:
    models = SHARED / "real" / "models"
    found = [*models.glob("*.mlir"), *(_STABLEHLO / "jax_samples").glob("*.mlir")]
    return sorted(path for path in found if "vhlo" not in path.name)


@pytest.mark.slow(keep=12)
@needs_shared
@pytest.mark.parametrize("path", _printed(), ids=lambda path: path.name)
def test_what_mlir_printed_prints_back(path: Path) -> None:
    text = path.read_text()
    module = parse_mlir(text, str(path), dialects=DIALECTS)
    again = print_mlir(module, dialects=DIALECTS, locations="loc(" in text)
    assert again.rstrip() == text.rstrip()


@needs_shared
@pytest.mark.parametrize("generic", [False, True])
def test_accepted_chunks_print_as_jaxlib_prints_them(generic: bool) -> None:
    """Those that inference tests rewrite have no text of the original to compare with."""
    golden = {row["id"]: row for row in _lines("oracle/verify.jsonl")}
    compared = 0
    for chunk in _chunks():
        row = golden.get(chunk["id"], {})
        text = row.get("printed_generic" if generic else "printed")
        if chunk["polarity"] != "positive" or not text or "hlo_test_infer" in chunk["text"]:
            continue
        module = parse_mlir(chunk["text"], chunk["id"], dialects=DIALECTS)
        assert print_mlir(module, dialects=DIALECTS, generic=generic).rstrip() == text.rstrip()
        compared += 1
    assert compared > 200


@pytest.mark.slow
@needs_shared
def test_pretty_and_generic_form_of_a_chunk_are_the_same_program() -> None:
    for chunk in _chunks():
        if chunk["polarity"] == "positive":
            module = parse_mlir(chunk["text"], chunk["id"], dialects=DIALECTS)
            pretty = print_mlir(module, dialects=DIALECTS)
            generic = print_mlir(module, dialects=DIALECTS, generic=True)
            again = parse_mlir(generic, chunk["id"], dialects=DIALECTS)
            assert print_mlir(again, dialects=DIALECTS) == pretty


def _pattern(message: str, regex: bool) -> re.Pattern[str]:
    parts = re.split(r"\{\{(.*?)\}\}", message) if regex else [message]
    return re.compile("".join(f"(?:{p})" if i % 2 else re.escape(p) for i, p in enumerate(parts)))


@needs_shared
def test_what_cannot_be_read_is_refused_on_the_line_and_in_the_words_expected() -> None:
    refused = 0
    for chunk in _chunks():
        if chunk["polarity"] != "negative":
            continue
        try:
            parse_mlir(chunk["text"], chunk["id"], dialects=DIALECTS)
            continue
        except ParseError as error:
            said = [(x.span.line_col[0], x.message) for x in error.diagnostics]  # type: ignore[attr-defined]
        expected = [
            (x["target_line"], _pattern(x["message"], x["regex"])) for x in chunk["expected_errors"]
        ]
        refused += 1
        for line, pattern in expected:
            assert any(line == at and pattern.search(text) for at, text in said), chunk["id"]
        for at, text in said:
            assert any(line == at and pattern.search(text) for line, pattern in expected), text
    assert refused > 60
