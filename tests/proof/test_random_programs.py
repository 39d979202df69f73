"""Random programs against what XLA:CPU reads when it executes them, in both directions.

The maps are made from the text of the program, as for any user; execution marks one element of one
parameter after the other and looks which outputs bear marks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pytest

from hloscope.fusion import Analysis
from hloscope.hlo_parser import parse_hlo
from hloscope.indexing import Precision
from hloscope.ir.graph import Computation, Instruction
from hloscope.ir.types import Layout, TensorType, Type
from hloscope.ops.control import Fusion
from tests.fusion.truth import UnevaluatedError, Values
from tests.indexing.truth.graphs import Graph
from tests.indexing.truth.marks import Case, Operand, empty, indices
from tests.indexing.truth.relation import Bools, MismatchError, judge, union_of
from tests.oracle import Oracle, OracleError, needs_jaxlib
from tests.proof.programs import WIDE, ProgramGen, every, hlo, is_executable

BATCH: Final = 100
"""Programs for each child process: XLA keeps what it compiled."""


class Program(NamedTuple):
    """A program, the integers it is run with, and the parameters whose marks are followed."""

    seed: int
    text: str
    values: list[object]
    leaves: list[int]


def random_graph(seed: int) -> Graph:
    """The graph of a seed: 1 to 20 values."""
    return ProgramGen(seed).program(1 + seed % 20)


def programs(seeds: range) -> Iterator[Program]:
    """The programs of these seeds; those that HLO cannot say are left out."""
    for seed in seeds:
        graph = random_graph(seed)
        if is_executable(graph):
            given = graph.case.operands
            values = [
                np.zeros(o.marks.shape).tolist() if o.values is None else o.values.tolist()
                for o in given
            ]
            leaves = [k for k, o in enumerate(given) if o.values is None and o.marks.size]
            yield Program(seed, hlo(graph), values, leaves)


def case_of(entry: Computation, program: Program) -> Case:
    """The parsed program with the integers that its runtime variables read."""
    values = Values({str(k): v for k, v in enumerate(program.values)})
    known = []
    for ins in (*entry.parameters, *every(entry)):
        if isinstance(ins.type, TensorType) and ins.type.element.kind in ("signed", "unsigned"):
            shape = ins.type.shape
            try:
                found = [values.at(ins, at) for at in indices(shape)]
            except UnevaluatedError:
                continue
            array = np.array(found, dtype=np.int64).reshape(shape)
            known.append(Operand(ins, (empty(shape),), (0,), array))
    return Case(entry.root, tuple(known), ())


class Executes(Protocol):
    def matrices(self, text: str, values: list[Any], leaves: list[int]) -> list[list[Any]]:
        """Of each parameter, for each output: `[input element, output element]`, 1 if read."""


def check(program: Program, oracle: Executes) -> Counter[str]:
    """Compare both directions; how many pairs of a parameter and an output had which claim.

    Raises:
        MismatchError: A map says something else than execution.
        OracleError: XLA does not execute the program.
    """
    executed = oracle.matrices(program.text, program.values, program.leaves)
    entry = parse_hlo(program.text).entry
    outside = tuple(Instruction(f"x{k}", p.type, p.op) for k, p in enumerate(entry.parameters))
    fusion = Instruction("fusion", entry.root.type, Fusion("kLoop"), outside, (entry,))
    analysis, case = Analysis(), case_of(entry, program)
    shapes = [t.shape for t in analysis.tensors(entry.root.type) if isinstance(t, TensorType)]
    is_wide = any(ins.op.name in WIDE for ins in every(entry))
    claims: Counter[str] = Counter()

    def compare(said: Bools, claim: Precision, true: Bools, what: str) -> None:
        claims[claim] += 1
        if is_wide and claim is Precision.EXACT:
            judge(true, Precision.OVER, said, what, ())  # within what is executed
        elif not is_wide:
            judge(said, claim, true, what, ())

    for k, matrices in zip(program.leaves, executed, strict=True):
        inside = entry.parameters[k].type
        assert isinstance(inside, TensorType)
        reaches = analysis.input_to_output(fusion, k)
        for output, (shape, matrix) in enumerate(zip(shapes, matrices, strict=True)):
            true = np.array(matrix, dtype=bool).reshape(prod(inside.shape), -1)
            reads = analysis.output_to_input(fusion, output).get((k, 0), ())
            said, claim = union_of(reads, shape, inside.shape, 0, case)
            compare(said[:, 0], claim, true.T, f"output {output} <- parameter {k}")
            said, claim = union_of(reaches.get(output, ()), inside.shape, shape, 0, case)
            compare(said[:, 0], claim, true, f"parameter {k} -> output {output}")
    return claims


def check_seed(seed: int) -> None:
    """One program: what a failure says to paste."""
    with Oracle() as oracle:
        for program in programs(range(seed, seed + 1)):
            check(program, oracle)


def reproduction(program: Program, error: Exception) -> str:
    known = {k: v for k, v in enumerate(program.values) if k not in program.leaves}
    paste = f"from tests.proof.test_random_programs import check_seed; check_seed({program.seed})"
    return (
        f"{type(error).__name__}: {error}\npython -c '{paste}'\n"
        f"parameters that are integers: {known}\n{program.text}"
    )


@needs_jaxlib
def test_programs_read_what_execution_reads(full: bool) -> None:
    claims: Counter[str] = Counter()
    compared, refused, wrong = 0, [], []
    count = 2800 if full else 30
    for first in range(0, count, BATCH):
        with Oracle() as oracle:
            for program in programs(range(first, min(first + BATCH, count))):
                try:
                    claims += check(program, oracle)
                    compared += 1
                except OracleError as error:
                    refused.append(f"{program.seed}: {str(error).strip().splitlines()[-1]}")
                except (MismatchError, AssertionError) as error:
                    wrong.append(reproduction(program, error))
    print(f"{compared} programs compared, {len(refused)} refused by XLA; {dict(claims)}")
    assert not wrong, f"{len(wrong)} wrong programs:\n" + "\n\n".join(wrong[:5])
    assert compared >= (2000 if full else 20), refused[:5]
    assert claims[Precision.EXACT] == claims.total()


class Liar:
    """Execution as the graph itself tells it, with one element of each table turned around."""

    def __init__(self, graph: Graph, *, lies: bool) -> None:
        self.graph, self.lies = graph, lies

    def matrices(self, text: str, values: list[object], leaves: list[int]) -> list[list[Any]]:
        case = self.graph.case
        tables = [[case.relation(o, k).T for o in range(len(case.outputs))] for k in leaves]
        for table in (table for some in tables for table in some if self.lies and table.size):
            table[-1, 0] ^= True
        return tables


def test_execution_that_reads_another_element_is_noticed() -> None:
    noticed = 0
    for seed in range(60):
        graph = random_graph(seed)
        for program in programs(range(seed, seed + 1)):
            if program.leaves and not any(i.op.name in WIDE for i in every(graph.computation)):
                check(program, Liar(graph, lies=False))
                with pytest.raises(MismatchError):
                    check(program, Liar(graph, lies=True))
                noticed += 1
    assert noticed >= 15


@pytest.mark.slow
def test_programs_are_of_every_family() -> None:
    seen: Counter[str] = Counter()
    lengths = set()
    for seed in range(300):
        graph = random_graph(seed)
        lengths.add(1 + seed % 20)
        seen.update(ins.op.name for ins in every(graph.computation))
        seen.update("layout" for ins in every(graph.computation) if layout_of(ins.type))
    assert lengths == set(range(1, 21))
    families = """
        abs add all_reduce batch_norm_training bitcast broadcast_in_dim call cholesky clamp compare
        concatenate constant convolution copy dot_general dynamic_slice dynamic_update_slice fft
        fusion gather get_tuple_element iota layout map pad reduce reduce_window reshape reverse
        scatter select slice sort top_k transpose triangular_solve tuple
    """
    assert not [name for name in families.split() if not seen[name]]


def layout_of(type_: Type) -> Layout | None:
    return type_.layout if isinstance(type_, TensorType) else None
