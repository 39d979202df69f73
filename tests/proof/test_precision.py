"""How much of real programs is answered exactly: pairs of a fusion and an operand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.fusion_stats import fusions
from hloscope.fusion import Analysis
from hloscope.hlo_parser import parse_hlo
from hloscope.indexing import Access, Precision
from tests.conftest import SHARED, needs_shared

pytestmark = needs_shared


def weakest(accesses: list[Access]) -> Precision:
    """The claim of a pair: that of its weakest map."""
    claims = {access.precision for access in accesses}
    order = (Precision.UNKNOWN, Precision.OVER)
    return next((claim for claim in order if claim in claims), Precision.EXACT)


def count(path: Path) -> tuple[Counter[str], Counter[str]]:
    """Claims about every (fusion, operand), both directions and all outputs together; reasons."""
    analysis = Analysis()
    claims: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for ins in fusions(parse_hlo(path.read_text(), name=path.name)):
        back = [analysis.output_to_input(ins, o) for o in range(len(analysis.tensors(ins.type)))]
        for k, operand in enumerate(ins.operands):
            found: list[Access] = []
            for leaf in range(len(analysis.tensors(operand.type))):
                found += [a for read in back for a in read.get((k, leaf), ())]
                found += [a for r in analysis.input_to_output(ins, k, leaf).values() for a in r]
            claims[weakest(found)] += 1
            reasons.update({access.reason for access in found if access.reason})
    return claims, reasons


@pytest.mark.slow(keep=1)
@pytest.mark.parametrize("folder", ["models", "big"])
def test_pairs_of_a_fusion_and_an_operand_are_exact(folder: str, full: bool) -> None:
    paths = sorted((SHARED / "real" / folder).glob("*.opt.hlo.txt"))
    claims: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for path in paths if full else paths[:: 8 if folder == "models" else len(paths)]:
        some, why = count(path)
        claims += some
        reasons += why
    print(f"{folder}: {dict(claims)} of {claims.total()}; reasons: {dict(reasons)}")
    assert claims.total() > (5000 if full else 300)
    assert claims[Precision.EXACT] >= 0.99 * claims.total()
    assert all(reasons)
