"""On instructions of real programs, at their real sizes, both directions are inverse relations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from hloscope.hlo_parser import parse_hlo
from hloscope.indexing import IndexingMap
from hloscope.indexing.access import Accesses
from hloscope.indexing.analysis import input_to_output, number_of_outputs, output_to_input
from hloscope.indexing.proofs import prove_inverse
from hloscope.ir.graph import Instruction
from hloscope.ops.control import AsyncDone, AsyncStart, Call, Case, CustomCall, Fusion, Tuple, While

WITHOUT = (AsyncDone, AsyncStart, Call, Case, CustomCall, Fusion, Tuple, While)
"""Ops that other computations or foreign code decide about, and tuples of thousands."""


def instructions(paths: list[Path]) -> Iterator[Instruction]:
    """Every instruction that differs from the others in more than its name and operands."""
    seen = set()
    for path in paths:
        for computation in parse_hlo(path.read_text(), name=path.name):
            for ins in computation:
                key = (ins.op, ins.type, tuple(o.type for o in ins.operands))
                if key not in seen and not isinstance(ins.op, WITHOUT):
                    seen.add(key)
                    yield ins


def maps(accesses: Accesses, leaf: int) -> list[IndexingMap] | None:
    """The maps; `None` where nothing is known or values are read at the element's own index."""
    mine = [a.map for a in accesses if a.leaf == leaf or a.map is None]
    if any(m is None or any(v.index for v in m.runtime) for m in mine):
        return None
    return [m for m in mine if m is not None]


def test_directions_are_inverse_on_real_programs(shared: Path, full: bool) -> None:
    paths = sorted((shared / "real" / "models").glob("*.hlo.txt"))
    verdicts: Counter[str] = Counter()
    for ins in instructions(paths[:: 1 if full else 40]):
        forth = [input_to_output(ins, k) for k in range(len(ins.operands))]
        for output in range(number_of_outputs(ins)):
            for k, accesses in enumerate(output_to_input(ins, output)):
                leaves = {a.leaf for a in (*accesses, *forth[k][output])}
                for leaf in leaves:
                    there, back = maps(accesses, leaf), maps(forth[k][output], leaf)
                    if there is None or back is None:
                        verdicts["left out"] += 1
                        continue
                    proof = prove_inverse(there, back)
                    verdicts[proof.verdict] += 1
                    assert proof.is_proved, f"{ins}: output {output}, operand {k}: {proof}"
    assert verdicts["proved"] > 10 * verdicts["left out"]
