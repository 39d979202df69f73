"""Every map text of XLA's tests, of its emitters, and of real programs' kernels."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hloscope.indexing import IndexingMap
from hloscope.indexing.proofs import prove_inverse
from tests.conftest import SHARED, needs_shared

pytestmark = needs_shared


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for part in value.values():
            yield from texts_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from texts_in(part)
    elif isinstance(value, str) and value.lstrip().startswith("(") and "->" in value:
        yield value


def analysis_maps() -> list[str]:
    path = SHARED / "conformance/xla/indexing_analysis_test.json"
    return _unique(path, lambda data: texts_in([case["expected"] for case in data["cases"]]))


def codegen_maps() -> list[str]:
    path = SHARED / "conformance/xla/hlo_files.json"
    return _unique(
        path,
        lambda data: (
            m["map"]
            for case in data["cases"]
            for m in case.get("maps", [])
            if not m.get("is_prefix") and m["map"].startswith("(")
        ),
    )


def emitter_maps() -> list[str]:
    path = SHARED / "real/xla_emitter_maps.json"
    return _unique(path, lambda data: (m["map"] for m in data["maps"]))


def _unique(path: Path, texts: Any) -> list[str]:
    return list(dict.fromkeys(texts(json.loads(path.read_text())))) if path.exists() else []


def squeeze(text: str) -> str:
    return re.sub(r"\s+", "", text)


def divisions(m: IndexingMap) -> int:
    return len(re.findall(r"/|mod", str(m)))


SOURCES = {"analysis": analysis_maps, "codegen": codegen_maps, "emitter": emitter_maps}


@pytest.mark.parametrize("source", SOURCES)
def test_texts_are_printed_as_they_were_read(source: str) -> None:
    texts = SOURCES[source]()
    assert texts
    assert [t for t in texts if squeeze(str(IndexingMap.parse(t))) != squeeze(t)] == []


@pytest.mark.parametrize("source", SOURCES)
def test_simplified_maps_divide_no_more_and_mean_the_same(source: str) -> None:
    random = np.random.default_rng(0)
    for text in SOURCES[source]():
        m = IndexingMap.parse(text)
        simple = m.simplify()
        assert divisions(simple) <= divisions(m)
        assert simple.simplify() == simple
        if simple.is_known_empty or not m.has_domain:
            continue
        values = [random.integers(i.lo, i.hi, 200, endpoint=True) for i in m.box.values()]
        n, k = len(m.dims), len(m.dims) + len(m.ranges)
        at = values[:n], values[n:k], values[k:]
        inside = m.satisfies_array(*at)
        assert np.array_equal(inside, simple.satisfies_array(*at)), text
        for before, after in zip(m.evaluate_array(*at), simple.evaluate_array(*at), strict=True):
            assert np.array_equal(before[inside], after[inside]), text


def test_real_inverses_are_proved(full: bool) -> None:

    texts = emitter_maps() if full else emitter_maps()[::10]
    refuted = []
    for text in texts:
        m = IndexingMap.parse(text)
        inverse = m.inverse()
        assert inverse.verify() == []
        if prove_inverse([m], [inverse]).is_refuted:
            refuted.append(text)
    assert refuted == []
