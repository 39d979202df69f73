"""StableHLO's own files of what cannot go down: refused where they say, with the ops they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hloscope.errors import HloscopeError
from hloscope.mlir import Operation, parse_mlir, split_input
from hloscope.mlir.dialects import DIALECTS
from hloscope.stablehlo.vhlo import DowngradeError, to_version, to_vhlo, version_of
from tests.conftest import SHARED

FILES = sorted((SHARED / "conformance/stablehlo/vhlo").glob("vhlo_to_version_downgrade*.mlir"))
_TARGET = re.compile(r"target=(\d+\.\d+\.\d+)")
_EXPECTED = re.compile(r"expected-error\s*@\s*\+(\d+)\s*\{\{failed to legalize operation '([^']*)'")
_FAILS = re.compile(r"expected-error.*failed to convert VHLO to v(\d+\.\d+\.\d+)")


def pieces(path: Path) -> Iterator[tuple[int, str]]:
    for line, text in split_input(path.read_text()):
        if "func" in text:
            yield line, text


def downgraded(text: str, target: str) -> Operation:
    tree = parse_mlir(text, "piece", dialects=DIALECTS)
    return to_version(to_vhlo(tree), version_of(target)).module


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_is_said_to_be_refused_is_refused_and_nothing_else(path: Path) -> None:
    target = _TARGET.search(path.read_text())
    assert target is not None
    all_fail = "RUN: not" in path.read_text()
    for line, text in pieces(path):
        expected = [
            (text.count("\n", 0, one.start()) + 1 + int(one[1]), one[2])
            for one in _EXPECTED.finditer(text)
        ]
        place = f"{path.name}:{line}"
        if not all_fail and _FAILS.search(text) is None and not expected:
            assert downgraded(text, target[1]), place
            continue
        with pytest.raises(HloscopeError) as caught:
            downgraded(text, target[1])
        if not isinstance(caught.value, DowngradeError):
            continue
        found = {(one.place.split(":")[1], one.op) for one in caught.value.obstacles}
        assert {(str(at), name) for at, name in expected} <= found, place
