"""Input to output is the inverse of output to input, proved by isl for every real fusion.

Runtime variables that are read at indices that run (gather, scatter) are no exception: the
relations are compared with what they read carried along.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache

import pytest
from msgspec.structs import replace

from benchmarks.fusion_stats import fusions
from hloscope.affine import Dim, Interval, Range, Runtime, variables
from hloscope.fusion import Analysis, StructureIds
from hloscope.hlo_parser import parse_hlo, parse_type
from hloscope.indexing import Accesses, IndexingMap, Precision, RuntimeVariable, Variable
from hloscope.indexing.proofs import prove_equal, prove_inverse
from hloscope.ir.graph import Instruction
from hloscope.ops.control import Parameter
from tests.conftest import SHARED, needs_shared

MOST_PATHS = 4


def distinct(pattern: str, step: int) -> Iterator[tuple[str, Instruction]]:
    """Fusions of the programs, one of each structure, and where they come from."""
    structure_ids = StructureIds()
    seen: set[int] = set()
    for path in sorted(SHARED.glob(pattern))[::step]:
        for ins in fusions(parse_hlo(path.read_text(), name=path.name)):
            number = structure_ids.number(ins.calls[0])
            if number not in seen:
                seen.add(number)
                yield f"{path.name} {ins.name}", ins


def maps(accesses: Accesses) -> list[IndexingMap]:
    assert all(access.precision is Precision.EXACT for access in accesses)
    return [access.map for access in accesses if access.map is not None]


def reads_as_it_runs(map: IndexingMap) -> bool:
    """Has the map a runtime variable whose index depends on another variable?"""
    return any(variables(*v.arguments) for v in map.runtime)


def pairs(
    where: str, ins: Instruction
) -> Iterator[tuple[str, list[IndexingMap], list[IndexingMap]]]:
    """What each output reads of each operand, and where each operand goes; exact by claim."""
    analysis = Analysis()
    for output in range(len(analysis.tensors(ins.type))):
        back = analysis.output_to_input(ins, output)
        for k in range(len(ins.operands)):
            reads = maps(back.get((k, 0), ()))
            reaches = maps(analysis.input_to_output(ins, k).get(output, ()))
            assert bool(reads) == bool(reaches), where
            yield f"{where} operand {k} output {output}", reads, reaches


@pytest.mark.slow
@needs_shared
def test_every_real_fusion_of_few_paths_is_proved(full: bool) -> None:
    verdicts: Counter[str] = Counter()
    running = 0
    unproved = []
    for where, ins in distinct("real/models/*.opt.hlo.txt", 1 if full else 12):
        for place, reads, reaches in pairs(where, ins):
            if max(len(reads), len(reaches)) > MOST_PATHS:
                verdicts["more paths"] += 1
                continue
            proof = prove_inverse(reads, reaches)
            verdicts[str(proof.verdict)] += 1
            running += any(map(reads_as_it_runs, reads))
            if not proof.is_proved:
                unproved.append(f"{place}: {proof}")
    print(f"{verdicts}, {running} with tensors read at running indices")
    assert not unproved
    assert verdicts["proved"] > (15_000 if full else 150)
    assert running > (80 if full else 0)


@cache
def table() -> Instruction:
    return Instruction("table", parse_type("s32[4]"), Parameter(0))


def gathered(shift: int = 0, read_at: int = 0) -> IndexingMap:
    """`x[table[d0 + read_at] + shift]`, over three of the four elements of the table."""
    row = RuntimeVariable(Interval(0, 5), origin=table(), index=(Dim(0) + read_at,))
    return IndexingMap([Variable(Interval(0, 2))], (), [row], [Runtime(0) + shift])


def scattered(shift: int = 0, read_at: int = 0, *, first: int = 0, last: int = 2) -> IndexingMap:
    """Which of the three elements read `x[d0]`."""
    row = RuntimeVariable(Interval(0, 5), origin=table(), index=(Range(0) + read_at,))
    return IndexingMap(
        [Variable(Interval(0, 6))],
        [Variable(Interval(first, last))],
        [row],
        [Range(0)],
        [(Dim(0) - Runtime(0), Interval(shift, shift))],
    )


def test_a_gather_and_what_reads_its_rows_are_inverse() -> None:
    for shift in (0, 1):
        for read_at in (0, 1):
            assert prove_inverse([gathered(shift, read_at)], [scattered(shift, read_at)]).is_proved


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: scattered(1),
        lambda: scattered(0, 1),
        lambda: scattered(0, first=1),
        lambda: scattered(0, last=1),
    ],
    ids=["another element", "another row of the table", "starts too late", "ends too early"],
)
def test_a_wrong_inverse_of_a_gather_is_not_proved(wrong: Callable[[], IndexingMap]) -> None:
    assert not prove_inverse([gathered()], [wrong()]).is_proved


def test_equal_maps_that_read_at_running_indices_are_proved() -> None:
    one = scattered()
    two = one.with_(
        ranges=[Variable(Interval(-2, 0))],
        runtime=[RuntimeVariable(Interval(0, 5), origin=table(), index=(-Range(0),))],
        results=[-Range(0)],
    )
    assert prove_equal([one], [two]).is_proved
    assert not prove_equal([one], [two.with_(results=[Range(0) + 2])]).is_proved
    assert not prove_equal([one], [two, scattered(1)]).is_proved


def test_variables_read_from_one_tensor_may_come_in_any_order() -> None:
    both = [RuntimeVariable(Interval(0, 5), origin=table(), index=(Dim(0) + at,)) for at in (0, 1)]
    dims = [Variable(Interval(0, 2))]
    first = IndexingMap(dims, (), both, [Runtime(0), Runtime(1)])
    back = IndexingMap(
        [Variable(Interval(0, 5)), Variable(Interval(0, 5))],
        dims,
        [replace(v, index=(Range(0) + 1 - at,)) for at, v in enumerate(both)],
        [Range(0)],
        [(Dim(0) - Runtime(1), Interval(0, 0)), (Dim(1) - Runtime(0), Interval(0, 0))],
    )
    assert prove_inverse([first], [back]).is_proved
    swapped = [(Dim(0) - Runtime(0), Interval(0, 0)), (Dim(1) - Runtime(1), Interval(0, 0))]
    assert not prove_inverse([first], [back.with_(constraints=swapped)]).is_proved
