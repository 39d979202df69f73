"""Every HLO text of the corpus is read, lazily and at once, with the same result."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from hloscope.hlo_parser import parse_hlo, parse_hlo_all
from tests.hlo_parser.compare import corpus, difference

EVERY = 7
"""Without `--full`, one text in so many is read; the largest ones are left out."""


def test_the_corpus_is_read(shared: Path, full: bool) -> None:
    texts = list(corpus(shared))
    assert len(texts) > 3000
    counts: Counter[str] = Counter()
    for number, (name, text) in enumerate(texts):
        if not full and (number % EVERY or len(text) > 1_000_000):
            continue
        module = parse_hlo(text, name=name, strict=True)
        counts["modules"] += 1
        counts["instructions"] += sum(map(len, module))
        for computation in module:
            assert computation.root in computation.instructions
            for ins in computation:
                assert isinstance(ins.extras, tuple)
    assert counts["instructions"] > (400_000 if full else 10_000)


@pytest.mark.slow
def test_lazy_and_strict_agree(shared: Path, full: bool) -> None:
    for number, (name, text) in enumerate(corpus(shared)):
        if (full and len(text) < 1_000_000) or number % (3 * EVERY) == 0:
            lazy, strict = parse_hlo(text), parse_hlo(text, strict=True)
            assert difference(lazy, strict) == "", name


def test_instructions_are_counted_as_in_the_manifest(shared: Path) -> None:
    folder = shared / "real" / "modules"
    rows = json.loads((folder / "manifest.json").read_text())["modules"]
    rows = [r for r in rows if r["parses"] == "verbatim" and (folder / r["file"]).exists()]
    wrong = []
    for row in rows[::EVERY]:
        text = (folder / row["file"]).read_text()
        if "-start(" in text or "origin_recovery_table" in text:
            continue  # there the manifest counts XLA's own computations, and modules in strings
        module = parse_hlo(text)
        if sum(map(len, module)) != row["instructions"]:
            wrong.append(row["file"])
    assert wrong == []


def test_files_of_several_modules_are_read(shared: Path) -> None:
    folder = shared / "real" / "modules" / "files"
    wholes = sorted(folder.glob("*.whole.hlo"))
    if not wholes:
        pytest.skip("no file of several parts")
    for path in wholes:
        assert len(parse_hlo_all(path.read_text(), name=path.name, strict=True)) >= 1
