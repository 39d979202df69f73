"""Printing against MLIR's own output: jaxlib's texts of the corpus, and upstream's CHECK lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hloscope.errors import ParseError
from hloscope.mlir.dialects.registry import DIALECTS
from hloscope.mlir.text.parser import parse_mlir
from hloscope.mlir.text.printer import print_mlir
from tests.conftest import SHARED, needs_shared
from tests.filecheck import MismatchError, check, from_records

pytestmark = needs_shared
CORPUS = SHARED / "conformance" / "stablehlo"
DEBUG, LOCAL = "-mlir-print-debuginfo", "-mlir-print-local-scope"
_ONLY_PRINTS = re.compile(
    rf"stablehlo-opt (?:%s|\s|-verify-diagnostics|-split-input-file|-allow-unregistered-dialect"
    rf"|{DEBUG}|{LOCAL}|\| stablehlo-opt)*\| FileCheck %s"
)


def records(file: str) -> Iterator[dict[str, Any]]:
    with (CORPUS / file).open() as lines:
        yield from map(json.loads, lines)


@pytest.fixture(scope="module")
def chunks() -> dict[str, dict[str, Any]]:
    names = ("verify/chunks.jsonl", "verify/extra_chunks.jsonl")
    return {record["id"]: record for name in names for record in records(name)}


def printed(text: str, **how: Any) -> str:
    return print_mlir(parse_mlir(text, dialects=DIALECTS), dialects=DIALECTS, **how)


@pytest.mark.parametrize("form", ["printed", "printed_generic"])
def test_accepted_chunks_are_printed_as_jaxlib_prints_them(
    form: str, chunks: dict[str, dict[str, Any]]
) -> None:
    different, count = [], 0
    for record in records("oracle/verify.jsonl"):
        expected = record.get(form)
        if expected is None or (form == "printed" and record.get("infer_pass")):
            continue  # `printed` is the output of that pass, if there is one
        count += 1
        if printed(chunks[record["id"]]["text"], generic=form == "printed_generic") != expected:
            different.append(record["id"])
    assert count == (253 if form == "printed" else 347)
    assert not different


@pytest.mark.slow
def test_what_passes_made_is_printed_as_jaxlib_prints_it() -> None:
    texts = {r["output"] for r in records("oracle/transforms.jsonl") if r.get("output")}
    texts = {t for t in texts if t.startswith(("module", "#"))}
    different, refused = [], []
    for text in sorted(texts):
        try:
            found = printed(text, locations="loc(" in text)
        except ParseError:
            refused.append(text)
            continue
        if found.strip() != text.strip():
            different.append(text)
    assert len(texts) > 300
    assert not different
    assert len(refused) <= 1  # a text of jaxlib that jaxlib refuses, too: wrong types of operands


def _files(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern)) if folder.is_dir() else []


SAMPLES = _files(CORPUS / "jax_samples", "*.mlir")
MODELS = _files(SHARED / "real" / "models", "*.mlir")
BIG = _files(SHARED / "real" / "big", "*.mlir")


@pytest.mark.parametrize("path", [*SAMPLES, *MODELS, *BIG], ids=lambda path: path.name)
def test_what_jax_prints_is_printed_again(path: Path, full: bool) -> None:
    if not full and path.name[0] not in "abcdlt":
        pytest.skip("only a part without --full")
    text = path.read_text()
    assert printed(text, locations="loc(" in text).rstrip() == text.rstrip()


def test_lines_that_upstream_wants_are_there(chunks: dict[str, dict[str, Any]]) -> None:
    failed, count = [], 0
    for record in chunks.values():
        runs = [run for run in record["run_lines"] if _ONLY_PRINTS.fullmatch(run)]
        if not record["checks"] or record["polarity"] == "negative":
            continue
        for run in runs:
            text = record["text"]
            for command in run.split("|")[:-1]:
                text = printed(text, locations=DEBUG in command, aliases=LOCAL not in command)
            count += 1
            try:
                check(text, from_records(record["checks"]))
            except MismatchError as error:
                failed.append(f"{record['id']}: {error}")
    assert count > 200
    assert not failed, failed[0]
