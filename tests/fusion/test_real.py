"""Every fusion of real programs has a map or a stated reason."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fusion_stats import count
from hloscope.errors import HloscopeError
from hloscope.fusion import Analysis
from hloscope.hlo_parser import parse_hlo
from tests.conftest import SHARED, needs_shared

pytestmark = needs_shared


def dumps(pattern: str) -> list[Any]:
    return [pytest.param(path, id=path.name) for path in sorted(SHARED.glob(pattern))]


@pytest.mark.slow(keep=8)
@pytest.mark.parametrize("path", dumps("real/models/*.opt.hlo.txt"))
def test_every_fusion_of_a_model_is_answered(path: Path) -> None:
    found = count(parse_hlo(path.read_text(), name=path.name))
    assert not found.failures
    assert all(found.reasons)
    assert found.exact >= 0.99 * found.pairs


@pytest.mark.slow
def test_the_claims_of_all_models_together(full: bool) -> None:
    totals: Counter[str] = Counter()
    for path in sorted(SHARED.glob("real/models/*.opt.hlo.txt"))[:: 1 if full else 5]:
        found = count(parse_hlo(path.read_text(), name=path.name), both=True)
        assert not found.failures, path.name
        totals.update(found.claims)
    assert totals["exact"] >= 0.99 * totals.total()


def test_the_largest_dumps(full: bool) -> None:
    if not full:
        pytest.skip("with --full only: some seconds")
    for path in sorted(SHARED.glob("real/big/*.opt.hlo.txt")):
        found = count(parse_hlo(path.read_text(), name=path.name), both=True)
        assert not found.failures
        assert found.exact >= 0.99 * found.pairs


@pytest.mark.slow
def test_no_module_of_xlas_tests_fails(full: bool) -> None:
    """All instructions, both directions, and the entry computation as a whole."""
    answered = 0
    paths = sorted(p for p in SHARED.glob("real/modules/*/*.hlo") if p.stat().st_size < 1 << 20)
    for path in paths[:: 1 if full else 20]:
        try:
            module = parse_hlo(path.read_text(), name=path.name, strict=True)
        except (HloscopeError, UnicodeDecodeError):
            continue  # some are wrong on purpose
        analysis = Analysis()
        for ins in (ins for computation in module for ins in computation):
            for output in range(min(2, len(analysis.tensors(ins.type)))):
                analysis.output_to_input(ins, output)
            for k in range(min(2, len(ins.operands))):
                analysis.input_to_output(ins, k)
        if analysis.tensors(module.entry.root.type):
            analysis.summary(module.entry, 0)
        for k, parameter in enumerate(module.entry.parameters[:2]):
            if analysis.tensors(parameter.type):
                analysis.spread(module.entry, k, 0)
        answered += 1
    assert answered > (2500 if full else 100)
