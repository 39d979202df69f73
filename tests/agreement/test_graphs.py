"""Maps through fusions and calls against what their results are seen to depend on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from hloscope.indexing.access import Precision
from hloscope.ir.op import Op
from hloscope.ops.control import Call, Fusion
from tests.agreement.instances import Instance
from tests.agreement.observed import changed
from tests.indexing.test_fusion_truth import check
from tests.indexing.truth.graphs import Graph, GraphGen

SHOWING = (
    "transpose", "reverse", "reshape", "slice", "pad", "concatenate", "broadcast_in_dim",
    "broadcast_in_dim: size 1 expands", "dynamic_slice", "dynamic_update_slice", "gather",
    "elementwise: add", "dot_general", "dot", "convolution", "map", "bitcast: without layouts",
)  # fmt: skip
"""Ops whose results show all that they read."""


def seen(graph: Graph, seed: int) -> Graph:
    """The graph with the marks of what its outputs are seen to depend on."""
    return replace(graph, case=changed(Instance(graph.case, graph.module), seed))


@pytest.mark.parametrize("steps", [2, 4, 7])
def test_graphs_depend_on_what_their_maps_say(steps: int, full: bool) -> None:
    claims: Counter[Precision] = Counter()
    for seed in range(100 if full else 8):
        claims += check(seen(GraphGen(100 * seed + steps, SHOWING).graph(steps), seed))
    assert claims[Precision.EXACT] == claims.total()


@pytest.mark.parametrize("op", [Fusion("kLoop"), Call()], ids=["fusion", "call"])
def test_nested_graphs_depend_on_what_their_maps_say(op: Op, full: bool) -> None:
    claims: Counter[Precision] = Counter()
    for seed in range(100 if full else 8):
        gen = GraphGen(seed, SHOWING)
        for _ in range(gen.number(1, 2)):
            gen.enclose(op, gen.number(1, 3))
        claims += check(seen(gen.graph(3), seed))
    assert claims[Precision.EXACT] == claims.total()
