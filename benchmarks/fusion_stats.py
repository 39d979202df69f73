"""How much of a program is known: a row of figures for each file.

python -m benchmarks.fusion_stats FILE...
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct, field

from hloscope.fusion import Analysis
from hloscope.hlo_parser import parse_hlo
from hloscope.indexing import Access, Accesses, Precision
from hloscope.ir import Instruction, Module
from hloscope.ops import Fusion


class Counts(Struct):
    """What was found about the fusions of a program.

    Attributes:
        fusions: How many there are.
        instructions: How many instructions are inside them, each counted wherever it stands.
        claims: Of all pairs of a fusion and an operand, how many are exact, over or unknown: the
            weakest claim of their maps counts.
        maps: How many maps there are.
        reasons: Why pairs are not exact, and how often.
        failures: Fusions whose analysis failed, with the error: a defect of ours.
    """

    fusions: int = 0
    instructions: int = 0
    claims: Counter[str] = field(default_factory=Counter)
    maps: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def pairs(self) -> int:
        """Pairs of a fusion's output and an operand (or the other way round)."""
        return self.claims.total()

    @property
    def exact(self) -> int:
        """Pairs all of whose maps are exact, also those that never touch each other."""
        return self.claims[Precision.EXACT]

    def add(self, accesses: Accesses) -> None:
        """Count one pair."""
        self.claims[_weakest(accesses)] += 1
        self.maps += len(accesses)
        self.reasons.update({access.reason for access in accesses if access.reason})


def _weakest(accesses: Iterable[Access]) -> Precision:
    claims = {access.precision for access in accesses}
    order = (Precision.UNKNOWN, Precision.OVER)
    return next((claim for claim in order if claim in claims), Precision.EXACT)


def fusions(module: Module) -> Iterator[Instruction]:
    """All fusions of a program, those inside other computations included."""
    return (ins for computation in module for ins in computation if isinstance(ins.op, Fusion))


def count(module: Module, *, both: bool = False) -> Counts:
    """Analyse every fusion of a program.

    Args:
        module: The program.
        both: From the operands to the outputs too.

    >>> module = parse_hlo("f { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) } "
    ...                    "ENTRY e { a = f32[4] parameter(0) "
    ...                    "ROOT b = f32[4] fusion(a), kind=kLoop, calls=f }")
    >>> found = count(module)
    >>> found.fusions, found.instructions, found.exact
    (1, 2, 1)
    """
    analysis = Analysis()
    found = Counts()
    for ins in fusions(module):
        found.fusions += 1
        found.instructions += len(ins.calls[0])
        try:
            _count(analysis, ins, both, found)
        except Exception as error:  # whatever it is, the others are still counted
            found.failures.append(f"{ins.name}: {type(error).__name__}: {error}")
    return found


def _count(analysis: Analysis, ins: Instruction, both: bool, found: Counts) -> None:
    outputs = range(len(analysis.tensors(ins.type)))
    for output in outputs:
        read = analysis.output_to_input(ins, output)
        for k, operand in enumerate(ins.operands):
            for leaf in range(len(analysis.tensors(operand.type))):
                found.add(read.get((k, leaf), ()))
    for k, operand in enumerate(ins.operands if both else ()):
        for leaf in range(len(analysis.tensors(operand.type))):
            reached = analysis.input_to_output(ins, k, leaf)
            for output in outputs:
                found.add(reached.get(output, ()))


def main(files: Iterable[str]) -> None:
    """Print a row for each file, and all reasons below."""
    print(
        f"{'fusions':>8} {'inside':>8} {'pairs':>8} {'exact':>8} {'over':>6} {'unknown':>8}  file"
    )
    reasons: Counter[str] = Counter()
    for file in files:
        found = count(parse_hlo(Path(file).read_text(encoding="utf-8"), name=file), both=True)
        over, unknown = found.claims[Precision.OVER], found.claims[Precision.UNKNOWN]
        print(
            f"{found.fusions:8} {found.instructions:8} {found.pairs:8} {found.exact:8} "
            f"{over:6} {unknown:8}  {Path(file).name}"
        )
        reasons.update(found.reasons)
        for failure in found.failures:
            print(f"  failed: {failure}")
    for reason, times in reasons.most_common():
        print(f"{times:8}  {reason}")


if __name__ == "__main__":
    main(sys.argv[1:])
