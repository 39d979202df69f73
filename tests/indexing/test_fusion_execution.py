"""Random graphs as XLA executes them: our printer writes them, XLA says what is read.

This judges the numpy semantics of the truth tests as well as the maps.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from hloscope.hlo_parser.printer import print_hlo
from hloscope.indexing.rules.registry import sizes
from hloscope.ops.shape import Pad
from hloscope.ops.slicing import DynamicSlice, DynamicUpdateSlice
from tests.indexing.test_fusion_truth import MOVES, check
from tests.indexing.truth.graphs import Graph, GraphGen
from tests.oracle import Oracle, needs_jaxlib

IN_HLO = [*(m for m in MOVES if "expands" not in m), "dot_general", "elementwise: select"]
"""Ops that HLO has and the executing oracle traces."""


def is_executable(graph: Graph) -> bool:
    """Scalars cannot be padded or sliced in HLO text; old vector starts are no StableHLO."""
    return not any(
        isinstance(ins.op, Pad | DynamicSlice | DynamicUpdateSlice)
        and (not sizes(ins.operands[0].type) or sizes(ins.operands[-1].type))
        for ins in graph.computation.instructions
    )


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle() as started:
        yield started


@needs_jaxlib
@pytest.mark.parametrize("steps", [2, 4, 6])
def test_execution_reads_what_numpy_and_the_maps_say(
    oracle: Oracle, steps: int, full: bool
) -> None:
    compared = 0
    for seed in range(40 if full else 4):
        graph = GraphGen(seed * 10 + steps, IN_HLO).graph(steps)
        if not is_executable(graph):
            continue
        check(graph)
        case = graph.case
        values = [
            np.zeros(o.marks.shape).tolist() if o.values is None else o.values.tolist()
            for o in case.operands
        ]
        leaves = [k for k, o in enumerate(case.operands) if o.values is None and o.marks.size]
        text = print_hlo(graph.module)
        found = oracle.matrices(text, values, leaves)
        for k, outputs in zip(leaves, found, strict=True):
            for output, matrix in enumerate(outputs):
                executed = np.array(matrix, dtype=bool)
                said = case.relation(output, k).T
                assert executed.size == said.size
                assert (executed.reshape(said.shape) == said).all(), (
                    f"parameter {k} -> output {output} of\n{text}"
                )
                compared += 1
    assert compared >= 5
