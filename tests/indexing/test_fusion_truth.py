"""Maps through random graphs against what the graphs read.

The graphs are made of the same ops and parameters as the cases of `test_truth`; what an output
element reads of the parameters is computed with numpy on sets of elements.
"""

from __future__ import annotations

from collections import Counter

import pytest

from hloscope.fusion import Analysis
from hloscope.indexing.access import Precision
from hloscope.ir.graph import Instruction
from hloscope.ir.op import Op
from hloscope.ops.control import Call, Fusion, Parameter
from tests.indexing.test_truth import FAMILIES
from tests.indexing.truth.graphs import MAKERS, Graph, GraphGen
from tests.indexing.truth.relation import judge, union_of

assert FAMILIES

MOVES = (
    "transpose", "reverse", "reshape", "slice", "pad", "concatenate", "broadcast_in_dim",
    "broadcast_in_dim: size 1 expands", "dynamic_slice", "dynamic_update_slice", "gather",
    "elementwise: add", "reduce", "reduce_window",
)  # fmt: skip
"""Ops that real fusions are made of."""


def check(graph: Graph) -> Counter[Precision]:
    """Compare both directions of a graph, as a fusion, with its marks; the claims made."""
    case, analysis = graph.case, Analysis()
    outside = tuple(
        Instruction(f"x{k}", o.ins.type, Parameter(k)) for k, o in enumerate(case.operands)
    )
    fusion = Instruction("fusion", case.ins.type, Fusion("kLoop"), outside, (graph.computation,))
    text = "; ".join(f"{i} {i.op}" for i in graph.computation.instructions)
    claims: Counter[Precision] = Counter()
    for output, marks in enumerate(case.outputs):
        reads = analysis.output_to_input(fusion, output)
        for k, operand in enumerate(case.operands):
            true = case.relation(output, k)
            read = reads.get((k, 0), ())
            said, precision = union_of(read, marks.shape, operand.marks.shape, 0, case)
            what = f"output {output} <- parameter {k} of {text}"
            judge(said.reshape(true.shape), precision, true, what, read)
            claims[precision] += 1
    for k, operand in enumerate(case.operands):
        reaches = analysis.input_to_output(fusion, k)
        for output, marks in enumerate(case.outputs):
            true = case.relation(output, k).T
            reached = reaches.get(output, ())
            said, precision = union_of(reached, operand.marks.shape, marks.shape, 0, case)
            what = f"parameter {k} -> output {output} of {text}"
            judge(said.reshape(true.shape), precision, true, what, reached)
            claims[precision] += 1
    return claims


@pytest.mark.parametrize("steps", [2, 3, 5, 8])
@pytest.mark.parametrize("makers", [MOVES, None], ids=["moves", "all ops"])
def test_fusion_reads_what_its_ops_read_together(
    makers: tuple[str, ...] | None, steps: int, full: bool
) -> None:
    claims: Counter[Precision] = Counter()
    for seed in range(200 if full else 10):
        gen = GraphGen(seed * 10 + steps, makers) if makers else GraphGen(seed * 10 + steps)
        claims += check(gen.graph(steps))
    assert claims[Precision.EXACT] == claims.total()


@pytest.mark.parametrize("op", [Fusion("kLoop"), Call()], ids=["fusion", "call"])
def test_nested_fusions_read_what_their_ops_read_together(op: Op, full: bool) -> None:
    claims: Counter[Precision] = Counter()
    for seed in range(200 if full else 10):
        gen = GraphGen(seed, MOVES if seed % 2 else MAKERS)
        for _ in range(gen.number(1, 2)):
            gen.enclose(op, gen.number(1, 3))
        claims += check(gen.graph(3))
    assert claims[Precision.EXACT] == claims.total()
