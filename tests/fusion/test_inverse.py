"""Both directions of real fusions are inverse relations, proved by isl."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from benchmarks.fusion_stats import fusions
from hloscope.affine import variables
from hloscope.fusion import Analysis
from hloscope.fusion.blueprint import Blueprints
from hloscope.hlo_parser import parse_hlo
from hloscope.indexing import Accesses, IndexingMap, Precision
from hloscope.indexing.exact import prove_inverse
from hloscope.ir.graph import Instruction
from tests.conftest import SHARED, needs_shared

pytestmark = needs_shared

MOST_PATHS = 4


def distinct(pattern: str, step: int) -> Iterator[tuple[str, Instruction]]:
    """Fusions of the programs, one of each structure, and where they come from."""
    blueprints = Blueprints()
    seen: set[int] = set()
    for path in sorted(SHARED.glob(pattern))[::step]:
        for ins in fusions(parse_hlo(path.read_text(), name=path.name)):
            number = blueprints.number(ins.calls[0])
            if number not in seen:
                seen.add(number)
                yield f"{path.name} {ins.name}", ins


def maps(accesses: Accesses) -> list[IndexingMap]:
    assert all(access.precision is Precision.EXACT for access in accesses)
    return [access.map for access in accesses if access.map is not None]


def reads_as_it_runs(map: IndexingMap) -> bool:
    """Has it another value of a runtime variable for each index?  To isl these are constants.

    Execution (`test_truth`) speaks for these.
    """
    return any(variables(*v.index) for v in map.runtime)


def test_both_directions_are_inverse(full: bool) -> None:
    verdicts: Counter[str] = Counter()
    refuted = []
    for where, ins in distinct("real/models/*.opt.hlo.txt", 1 if full else 12):
        analysis = Analysis()
        for output in range(len(analysis.tensors(ins.type))):
            back = analysis.output_to_input(ins, output)
            for k in range(len(ins.operands)):
                reads = maps(back.get((k, 0), ()))
                reaches = maps(analysis.input_to_output(ins, k).get(output, ()))
                assert bool(reads) == bool(reaches), where
                if not reads or max(len(reads), len(reaches)) > MOST_PATHS:
                    continue
                if any(map(reads_as_it_runs, reads)):
                    continue
                proof = prove_inverse(reads, reaches)
                verdicts[str(proof.verdict)] += 1
                if proof.is_refuted:
                    refuted.append(f"{where} operand {k} output {output}: {proof}")
    assert not refuted
    assert verdicts["proved"] > 0.95 * verdicts.total()
    assert verdicts.total() > (1000 if full else 50)
