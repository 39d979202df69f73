"""Random small programs, and the elements they touch, told without composing any map."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

from hloscope.hlo_parser import parse_hlo
from hloscope.indexing.analysis import output_to_input
from hloscope.ir.graph import Computation, Instruction
from tests.generator import Options, generate, hlo_text
from tests.generator.program import Region, without_unread_parameters

Point = tuple[int, ...]
Touch = tuple[int, Point]
"""A parameter and an index of it."""


def random_fusion(seed: int, ops: int = 8) -> Computation:
    """A fused computation of chains and diamonds over a few small tensors, with one result."""
    families = frozenset({"elementwise", "shape", "contraction", "layouts"})
    program = generate(seed, Options(("hlo",), steps=ops, depth=0, families=families))
    entry = program.entry
    single = replace(program, entry=Region(entry.params, entry.nodes, entry.results[:1]))
    return parse_hlo(hlo_text(without_unread_parameters(single))).entry


def touched(computation: Computation, at: Point) -> set[Touch]:
    """What the root's element at an index reads, followed element by element."""

    @cache
    def of(ins: Instruction, index: Point) -> frozenset[Touch]:
        if ins.op.name == "parameter":
            return frozenset([(computation.parameters.index(ins), index)])
        found: set[Touch] = set()
        for operand, accesses in zip(ins.operands, output_to_input(ins), strict=True):
            for access in accesses:
                assert access.map is not None
                for point in access.map.points(index):
                    found |= of(operand, point)
        return frozenset(found)

    return set(of(computation.root, at))


def indices(shape: Point) -> list[Point]:
    """All indices of a tensor."""
    return list(product(*map(range, shape)))
