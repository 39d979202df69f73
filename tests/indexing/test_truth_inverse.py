"""Input to output is the inverse relation of output to input, proved by isl for every index."""

from __future__ import annotations

import pytest

from hloscope.indexing import IndexingMap
from hloscope.indexing.access import Accesses, Precision
from hloscope.indexing.analysis import input_to_output, output_to_input
from hloscope.indexing.proofs import prove_inverse
from tests.indexing.test_truth import FAMILIES, cases
from tests.indexing.truth.generator import CASES
from tests.indexing.truth.marks import Case
from tests.indexing.truth.relation import describe

assert FAMILIES
PER_ELEMENT = {"dynamic_gather", "gather", "scatter", "scatter: of StableHLO", "torch_index_select"}
"""Their runtime variables are read at the element's own index: to isl, other variables in the
other direction.  `test_truth` compares them value by value."""
MEMBERS = {"all_gather", "all_to_all", "collective_broadcast", "reduce_scatter"}
"""Maps are relations of elements only; who holds them is in `Access.replica`."""


def maps(accesses: Accesses, leaf: int) -> list[IndexingMap]:
    return [a.map for a in accesses if a.leaf == leaf and a.map is not None]


def pairs(case: Case) -> list[tuple[str, Accesses, Accesses, int]]:
    """What each output reads of each operand, and the other way round."""
    there = [output_to_input(case.ins, o) for o in range(len(case.outputs))]
    back = [input_to_output(case.ins, k) for k in range(len(case.operands))]
    return [
        (f"{describe(case)}: output {o}, operand {k}.{leaf}", there[o][k], back[k][o], leaf)
        for o in range(len(case.outputs))
        for k, operand in enumerate(case.operands)
        for leaf in range(len(operand.leaves))
    ]


@pytest.mark.parametrize("name", sorted(CASES.keys() - PER_ELEMENT - MEMBERS - {"iota"}))
def test_directions_are_inverse(name: str, full: bool) -> None:
    proved = 0
    for case in cases(name, full)[: 40 if full else 3]:
        for what, there, back, leaf in pairs(case):
            claims = {a.precision for a in (*there, *back)}
            if Precision.UNKNOWN in claims:
                continue
            proof = prove_inverse(maps(there, leaf), maps(back, leaf))
            assert proof.is_proved, f"{what}: {proof}"
            proved += 1
    assert proved
